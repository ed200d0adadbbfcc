"""Which of many jobs are told first: so many at a time, of one namespace after the other.

A tenant who makes thousands of objects that cannot be scheduled has as many statuses written about them. To work all of
them out costs a third of a second, in which nothing is bound; and no server takes so many at once.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import chain, islice, repeat, zip_longest

from tierwise.framework.report import CycleReport
from tierwise.model.job import Job, namespace_of

__all__ = ["FairChoice", "untold"]


class FairChoice:
    """Chooses jobs by their keys; those that were chosen longest ago come first in their namespace."""

    def __init__(self) -> None:
        self._rounds = 0
        self._chosen: dict[str, int] = {}  # in which round each key that is still due was last chosen
        self.left = False  # whether the last time some were left for the next

    def choose(
        self, due: Iterable[str], most: int | None, decided: Container[str] = (), without: Container[str] = ()
    ) -> set[str]:
        """Of the keys, which are in order, all that were decided about, and at most so many others; none `without`."""
        told = [key for key in due if key not in without]
        keys = [key for key in told if key not in decided]
        self.left = most is not None and len(keys) > most
        if not self.left:
            self._chosen = {}
            return set(told)
        self._rounds += 1
        known = {key: self._chosen.get(key, 0) for key in keys}
        rows: dict[str, list[str]] = {}
        for key in sorted(known, key=lambda key: known[key]):
            rows.setdefault(namespace_of(key), []).append(key)
        in_order = chain.from_iterable(zip_longest(*rows.values()))
        found = set(islice((key for key in in_order if key is not None), most))
        self._chosen = known | dict.fromkeys(found, self._rounds)
        return found.union(key for key in told if key in decided)


def untold(told: Mapping[str, tuple[object, object]], jobs: Sequence[Job], report: CycleReport) -> set[str]:
    """The jobs that have other tasks, or another rejection, than when nothing was left to tell."""
    keys = [job.key for job in jobs]  # of every job in every cycle: no calls for each of them
    known, now = map(told.get, keys, repeat((None, None))), map(report.rejections.get, keys)
    return {
        job.key
        for job, (tasks, before), rejection in zip(jobs, known, now, strict=True)
        if tasks is not job.tasks or before is not rejection
    }
