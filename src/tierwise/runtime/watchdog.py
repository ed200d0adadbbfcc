"""A cycle that does not end: it is noticed by the clock, named, and remembered, so that the next process does better.

The core counts steps and knows no clock; a plugin of another package, or a defect, may still keep it for ever, and a
thread of Python cannot be stopped. A `Watchdog` looks from another thread. When a stage has computed for too long, it
reads from the stack who is being asked about what, and the process ends; a standby or a restart goes on.

Who was asked just when the clock ran out may have been asked for a moment only, after others had used up the time. So
the stack is looked at all along, and blamed is who was seen in more than half of the looks: a plugin of another package
by its name, otherwise the namespace of what was being looked at. Where nobody was, nobody is blamed.

What was caught is remembered beside the lease (`Memory.text`, an annotation), where every replica finds it: a list, in
which each catch counts for two hours. Who has two of them is left out until an hour after the last: the plugin, or of
the namespace the objects that were seen. After that it is tried again in the same process, and one more catch is
enough. Plugins of tierwise are never left out: pods would be bound against their rules.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from tierwise.api import codec
from tierwise.api.core import ObjectMeta, Record
from tierwise.framework.boundary import Asked, CyclePlugins
from tierwise.framework.cycle import Cycle
from tierwise.model.job import Job
from tierwise.plugins import PLUGINS
from tierwise.port import Key
from tierwise.scheduler.cycle import run_action

__all__ = ["EXIT", "LEFT_OUT", "REMEMBERED", "Caught", "Memory", "Watchdog", "blamed", "overdue"]

EXIT: Final = 75
"""The status of a process that ends because a cycle did not: try again."""

LEFT_OUT: Final = 3600.0
"""Seconds for which a plugin or an object is left out."""

REMEMBERED: Final = 2 * LEFT_OUT
"""Seconds for which a catch counts."""

_EACH = 4
_MOST = 16
"""Catches of one culprit that are remembered, and of all."""

_LOOKS: Final = 20
"""Looks in the time that a stage may take."""

_LEAST: Final = 3
"""Looks without which nobody is blamed: a machine that slept has seen nothing."""


class Caught(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who was being asked about what when a stage did not end."""

    stage: str
    action: str = ""
    plugin: str = ""
    method: str = ""
    about: str = ""  # the job or object
    key: Key | None = None  # the object that would be set aside
    looks: int = 0  # at the stage that did not end
    share: float = 0.0  # of them that saw the same plugin, or the same namespace
    steps: int = 0  # of search that the namespace had used in the cycle
    at: float = 0.0  # seconds since the epoch

    @property
    def foreign(self) -> bool:
        """Whether a plugin of another package was being asked."""
        return bool(self.plugin) and self.plugin not in PLUGINS.built_in

    @property
    def who(self) -> tuple[str, str]:
        """Whose time it was."""
        if self.foreign:
            return "plugin", self.plugin
        if self.key is None:
            return "", ""
        if self.key.namespace:
            return ("namespace", self.key.namespace)
        return ("object", str(self.key))

    @property
    def culprit(self) -> tuple[str, str]:
        """Who is blamed; two empty texts where nobody is."""
        if self.looks >= _LEAST and self.share > 0.5:
            return self.who
        return ("", "")

    @property
    def said(self) -> str:
        """Where it happened, in words."""
        who = f"plugin {self.plugin} in {self.method}" if self.plugin else ""
        action = f"action {self.action}" if self.action else ""
        about = f"about {self.about}" if self.about else ""
        return ", ".join(part for part in (who, action, about) if part) or "no plugin, no action, no object is known"

    @property
    def whose(self) -> str:
        """Whose time it was, in words."""
        kind, name = self.culprit
        if not kind:
            return "no plugin, action or object took most of the time"
        used = f", and used {self.steps} steps of search" if self.steps else ""
        return f"{kind} {name} had {round(100 * self.share)} % of the time{used}"


class Memory(msgspec.Struct, frozen=True):
    """Stages that were caught in the last hours, latest last."""

    catches: tuple[Caught, ...] = ()

    @classmethod
    def of(cls, text: str) -> Memory:
        """Memory in a text; empty if the text is missing or foreign."""
        try:
            if text:
                return cls(msgspec.json.decode(text, type=tuple[Caught, ...]))
            return cls()
        except (msgspec.MsgspecError, UnicodeError):
            return cls()

    @property
    def text(self) -> str:
        """Memory as a text that `of` reads."""
        return msgspec.json.encode(self.catches).decode()

    def after(self, caught: Caught) -> Memory:
        """This memory with one catch more; what exceeds the bounds, of all and of each culprit, is forgotten."""
        remembered = [catch for catch in self._counted(caught.at) if catch.culprit[0]]
        same_culprit = [catch for catch in remembered if catch.culprit == caught.culprit][1 - _EACH :]
        remembered = [catch for catch in remembered if catch.culprit != caught.culprit or catch in same_culprit]
        return Memory((*remembered[1 - _MOST :], caught))

    def left_out(self, now: float) -> Iterator[tuple[Caught, int, float]]:
        """Who is to be left out, how often its culprit was caught, and for how many seconds from now on."""
        counted = self._counted(now)
        seen = set[tuple[str, str]]()
        for catch in reversed(counted):
            same_culprit = [earlier for earlier in counted if earlier.culprit == catch.culprit]
            what = catch.culprit if catch.foreign else ("object", str(catch.key))
            seconds = min(max(earlier.at for earlier in same_culprit) + LEFT_OUT - now, LEFT_OUT)
            if catch.culprit[0] and len(same_culprit) > 1 and seconds > 0 and what not in seen:
                seen.add(what)
                yield catch, len(same_culprit), seconds

    def _counted(self, now: float) -> list[Caught]:
        return [catch for catch in self.catches if now - REMEMBERED < catch.at]


