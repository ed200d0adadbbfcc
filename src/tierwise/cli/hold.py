"""`tierwise hold` and `tierwise release`: let jobs and queues wait, with a reason, and go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tierwise.cli.inputs import Source, moment, tell_unread
from tierwise.cli.options import argument, option, verb

if TYPE_CHECKING:
    from tierwise.api.codec import Raw
    from tierwise.port import Key, Objects

__all__ = ["hold", "release"]

_QUEUES = ("Queue", "ElasticQuota", "ClusterQueue", "LocalQueue")


@verb("""
  kubectl tierwise hold team-a/train --reason "wrong data set"
  kubectl tierwise hold --queue team-a --reason "maintenance until Monday"
  tierwise hold -f state.json team-a/train --reason "wrong data set" | kubectl apply --server-side -f -
""")
def hold(
    *,
    jobs: tuple[str, ...] = argument("[JOB]..."),
    queue: tuple[str, ...] = option("--queue NAME", "Hold all jobs of a queue or quota."),
    reason: str = option(
        "--reason TEXT", "The reason, which is shown to everyone who asks why a job waits.", required=True
    ),
    source: Source,
) -> None:
    """Let JOBs, or all jobs of queues, wait until they are released: pods that run stay, pending ones do not start.

    Writes the annotation tierwise.io/hold to the object that declares the job, or to the queue, so who may write that
    object may hold it; with files, prints what is to be applied.
    """
    _write(source, jobs, queue, reason)


@verb("""
  kubectl tierwise release team-a/train
  kubectl tierwise release --queue team-a
""")
def release(
    *,
    jobs: tuple[str, ...] = argument("[JOB]..."),
    queue: tuple[str, ...] = option("--queue NAME", "Release a queue or quota."),
    source: Source,
) -> None:
    """Take the hold from JOBs, or from queues."""
    _write(source, jobs, queue, None)


def _write(source: Source, jobs: tuple[str, ...], queues: tuple[str, ...], reason: str | None) -> None:
    from tierwise.api.hold import HOLD

    if not jobs and not queues:
        raise click.UsageError("Name a job, or a queue with --queue.")
    objects = source.objects(tell_unread)
    keys = [key for name in jobs for key in _of_job(objects, name)] + [_of_queue(objects, name) for name in queues]
    patches: list[tuple[Key, Raw]] = [(key, {"metadata": {"annotations": {HOLD: reason}}}) for key in keys]
    if source.filenames:
        _print(objects, patches)
        return
    import asyncio

    from tierwise.cli.connection import connect

    access = connect(source.cluster.kubeconfig, source.cluster.context, in_cluster=False)
    from tierwise.kube.once import patch_once

    asyncio.run(patch_once(access, patches))
    for key in keys:
        click.echo(f"{key.kind.lower()}/{key.path} {'held' if reason is not None else 'released'}")


def _of_job(objects: Objects, name: str) -> list[Key]:
    """The objects that say what a job is: its group, or its pods where nothing else does.

    A Volcano Job whose podGroup is yet to be made hands its annotations on to it.
    """
    from tierwise.dialects.languages import declaring
    from tierwise.explain.naming import belongs_to
    from tierwise.port import Key
    from tierwise.scheduler.effects import pod_key
    from tierwise.sim.what_if.changes import job_named
    from tierwise.snapshot.builder import build

    snapshot = build(objects, moment(objects, None))
    path = name if "/" in name else f"default/{name}"
    job_key = Key("batch.volcano.sh", "Job", *path.split("/", 1))
    if objects.raw(job_key) is not None and not any(belongs_to(job, path) for job in snapshot.jobs):
        return [job_key]
    job = job_named(snapshot, name)
    groups = [key for key, _ in declaring(objects, job) if objects.raw(key) is not None]
    return groups or [pod_key(task.key) for task in job.tasks]


def _of_queue(objects: Objects, name: str) -> Key:
    from tierwise.api.errors import InputError, suggestion

    queue_keys = [key for key in objects if key.kind in _QUEUES]
    for key in queue_keys:
        if name in (key.path, key.name):
            return key
    raise InputError(f"there is no such queue{suggestion(name, [key.path for key in queue_keys])}", obj=f"Queue {name}")


def _print(objects: Objects, patches: list[tuple[Key, Raw]]) -> None:
    import yaml

    for key, patch in patches:
        raw = objects.raw(key) or {}
        about = {"name": key.name, **({"namespace": key.namespace} if key.namespace else {})}
        meta = patch["metadata"]
        assert isinstance(meta, dict)
        shown = {"apiVersion": raw.get("apiVersion"), "kind": key.kind, "metadata": {**about, **meta}}
        click.echo(f"---\n{yaml.safe_dump(shown, sort_keys=False)}", nl=False)
