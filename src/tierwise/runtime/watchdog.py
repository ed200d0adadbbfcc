"""A cycle that does not end: it is noticed by the clock, named, and remembered, so that the next process does better.

The core counts steps and knows no clock; a plugin of another package, or a defect, may still keep it for ever, and a
thread of Python cannot be stopped. A `Watchdog` looks from another thread. When a stage has computed for too long, it
reads from the stack who is being asked about what, and the process ends; a standby or a restart goes on.

What was caught is remembered beside the lease (`Caught.text`, an annotation), where every replica finds it. A cycle
that ends well makes up for one catch. Who is caught twice in a row is left out for an hour, counted from the catch: a
plugin of another package by its name, otherwise the object that was being looked at. Then it is tried again in the same
process; what was caught is forgotten once a cycle with it has ended well (`Recollection`). Plugins of tierwise are
never left out: pods would be bound against their rules.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from tierwise.api import codec
from tierwise.api.core import ObjectMeta, Record
from tierwise.framework.boundary import Asked, CyclePlugins
from tierwise.model.job import Job
from tierwise.plugins import PLUGINS
from tierwise.port import Key

__all__ = ["EXIT", "LEFT_OUT", "Caught", "Recollection", "Watchdog", "overdue", "recalled"]

EXIT: Final = 75
"""The status of a process that ends because a cycle did not: try again."""

LEFT_OUT: Final = 3600.0
"""Seconds for which a plugin or an object is left out."""

_LOOKS: Final = 20
"""Looks in the time that a stage may take."""


class Caught(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who was being asked about what when a stage did not end."""

    stage: str
    action: str = ""
    plugin: str = ""
    method: str = ""
    about: str = ""  # the job or object
    key: Key | None = None  # the object that would be set aside
    times: int = 1  # in a row
    at: float = 0.0  # seconds since the epoch

    @property
    def foreign(self) -> bool:
        """Whether a plugin of another package was being asked."""
        return bool(self.plugin) and self.plugin not in PLUGINS.built_in

    @property
    def culprit(self) -> tuple[str, str]:
        """Who would be left out."""
        return ("plugin", self.plugin) if self.foreign else ("object", str(self.key) if self.key is not None else "")

    @property
    def said(self) -> str:
        """Where it happened, in words."""
        asked = f"plugin {self.plugin} in {self.method}" if self.plugin else ""
        action = f"action {self.action}" if self.action else ""
        about = f"about {self.about}" if self.about else ""
        return ", ".join(part for part in (asked, action, about) if part) or "no plugin, no action, no object is known"

    @property
    def text(self) -> str:
        """What is remembered."""
        return msgspec.json.encode(self).decode()

    def after(self, before: Caught | None) -> Caught:
        """The same, counted with the catch before it."""
        again = before is not None and before.culprit == self.culprit != ("object", "")
        return replace(self, times=before.times + 1) if before is not None and again else self

    def left_out(self, now: float) -> float:
        """For how many seconds from now on its culprit is to be left out; 0 for not at all."""
        again = self.times > 1 and bool(self.culprit[1])
        return max(0.0, min(self.at + LEFT_OUT - now, LEFT_OUT)) if again else 0.0


def recalled(text: str) -> Caught | None:
    """What was remembered; None where nothing was, or another wrote it."""
    try:
        return msgspec.json.decode(text, type=Caught) if text else None
    except (msgspec.MsgspecError, UnicodeError):
        return None


class Recollection:
    """What was caught before, for as long as it counts."""

    def __init__(self) -> None:
        self.before: Caught | None = None
        self._tried = False  # a cycle has begun since no one is left out

    def recall(self, text: str) -> Caught | None:
        """Begin with what another process has remembered."""
        self.before, self._tried = recalled(text), False
        return self.before

    def forgets(self, now: float) -> bool:
        """A cycle has ended well: whether what was caught before it is forgotten.

        Who was left out was not in that cycle, and not in the one that its time has passed in.
        """
        if self.before is None or self.before.left_out(now):
            return False
        if self.before.times > 1 and self.before.culprit[1] and not self._tried:
            self._tried = True
            return False
        self.before = None
        return True


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
        self._computing, self._ticks, self._limit, self._caught = computing, ticks, limit, caught
        self._thread = threading.current_thread().ident or 0
        self._ended = threading.Event()

    def __enter__(self) -> Watchdog:
        threading.Thread(target=self._run, name="watchdog", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()

    def _run(self) -> None:
        while not self._ended.wait(self._limit / _LOOKS):
            found = self._computing()
            took = overdue(found, self._ticks(), self._limit)
            if found is not None and took:
                self._caught(_seen(found[0], sys._current_frames().get(self._thread)), took)
                return


def _seen(stage: str, innermost: FrameType | None) -> Caught:
    """What a stack shows: the plugin that was asked last, the action, and the job or object in question."""
    caught = Caught(stage)
    for frame in _outwards(innermost):
        local = frame.f_locals
        if not caught.plugin:
            caught = replace(caught, **_asked(local))
        if not caught.about:
            about, key = _about(local)
            caught = replace(caught, about=about, key=key)
        if not caught.action and frame.f_code.co_name == "run" and isinstance(local.get("action"), str):
            caught = replace(caught, action=local["action"])
    return caught


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _asked(local: dict[str, Any]) -> dict[str, str]:
    """The plugin that a frame with these variables was calling, and its method."""
    asked = local.get("asked")
    if isinstance(asked, Asked):
        return {"plugin": asked.name, "method": asked.method}
    if isinstance(local.get("self"), CyclePlugins) and "factories" in local and "choice" in local:
        return {"plugin": str(local["choice"].name), "method": "__init__"}
    return {}


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
