"""The guard that keeps any object from stopping the loop: an object that makes a stage raise is found and set aside.

One mechanism for every stage (reading, controllers, the cycle, effects, statuses), used by the live loop and by the
embedded rounds. A stage is a function of `Objects`. If it raises, it is run again with fewer and fewer objects until
the first one that makes it raise is found. That object is left out, or, if it is a pod on a node, is read as a pod that
only uses resources; then the stage runs again. Objects that were set aside are retried after a delay that doubles each
time.

Nothing else in the core catches unexpected exceptions: a rule that every reader of a field had to follow would be
forgotten by one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from tierwise.api.core import Container, ObjectMeta, Pod, PodSpec
from tierwise.model.snapshot import Fault
from tierwise.port import Key, Objects, RecordEvent

__all__ = ["Crash", "Guard"]

T = TypeVar("T")

_CULPRITS: Final = 32
"""Objects that one stage may set aside in one go; what is left is found in the next iteration."""

_FIRST: Final = 30.0
_LONGEST: Final = 1800.0
"""Seconds for which an object is set aside the first time, and at most."""

_LAST: Final = ("PodGroup", "Job", "Command", "ElasticQuota", "AppGroup", "NetworkTopology", "Pod")
"""Kinds that many people may create, in the order in which they are suspected: the last first."""

_SHOWN: Final = 200


class Crash(msgspec.Struct, frozen=True):
    """A stage that raised: because of which object, or None where no single one is to blame."""

    stage: str
    key: Key | None
    error: str
    traceback: str
    times: int = 1  # how often that has happened by now

    @property
    def fault(self) -> Fault:
        """Fault to report for this crash."""
        subject = str(self.key) if self.key is not None else f"stage {self.stage}"
        return Fault(subject, "SetAside", self.text)

    @property
    def text(self) -> str:
        what = "set aside" if self.key is not None else "left out"
        return f"{what}, because {self.stage} failed: {self.error}"

    @property
    def event(self) -> RecordEvent | None:
        """Event for the owner of the skipped object; None if the crash is about no object."""
        if self.key is None:
            return None
        return RecordEvent(self.key, "Warning", "SetAside", self.text)


class _Aside(msgspec.Struct, frozen=True):
    until: float
    times: int
    bare: bool  # read as what takes up room on its node, and nothing else


class Guard:
    """Objects that are skipped at the moment; times are of a monotonic clock."""

    def __init__(self, ticks: Callable[[], float] | None = None, tell: Callable[[Crash], None] | None = None) -> None:
        """`tell` hears of every crash. Without a clock nothing that was set aside is tried again, and what is no
        object's fault is raised: a later cycle would not help there.
        """
        self._ticks = ticks
        self._tell = tell
        self._aside: dict[Key, _Aside] = {}
        self._failed: dict[tuple[str, str], int] = {}  # how often a stage has failed in one way, without a culprit
        self.crashes: list[Crash] = []  # of this guard's time, the latest of each object

    def over(self, objects: Objects) -> Objects:
        """The objects without those that are set aside; for all that there are, and not for a part of them."""
        if not self._aside:
            return objects
        puts = {}
        deletes = []
        for key, aside in list(self._aside.items()):
            record = objects.record(key)
            if record is None:
                del self._aside[key]
            elif self._ticks is None or aside.until > self._ticks():
                if aside.bare and isinstance(record, Pod):
                    puts[key] = _bare(record), objects.raw(key)
                else:
                    deletes.append(key)
        if puts or deletes:
            return objects.updated(puts, deletes, objects.version)
        return objects

    def set_aside(self, stage: str, key: Key, why: str, seconds: float) -> None:
        """Leave an object out that was found to be the culprit elsewhere."""
        now = self._ticks() if self._ticks is not None else 0.0
        self._aside[key] = _Aside(now + seconds, 1, bare=True)
        crash = Crash(stage, key, why, "")
        self.crashes.append(crash)
        if self._tell is not None:
            self._tell(crash)

    def run(
        self,
        stage: str,
        objects: Objects,
        act: Callable[[Objects], T],
        rehearse: Callable[[Objects], object] | None = None,
    ) -> T | None:
        """Run a stage on these objects and return its result.

        Where it raises, find the object to blame, note it, and try again without it, _CULPRITS times at most; None
        where that did not help. A Guard without a clock raises the error instead where no object is to blame. rehearse
        runs the stage without effects, to find the culprit; without it act must have none.
        """
        trial = act if rehearse is None else rehearse
        for _ in range(_CULPRITS):
            shown = self.over(objects)
            try:
                return act(shown)
            except Exception as error:  # noqa: BLE001 - the one place where anything that an object causes ends
                caught = error
            culprit = _culprit(shown, trial)
            self._note(stage, culprit, caught, objects)
            if culprit is None:
                if self._ticks is None:
                    raise caught
                break
        return None

    def call(self, stage: str, act: Callable[[], T]) -> T | None:
        """Result of a stage that is about no objects; None if it fails."""
        try:
            return act()
        except Exception as error:  # noqa: BLE001 - as above
            self._note(stage, None, error, Objects())
            return None

    def _note(self, stage: str, key: Key | None, error: Exception, objects: Objects) -> None:
        message = " ".join(str(error).split())[:_SHOWN]
        text = f"{type(error).__name__}: {message}" if message else type(error).__name__
        if key is None:
            times = self._failed[stage, text] = self._failed.get((stage, text), 0) + 1
        else:
            before = self._aside.get(key)
            times = before.times + 1 if before is not None else 1
            record = objects.record(key)
            now = self._ticks() if self._ticks is not None else 0.0
            pause = min(_FIRST * 2.0 ** min(times - 1, 10), _LONGEST)
            # A pod that runs on a node takes up room there whatever else is wrong with it; if even that cannot be
            # read, it is left out.
            bare = isinstance(record, Pod) and bool(record.spec.node_name) and not (before is not None and before.bare)
            self._aside[key] = _Aside(now + pause, times, bare)
        from traceback import format_exception  # rarely needed

        crash = Crash(stage, key, text, "".join(format_exception(error, limit=-12)), times)
        self.crashes = [
            crash_before for crash_before in self.crashes if (crash_before.stage, crash_before.key) != (stage, key)
        ] + [crash]
        if self._tell is not None:
            self._tell(crash)


def _culprit(objects: Objects, trial: Callable[[Objects], object]) -> Key | None:
    """The first object, suspects last, with which the trial fails; None where it fails without any, or not at all."""
    keys = sorted(objects, key=lambda key: _LAST.index(key.kind) + 1 if key.kind in _LAST else 0)  # stable
    if not _fails(objects, trial) or _fails(_first(objects, keys, 0), trial):
        return None
    sound = 0
    failing = len(keys)
    while failing - sound > 1:
        middle = (sound + failing) // 2
        if _fails(_first(objects, keys, middle), trial):
            failing = middle
        else:
            sound = middle
    return keys[failing - 1]


def _first(objects: Objects, keys: list[Key], number: int) -> Objects:
    return objects.updated({}, keys[number:], objects.version)


def _fails(objects: Objects, trial: Callable[[Objects], object]) -> bool:
    try:
        trial(objects)
    except Exception:  # noqa: BLE001 - as above
        return True
    return False


def _bare(pod: Pod) -> Pod:
    """Pod reduced to the resources that it holds; no scheduler serves it."""
    meta = ObjectMeta(
        name=pod.metadata.name, namespace=pod.metadata.namespace, deletion_timestamp=pod.metadata.deletion_timestamp
    )
    containers = tuple(Container(name=c.name, resources=c.resources) for c in pod.spec.containers)
    spec = PodSpec(node_name=pod.spec.node_name, containers=containers, scheduler_name="set-aside")
    return Pod(metadata=meta, spec=spec, status=replace(type(pod.status)(), phase=pod.status.phase))
