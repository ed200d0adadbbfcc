"""The account of search steps of one cycle: every search charges it, and each namespace has a share of it.

A step is the work of about 20 microseconds on an ordinary core; it is counted, never timed, so the same input always
gives the same answers. `Cycle.attempt` opens the account for one job with `searching`. Whoever does work for that job
calls `charge`. When the job has used up what it may use, `charge` raises `OutOfStepsError`; `Cycle.attempt` then takes
back what was not decided, and the job waits with one of two reasons:

- *not looked at yet* (`NOT_LOOKED_AT`): others had used the steps. The job comes first in the next cycle.
- *search cut short* (`CUT_SHORT`): it had a whole budget of its own. The refusal stands until room grows
  (`framework.refusals`).

How the steps of a cycle are dealt, as parts of the setting:

| part | whose                                                                                   |
|------|-----------------------------------------------------------------------------------------|
| 3/8  | one equal share for each namespace with waiting jobs, which nobody else can use         |
| 1/4  | the first of the jobs that were not looked at before, of the namespace that has waited  |
|      | longest for this part                                                                   |
| 1/8  | explanations and verdicts after all actions                                             |
| 1/4  | whoever is served first                                                                 |

One job may use up to 1/4 of the setting in one action.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from tierwise.model.job import Job, Reason, Rejection, namespace_of
from tierwise.model.snapshot import Snapshot
from tierwise.model.turns import Turns

__all__ = ["CUT_SHORT", "NOT_LOOKED_AT", "OutOfStepsError", "StepAccount", "waits_for_steps"]

NOT_LOOKED_AT: Final = "NotLookedAtYet"
CUT_SHORT: Final = "SearchCutShort"

_WHOLE, _SHARES, _LATE, _WORDS = (1, 4), (3, 8), (1, 4), (1, 8)
"""What one job may use, and the parts that are kept for shares, for late jobs and for verdicts."""

_DEAR: Final = 64
"""A refusal that was cut by another bound is kept if it took more than one in so many steps of the setting."""

_NONE: Final = 2**62


class OutOfStepsError(BaseException):
    """The job that is served may use no more steps. No plugin can catch it as a failure of its own."""


def waits_for_steps(reason: Reason) -> bool:
    """Whether a job waits because its search ended with the account."""
    return reason.code in (NOT_LOOKED_AT, CUT_SHORT)


class StepAccount:
    """The steps of one cycle. Without a setting nothing is limited."""

    def __init__(self, setting: int | None = None, snapshot: Snapshot | None = None) -> None:
        """`setting` is the most steps that a cycle takes; they are dealt among the jobs of the snapshot that wait."""
        self.setting = setting if setting is not None else _NONE
        self.taken = 0
        self.action = ""  # that is running, by which refusals are kept
        self.spent: dict[str, int] = {}  # by namespace
        self._snapshot = snapshot
        self._before = snapshot.turns if snapshot is not None else Turns()
        self._share = 0  # of each namespace, once it had to be worked out
        self._reserved: dict[str, int] | None = None  # what is left of the share of each namespace
        self._reserved_in_all = 0
        self._first_late: Job | None = None  # the late job that a part is kept for
        self._turn = ""  # its namespace
        self._stop = _NONE  # `taken` must not pass it
        self._job: Job | None = None
        self._begun = 0  # steps that had been taken before that job
        self._words: dict[str, int] = {}  # what is left of the part for verdicts, by namespace
        self._left_out = False  # a job was not looked at
        self._whole = False  # the job that is served has a whole budget
        self._done: frozenset[str] = frozenset()  # jobs that were late since room grew, and were looked at

    # -- what searches call

    def charge(self, steps: int) -> None:
        """Count steps for the job that is served, before they are taken. Raises OutOfStepsError if it may not."""
        self.taken += steps
        if self.taken > self._stop:
            self.taken = self._stop
            raise OutOfStepsError

    @property
    def left(self) -> int:
        """Steps that the job which is served has left."""
        return max(self._stop - self.taken, 0)

    def used(self, namespace: str) -> int:
        """Steps that were taken for a namespace so far, for whoever looks on."""
        job = self._job
        begun = self._begun
        running_steps = self.taken - begun if job is not None and namespace_of(job.key) == namespace else 0
        return self.spent.get(namespace, 0) + running_steps

    # -- one job

    @contextmanager
    def searching(self, job: Job) -> Iterator[None]:
        """Serve a job inside: what is charged is its own. Where it may use nothing, what costs nothing is still done.

        Inside the turn of the same job this changes nothing.
        """
        if self._job is not None:
            yield
            return
        begun = self._begun = self.taken
        allowance = self._allowance(job)
        self._stop = begun + max(allowance, 0)
        self._job = job
        try:
            yield
        finally:
            self._stop = _NONE
            self._job = None
            self._spend(namespace_of(job.key), self.taken - begun)

    @contextmanager
    def limited(self, steps: int) -> Iterator[None]:
        """Do inside what may take so many steps at most, and no more than the job that is served has left."""
        stop = self._stop
        self._stop = min(stop, self.taken + steps)
        try:
            yield
        finally:
            self._stop = stop

    @contextmanager
    def uncounted(self) -> Iterator[None]:
        """Look at things inside for people: it changes nothing of what the job may use."""
        stop = self._stop
        taken_before = self.taken
        self._stop = _NONE
        try:
            yield
        finally:
            self._stop = stop
            self.taken = taken_before

    def explain(self, keys: Iterable[str]) -> None:
        """All actions have run: deal what is left among the namespaces of these jobs, for their verdicts."""
        namespaces = dict.fromkeys(map(namespace_of, keys), 0)
        self._words = dict.fromkeys(namespaces, max(self.setting - self.taken, 0) // max(len(namespaces), 1))

    @contextmanager
    def explaining(self, job: Job) -> Iterator[None]:
        """Find out about a job inside what it is to be told. Raises OutOfStepsError where its namespace has no more."""
        begun = self.taken
        name = namespace_of(job.key)
        allowance = self._words.get(name, 0)
        try:
            with self.limited(min(allowance, self._part(_WHOLE))):
                yield
        finally:
            self._words[name] = allowance - (self.taken - begun)

    def _part(self, part: tuple[int, int]) -> int:
        return self.setting * part[0] // part[1]

    def _allowance(self, job: Job) -> int:
        """How many steps a job may use now."""
        whole_budget = max(self._part(_WHOLE), 1)
        if not self._before.late and self.taken <= self._part(_WHOLE):
            self._whole = True  # all parts that are kept for others are still there
            return whole_budget
        self._deal()
        assert self._reserved is not None
        namespace = namespace_of(job.key)
        reserved = self._reserved_in_all - self._reserved.get(namespace, 0)
        if self._first_late is not None and self._first_late.key != job.key:
            reserved += self._part(_LATE)
        free = self.setting - self._part(_WORDS) - self.taken - reserved
        self._whole = free >= whole_budget
        return min(whole_budget, free)

    def _deal(self) -> None:
        """Work out the shares of namespaces, and which late job has its part kept."""
        if self._reserved is not None:
            return
        jobs = self._snapshot.waiting if self._snapshot is not None else ()
        namespaces = dict.fromkeys(namespace_of(job.key) for job in jobs)
        self._share = self._part(_SHARES) // max(len(namespaces), 1)
        self._reserved = {name: max(self._share - self.spent.get(name, 0), 0) for name in namespaces}
        self._reserved_in_all = sum(self._reserved.values())
        late = [job for job in jobs if job.key in self._before.late]
        highest = max((job.priority for job in late), default=0)
        late = [job for job in late if job.priority == highest]
        if late:
            waits: dict[str, int] = {}  # since when each namespace waits for its turn
            for job in late:
                name = namespace_of(job.key)
                since = max(self._before.late[job.key], self._before.turn.get(name, -1))
                waits[name] = min(since, waits.get(name, since))
            self._turn = min(waits, key=lambda name: (waits[name], name))
            own_late = (job for job in late if namespace_of(job.key) == self._turn)
            self._first_late = min(own_late, key=lambda job: (self._before.late[job.key], job.created, job.order))

    def _spend(self, namespace: str, steps: int) -> None:
        self.spent[namespace] = spent = self.spent.get(namespace, 0) + steps
        if self._reserved is not None:
            unspent = max(self._share - spent, 0)
            self._reserved_in_all += unspent - self._reserved.get(namespace, 0)
            self._reserved[namespace] = unspent

    # -- what became of it

    def out_of_steps(self, job: Job) -> Reason:
        """Why a job waits whose search has just ended with the account."""
        if self._first_late is not None and self._first_late.key == job.key:
            self._first_late = None
        if self._whole:
            text = f"no place was found in {self._part(_WHOLE)} steps of search; it is looked for again when room grows"
            return Reason(CUT_SHORT, "steps", text)
        self._left_out = True
        text = "not looked at yet: the steps of this cycle went to other jobs, and it comes first in the next one"
        return Reason(NOT_LOOKED_AT, "steps", text)

    def since(self, job: Job) -> float:
        """The first cycle that did not look at a job; infinite for all others. Those go first whose number is least."""
        if self._before.late:
            return self._before.late.get(job.key, float("inf"))
        return float("inf")

    def is_dear(self, begun: int) -> bool:
        """Whether what began at so many steps was dear enough to keep its refusal."""
        return self.taken - begun > self.setting // _DEAR

    def begin(self) -> None:
        """Room has not grown since the last cycle: remember who had a turn while others are late."""
        self._done = self._before.done

    def turns(self, rejections: Mapping[str, Rejection]) -> Turns:
        """Whose turn the next cycle should know of, given why jobs wait after this one."""
        before = self._before
        left_out = set[str]()
        if self._left_out:
            left_out = {key for key, rejection in rejections.items() if NOT_LOOKED_AT in rejection.codes()}
        done = self._done | (before.late.keys() - left_out)
        late = {}
        for key in rejections:
            if key in left_out and key not in done:
                late[key] = before.late.get(key, before.cycles)
        last_turns = {**before.turn, self._turn: before.cycles}
        turn = {name: last_turns[name] for name in sorted(set(map(namespace_of, late))) if name in last_turns}
        done = frozenset(done) if late else frozenset()
        return Turns(before.cycles + 1, late, idle=before.idle, turn=turn, done=done)
