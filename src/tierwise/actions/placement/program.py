"""Whether tasks of a gang can stand together, as one integer program: exact, and bounded by its size and by nodes.

`exact` states the question and writes a yes to the ledger. Nothing here knows of jobs, ledgers or plugins. Rows that
nothing tells apart form a *class*, so the size follows from how many kinds of rows there are. The variables are tasks
of a kind in a class, rows of a class with a mixture of shapes, units in a place, and what the records of `pod_rules`
need.

HiGHS solves it, with one thread and a fixed seed, so the same question gives the same answer. No clock ends it: a
program that is too large is not asked, and the search ends after a number of nodes of its tree, or of rounds: HiGHS
asks between two of them whether to go on. A round takes as long as the program is large. Only the word that a program
is infeasible is a proof.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import gcd, prod
from typing import Any

import msgspec
import numpy as np

from tierwise.framework.pod_rules import Apart, AtMost, Charged, Even, Near, PodRule
from tierwise.framework.solver import load_solver
from tierwise.model.arrays import EMPTY, Bools, Ints

__all__ = ["Dealt", "Multiples", "No", "Program", "Question", "Scope", "TooLargeError", "Unit", "Wanted"]

_MIXTURES = 64
"""Mixtures of a class of rows; where there are more, each of its rows is a class of its own, with plain amounts."""

_COUNTED = 2**14
"""Mixtures of a class that are looked at to find the largest of them, a quarter of those of all classes."""

_DIGITS = 40
"""Binary digits of a charge that the solver, which counts in floating point, is given."""

_PROBED = 4_096
"""Larger programs are not probed, one variable after the other, before they are solved: that may take seconds."""

_PROBING = 2**15
"""The rule by its bit, as HiGHS calls it."""

_SMALLER = ("mip_heuristic_run_rens", "mip_heuristic_run_rins")
"""Heuristics that solve smaller programs on the side: that takes as long as all else, and counts no round."""


class Scope(msgspec.Struct, frozen=True, eq=False):
    """Limits that the tasks of a part of a gang share."""

    parent: int  # the number of the scope around it, which comes before it; -1 for none
    place: Ints | None = None  # by row: all are in one place, -1 is none; None: wherever they like
    spreads: tuple[tuple[Ints, int], ...] = ()  # by row the domain, and in how many more of them the tasks must be
    part: int = -1  # the part whose tasks these are; the spreads hold where it is chosen


class Unit(msgspec.Struct, frozen=True, eq=False):
    """So many units that are alike; each takes from `least` to `most` tasks, or none if it is not `needed`.

    If there are several, they take all they can, or tasks of one kind.
    """

    scope: int
    left: tuple[tuple[int, int, int], ...]  # a shape (its position), a role, and how many tasks there are of them
    least: int
    most: int
    needed: bool = True
    copies: int = 1
    part: int = -1  # the part that it is in


class Wanted(msgspec.Struct, frozen=True, eq=False):
    """So many of these units or parts, or so many tasks of these units, of one role or of any."""

    least: int
    units: tuple[int, ...] = ()
    parts: tuple[int, ...] = ()
    tasks: bool = False
    role: int | None = None
    inside: int = -1  # the part that wants them, where it is chosen; -1 for the gang

    @property
    def of_one_role(self) -> bool:
        """Whether tasks of other roles do not count."""
        return self.role is not None

    def counts(self, role: int) -> bool:
        """Whether tasks of a role count."""
        return self.role is None or role == self.role


class Multiples(msgspec.Struct, frozen=True, eq=False):
    """A place ends with a multiple of its number of tasks, those that are present included."""

    places: Ints  # by row, -1 for none
    number: Ints  # by place
    present: Ints  # by place


class Question(msgspec.Struct, frozen=True, eq=False):
    """Tasks to be placed, and the room that rows have for them."""

    numbers: tuple[int, ...]  # of the shapes, as records call them
    requests: Ints  # (shapes x resources)
    free: Ints  # (resources x rows)
    room: Ints  # (shapes x rows): how many tasks of each shape a row takes alone
    order: Ints  # by row: of rows that nothing tells apart the lowest come first
    scopes: tuple[Scope, ...]
    units: tuple[Unit, ...]
    wanted: tuple[Wanted, ...] = ()
    parts: int = 0  # how many parts there are that may be chosen
    records: tuple[PodRule, ...] = ()
    multiples: tuple[Multiples, ...] = ()


class No(enum.Enum):
    """No way was found."""

    PROVEN = "proven"
    UNKNOWN = "unknown"  # the program was too large, or its search was cut short


Dealt = list[list[list[Ints]]]
"""By unit, for each copy that is placed, for each entry of `left`: the row of each task."""


class TooLargeError(Exception):
    """The program is larger than is asked; `size` is what of it was looked at."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size


