"""The question of an integer program asked of a second solver, CP-SAT, with numbers of tasks on single rows.

Called by `audit --journal` and by tests, and by nothing that decides: what one solver gets wrong is not hidden by the
same mistake of the other. OR-Tools, which has it, is no dependency of a scheduler and is imported on first use.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tierwise.actions.placement.program import Multiples, Question, Scope, Unit
from tierwise.api.errors import InputError
from tierwise.framework.pod_rules import Apart, AtMost, Charged, Even, Near, PodRule
from tierwise.model.arrays import Bools, Ints

if TYPE_CHECKING:
    from ortools.sat.python.cp_model import CpModel, IntVar, LinearExpr, LinearExprT

__all__ = ["load_second_solver", "solvable"]

_MISSING = (
    "OR-Tools, which looks at plans beside the scheduler's own solver, cannot be loaded: {why} "
    "(pip install 'tierwise[audit]')"
)

_BIG = 10_000


def load_second_solver() -> Any:
    """The library; InputError where it cannot be loaded."""
    try:
        from ortools.sat.python import cp_model
    except ImportError as error:
        raise InputError(_MISSING.format(why=error)) from None
    return cp_model


def solvable(question: Question) -> bool:
    """Whether the tasks can stand together in the end."""
    library = load_second_solver()
    solver = library.CpSolver()
    solver.parameters.num_workers = 1
    status = solver.solve(_Model(library.CpModel(), question).stated())
    return status in (library.OPTIMAL, library.FEASIBLE)


_ByRow = list[list["IntVar"]]
"""Numbers of tasks, for each row."""


class _Model:
    """A question as rules of CP-SAT, written down one after the other."""

    def __init__(self, model: CpModel, question: Question) -> None:
        self._model = model
        self._question = question
        self._rows = range(question.free.shape[1])
        self._on: dict[tuple[int, int], list[IntVar]] = {}  # by shape and row
        for shape in range(len(question.numbers)):
            for row in self._rows:
                self._on[shape, row] = []
        self._parts = [model.new_bool_var("") for _ in range(question.parts)]
        self._inside = [self._empty() for _ in question.scopes]  # by scope
        self._chosen: list[list[IntVar]] = []  # by unit, whether each copy is placed
        self._entries: list[list[list[IntVar]]] = []  # by unit and entry
        scopes_of_units = [unit.scope for unit in question.units]
        around = {scope.parent for scope in question.scopes}
        self._shared = [scopes_of_units.count(i) > 1 or i in around for i in range(len(question.scopes))]

    def stated(self) -> CpModel:
        """All of the question."""
        for unit in self._question.units:
            self._add_unit(unit)
        for number, scope in enumerate(self._question.scopes):
            if scope.place is not None and self._shared[number]:
                self._one_place(scope.place, self._inside[number])
            self._spread(number, scope)
        self._fit()
        self._wish()
        for multiples in self._question.multiples:
            self._keep_whole(multiples)
        for record in self._question.records:
            _Rule(self._model, self._question, self._on).keep(record)
        return self._model

    def _empty(self) -> _ByRow:
        return [[] for _ in self._rows]

    def _add_unit(self, unit: Unit) -> None:
        model, room = self._model, self._question.room
        flags_of_copies: list[IntVar] = []
        entries: list[list[IntVar]] = [[] for _ in unit.left]
        for _ in range(unit.copies):
            is_placed = model.new_bool_var("")
            if unit.needed:
                model.add(is_placed == 1)
            flags_of_copies.append(is_placed)
            total: list[IntVar] = []
            tasks = self._empty()
            for entry, (shape, _, limit) in enumerate(unit.left):
                numbers = [model.new_int_var(0, min(limit, int(room[shape, r])), "") for r in self._rows]
                model.add(sum(numbers) <= limit)
                if unit.copies > 1 and len(unit.left) > 1:
                    model.add(sum(numbers) == limit * is_placed)
                for r in self._rows:
                    self._on[shape, r].append(numbers[r])
                    tasks[r].append(numbers[r])
                entries[entry] += numbers
                total += numbers
            model.add(sum(total) >= unit.least * is_placed)
            model.add(sum(total) <= unit.most * is_placed)
            place = self._question.scopes[unit.scope].place
            if place is not None and not self._shared[unit.scope]:
                self._one_place(place, tasks)
            for scope in self._chain(unit.scope):
                for tasks_inside, further in zip(self._inside[scope], tasks, strict=True):
                    tasks_inside += further
        self._chosen.append(flags_of_copies)
        self._entries.append(entries)

    def _chain(self, scope: int) -> Iterator[int]:
        while scope >= 0:
            yield scope
            scope = self._question.scopes[scope].parent

    def _one_place(self, place: Ints, tasks: _ByRow) -> None:
        """All of some tasks in one place."""
        flags = {int(p): self._model.new_bool_var("") for p in np.unique(place[place >= 0])}
        self._model.add_at_most_one(flags.values())
        for r, numbers in enumerate(tasks):
            limit: LinearExprT = _BIG * flags[int(place[r])] if place[r] >= 0 else 0
            self._model.add(sum(numbers) <= limit)

    def _spread(self, number: int, scope: Scope) -> None:
        """The tasks of a scope in enough domains, where the part that it belongs to is placed."""
        units = [u for u, unit in enumerate(self._question.units) if number in self._chain(unit.scope)]
        gate: LinearExprT = 1
        if scope.part >= 0:
            gate = self._parts[scope.part]
        elif len(units) == 1 and not self._question.units[units[0]].needed:
            gate = sum(self._chosen[units[0]])
        for domains, minimum in scope.spreads:
            used = []
            for domain in np.unique(domains[domains >= 0]).tolist():
                used.append(self._model.new_bool_var(""))
                inside: list[IntVar] = []
                for r in np.flatnonzero(domains == domain).tolist():
                    inside += self._inside[number][r]
                self._model.add(used[-1] <= sum(inside))
            self._model.add(sum(used) >= max(minimum, 0) * gate)

    def _fit(self) -> None:
        """Each row has enough for its tasks."""
        question, on = self._question, self._on
        for r in self._rows:
            for amounts, free in zip(question.requests.T, question.free[:, r], strict=True):
                amounts_taken = [int(n) * sum(on[s, r]) for s, n in enumerate(amounts)]
                self._model.add(sum(amounts_taken) <= int(max(free, 0)))
            for s in range(len(question.numbers)):
                self._model.add(sum(on[s, r]) <= int(question.room[s, r]))

    def _wish(self) -> None:
        """As many parts, and tasks of roles, as are wanted; what is in a part is placed only with it."""
        for wish in self._question.wanted:
            numbers: list[LinearExprT] = [self._parts[part] for part in wish.parts]
            for u in wish.units:
                if not wish.tasks:
                    numbers += self._chosen[u]
                    continue
                for kind, tasks in zip(self._question.units[u].left, self._entries[u], strict=True):
                    numbers += tasks if wish.counts(kind[1]) else []
            if wish.inside < 0:
                self._model.add(sum(numbers) >= wish.least)
                continue
            around = self._parts[wish.inside]
            self._model.add(sum(numbers) >= wish.least * around)
            within = [self._parts[part] for part in wish.parts]
            for u in wish.units:
                within += self._chosen[u]
            for inner in within:
                self._model.add(inner <= around)

    def _keep_whole(self, multiples: Multiples) -> None:
        """A multiple of tasks in each place."""
        for place in np.unique(multiples.places[multiples.places >= 0]).tolist():
            tasks: list[IntVar] = []
            for (_, r), numbers in self._on.items():
                tasks += numbers if multiples.places[r] == place else []
            times = self._model.new_int_var(0, _BIG, "")
            self._model.add(sum(tasks) - int(multiples.number[place]) * times == -int(multiples.present[place]))


class _Rule:
    """One rule between pods at a time."""

    def __init__(self, model: CpModel, question: Question, on: dict[tuple[int, int], list[IntVar]]) -> None:
        self._model = model
        self._question = question
        self._on = on

    def _tasks(self, record: PodRule, shapes: frozenset[int], place: int, among: Bools | None = None) -> LinearExpr:
        """The tasks of some shapes in a place."""
        inside = record.places == place
        if among is not None:
            inside = inside & among
        tasks: list[IntVar] = []
        for s, number in enumerate(self._question.numbers):
            if number in shapes:
                for r in np.flatnonzero(inside).tolist():
                    tasks += self._on[s, r]
        return cast("LinearExpr", sum(tasks))

    def keep(self, record: PodRule) -> None:
        """Have a rule kept in each place."""
        model = self._model
        level = self._level(record) if isinstance(record, Even) else None
        founded: list[IntVar] = []
        for place in np.unique(record.places[record.places >= 0]).tolist():
            tasks, used = self._tasks(record, record.shapes, place), model.new_bool_var("")
            model.add(tasks <= _BIG * used)
            if isinstance(record, Charged):
                model.add(self._charges(record, place) <= int(record.remaining[place]))
            elif isinstance(record, AtMost):
                model.add(tasks <= int(record.at(np.array([place]))[0]))
            elif isinstance(record, Apart):
                model.add(self._tasks(record, record.others, place) <= _BIG * (1 - used))
            elif isinstance(record, Even) and level is not None:
                counted = self._tasks(record, record.counted, place, record.among)
                model.add(counted - level - _BIG * (1 - used) <= record.above - int(record.there[place]))
            elif isinstance(record, Near) and not record.there[place]:
                founded.append(model.new_bool_var(""))
                model.add(used <= self._tasks(record, record.by, place) + founded[-1])
        if isinstance(record, Near):
            model.add(sum(founded) <= int(record.found))

    def _charges(self, record: Charged, place: int) -> LinearExpr:
        """The charges of all tasks in a place."""
        total: list[LinearExprT] = []
        rows = np.flatnonzero(record.places == place).tolist()
        numbers = self._question.numbers
        for s in (s for s, number in enumerate(numbers) if number in record.charges):
            for row in rows:
                total += (int(record.charges[numbers[s]][row]) * task for task in self._on[s, row])
        return cast("LinearExpr", sum(total))

    def _level(self, record: Even) -> IntVar:
        """No more pods than any place that is compared has."""
        model = self._model
        level = model.new_int_var(0, _BIG, "")
        if record.few or not len(record.compared):
            model.add(level == 0)
            return level
        for place in record.compared.tolist():
            counted = self._tasks(record, record.counted, place, record.among)
            model.add(level - counted <= int(record.there[place]))
        return level
