"""Carries defragmentations out on a cluster: `DefragExecutor` by the command line, `DefragController` in the loop.

Both write the record and then do what `sim.defrag_execution` asks for, one call after the other; what is decided there
is not known here. The record is written on the condition that no one else has changed it, so two executors do not
undo each other's steps.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from tierwise.api import defrag_record
from tierwise.api.core import ConfigMap
from tierwise.api.defrag_record import DefragRecord, MovePhase
from tierwise.api.errors import InputError
from tierwise.config.profile import Profile
from tierwise.explain.defrag import DefragPlan
from tierwise.port import Begun, Cluster, Effect, Ended, Evict, Key, Objects, Outcome, Prepare, RecordEvent, decided_on
from tierwise.sim.defragmentation.execution import begin, proceed
from tierwise.sim.what_if.changes import Scenario

__all__ = ["DefragController", "DefragExecutor", "DefragSettings", "over_budget"]

log = logging.getLogger(__name__)

_HOUR: Final = 3600.0
_ABANDONED: Final = 60.0
"""Seconds after the deadline of a step from which its executor is taken to be gone."""


class DefragExecutor:
    """The record of a cluster's defragmentation, and the next step of it."""

    def __init__(
        self,
        cluster: Cluster,
        profile: Profile,
        *,
        namespace: str,
        by: str,
        clock: Callable[[], float],
        schedulers: frozenset[str] | None = None,
        refresh: Callable[[], None] = lambda: None,
    ) -> None:
        """`refresh` makes reads as new as the server's answers: asked for before anything is evicted."""
        self._cluster = cluster
        self._profile = profile
        self._key = Key("", "ConfigMap", namespace, defrag_record.RECORD_NAME)
        self.by = by
        self._clock = clock
        self._schedulers = schedulers
        self._refresh = refresh
        self.refused: tuple[str, ...] = ()  # what the last step could not do
        self._begun: Begun = Ended(())

    def record(self, objects: Objects | None = None) -> DefragRecord | None:
        """As it is now; None where there is none. InputError where the ConfigMap is another's."""
        config = self._config(objects)
        try:
            if config is not None:
                return defrag_record.read_record(config)
            return None
        except ValueError as error:
            raise InputError(str(error), obj=str(self._key)) from None

    def scenario(self, objects: Objects | None = None) -> Scenario:
        return Scenario(objects or self._cluster.read(), self._profile, self._clock(), schedulers=self._schedulers)

    def begin(self, room: str, *, step_seconds: float) -> tuple[DefragRecord, DefragPlan]:
        """Plan, and write the first record; InputError where an execution is under way, or it cannot be written."""
        objects = self._cluster.read()
        before = self.record(objects)
        if before is not None and not before.over:
            raise InputError(f"an execution by {before.by} is under way ({before.phase})", obj=str(self._key))
        record, plan = begin(self.scenario(objects), room, by=self.by, step_seconds=step_seconds)
        if plan.moves:
            self.write(record, before, objects)
        return record, plan

    def write(self, record: DefragRecord, before: DefragRecord | None, objects: Objects | None = None) -> None:
        """Write a record in place of another, which was `read`; InputError where that fails."""
        since = self._clock() - _HOUR
        earlier = (*before.earlier, *before.finished) if before is not None and before.over else record.earlier
        revision = max(record.revision, before.revision + 1 if before is not None and before.over else 0)
        recent_moves = tuple(move for move in earlier if move.at > since)
        self._write(replace(record, earlier=recent_moves, revision=revision), objects)

    def _write(self, record: DefragRecord, objects: Objects | None) -> None:
        outcome = self._put(record, self._config(objects))
        if not outcome.ok:
            raise InputError(f"it cannot be written: {outcome.error}", obj=str(self._key))

    def take_over(self) -> DefragRecord:
        """Go on with an execution that another has begun; InputError where there is none."""
        objects = self._cluster.read()
        record = self.record(objects)
        if record is None or record.over:
            raise InputError("no execution is under way", obj=str(self._key))
        record = replace(record, by=self.by)
        self._write(record, objects)
        return record

    def begin_step(self) -> None:
        """Begin the next thing, if there is one, once what was begun before has its answers."""
        if self._begun.done():
            self._step(self._cluster.begin, stopping=False)

    def step(self, *, stopping: bool = False) -> DefragRecord | None:
        """Do the next thing, if there is one; the record after it, or None where it is not ours."""
        record = self._step(lambda effects: Ended(self._cluster.apply(effects)), stopping=stopping)
        outcomes = self._begun()
        if not self.refused:
            self.refused = tuple(
                f"{o.effect.pod.path}: {o.error}" for o in outcomes if isinstance(o.effect, Evict) and not o.ok
            )
        return record

    def _step(self, perform: Callable[[Sequence[Effect]], Begun], *, stopping: bool) -> DefragRecord | None:
        """Write the record and have the next thing performed; the record after it, or None where it is not ours.

        Before anything is evicted the record is written on the version that it was decided on: who looks at an old
        one, of which another executor has the next, evicts no one.
        """
        self._begun = Ended(())
        config = self._config()
        record = self.record()
        if config is None or record is None or record.by != self.by:
            return None
        if record.phase is MovePhase.RESERVING and defrag_record.observed(config) >= record.revision and not stopping:
            self._refresh()
        objects = self._cluster.read()
        config = self._config(objects)
        record = self.record(objects)
        if config is None or record is None or record.by != self.by:
            return None
        step = proceed(record, self.scenario(objects), observed=defrag_record.observed(config), stopping=stopping)
        self.refused = ()
        if step.record != record or any(isinstance(effect, Evict) for effect in step.effects):
            outcome = self._put(step.record, config)
            if not outcome.ok:  # another was faster: what to do is decided again
                self.refused = (outcome.error,)
                return record
            self._cluster.tell(self._events(record, step.record))
        self._begun = perform(decided_on(objects, step.effects))
        return step.record

    def _config(self, objects: Objects | None = None) -> ConfigMap | None:
        config = (objects or self._cluster.read()).record(self._key)
        return config if isinstance(config, ConfigMap) else None

    def _put(self, record: DefragRecord, config: ConfigMap | None) -> Outcome:
        manifest = defrag_record.record_manifest(record, self._key.namespace)
        if config is None:
            effect = Prepare(self._key, manifest, create=True)
        else:
            effect = Prepare(self._key, {"data": manifest["data"]}, version=config.metadata.resource_version)
        (outcome,) = self._cluster.apply([effect])
        return outcome

    def _events(self, before: DefragRecord, after: DefragRecord) -> Sequence[RecordEvent]:
        """Events about the changes of the record."""
        if after.phase is before.phase and len(after.finished) == len(before.finished):
            return ()
        log.info("defragmentation", extra={"fields": {"phase": str(after.phase), "message": after.message}})
        kind = "Warning" if after.phase in (MovePhase.RETURNING, MovePhase.STOPPED) else "Normal"
        return [RecordEvent(self._key, kind, f"Defrag{after.phase}", after.message or after.title)]


