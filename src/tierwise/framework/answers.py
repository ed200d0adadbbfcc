"""What an answer of a plugin must be. Each check gets the answer, what was asked about, and the view of the cycle.

A check returns the answer as the pipeline uses it, and raises `AnswerError` for what cannot be one: another type, dtype
or length, a number that is not finite, a position out of range.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import Any, Final, TypeVar

import numpy as np
from msgspec import convert, json, to_builtins

from tierwise.framework import extension
from tierwise.framework.pod_rules import AtMost, Charged, Even, Near, PodRule, PodRules
from tierwise.model.arrays import Floats, Ints, distinct, length
from tierwise.model.job import Reason, Task

__all__ = ["AnswerError", "bounded", "shown"]

T = TypeVar("T")
Args = tuple[Any, ...]

_FLOAT, _INT = np.dtype(np.float64), np.dtype(np.int64)
_BOOL, _WHY = np.dtype(np.bool_), np.dtype(np.uint16)

_HIGHEST: Final = 1e9
"""An upper bound for scores: sums of weighted scores must fit 64 bits."""

_THREADED: Final = 10_000
"""From this length on a dot product is dealt to threads, which wait for each other: a thousand times as long where
other programs keep the cores busy.
"""

_MOST_ANSWERS: Final = 1_000_000
"""Answers that a plugin may give one by one: one that gives more would never come to an end."""

_LONGEST_TEXT: Final = 32_768
"""As long as the message of a condition may be in Kubernetes."""


class AnswerError(Exception):
    """A plugin returned an invalid answer."""


def shown(answer: object) -> str:
    """An answer, shortened for a message."""
    if isinstance(answer, np.ndarray):
        return f"one of {answer.dtype} and of shape {answer.shape}"
    text = " ".join(repr(answer).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def bounded(answers: Iterable[T], what: str) -> Iterable[T]:
    """Answers that are given one by one; too many of them are an error."""
    for number, answer in enumerate(answers):
        if number >= _MOST_ANSWERS:
            raise AnswerError(f"expected fewer than {_MOST_ANSWERS} {what}")
        yield answer


# -- arrays


def _array(answer: Any, dtype: np.dtype[Any], size: int) -> Any:
    if type(answer) is not np.ndarray or answer.dtype != dtype or answer.shape != (size,):
        raise AnswerError(f"expected an array of {dtype} and of shape ({size},), not {shown(answer)}")
    return answer


def scores_of(answer: Any, size: int) -> Floats:
    """Scores must be finite, and small enough to be compared in steps of a millionth."""
    scores: Floats = _array(answer, _FLOAT, size)
    squares = scores.dot(scores) if size < _THREADED else np.einsum("i,i->", scores, scores)
    if not squares < _HIGHEST**2 and not (np.abs(scores) < _HIGHEST).all():
        raise AnswerError(f"expected finite numbers below {_HIGHEST:.0e}")
    return scores


def _why(answer: Any, size: int, view: extension.CycleView) -> Any:
    _array(answer, _WHY, size)
    if size and np.maximum.reduce(answer) > len(view.reasons):
        raise AnswerError("a number that no reason has")
    return answer


def why_by_row(answer: Any, _: Args, view: extension.CycleView) -> Any:
    """The number of a reason, or 0, for each node."""
    return _why(answer, len(view.nodes), view)


def why_in_span(answer: Any, args: Args, view: extension.CycleView) -> Any:
    """The number of a reason, or 0, for each node of a span."""
    return _why(answer, args[1].stop - args[1].start, view)


def ints_by_row(answer: Any, _: Args, view: extension.CycleView) -> Any:
    """A whole number for each node, or None."""
    return None if answer is None else _array(answer, _INT, len(view.nodes))


def scores_in_span(answer: Any, args: Args, _: extension.CycleView) -> Floats | None:
    """A score for each node of a span, or None."""
    return None if answer is None else scores_of(answer, args[1].stop - args[1].start)


def scores_of_rows(answer: Any, args: Args, _: extension.CycleView) -> Floats | float | None:
    """A score for each row, one for all of them, or None."""
    if answer is None or (type(answer) is float and abs(answer) < _HIGHEST):
        return answer
    return scores_of(answer, length(args[1]))


def scores_by_domain(answer: Any, _: Args, view: extension.CycleView) -> Floats | None:
    """A score for each domain, or None."""
    return None if answer is None else scores_of(answer, len(view.topology))


def scores_of_them(answer: Any, args: Args, _: extension.CycleView) -> Floats:
    """A finite number for each domain or victim that is asked about."""
    return scores_of(answer, len(args[1]))


def flags_of_them(answer: Any, args: Args, _: extension.CycleView) -> Any:
    """True or false for each victim that is asked about."""
    return _array(answer, _BOOL, len(args[1]))


def queue_amounts(answer: Any, _: Args, view: extension.CycleView) -> Any:
    """An amount for each resource and queue."""
    expected = (len(view.axis), len(view.ledger.queue_index))
    if type(answer) is not np.ndarray or answer.dtype != _INT or answer.shape != expected:
        raise AnswerError(f"expected an array of {_INT} and of shape {expected}, not {shown(answer)}")
    return answer


def _positions(answer: Any, size: int) -> tuple[int, int]:
    """Distinct positions in a list of this length, in any order; the lowest and the highest of them."""
    if type(answer) is not np.ndarray or answer.dtype != _INT or answer.ndim != 1:
        raise AnswerError(f"expected an array of positions, of {_INT} and in one dimension, not {shown(answer)}")
    if not len(answer):
        return 0, 0
    ascending = answer if np.logical_and.reduce(answer[1:] > answer[:-1]) else distinct(answer)  # as most do
    lowest, highest = int(ascending[0]), int(ascending[-1])
    if lowest < 0 or highest >= size:
        raise AnswerError(f"expected positions below {size}")
    if len(ascending) < len(answer):
        raise AnswerError("expected each position once")
    return lowest, highest


def positions_of_them(answer: Any, args: Args, _: extension.CycleView) -> Any:
    """Distinct positions among what is asked about, or None."""
    if answer is not None:
        _positions(answer, len(args[1]))
    return answer


def some_positions(answer: Any, args: Args, view: extension.CycleView) -> Any:
    """Distinct positions among what is asked about."""
    _positions(answer, len(args[1]))
    return answer


def domains_below(group: Any, within: int, view: extension.CycleView) -> Ints:
    """Domains below one that is searched, at least one."""
    topology = view.topology
    lowest, highest = _positions(group, len(topology))
    if not len(group):
        raise AnswerError("expected groups that are not empty")
    if lowest < within or highest >= int(topology.last[within]):
        raise AnswerError(f"expected domains below {topology.name[within] or 'the root'}")
    return group  # type: ignore[no-any-return]


def groups_of_domains(answer: Any, args: Args, view: extension.CycleView) -> Iterable[Ints]:
    """Groups of domains below the one that is searched, none of them empty."""
    for number, group in enumerate(answer):
        if number > len(view.topology):
            raise AnswerError("expected no more groups than there are domains")
        yield domains_below(group, args[1], view)


# -- single values


def boolean(answer: Any, _: Args, __: extension.CycleView) -> bool:
    """True or false."""
    if not isinstance(answer, bool | np.bool_):
        raise AnswerError(f"expected true or false, not {shown(answer)}")
    return bool(answer)


def seconds(answer: Any, _: Args, __: extension.CycleView) -> float:
    """A duration: a number that is neither negative nor without end."""
    if isinstance(answer, bool) or not isinstance(answer, int | float) or not 0 <= answer < math.inf:
        raise AnswerError(f"expected a number of seconds, not {shown(answer)}")
    return float(answer)


def tier(answer: Any, _: Args, __: extension.CycleView) -> Any:
    """The number of a tier, or None."""
    _is(answer, int, np.integer)
    return answer


def key(answer: Any, _: Args, __: extension.CycleView) -> tuple[float, ...]:
    """A tuple of numbers that can be compared."""
    if type(answer) is tuple:
        total = sum(answer)  # raises unless it consists of numbers
        numbers = type(total) in (int, float) or all(isinstance(k, Real) for k in answer)
        if numbers and (total == total or not any(k != k for k in answer)):
            return answer
    raise AnswerError(f"expected a tuple of numbers, not {shown(answer)}")


def score_effect(answer: Any, _: Args, __: extension.CycleView) -> extension.ScoreEffect:
    """A ScoreEffect."""
    if not isinstance(answer, extension.ScoreEffect):
        raise AnswerError(f"expected a ScoreEffect, not {shown(answer)}")
    return answer


def slice_of_rows(answer: Any, _: Args, view: extension.CycleView) -> slice:
    """A slice of the rows."""
    if not 0 <= answer.start <= answer.stop <= len(view.nodes) or answer.step is not None:
        raise AnswerError(f"expected a slice of rows, not {shown(answer)}")
    return answer  # type: ignore[no-any-return]


def _is(answer: object, *kinds: type) -> None:
    if answer is not None and not isinstance(answer, kinds):
        expected = " or ".join(kind.__name__ for kind in kinds)
        raise AnswerError(f"expected {expected} or None, not {shown(answer)}")


def reason(answer: Any, _: Args = (), __: extension.CycleView | None = None, *, needed: bool = False) -> Reason | None:
    """A reason with text, which conditions, events and pages show; or None."""
    if answer is None and not needed:
        return None
    if type(answer) is not Reason:
        raise AnswerError(f"expected a Reason{'' if needed else ' or None'}, not {shown(answer)}")
    _texts(answer.code, answer.plugin, answer.text)
    return answer


def _texts(*answers: object) -> None:
    for answer in answers:
        if not isinstance(answer, str):
            raise AnswerError(f"expected a text, not {shown(answer)}")
        if len(answer) > _LONGEST_TEXT:
            raise AnswerError(f"expected a text of at most {_LONGEST_TEXT} characters, not one of {len(answer)}")


def _moment(answer: float) -> None:
    if not math.isfinite(answer):
        raise AnswerError(f"expected a moment, not {shown(answer)}")


# -- records


def ties(answer: Any, _: Args, view: extension.CycleView) -> tuple[extension.Tie, ...]:
    """A tuple of ties."""
    if not isinstance(answer, tuple):
        raise AnswerError(f"expected a tuple of ties, not {shown(answer)}")
    for tie in answer:
        if not isinstance(tie, extension.Tie) or not isinstance(tie.founders, frozenset):
            raise AnswerError(f"expected a tie, not {shown(tie)}")
        _array(tie.places, _INT, len(view.nodes))
        if len(tie.places) and tie.places.min() < -1:
            raise AnswerError("a place below -1")
    return answer


def pod_rules(answer: Any, _: Args, view: extension.CycleView) -> PodRules | None:
    """PodRules with a place for each node, or None."""
    if answer is None:
        return None
    if not isinstance(answer, PodRules):
        raise AnswerError(f"expected PodRules, not {shown(answer)}")
    for rows in (*answer.closed.values(), *answer.lonely.values()):
        _array(rows, _BOOL, len(view.nodes))
    for record in answer.records:
        if not isinstance(record, PodRule):
            raise AnswerError(f"expected a rule between pods, not {shown(record)}")
        _array(record.places, _INT, len(view.nodes))
        if len(record.places) and record.places.min() < -1:
            raise AnswerError("a place below -1")
        counts = _counts(record)
        for charges in record.charges.values() if isinstance(record, Charged) else ():
            _array(charges, _INT, len(view.nodes))
        if type(counts) is not np.ndarray or (
            counts is not record.places and len(counts) <= record.places.max(initial=-1)
        ):
            raise AnswerError(f"expected what is there for each place, not {shown(counts)}")
    return answer


def _counts(record: PodRule) -> Any:
    """The numbers of a rule that it must have for each of its places; its places where it has none."""
    match record:
        case Near() | Even():
            return record.there
        case Charged():
            return record.remaining
        case AtMost() if not isinstance(record.left, int):
            return record.left
    return record.places


def figures(answer: Any, _: Args, view: extension.CycleView) -> Sequence[Mapping[str, object]]:
    """A mapping for each node, which can be written as JSON."""
    if not isinstance(answer, Sequence) or len(answer) != len(view.nodes):
        raise AnswerError(f"expected {len(view.nodes)} mappings, not {shown(answer)}")
    if not all(isinstance(figure, Mapping) for figure in answer):
        raise AnswerError("expected a mapping for each node")
    json.encode(answer)  # what cannot be written as JSON raises here
    return answer


def gather_ways(answer: Any, _: Args, __: extension.CycleView) -> Any:
    """A tuple of GatherOption."""
    if type(answer) is not tuple or not all(type(option) is extension.GatherOption for option in answer):
        raise AnswerError(f"expected a tuple of GatherOption, not {shown(answer)}")
    for option in answer:
        convert(to_builtins(option), extension.GatherOption)  # a field of another type raises here
        if option.tier < 0 or option.pipeline < 1 or any(number < 1 for _, number in option.multiples):
            raise AnswerError(f"expected a way with a tier and positive numbers, not {shown(option)}")
    return answer


def delay(answer: Any, _: Args, __: extension.CycleView) -> extension.Delay | None:
    """A Delay with a reason and a moment, or None."""
    _is(answer, extension.Delay)
    if isinstance(answer, extension.Delay):
        reason(answer.reason, needed=True)
        _moment(answer.until)
    return answer  # type: ignore[no-any-return]


def preparation(answer: Any, _: Args, __: extension.CycleView) -> extension.Preparation | None:
    """A Preparation, or None."""
    from tierwise.port import Prepare  # only profiles with such plugins pay for the import

    _is(answer, extension.Preparation)
    if answer is None:
        return None
    reason(answer.waits)
    reason(answer.failed)
    if any(type(written) is not Prepare for written in (*answer.writes, *answer.undo)):
        raise AnswerError("expected writes of the type Prepare")
    if answer.until is not None:
        _moment(answer.until)
    return answer  # type: ignore[no-any-return]


def complaint(answer: Any, _: Args, __: extension.CycleView) -> tuple[Task, Reason]:
    """Tasks with reasons."""
    task, why = answer
    reason(why, needed=True)
    if not isinstance(task, Task):
        raise AnswerError(f"expected tasks with reasons, not {shown((task, why))}")
    return task, why


def debt(answer: Any, args: Args, view: extension.CycleView) -> extension.Debt:
    """Debts with an amount for each resource."""
    if not isinstance(answer, extension.Debt):
        raise AnswerError(f"expected debts, not {shown(answer)}")
    _array(answer.over, _INT, len(view.axis))
    boolean(answer.due, args, view)
    _texts(answer.queue, answer.text)
    return answer


def proposal(answer: Any, args: Args, view: extension.CycleView) -> extension.Proposal | extension.Abstained | None:
    """One of the candidates with counts that add up, an Abstained, or None."""
    _is(answer, extension.Proposal, extension.Abstained)
    if answer is not None:
        _texts(answer.plugin, answer.why)
    if isinstance(answer, extension.Proposal):
        _division(answer, args[0], args[1], len(view.topology))
    return answer  # type: ignore[no-any-return]


def _division(proposal: extension.Proposal, units: extension.Units, candidates: Ints, domains: int) -> None:
    pieces, counts = proposal.pieces, proposal.counts
    if proposal.domain not in candidates:
        raise AnswerError(f"domain {shown(proposal.domain)} is not among the candidates")
    _positions(pieces, domains)
    if type(counts) is not np.ndarray or counts.dtype != _INT or counts.shape != pieces.shape:
        raise AnswerError(f"expected a count for each piece, not {shown(counts)}")
    if (counts < 0).any() or (units.shape is not None and int(counts.sum()) != units.count):
        raise AnswerError(f"expected counts that add up to {units.count}")
