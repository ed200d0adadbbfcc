"""The question of an integer program asked of CP-SAT: task numbers on single rows, with no classes and no mixtures."""

from __future__ import annotations

import numpy as np
from ortools.sat.python import cp_model

from tierwise.actions.placement.program import Question
from tierwise.framework.pod_rules import Apart, AtMost, Even, Near

__all__ = ["solvable"]


def solvable(question: Question) -> bool:
    """Whether the tasks can stand together in the end; every unit is needed."""
    model = cp_model.CpModel()
    rows = range(question.free.shape[1])
    on: dict[tuple[int, int], list[cp_model.IntVar]] = {(s, r): [] for s in range(len(question.numbers)) for r in rows}
    around: dict[int, list[list[cp_model.IntVar]]] = {}  # by scope that units share, its tasks by row
    for unit in question.units:
        for _ in range(unit.copies):
            total = []
            own: list[list[cp_model.IntVar]] = [[] for _ in rows]
            for shape, _, left in unit.left:
                here = [model.new_int_var(0, min(left, int(question.room[shape, r])), "") for r in rows]
                model.add(sum(here) <= left)
                if unit.copies > 1 and len(unit.left) > 1:
                    model.add(sum(here) == left)
                for r in rows:
                    on[shape, r].append(here[r])
                    own[r].append(here[r])
                total += here
            model.add(sum(total) >= unit.least)
            model.add(sum(total) <= unit.most)
            place, outer = question.scopes[unit.scope].place, question.scopes[unit.scope].parent
            if place is not None:
                _one_place(model, place, own, len(total))
            while outer >= 0:
                for r, tasks in enumerate(own):
                    around.setdefault(outer, [[] for _ in rows])[r].extend(tasks)
                outer = question.scopes[outer].parent
    for number, inside in around.items():
        place = question.scopes[number].place
        if place is not None:
            _one_place(model, place, inside, sum(map(len, inside)))
    for r in rows:
        for amounts, free in zip(question.requests.T, question.free[:, r], strict=True):
            model.add(sum(int(n) * sum(on[s, r]) for s, n in enumerate(amounts)) <= int(max(free, 0)))
        for s in range(len(question.numbers)):
            model.add(sum(on[s, r]) <= int(question.room[s, r]))
    for record in question.records:
        _keep(model, question, record, on)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    return solver.solve(model) in (cp_model.OPTIMAL, cp_model.FEASIBLE)


def _one_place(model: cp_model.CpModel, place: np.ndarray, own: list[list[cp_model.IntVar]], most: int) -> None:
    flags = {int(p): model.new_bool_var("") for p in np.unique(place[place >= 0])}
    model.add_at_most_one(flags.values())
    for r, tasks in enumerate(own):
        if place[r] < 0:
            model.add(sum(tasks) == 0)
        else:
            model.add(sum(tasks) <= 100 * most * flags[int(place[r])])


def _keep(
    model: cp_model.CpModel,
    question: Question,
    record: AtMost | Apart | Near | Even,
    on: dict[tuple[int, int], list[cp_model.IntVar]],
) -> None:
    places = record.places

    def tasks(shapes: frozenset[int], place: int, among: np.ndarray | None = None) -> cp_model.LinearExpr | int:
        mine = [s for s, number in enumerate(question.numbers) if number in shapes]
        inside = [r for r in np.flatnonzero(places == place) if among is None or among[r]]
        return sum(x for s in mine for r in inside for x in on[s, int(r)])

    founded, big = [], 10_000
    level = model.new_int_var(0, big, "")
    if isinstance(record, Even):
        if record.few or not len(record.compared):
            model.add(level == 0)
        for place in record.compared.tolist() if not record.few else ():
            model.add(level <= int(record.there[place]) + tasks(record.counted, place, record.among))
    for place in sorted({int(p) for p in places if p >= 0}):
        own, used = tasks(record.shapes, place), model.new_bool_var("")
        model.add(own <= big * used)
        if isinstance(record, AtMost):
            model.add(own <= int(record.at(np.array([place]))[0]))
        elif isinstance(record, Apart):
            model.add(tasks(record.others, place) <= big * (1 - used))
        elif isinstance(record, Near) and not record.there[place]:
            found = model.new_bool_var("")
            founded.append(found)
            model.add(used <= tasks(record.by, place) + found)
        elif isinstance(record, Even):
            final = int(record.there[place]) + tasks(record.counted, place, record.among)
            model.add(final <= record.above + level + big * (1 - used))
    if isinstance(record, Near):
        model.add(sum(founded) <= int(record.found))
