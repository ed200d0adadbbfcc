"""Why something is not placed: one cause (`Reason`), the causes of a cycle by number, and the tree for one subject.

A filter that says no must name a reason, so a no without a reason cannot be written down.
Tests and alerts match on `code`; `text` is for people; rendering lives in `tierwise.explain`.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator

import msgspec

__all__ = ["Named", "Reason", "ReasonBook", "Rejection", "Tried", "Verdict", "namespace_of", "other_job", "told"]


class Verdict(enum.Enum):
    """What a job that waits may hope for."""

    NEVER = "never"  # it would not fit if every other pod of the present cluster were gone
    NOT_NOW = "not-now"  # it would, and what it needs is in use
    NOT_ALLOWED = "not-allowed"  # it would, and a queue, a quota or a gate holds it back

    @property
    def words(self) -> str:
        """As people read it."""
        return self.value.replace("-", " ")

    @property
    def camel(self) -> str:
        """As the reason of a condition spells it."""
        return self.words.title().replace(" ", "")


def namespace_of(key: str) -> str:
    """The namespace in the key of a job or a task, whatever says before it what kind of job it is."""
    return key.rpartition(" ")[2].partition("/")[0]


class Named(msgspec.Struct, frozen=True):
    """Words of a text that name objects of a namespace, and what is said in their place to those of any other."""

    namespace: str
    words: str
    instead: str


def other_job(key: str) -> Named:
    """The key of a job in a text about another one."""
    return Named(namespace_of(key), key, "a job of another namespace")


def told(text: str, names: Iterable[Named], reader: str | None) -> str:
    """A text as it is told in a namespace: it names no objects of others. None: to operators, who see all of it."""
    for name in names:
        if reader is not None and name.namespace != reader:
            text = text.replace(name.words, name.instead)
    return text


class Reason(msgspec.Struct, frozen=True):
    """One cause for a no."""

    code: str  # stable, CamelCase: "InsufficientResource"
    plugin: str
    text: str  # for people, without per-node numbers
    names: tuple[Named, ...] = ()  # what of the text is not for every namespace
    cut: bool = False  # a search was cut short: the no is not a proof

    def told(self, reader: str | None) -> str:
        """The text as it is told in a namespace; None for operators."""
        return told(self.text, self.names, reader)


class ReasonBook:
    """Numbers the reasons of a cycle, so that an array can hold one per node; 0 is "no objection"."""

    def __init__(self) -> None:
        self._reasons: list[Reason] = []
        self._numbers: dict[Reason, int] = {}

    def number(self, reason: Reason) -> int:
        found = self._numbers.get(reason)
        if found is None:
            self._reasons.append(reason)
            found = self._numbers[reason] = len(self._reasons)
        return found

    def __getitem__(self, number: int) -> Reason:
        return self._reasons[number - 1]

    def __len__(self) -> int:
        return len(self._reasons)

    @property
    def any_cut(self) -> bool:
        """Whether a search that gave one of them was cut short."""
        return any(reason.cut for reason in self._reasons)


class Tried(msgspec.Struct, frozen=True):
    """The domains of one tier that a search looked at, and how far the best of them came.

    `fits` counts tasks that the best domain takes together; of alike sub-groups, only those that it takes whole.
    """

    tier: int
    domains: int
    best: str
    fits: int
    asked: int
    nodes: int = 0  # nodes below the best domain
    causes: tuple[tuple[Reason, int], ...] = ()  # per reason, on how many of its nodes
    layer: str = ""  # how the owner of a gathered job calls the tier
    whole: int = 0  # tasks of a sub-group, where sub-groups are counted and not tasks
    here: bool = False  # running tasks of the gang confine the search to this domain
    outside: int = 0  # domains of this tier that are not searched for that reason
    short: str = ""  # what else the best domain lacks, where every task fits


class Rejection(msgspec.Struct, frozen=True):
    """Why one subject is not placed now; children say the same of its parts."""

    stage: str  # "enqueue", "gate", "quota", "space", "fit", "place", "evict"
    subject: str
    reason: Reason
    tried: tuple[Tried, ...] = ()
    children: tuple[Rejection, ...] = msgspec.field(default=())
    bounded: bool = False  # the search stopped at its bound: the no is not a proof
    verdict: Verdict = Verdict.NOT_NOW

    def names(self) -> Iterator[Named]:
        """What of the texts in the tree is not for every namespace."""
        yield from self.reason.names
        for child in self.children:
            yield from child.names()

    def codes(self) -> Iterator[str]:
        """The code of every cause in the tree, outermost first: what tests and alerts match on."""
        yield self.reason.code
        for child in self.children:
            yield from child.codes()