class DefragSettings(msgspec.Struct, frozen=True):
    """Shape to keep free, and the allowed cost."""

    rooms: tuple[str, ...]  # each as SHAPExPODS@TIER
    every: float = 600.0  # seconds between two looks
    moves: int = 4  # that may begin in an hour
    hours: float = 100.0  # of the scarce resource that may be lost in an hour
    step_seconds: float = 600.0


class DefragController:
    """Opens rooms by itself, one execution at a time, within its budget. Used by the leader of the loop alone."""

    def __init__(
        self,
        executor: DefragExecutor,
        settings: DefragSettings,
        *,
        clock: Callable[[], float],
        run: Callable[[Callable[[], None]], None] | None = None,
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        """`run` has plans made: in a thread of its own where nothing else is said, as that may take a while."""
        self._executor = executor
        self._settings = settings
        self._clock = clock
        self._run = run if run is not None else _in_thread
        self._wake = wake
        self._looked = 0.0  # when it last looked for something to do
        self._planning = False
        self._said = ""  # what was last wrong with the record
        self._found: tuple[DefragRecord, DefragPlan] | None = None

    def step(self) -> None:
        """Go on with what is under way, or look for something to do when it is time."""
        try:
            record = self._executor.record()
            if record is not None and not record.over:
                if record.by != self._executor.by and self._clock() > record.deadline + _ABANDONED:
                    self._executor.take_over()
                self._executor.begin_step()
                return
        except InputError as error:  # the ConfigMap is another's, or cannot be written
            if str(error) != self._said:
                log.error("defragmentation: %s", error)
            self._said = str(error)
            return
        plan = self._found
        self._found = None
        if plan is not None:
            self._begin(*plan, record)
        elif not self._planning and self._clock() >= self._looked + self._settings.every:
            self._looked = self._clock()
            self._planning = True
            self._run(lambda: self._plan(self._executor.scenario()))

    def due(self) -> float | None:
        """When it is to be asked again though nothing has changed; None where it has just been."""
        try:
            record = self._executor.record()
        except InputError:
            return None
        if record is not None and not record.over:
            return min(record.deadline, self._clock() + 1.0)
        if self._planning:
            return None
        return self._looked + self._settings.every

    def _plan(self, scenario: Scenario) -> None:
        """The first room that is not there and can be opened; nothing is written."""
        try:
            for room in self._settings.rooms:
                plan = begin(scenario, room, by="", step_seconds=self._settings.step_seconds)
                if plan[1].moves:
                    self._found = plan
                    break
        except Exception:  # whatever it is, the next look may go better
            log.exception("planning a defragmentation failed")
        finally:
            self._planning = False
            self._wake()

    def _begin(self, record: DefragRecord, plan: DefragPlan, before: DefragRecord | None) -> None:
        recent = [*before.earlier, *before.finished] if before is not None else []
        why = over_budget(recent, plan, self._settings, self._clock())
        if why:
            log.info("defragmentation", extra={"fields": {"room": record.room, "message": f"not begun: {why}"}})
            return
        try:
            self._executor.write(replace(record, by=self._executor.by), before)
        except InputError as error:
            log.warning("defragmentation: %s", error)


def over_budget(
    recent: Sequence[defrag_record.FinishedMove], plan: DefragPlan, settings: DefragSettings, now: float
) -> str:
    """Why a plan is more than may be spent now; "" where it is not."""
    spent = [move for move in recent if move.at > now - _HOUR]
    if len(spent) + len(plan.moves) > settings.moves:
        return f"{len(plan.moves)} moves after {len(spent)} in the last hour are more than {settings.moves}"
    hours = sum(move.hours for move in spent)
    if hours + plan.hours > settings.hours:
        return f"{plan.hours:.1f} hours after {hours:.1f} in the last hour are more than {settings.hours:g}"
    return ""


def _in_thread(work: Callable[[], None]) -> None:
    threading.Thread(target=work, name="defrag", daemon=True).start()
