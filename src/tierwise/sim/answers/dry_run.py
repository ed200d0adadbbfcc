"""A dry run for a user of one namespace: what would become of new manifests, were they applied now.

The manifests are those of jobs and of what their pods need, all of the user's own namespace. What would make the answer
tell of others, or would pass by the scheduler, is refused by name before anything is run.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from tierwise.api import codec
from tierwise.api.codec import Object, Raw
from tierwise.api.errors import InputError
from tierwise.api.koordinator import GROUPS
from tierwise.dialects.languages import LANGUAGES
from tierwise.dialects.workloads import WORKLOADS
from tierwise.explain.comparison import started
from tierwise.explain.message import refusal
from tierwise.explain.reasons import advice_wire
from tierwise.explain.tenant import DryRunAnswer, DryRunJob
from tierwise.manifests.files import read
from tierwise.model.job import Job, Status
from tierwise.model.snapshot import Snapshot
from tierwise.port import Key, Objects, key_of_raw
from tierwise.sim.answers.facts import all_namespaces, names_others, namespaces_of, own_name, private_message
from tierwise.sim.cluster.rounds import Rounds
from tierwise.sim.what_if.changes import Scenario, submit
from tierwise.sim.what_if.runs import outcome_of
from tierwise.snapshot.builder import Reader

__all__ = ["KINDS", "RefusedDryRunError", "dry_run", "manifests_of", "own_manifests", "queue_names"]

_OBJECTS: Final = 200
"""Objects of one dry run."""

_QUEUES: Final = 20
"""Queues that the manifests of a dry run may name."""

_WARNINGS: Final = 20
"""Warnings of one answer."""

_BESIDE: Final = (
    ("", "Pod"),
    ("", "PersistentVolumeClaim"),
    ("resource.k8s.io", "ResourceClaim"),
    ("resource.k8s.io", "ResourceClaimTemplate"),
    ("resource.nvidia.com", "ComputeDomain"),
    ("batch.volcano.sh", "Job"),
    ("appgroup.diktyo.x-k8s.io", "AppGroup"),
)

KINDS: Final = frozenset(
    (
        *WORKLOADS,
        *_BESIDE,
        *(kind for language in LANGUAGES.values() for record in language.declares for kind in codec.KINDS_OF[record]),
    )
)
"""The groups and kinds of objects that a dry run may hold: workloads, gangs, pods, and what pods claim."""


class RefusedDryRunError(InputError):
    """The manifests may not be part of a dry run: the message names only objects of those who sent them."""


def manifests_of(text: bytes, name: str = "the text") -> tuple[tuple[Object, Raw], ...]:
    """The objects in manifests that somebody sent, with their manifests; InputError where there are none."""
    loaded = Objects.holding((entry.key, entry.record, entry.manifest) for entry in read(["-"], io.BytesIO(text)))
    entries = ((loaded.record(key), loaded.raw(key)) for key in loaded)
    objects = tuple((record, raw) for record, raw in entries if record is not None and raw is not None)
    if not objects:
        raise InputError("there is no manifest in it", file=name)
    return objects


def own_manifests(text: bytes, namespace: str) -> tuple[tuple[Object, Raw], ...]:
    """The objects in manifests that may be part of a dry run; RefusedDryRunError names the first that may not.

    Objects that name no namespace get that of the dry run.
    """
    try:
        objects = tuple(_placed(raw, namespace) for _, raw in manifests_of(text))
    except InputError as error:
        raise RefusedDryRunError(error.message, file=error.file, obj=error.obj, field=error.field) from None
    if len(objects) > _OBJECTS:
        raise RefusedDryRunError(f"{len(objects)} objects: a dry run has {_OBJECTS} at most")
    for _, raw in objects:
        key = key_of_raw(raw)
        about = f"{key.kind} {key.path}"
        if (key.group, key.kind) not in KINDS:
            raise RefusedDryRunError("this kind is no job, and nothing that pods of a job claim", obj=about)
        if key.namespace != namespace:
            raise RefusedDryRunError(f"it is not of namespace {namespace}", obj=about, field="metadata.namespace")
        _check_fields(raw, namespace, about)
    return objects


def _placed(raw: Raw, namespace: str) -> tuple[Object, Raw]:
    """An object in its own namespace, or in this one where it names none."""
    metadata = raw.get("metadata")
    fields = metadata if isinstance(metadata, dict) else {}
    placed = {**raw, "metadata": {"namespace": namespace, **fields}}
    return codec.decode(placed), placed


def _check_fields(raw: Raw, namespace: str, about: str) -> None:
    """Refuse fields that name a node, or that reach pods or gangs of other namespaces."""
    for path, name, value in _fields(raw, ""):
        if name == "nodeName" and value:
            raise RefusedDryRunError("a pod that names its node is not scheduled", obj=about, field=path)
        if name == "namespaceSelector" and value is not None:
            raise RefusedDryRunError("a dry run looks at no pods of other namespaces", obj=about, field=path)
        if name == "namespaces" and isinstance(value, list) and set(map(str, value)) - {namespace}:
            raise RefusedDryRunError("a dry run looks at no pods of other namespaces", obj=about, field=path)
        if name == GROUPS and _names_other_gangs(value, namespace):
            raise RefusedDryRunError("it names gangs of another namespace", obj=about, field=path)


def queue_names(text: bytes) -> tuple[str, ...]:
    """Names in fields of manifests that are about queues, without repetition; nothing of unreadable ones."""
    try:
        objects = manifests_of(text)
    except InputError:
        return ()
    names: dict[str, None] = {}
    for _, raw in objects:
        for _, field, value in _fields(raw, ""):
            if "queue" in field.lower() and isinstance(value, str) and value:
                names[value] = None
    return tuple(names)[:_QUEUES]


def _fields(value: object, path: str) -> Iterator[tuple[str, str, object]]:
    """Every field below a value: its path, its name, and what it holds."""
    open_values: list[tuple[str, object]] = [(path, value)]
    while open_values:
        where, holder = open_values.pop()
        if isinstance(holder, Mapping):
            for name, inner in holder.items():
                inner_path = f"{where}.{name}" if where else str(name)
                yield inner_path, str(name), inner
                open_values.append((inner_path, inner))
        elif isinstance(holder, list):
            open_values += [(f"{where}[{index}]", inner) for index, inner in enumerate(holder)]


def _names_other_gangs(value: object, namespace: str) -> bool:
    try:
        gangs = json.loads(str(value))
    except ValueError:
        return False  # the language says what is wrong with it
    names = gangs if isinstance(gangs, list) else []
    return any("/" in str(gang) and not str(gang).startswith(f"{namespace}/") for gang in names)


def dry_run(
    scenario: Scenario, namespace: str, text: bytes, may_see_queues: frozenset[str], reader: Reader | None = None
) -> DryRunAnswer:
    """The outcome for the jobs in manifests, once the cluster has come to rest with them.

    A job that names a queue which is not in `may_see_queues`, and in which the namespace has no job, is refused
    without a run: how it fares would tell what others use.
    RefusedDryRunError for manifests that may not be part of a dry run.
    """
    objects = own_manifests(text, namespace)
    changed = submit(objects, "the dry run").apply(scenario)
    hidden = frozenset(queue_names(text)) - may_see_queues
    _check_queues(changed, scenario, namespace, hidden)
    history, outcome = outcome_of(changed, reader=reader)
    submitted = {key_of_raw(raw) for _, raw in objects}
    earlier = {job.key for job in scenario.snapshot().jobs}
    namespaces = all_namespaces(changed.objects, outcome.snapshot)
    jobs = []
    for job in outcome.snapshot.jobs:
        is_new = job.key not in earlier or _is_of(job, submitted)
        if is_new and namespaces_of(job) == {namespace}:
            jobs.append(_job(outcome.snapshot, job, namespace, history, namespaces))
    for job, _ in outcome.lone:
        if job.key not in earlier and namespaces_of(job) == {namespace}:
            jobs.append(DryRunJob(own_name(job, namespace), True, 1, 1))
    jobs.sort(key=lambda job: job.name)
    return DryRunAnswer(
        namespace=namespace, jobs=tuple(jobs), warnings=_warnings(history, submitted, namespaces, namespace)
    )


def _check_queues(changed: Scenario, before: Scenario, namespace: str, hidden: frozenset[str]) -> None:
    used = {job.queue for job in before.snapshot().jobs if namespaces_of(job) == {namespace}}
    for job in changed.snapshot().jobs:
        if namespaces_of(job) != {namespace} or job.queue not in hidden - used:
            continue
        about = f"job {namespace}/{own_name(job, namespace)}"
        raise RefusedDryRunError(
            f"no job of this namespace is in queue {job.queue}, and you may not get that queue", obj=about
        )


def _is_of(job: Job, submitted: set[Key]) -> bool:
    paths = {key.path for key in submitted}
    return job.key in paths or any(task.key in paths for task in job.tasks)


def _job(snapshot: Snapshot, job: Job, namespace: str, history: Rounds, namespaces: frozenset[str]) -> DryRunJob:
    placed = sum(task.status is Status.RUNNING for task in job.tasks)
    answer = DryRunJob(
        own_name(job, namespace),
        started(snapshot, job),
        sum(task.status not in (Status.SUCCEEDED, Status.FAILED) for task in job.tasks) or job.minimum,
        placed,
    )
    rejection = refusal(job, history.report) if history.report is not None else None
    if answer.starts or rejection is None:
        return answer
    return msgspec.structs.replace(
        answer,
        verdict=rejection.verdict.value,
        reason=rejection.reason.code,
        message=private_message(rejection, namespaces, namespace),
        cure=str(advice_wire(rejection.reason.code).get("cure", "")),
    )


def _warnings(history: Rounds, submitted: set[Key], namespaces: frozenset[str], namespace: str) -> tuple[str, ...]:
    """Remarks about the submitted objects, without remarks that name objects of others."""
    paths = {key.path for key in submitted}
    texts = []
    for fault in history.complaints():
        subject = fault.subject.rpartition(" ")[2]
        if subject in paths and not names_others(fault.text, namespaces, namespace):
            texts.append(f"{fault.subject}: {fault.text}")
    return tuple(dict.fromkeys(texts))[:_WARNINGS]