def overdue(computing: tuple[str, float] | None, now: float, limit: float) -> float:
    """For how long a stage computes, where that is longer than it may; 0 where all is well."""
    took = now - computing[1] if computing is not None else 0.0
    return took if took > limit else 0.0


class Watchdog:
    """Looks at one thread, which says what it computes and since when."""

    def __init__(
        self,
        computing: Callable[[], tuple[str, float] | None],
        *,
        ticks: Callable[[], float],
        limit: float,
        caught: Callable[[Caught, float], None],
    ) -> None:
        """`computing` gives the stage and when it began; `caught` is told once, and for how long that was."""
        self._computing = computing
        self._ticks = ticks
        self._limit = limit
        self._caught = caught
        self._thread = threading.current_thread().ident or 0
        self._ended = threading.Event()

    def __enter__(self) -> Watchdog:
        threading.Thread(target=self._run, name="watchdog", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()

    def _run(self) -> None:
        stage = None
        seen = list[Caught]()
        while not self._ended.wait(self._limit / _LOOKS):
            current = self._computing()
            if current != stage:
                stage = current
                seen = []
            if current is None:
                continue
            seen.append(_seen(current[0], sys._current_frames().get(self._thread)))
            took = overdue(current, self._ticks(), self._limit)
            if took:
                self._caught(blamed(seen), took)
                return


def blamed(seen: Sequence[Caught]) -> Caught:
    """Latest look at the culprit that was seen most often, with the object that was seen most often."""
    who, times = Counter(look.who for look in seen).most_common(1)[0]
    if not who[0] or 2 * times <= len(seen):
        return replace(seen[-1], looks=len(seen))
    looks_of_culprit = [looks_at for looks_at in seen if looks_at.who == who]
    key, _ = Counter(look.key for look in looks_of_culprit).most_common(1)[0]
    latest = next(look for look in reversed(looks_of_culprit) if look.key == key)
    return replace(latest, looks=len(seen), share=times / len(seen), steps=max(look.steps for look in looks_of_culprit))


def _seen(stage: str, innermost: FrameType | None) -> Caught:
    """Plugin, action, and job or object that a stack of frames shows."""
    caught = Caught(stage)
    for frame in _outwards(innermost):
        local = frame.f_locals
        if not caught.plugin:
            caught = replace(caught, **_asked(local))
        if not caught.about:
            about, key = _about(local)
            caught = replace(caught, about=about, key=key)
        if not caught.steps and caught.key is not None:
            caught = replace(caught, steps=_steps(local, caught.key.namespace))
        if not caught.action and frame.f_code is run_action.__code__:
            caught = replace(caught, action=local["name"])
    return caught


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _asked(local: dict[str, Any]) -> dict[str, str]:
    """The plugin that a frame with these variables was calling, and its method."""
    for value in list(local.values()):
        if isinstance(value, Asked):
            return {"plugin": value.name, "method": value.method}
    if isinstance(local.get("self"), CyclePlugins) and "factories" in local and "choice" in local:
        return {"plugin": str(local["choice"].name), "method": "__init__"}
    return {}


def _steps(local: dict[str, Any], namespace: str) -> int:
    """The steps of search that a namespace has used in a cycle, by the variables of a function; 0 where none has it."""
    cycle = local.get("cycle", local.get("self"))
    if isinstance(cycle, Cycle):
        return cycle.steps.used(namespace)
    return 0


def _about(local: dict[str, Any]) -> tuple[str, Key | None]:
    """The job or the object among the variables of a function."""
    for value in list(local.values()):
        if isinstance(value, Job):
            kind = ("", "Pod") if value.lone else ("scheduling.volcano.sh", "PodGroup")
            return f"job {value.key}", value.declared_by or Key.at(*kind, value.key)
        if isinstance(value, Record) and isinstance(getattr(value, "metadata", None), ObjectMeta):
            kinds = codec.KINDS_OF.get(type(value))
            if kinds:
                meta: ObjectMeta = value.metadata  # type: ignore[attr-defined]
                return codec.label(value), Key(*kinds[0], meta.namespace, meta.name)  # type: ignore[arg-type]
    return "", None