def _narrow(places: Ints) -> bool:
    """Whether no two rows share a place."""
    return int(np.bincount(places[places >= 0]).max(initial=0)) <= 1


class _Classes:
    """Rows that nothing tells apart, with the largest mixtures of shapes that each of them takes."""

    def __init__(self, question: Question, max_entries: int) -> None:
        """Raises TooLargeError where more has to be looked at."""
        self._largest, self._cells, self.looked = max_entries, 4 * _COUNTED, 0
        tasks = [0] * len(question.numbers)
        for unit in question.units:
            for shape, _, number in unit.left:
                tasks[shape] += unit.copies * number
        self.tasks = np.array(tasks, dtype=np.int64)
        requests, free = question.requests, np.maximum(question.free, 0)
        self.wide: list[PodRule] = []
        self._conflicts: list[tuple[Bools, Bools, Ints]] = []  # of narrow places: who is apart from whom, by row
        for record in question.records:
            among = np.array([[n in record.shapes] for n in question.numbers], dtype=np.int64)
            if isinstance(record, AtMost) and _narrow(record.places):
                requests = np.append(requests, among, axis=1)
                capacity_by_row = record.by_row(int(self.tasks.sum()))
                free = np.append(free, capacity_by_row[None], axis=0)
            elif isinstance(record, Apart) and _narrow(record.places):
                other_shapes = np.array([n in record.others for n in question.numbers])
                self._conflicts.append((among[:, 0] > 0, other_shapes, (record.places >= 0).astype(np.int64)))
            else:
                self.wide.append(record)
        free = np.minimum(free, (self.tasks @ requests)[:, None])  # the rest does not matter
        room = np.minimum(question.room, self.tasks[:, None])
        for shape, request in enumerate(requests):
            requests_it = request > 0
            np.minimum(
                room[shape],
                (free[requests_it] // request[requests_it, None]).min(axis=0, initial=self.tasks[shape]),
                out=room[shape],
            )
        rows = np.flatnonzero(room.any(axis=0))
        rows = rows[np.argsort(question.order[rows], kind="stable")]
        columns = [*free, *room, *(by_row for _, _, by_row in self._conflicts)]
        for record in self.wide:
            columns += _told_apart(record)
        columns += [multiples.places for multiples in question.multiples]
        for scope in question.scopes:
            columns += [scope.place] if scope.place is not None else []
            columns += [domains for domains, _ in scope.spreads]
        self.rows: list[Ints] = []  # of each class
        self.mixtures: list[Ints | None] = []  # (mixtures x shapes); None: a row by itself, with plain amounts
        self._known: dict[bytes, Ints | None] = {}
        for capacity_by_row in _alike(rows, columns):
            example = int(capacity_by_row[0])
            self._look(1)
            mixtures = self._mixtures(requests, free[:, example], room[:, example], example)
            for shapes in (capacity_by_row,) if mixtures is not None else capacity_by_row[:, None]:
                self.rows.append(shapes)
                self.mixtures.append(mixtures)
        self.sample = np.array([class_rows[0] for class_rows in self.rows], dtype=np.int64)
        self.number = np.array([len(own) for own in self.rows], dtype=np.int64)
        self.room, self.free, self.requests = room[:, self.sample], free[:, self.sample], requests

    def apart(self) -> Iterable[tuple[Bools, Bools, int]]:
        """Who is apart from whom on rows by themselves, with their class; elsewhere mixtures know it."""
        for shapes, other_shapes, by_row in self._conflicts:
            for i in np.flatnonzero(by_row[self.sample]).tolist():
                if self.mixtures[i] is None:
                    yield shapes, other_shapes, i

    def _look(self, number: int) -> None:
        self.looked += number
        if self.looked > self._largest:
            raise TooLargeError(self.looked)

    def _mixtures(self, requests: Ints, free: Ints, room: Ints, row: int) -> Ints | None:
        conflicts = [(shapes, other_shapes) for shapes, other_shapes, by_row in self._conflicts if by_row[row]]
        key = b"".join((free.tobytes(), room.tobytes(), *(shapes.tobytes() for shapes, _ in conflicts)))
        if key not in self._known:
            cells = prod(int(number) + 1 for number in room[room > 0][:-1])
            self._known[key] = None
            if cells <= min(_COUNTED, self._cells):
                self._cells -= cells
                self._look(cells)
                self._known[key] = _largest_mixtures(requests, free, room, conflicts)
        return self._known[key]


def _told_apart(record: PodRule) -> Iterable[Ints]:
    """Columns by which a rule tells rows apart."""
    yield record.places
    if isinstance(record, Even):
        yield record.among.astype(np.int64)
    if isinstance(record, Charged):
        yield from record.charges.values()


def _alike(rows: Ints, columns: Sequence[Ints]) -> list[Ints]:
    """Rows with the same in every column, in their order."""
    if not len(rows):
        return []
    of_row = np.unique(np.stack([column[rows] for column in columns]), axis=1, return_inverse=True)[1].ravel()
    ordered = rows[np.argsort(of_row, kind="stable")]
    ends = np.cumsum(np.bincount(of_row)).tolist()
    return [ordered[begin:end] for begin, end in pairwise((0, *ends))]


def _largest_mixtures(requests: Ints, free: Ints, room: Ints, conflicts: Sequence[tuple[Bools, Bools]]) -> Ints | None:
    """The mixtures that a row takes of which no other has more of everything; None where there are too many."""
    able = np.flatnonzero(room)
    max_numbers = room[able]
    sizes = [int(number) + 1 for number in max_numbers[:-1]]
    counts = np.indices(sizes).reshape(len(able) - 1, prod(sizes)).T
    other_requests, last_request = requests[able[:-1]], requests[able[-1]]
    used = counts @ other_requests
    fits = ((used <= free) | (used == 0)).all(axis=1)
    counts, used = counts[fits], used[fits]
    requests_it = last_request > 0
    last_numbers = np.minimum(
        ((free - used)[:, requests_it] // last_request[requests_it]).min(axis=1, initial=max_numbers[-1]),
        max_numbers[-1],
    )
    mixtures = np.zeros((len(counts), len(room)), dtype=np.int64)
    mixtures[:, able] = np.column_stack((counts, np.maximum(last_numbers, 0)))
    for shapes, other_shapes in conflicts:
        clash = (mixtures[:, shapes] > 0).any(axis=1) & (mixtures[:, other_shapes] > 0).any(axis=1)
        without = mixtures[clash]
        without[:, able[-1]] = 0
        mixtures = np.concatenate((mixtures[~clash], without))
        mixtures = mixtures[~((mixtures[:, shapes] > 0).any(axis=1) & (mixtures[:, other_shapes] > 0).any(axis=1))]
    mixtures = np.unique(mixtures, axis=0)[::-1]
    maximal, number = np.zeros((_MIXTURES, len(room)), dtype=np.int64), 0
    for mixture in mixtures[np.argsort(-mixtures.sum(axis=1), kind="stable")]:
        if not (mixture <= maximal[:number]).all(axis=1).any():
            if number == _MIXTURES:
                return None
            maximal[number] = mixture
            number += 1
    return maximal[:number]


_Term = tuple[Ints, int]
"""Columns, and by what each of them is multiplied."""


class Program:
    """The integer program of a question. With `firm` it keeps more than is sure to be needed, so that a yes is likelier
    to hold in some order of placing; without, its no is a proof.
    """

    def __init__(self, question: Question, *, firm: bool, max_entries: int = 400_000, size: int | None = None) -> None:
        """State a question as a program.

        Raises TooLargeError above `max_entries` entries, an eighth as many variables, or a size above `size`.
        """
        self._question = question
        self._most_entries, self._most_columns = max_entries, max(max_entries // 8, 1)
        self._largest = size if size is not None else 10 * max_entries
        self._low: list[Ints] = []
        self._high: list[Ints] = []
        self._columns = 0
        self._bounds: list[tuple[float, float]] = []
        self._terms: list[list[_Term]] = []
        self._entries = 0
        self.loose = False  # whether the same without `firm` is another question
        self.rounds = 0  # that were needed to solve it
        self._classes = _Classes(question, self._largest)
        self._chains = [self._chain(unit.scope) for unit in question.units]
        self._tasks()  # the first columns
        self._parts = [self._new(1, 0, 1) for _ in range(question.parts)]
        self._units()
        self._scopes()
        self._wishes()
        for multiples in question.multiples:
            self._whole(multiples)
        for record in self._classes.wide:
            if isinstance(record, AtMost):
                self._at_most(record)
            elif isinstance(record, Charged):
                self._charged(record)
            elif isinstance(record, Apart):
                self._apart(record)
            elif isinstance(record, Near):
                self._near(record)
            else:
                self._even(record, firm=firm)
        for shapes_here, other_shapes, i in self._classes.apart():
            flag, columns_here = self._new(1, 0, 1), self._here(i)
            for shapes, open_ in ((shapes_here, True), (other_shapes, False)):
                self._open(columns_here[shapes[self._shape[columns_here]]], flag, open_=open_)

    @property
    def size(self) -> int:
        """Variables and entries together, and what was looked at to find them."""
        return self._columns + self._entries + self._classes.looked

    @property
    def probed(self) -> bool:
        """Whether each variable is tried at its bounds first: work that grows with the square of the size."""
        return self.size <= _PROBED

    # What a program is made of: columns, and rows that bound sums of them.

    def _new(self, number: int, low: int, high: int | Ints) -> Ints:
        """So many whole numbers with these bounds."""
        first_column = self._columns
        self._columns += number
        if self._columns > self._most_columns or self.size > self._largest:
            raise TooLargeError(self.size)
        self._low.append(np.full(number, low, dtype=np.int64))
        self._high.append(np.broadcast_to(np.asarray(high, dtype=np.int64), (number,)))
        return np.arange(first_column, self._columns)

    def _bound(self, terms: Iterable[_Term], low: float, high: float) -> None:
        nonempty = [(columns, factor) for columns, factor in terms if len(columns)]
        if not nonempty:
            if low > 0 or high < 0:
                nonempty = [(self._new(1, 0, 0), 1)]  # it cannot be met, and says so
            else:
                return
        self._terms.append(nonempty)
        self._bounds.append((low, high))
        self._entries += sum(len(columns) for columns, _ in nonempty)
        if self._entries > self._most_entries or self.size > self._largest:
            raise TooLargeError(self.size)

    def _open(self, columns: Ints, flag: Ints, *, open_: bool = True) -> None:
        """These are above 0 only where a flag is set, or is not."""
        max_total = int(sum(self._most[columns]))
        if max_total:
            self._bound([(columns, 1), (flag, -max_total if open_ else max_total)], -np.inf, 0 if open_ else max_total)

    # Tasks in classes of rows.

    def _chain(self, scope: int) -> list[int]:
        """A scope and those around it."""
        scopes = []
        while scope >= 0:
            scopes.append(scope)
            scope = self._question.scopes[scope].parent
        return scopes

    def _tasks(self) -> None:
        """A column for each entry of each unit and each class that it may use."""
        classes, question = self._classes, self._question
        entries, shapes, units, ats, highs = [], [], [], [], []
        for u, unit in enumerate(question.units):
            allowed = np.ones(len(classes.rows), dtype=bool)
            for scope in self._chains[u]:
                place = question.scopes[scope].place
                if place is not None:
                    allowed &= place[classes.sample] >= 0
            for entry, (shape, _, number) in enumerate(unit.left):
                able = np.flatnonzero(allowed & (classes.room[shape] > 0))
                entries.append(np.full(len(able), entry))
                shapes.append(np.full(len(able), shape))
                units.append(np.full(len(able), u))
                ats.append(able)
                highs.append(np.minimum(classes.room[shape, able] * classes.number[able], number * unit.copies))
        self._entry, self._shape, self._unit, self._at, self._most = (
            np.concatenate([*column_parts, EMPTY]) for column_parts in (entries, shapes, units, ats, highs)
        )
        if len(self._at):
            self._new(len(self._at), 0, self._most)
        self._index = np.arange(len(self._at))
        self._unit_starts = np.searchsorted(self._unit, np.arange(len(question.units) + 1))
        self._by_class = np.argsort(self._at, kind="stable")
        self._class_starts = np.searchsorted(self._at[self._by_class], np.arange(len(classes.rows) + 1))
        for u, unit in enumerate(question.units):
            tasks = self._of_unit(u)
            for entry, (_, _, number) in enumerate(unit.left):
                mine = tasks[self._entry[tasks] == entry]
                if int(self._most[mine].sum()) > number * unit.copies:
                    self._bound([(mine, 1)], -np.inf, number * unit.copies)
        self._mixed: dict[int, Ints] = {}
        for i, mixtures in enumerate(classes.mixtures):
            columns_here = self._here(i)
            if mixtures is None:
                self._amounts(i, columns_here)
                continue
            mixture_columns = self._new(len(mixtures), 0, int(classes.number[i])) if len(mixtures) > 1 else None
            if mixture_columns is not None:
                self._mixed[i] = mixture_columns
                self._bound([(mixture_columns, 1)], -np.inf, int(classes.number[i]))
            for shape in np.unique(self._shape[columns_here]).tolist():
                tasks = columns_here[self._shape[columns_here] == shape]
                if mixture_columns is None:
                    max_tasks = int(mixtures[0, shape] * classes.number[i])
                    if int(self._most[tasks].sum()) > max_tasks:
                        self._bound([(tasks, 1)], -np.inf, max_tasks)
                else:
                    rows = [(mixture_columns[m : m + 1], -int(n)) for m, n in enumerate(mixtures[:, shape]) if n]
                    self._bound([(tasks, 1), *rows], -np.inf, 0)

    def _amounts(self, i: int, columns_here: Ints) -> None:
        """A row by itself: what its tasks ask for together, resource by resource."""
        classes = self._classes
        for r in range(classes.requests.shape[1]):
            amounts = classes.requests[self._shape[columns_here], r]
            if not amounts.any():
                continue
            unit = gcd(*amounts.tolist())
            terms = [(columns_here[amounts == n], int(n) // unit) for n in np.unique(amounts[amounts > 0]).tolist()]
            self._bound(terms, -np.inf, int(classes.free[r, i]) // unit)

    def _here(self, i: int) -> Ints:
        """The tasks in a class of rows."""
        return self._by_class[self._class_starts[i] : self._class_starts[i + 1]]

    def _of_unit(self, u: int) -> Ints:
        """The tasks of a unit."""
        return self._index[self._unit_starts[u] : self._unit_starts[u + 1]]

    def _of_units(self, units: Iterable[int]) -> Ints:
        return np.concatenate([EMPTY, *(self._of_unit(u) for u in units)])

    # Units, and where they are.

    def _units(self) -> None:
        """How many units are placed, each whole, and in which places of their own."""
        question = self._question
        inside = np.bincount([unit.scope for unit in question.units], minlength=len(question.scopes))
        outer = {scope.parent for scope in question.scopes}
        self._chosen: list[Ints] = []  # by unit
        self._own: dict[int, tuple[int, list[tuple[int, Ints]]]] = {}  # by unit with a place of its own
        for u, unit in enumerate(question.units):
            placed_units = self._new(1, unit.copies if unit.needed else 0, unit.copies)
            self._chosen.append(placed_units)
            place = question.scopes[unit.scope].place
            mine = self._of_unit(u)
            if place is None or inside[unit.scope] > 1 or unit.scope in outer:
                self._take(unit, mine, placed_units)
                continue
            of_task, places_of_unit = place[self._classes.sample[self._at[mine]]], list[tuple[int, Ints]]()
            for where in np.unique(of_task).tolist():
                units_here = self._new(1, 0, unit.copies)
                places_of_unit.append((where, units_here))
                self._take(unit, mine[of_task == where], units_here)
            self._bound([*((units_here, 1) for _, units_here in places_of_unit), (placed_units, -1)], 0, 0)
            self._own[u] = unit.scope, places_of_unit

    def _take(self, unit: Unit, tasks: Ints, number: Ints) -> None:
        """Some tasks are those of so many of the units."""
        if unit.copies > 1 and len(unit.left) > 1:
            for entry, (_, _, number_of_entry) in enumerate(unit.left):
                self._bound([(tasks[self._entry[tasks] == entry], 1), (number, -number_of_entry)], 0, 0)
            return
        if unit.least == unit.most:
            self._bound([(tasks, 1), (number, -unit.least)], 0, 0)
            return
        self._bound([(tasks, 1), (number, -unit.least)], 0, np.inf)
        self._bound([(tasks, 1), (number, -unit.most)], -np.inf, 0)

    def _scopes(self) -> None:
        """Tasks in one place of each scope that several units share, and in enough domains."""
        question, sample = self._question, self._classes.sample
        for number, scope in enumerate(question.scopes):
            units = [u for u, chain in enumerate(self._chains) if number in chain]
            mine = self._of_units(units)
            owned = any(at == number for at, _ in (self._own[u] for u in units if u in self._own))
            if scope.place is not None and not owned:
                self._one_place(scope.place, units)
            gate = self._gate(scope, units)
            for domains, min_domains in scope.spreads:
                if min_domains <= 0:
                    continue
                of_task, used = domains[sample[self._at[mine]]], list[Ints]()
                for where in np.unique(of_task[of_task >= 0]).tolist():
                    used.append(self._new(1, 0, 1))
                    self._bound([(used[-1], 1), (mine[of_task == where], -1)], -np.inf, 0)
                terms: list[_Term] = [(flag, 1) for flag in used]
                if gate is None:
                    self._bound(terms, min_domains, np.inf)
                else:
                    self._bound([*terms, (gate, -min_domains)], 0, np.inf)

    def _gate(self, scope: Scope, units: Sequence[int]) -> Ints | None:
        """Where what a scope asks for holds; None: always."""
        if scope.part >= 0:
            return self._parts[scope.part]
        return self._chosen[units[0]] if len(units) == 1 and not self._question.units[units[0]].needed else None

    def _one_place(self, place: Ints, units: Sequence[int]) -> None:
        sample = self._classes.sample
        mine = self._of_units(units)
        of_task = place[sample[self._at[mine]]]
        wheres = np.unique(of_task).tolist()
        if len(wheres) <= 1:
            return
        flags = {where: self._new(1, 0, 1) for where in wheres}
        self._bound([(flag, 1) for flag in flags.values()], -np.inf, 1)
        for u in units:
            tasks = self._of_unit(u)
            around = place[sample[self._at[tasks]]]
            for where in np.unique(around).tolist():
                self._open(tasks[around == where], flags[where])
            for inner, number in self._own[u][1] if u in self._own else ():
                inner_place = self._question.scopes[self._own[u][0]].place
                assert inner_place is not None, "it has a place of its own"
                outer = np.unique(around[inner_place[sample[self._at[tasks]]] == inner])
                if len(outer) == 1:  # a place inside: tighter than what its tasks say
                    self._bound([(number, 1), (flags[int(outer[0])], -self._question.units[u].copies)], -np.inf, 0)

    # What is needed in all.

    def _wishes(self) -> None:
        for wish in self._question.wanted:
            terms: list[_Term] = []
            for u in wish.units:
                if not wish.tasks:
                    terms.append((self._chosen[u], 1))
                    continue
                entries = self._question.units[u].left
                columns = self._of_unit(u)
                of_role = [i for i, entry in enumerate(entries) if wish.counts(entry[1])]
                terms.append((columns[np.isin(self._entry[columns], of_role)], 1))
            terms += [(self._parts[part], 1) for part in wish.parts]
            if wish.inside < 0:
                self._bound(terms, wish.least, np.inf)
                continue
            around = self._parts[wish.inside]
            self._bound([*terms, (around, -wish.least)], 0, np.inf)
            for u in wish.units:
                self._bound([(self._chosen[u], 1), (around, -self._question.units[u].copies)], -np.inf, 0)
            for part in wish.parts:
                self._bound([(self._parts[part], 1), (around, -1)], -np.inf, 0)

    def _whole(self, multiples: Multiples) -> None:
        by_place = self._by_place(multiples.places, self._question.numbers)
        for place in np.unique(multiples.places[multiples.places >= 0]).tolist():
            tasks, number = by_place.get(place, EMPTY), int(multiples.number[place])
            present = int(multiples.present[place])
            if len(tasks) or present % number:
                times = self._new(1, 0, (int(self._most[tasks].sum()) + present) // number)
                self._bound([(tasks, 1), (times, -number)], -present, -present)

    # Rules between pods.

    def _by_place(self, places: Ints, shapes: Iterable[int], among: Bools | None = None) -> dict[int, Ints]:
        """The tasks of some shapes that may stand in each place."""
        shape_positions = [i for i, number in enumerate(self._question.numbers) if number in set(shapes)]
        tasks = self._index[np.isin(self._shape, shape_positions)]
        rows = self._classes.sample[self._at[tasks]]
        where = places[rows] if among is None else np.where(among[rows], places[rows], -1)
        order = np.argsort(where, kind="stable")
        places_found, starts = np.unique(where[order], return_index=True)
        parts = np.split(tasks[order], starts[1:]) if len(places_found) else []
        return {place: part for place, part in zip(places_found.tolist(), parts, strict=True) if place >= 0}

    def _at_most(self, record: AtMost) -> None:
        by_place = self._by_place(record.places, record.shapes)
        for tasks, allowance in zip(by_place.values(), record.at(np.array([*by_place], dtype=np.int64)), strict=True):
            self._bound([(tasks, 1)], -np.inf, int(allowance))

    def _charged(self, record: Charged) -> None:
        """Tasks of a place are charged no more than is left there.

        Charges with many digits are cut, and the rest of a place is not: the program is more generous then, not less.
        """
        sample, numbers = self._classes.sample, self._question.numbers
        by_shape = np.zeros((len(numbers), len(sample)), dtype=np.int64)
        for i, number in enumerate(numbers):
            if number in record.charges:
                by_shape[i] = record.charges[number][sample]
        for place, tasks in self._by_place(record.places, record.shapes).items():
            charges = by_shape[self._shape[tasks], self._at[tasks]]
            rest_of_place, total = int(record.remaining[place]), charges * self._most[tasks]
            if total.astype(float).sum() <= rest_of_place:
                continue
            cut = max(int(charges.max()).bit_length() - _DIGITS, 0)
            common = int(np.gcd.reduce(charges)) or 1
            unit = common if not cut else 1 << cut
            charges = charges // unit
            terms = [(tasks[charges == charge], charge) for charge in np.unique(charges[charges > 0]).tolist()]
            self._bound(terms, -np.inf, rest_of_place // unit)

    def _apart(self, record: Apart) -> None:
        other_tasks = self._by_place(record.places, record.others)
        for place, tasks in self._by_place(record.places, record.shapes).items():
            if place in other_tasks:
                flag = self._new(1, 0, 1)
                self._open(tasks, flag)
                self._open(other_tasks[place], flag, open_=False)

    def _near(self, record: Near) -> None:
        by, founded = self._by_place(record.places, record.by), list[_Term]()
        for place, tasks in self._by_place(record.places, record.shapes).items():
            if record.there[place]:
                continue
            flag, founder = self._new(1, 0, 1), self._new(1, 0, int(record.found))
            self._open(tasks, flag)
            self._bound([(flag, 1), (by.get(place, tasks[:0]), -1), (founder, -1)], -np.inf, 0)
            founded.append((founder, 1))
        self._bound(founded, -np.inf, 1)

    def _even(self, record: Even, *, firm: bool) -> None:
        level = not record.few and len(record.compared) > 0
        lowest_standing = int(record.there[record.compared].min()) if level else 0
        counted = self._by_place(record.places, record.counted, record.among)
        counted_by_place = counted
        if record.shapes != record.counted:
            self.loose = True
            if not firm:
                counted_by_place = self._by_place(record.places, record.shapes & record.counted, record.among)
        lowest = self._new(
            1, lowest_standing, lowest_standing + int(self._classes.tasks.sum()) if level else lowest_standing
        )
        for place in record.compared.tolist() if level else ():
            tasks = counted.get(place, self._index[:0])
            self._bound([(lowest, 1), (tasks, -1)], -np.inf, int(record.there[place]))
        for place, tasks in self._by_place(record.places, record.shapes).items():
            standing_there, added_tasks = int(record.there[place]), counted_by_place.get(place, tasks[:0])
            if standing_there <= record.above + lowest_standing and np.isin(added_tasks, tasks).all():
                self._bound([(added_tasks, 1), (lowest, -1)], -np.inf, record.above - standing_there)
                continue
            flag = self._new(1, 0, 1)
            self._open(tasks, flag)
            excess = max(int(self._most[added_tasks].sum()) + standing_there - record.above - lowest_standing, 0)
            self._bound(
                [(added_tasks, 1), (lowest, -1), (flag, excess)], -np.inf, record.above - standing_there + excess
            )

    # The answer.

    def solve(self, nodes: int, rounds: int | None = None) -> Dealt | No:
        """Which rows the tasks go to; the search ends after so many nodes of its tree, or at so many rounds of work."""
        if not self._columns:
            return [[] for _ in self._question.units]
        solution = self._run(nodes, rounds)
        return solution if isinstance(solution, No) else self._deal(solution)

    def _run(self, nodes: int, rounds: int | None) -> Ints | No:
        highspy = load_solver()
        solver, lp = highspy.Highs(), highspy.HighsLp()
        flexible = any(not unit.needed or unit.least < unit.most for unit in self._question.units)
        lp.num_col_, lp.num_row_ = self._columns, len(self._terms)
        lp.col_cost_ = np.zeros(self._columns)
        lp.col_cost_[: len(self._at)] = float(flexible)  # no more than is needed
        lp.col_lower_ = np.concatenate(self._low).astype(np.float64)
        lp.col_upper_ = np.concatenate(self._high).astype(np.float64)
        lp.integrality_ = [highspy.HighsVarType.kInteger] * self._columns
        lows, highs = zip(*self._bounds, strict=True) if self._bounds else ((), ())
        lp.row_lower_, lp.row_upper_ = np.array(lows, dtype=np.float64), np.array(highs, dtype=np.float64)
        factors = [[np.full(len(columns), factor) for columns, factor in terms] for terms in self._terms]
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lengths = [sum(map(len, values)) for values in factors]
        lp.a_matrix_.start_ = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
        columns = [columns for terms in self._terms for columns, _ in terms]
        lp.a_matrix_.index_ = np.concatenate(columns).astype(np.int32) if columns else np.zeros(0, dtype=np.int32)
        values = [value for term_factors in factors for value in term_factors]
        lp.a_matrix_.value_ = np.concatenate(values).astype(np.float64) if values else np.zeros(0)
        for name, value in (("output_flag", False), ("threads", 1), ("parallel", "off"), ("random_seed", 0)):
            solver.setOptionValue(name, value)
        for heuristic in _SMALLER:
            solver.setOptionValue(heuristic, False)
        solver.setOptionValue("mip_max_nodes", nodes)
        if not self.probed:
            solver.setOptionValue("presolve_rule_off", _PROBING)

        def between(_kind: object, _text: str, _seen: object, answer: Any, _data: object) -> None:
            self.rounds += 1
            if rounds is not None and self.rounds >= rounds:
                answer.user_interrupt = True

        solver.setCallback(between, None)
        solver.startCallback(highspy.cb.HighsCallbackType.kCallbackMipInterrupt)
        solver.passModel(lp)
        solver.run()
        status = solver.getModelStatus()
        if status == highspy.HighsModelStatus.kSolveError:
            # What it made simpler and solved does not hold for what it was given, and HiGHS says so.
            solver.setOptionValue("presolve", "off")
            solver.run()
            status = solver.getModelStatus()
        if status == highspy.HighsModelStatus.kInfeasible:
            return No.PROVEN
        if solver.getInfo().primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
            return No.UNKNOWN
        solution: Ints = np.rint(np.array(solver.getSolution().col_value)).astype(np.int64)
        return solution

    def _deal(self, values: Ints) -> Dealt:
        rows_of: list[Ints] = [EMPTY] * len(self._at)
        for i, rows in enumerate(self._classes.rows):
            columns_here = self._here(i)
            columns_here = columns_here[values[columns_here] > 0]
            if not len(columns_here):
                continue
            mixtures = self._classes.mixtures[i]
            if mixtures is not None and i in self._mixed:
                mixtures = np.repeat(mixtures, values[self._mixed[i]], axis=0)
            elif mixtures is not None:
                mixtures = np.repeat(mixtures, len(rows), axis=0)
            for shape in np.unique(self._shape[columns_here]).tolist():
                mine = columns_here[self._shape[columns_here] == shape]
                if mixtures is None:
                    slots = np.repeat(rows, int(values[mine].sum()))
                else:
                    slots = np.repeat(rows[: len(mixtures)], mixtures[:, shape])
                ends = np.cumsum(values[mine])
                for task, part in zip(mine.tolist(), np.split(slots[: ends[-1]], ends[:-1]), strict=True):
                    rows_of[task] = part
        return [self._copies(u, unit, values, rows_of) for u, unit in enumerate(self._question.units)]

    def _copies(self, u: int, unit: Unit, values: Ints, rows_of: list[Ints]) -> list[list[Ints]]:
        """The tasks of each copy of a unit, in one place of its own where it has one."""
        mine = self._of_unit(u)
        if u not in self._own:
            return self._share(unit, mine, int(values[self._chosen[u]][0]), rows_of)
        scope, places_of_unit = self._own[u]
        place = self._question.scopes[scope].place
        assert place is not None, "it has a place of its own"
        of_task = place[self._classes.sample[self._at[mine]]]
        copies = []
        for where, number in places_of_unit:
            copies += self._share(unit, mine[of_task == where], int(values[number][0]), rows_of)
        return copies

    def _share(self, unit: Unit, tasks: Ints, number: int, rows_of: list[Ints]) -> list[list[Ints]]:
        """These tasks shared out among so many copies."""
        if not number:
            return []
        copies: list[list[Ints]] = [[] for _ in range(number)]
        for entry in range(len(unit.left)):
            entry_tasks = tasks[self._entry[tasks] == entry]
            rows = np.concatenate([EMPTY, *(rows_of[task] for task in entry_tasks.tolist())])
            for copy, part in zip(copies, np.array_split(rows, number), strict=True):
                copy.append(part)
        return copies
