"""Hypothetical changes of sets of gangs: one more part, or a rule that is only a wish."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from tierwise.api.codec import Raw
from tierwise.api.errors import InputError, suggestion
from tierwise.api.plurals import count
from tierwise.api.sets import PARTS
from tierwise.dialects.languages import declaring
from tierwise.model.job import Job, SetRule
from tierwise.model.snapshot import Snapshot
from tierwise.port import Key, key_of_raw
from tierwise.scheduler.effects import pod_key
from tierwise.sim.what_if.changes import Change, Scenario, job_named

__all__ = ["add_parts", "loosen", "rules_of"]

_OF_ONE = ("uid", "resourceVersion", "creationTimestamp", "ownerReferences", "generation", "deletionTimestamp")
"""Metadata that a copy of an object has not."""


def rules_of(job: Job, path: str = "") -> tuple[SetRule, ...]:
    """The hard rules that a job states, or those of them about the set with this path."""
    rules = job.member.rules if job.member is not None else ()
    return tuple(rule for rule in rules if rule.constraint.hard and path in ("", rule.name))


def loosen(name: str, path: str = "") -> Change:
    """The hard rules of a job about its sets, or about one of them, are wishes."""

    def apply(scenario: Scenario) -> Scenario:
        job = job_named(scenario.snapshot(), name)
        loosened = rules_of(job, path)
        if not loosened:
            known = sorted({rule.name for rule in rules_of(job)})
            about = f" about set {path}{suggestion(path, known)}" if path else " about sets"
            raise InputError(f"it has no hard rule{about}", obj=job.key)

        def amended(seen: Snapshot) -> Snapshot:
            jobs = (_loosened(other, loosened) if other.key == job.key else other for other in seen.jobs)
            return replace(seen, jobs=tuple(jobs))

        return scenario.amended(amended)

    about = f" about set {path}" if path else " about its sets"
    return Change(f"make the rules of {name}{about} soft", apply)


def _loosened(job: Job, rules: tuple[SetRule, ...]) -> Job:
    if job.member is None:
        return job
    loosened = (_soft(rule) if rule in rules else rule for rule in job.member.rules)
    return replace(job, member=replace(job.member, rules=tuple(loosened)))


def _soft(rule: SetRule) -> SetRule:
    return replace(rule, constraint=replace(rule.constraint, hard=False))


def add_parts(number: int, like: str) -> Change:
    """More gangs like one of a set, whose pods wait: parts of the same sets, with its rules."""

    def apply(scenario: Scenario) -> Scenario:
        if not 0 < number <= PARTS:
            raise InputError(f"{number} is not between 1 and {PARTS}")
        snapshot = scenario.snapshot()
        job = job_named(snapshot, like)
        if job.member is None:
            raise InputError("it is in no set", obj=job.key)
        taken = {other.key for other in snapshot.jobs}
        puts: dict[Key, Raw] = {}
        suffixes = (f"-new-{index}" for index in range(1, number + len(taken) + 1))
        free = (suffix for suffix in suffixes if f"{job.key}{suffix}" not in taken)
        for _ in range(number):
            puts |= _copy(scenario, job, next(free))
        return scenario.with_objects(puts)

    return Change(f"add {count(number, 'gang')} like {like} to its sets", apply)


def _copy(scenario: Scenario, job: Job, suffix: str) -> dict[Key, Raw]:
    """The objects of a gang under other names: what declares it, and its pods as they wait."""
    keys = [key for key, _ in declaring(scenario.objects, job)] + [pod_key(task.key) for task in job.tasks]
    names = {key.name for key in keys} | {job.key.partition("/")[2]}
    renamed = {name: f"{name}{suffix}" for name in names}
    objects = (scenario.objects.raw(key) for key in dict.fromkeys(keys))
    copies = [_renamed(_waiting(raw), renamed) for raw in objects if raw is not None]
    return {key_of_raw(copy): copy for copy in copies if isinstance(copy, dict)}


def _waiting(raw: Raw) -> Raw:
    """An object as it was when it was made: without an owner, a status, and a node."""
    metadata = _without(raw["metadata"], _OF_ONE)
    spec = _without(raw.get("spec"), ("nodeName",))
    copy = {field: value for field, value in raw.items() if field != "status"}
    return {**copy, "metadata": metadata, "spec": spec}


def _without(fields: object, names: Sequence[str]) -> Raw:
    return {field: value for field, value in fields.items() if field not in names} if isinstance(fields, dict) else {}


def _renamed(value: object, names: Mapping[str, str]) -> object:
    """A value with each text that is one of these names replaced."""
    if isinstance(value, dict):
        return {field: _renamed(inner, names) for field, inner in value.items()}
    if isinstance(value, list):
        return [_renamed(inner, names) for inner in value]
    return names.get(value, value) if isinstance(value, str) else value
