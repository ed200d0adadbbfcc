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
        self, due: Iterable[str], limit: int | None, decided: Container[str] = (), without: Container[str] = ()
    ) -> set[str]:
        """Of the keys, which are in order, all that were decided about, and at most so many others; none `without`."""
        eligible = [key for key in due if key not in without]
        keys = [key for key in eligible if key not in decided]
        self.left = limit is not None and len(keys) > limit
        if not self.left:
            self._chosen = {}
            return set(eligible)
        self._rounds += 1
        rounds = {key: self._chosen.get(key, 0) for key in keys}
        rows: dict[str, list[str]] = {}
        for key in sorted(rounds, key=lambda key: rounds[key]):
            rows.setdefault(namespace_of(key), []).append(key)
        in_order = chain.from_iterable(zip_longest(*rows.values()))
        chosen_keys = set(islice((key for key in in_order if key is not None), limit))
        self._chosen = rounds | dict.fromkeys(chosen_keys, self._rounds)
        return chosen_keys.union(key for key in eligible if key in decided)


def untold(written: Mapping[str, tuple[object, object]], jobs: Sequence[Job], report: CycleReport) -> set[str]:
    """The jobs that have other tasks, or another rejection, than when nothing was left to tell."""
    keys = [job.key for job in jobs]  # of every job in every cycle: no calls for each of them
    written_states = map(written.get, keys, repeat((None, None)))
    now = map(report.rejections.get, keys)
    return {
        job.key
        for job, (tasks, before), rejection in zip(jobs, written_states, now, strict=True)
        if tasks is not job.tasks or before is not rejection
    }
