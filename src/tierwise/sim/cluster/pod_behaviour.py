"""How a simulated pod behaves: when it starts, how long it runs, how it ends. Annotations on the pod say so.

A pod without such annotations starts after a second and runs on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import msgspec

from tierwise.api import codec
from tierwise.api.codec import label
from tierwise.api.core import Pod, read_number
from tierwise.api.duration import seconds
from tierwise.api.errors import InputError
from tierwise.api.volcano import Job
from tierwise.dialects import workloads
from tierwise.port import Objects

__all__ = ["RUN_FOR", "START_AFTER", "PodBehaviour", "PodSpeed", "behaviour", "check_habits"]

START_AFTER: Final = "tierwise.io/start-after"
RUN_FOR: Final = "tierwise.io/run-for"
EXIT_CODE: Final = "tierwise.io/exit-code"
STOP_AFTER: Final = "tierwise.io/stop-after"
_MOMENT: Final = 1


class PodSpeed(msgspec.Struct, frozen=True):
    """How a cluster plays its pods: so many times as fast as they ask for, and for how long those that do not say."""

    speed: float = 1.0
    run: int | None = None  # seconds, for pods that are meant to end; None: until they are ended


class PodBehaviour(msgspec.Struct, frozen=True):
    """Whole seconds, as the API counts them: from the node's word to the start, from there to the end, and to stop."""

    start: int = _MOMENT
    run: int | None = None  # None: until it is ended
    exit_code: int = 0
    stop: int = _MOMENT

    def timed(self, timing: PodSpeed, *, ends: bool) -> PodBehaviour:
        """This behaviour at the speed of a cluster, in whole seconds; a run takes one at least, to be seen."""
        if timing.speed == 1 and (timing.run is None or self.run is not None or not ends):
            return self
        run_seconds = timing.run if self.run is None and ends else self.run
        run = None if run_seconds is None else max(math.ceil(run_seconds / timing.speed), min(run_seconds, 1))
        return PodBehaviour(int(self.start / timing.speed), run, self.exit_code, int(self.stop / timing.speed))


def behaviour(annotations: Mapping[str, str]) -> PodBehaviour:
    """Behaviour of a simulated pod from its annotations. Raises InputError for an unreadable time or number."""
    get = annotations.get
    return _behaviour(get(START_AFTER), get(RUN_FOR), get(EXIT_CODE), get(STOP_AFTER))


@lru_cache(maxsize=1 << 12)
def _behaviour(start: str | None, run: str | None, exit_code: str | None, stop: str | None) -> PodBehaviour:
    """By the texts of its annotations; the pods of a job, and many jobs, behave alike."""
    return PodBehaviour(
        start=_time(START_AFTER, start) if start is not None else _MOMENT,
        run=_time(RUN_FOR, run) if run is not None else None,
        exit_code=_exit_code(exit_code) if exit_code is not None else 0,
        stop=_time(STOP_AFTER, stop) if stop is not None else _MOMENT,
    )


def check_habits(objects: Objects) -> None:
    """Raise InputError now for what would be found unreadable in the middle of a run."""
    for pod in objects.every(Pod).values():
        try:
            behaviour(pod.metadata.annotations)
        except InputError as error:
            raise error.inside(obj=label(pod)) from None
    for owner, template, example in workloads.checked(objects):
        try:
            behaviour(codec.decode(example).metadata.annotations)
        except InputError as error:
            raise InputError(error.message, obj=owner, field=f"{template}.{error.field}") from None
    for job in objects.every(Job).values():
        for index, task in enumerate(job.spec.tasks):
            try:
                behaviour(task.template.metadata.annotations)
            except InputError as error:
                field = f"spec.tasks[{index}].template.{error.field}"
                raise InputError(error.message, obj=label(job), field=field) from None


def _time(key: str, text: str) -> int:
    time = seconds(text)
    if time is None or time < 0:
        raise InputError(f'"{text}" is not a duration such as 90s or 1h30m', field=f"metadata.annotations.{key}")
    return math.ceil(time)


def _exit_code(text: str) -> int:
    code = read_number(text)
    if code is None or not 0 <= code <= 255:
        raise InputError(f'"{text[:300]}" is not an exit code from 0 to 255', field=f"metadata.annotations.{EXIT_CODE}")
    return code
