"""`tierwise forget`: what queues have used so far counts no more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tierwise.cli.inputs import Source, moment, tell_unread
from tierwise.cli.options import argument, option, verb

if TYPE_CHECKING:
    from tierwise.port import Objects

__all__ = ["forget"]


@verb("""
  kubectl tierwise forget team-a
  tierwise forget -f state.json team-a | kubectl apply --server-side -f -
""")
def forget(
    *,
    queues: tuple[str, ...] = argument("QUEUE..."),
    namespace: str = option(
        "--record-namespace NAMESPACE", "Where the profile keeps the record (fairshare).", default="tierwise"
    ),
    source: Source,
) -> None:
    """Forget what QUEUEs have used: they start anew beside the others.

    Writes the ConfigMap tierwise-usage, so whoever may write that may do so; with files, prints what is to be applied.
    The scheduler forgets when it sees that.
    """
    from tierwise.api.core import ConfigMap
    from tierwise.snapshot.usage import resetting, usage_key

    objects = source.objects(tell_unread)
    _check(objects, queues)
    key = usage_key(namespace)
    record = objects.record(key)
    present = record if isinstance(record, ConfigMap) else None
    if source.filenames:
        import yaml

        about = {"name": key.name, "namespace": key.namespace}
        data = resetting(present, queues, moment(objects, None))
        shown = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": about, "data": data}
        click.echo(yaml.safe_dump(shown, sort_keys=False), nl=False)
        return
    import asyncio
    import time

    from tierwise.cli.connection import connect
    from tierwise.kube.once import patch_once

    if present is None:
        click.echo("no usage is remembered")
        return
    access = connect(source.cluster.kubeconfig, source.cluster.context, in_cluster=False)
    asyncio.run(patch_once(access, [(key, {"data": resetting(present, queues, time.time())})]))
    for queue in queues:
        click.echo(f"queue/{queue}: its usage is forgotten")


def _check(objects: Objects, queues: tuple[str, ...]) -> None:
    from tierwise.api.errors import InputError, suggestion
    from tierwise.api.kai import Queue as KaiQueue
    from tierwise.api.volcano import Queue

    names = {**objects.every(Queue), **objects.every(KaiQueue), "default": None}
    for name in queues:
        if name not in names:
            raise InputError(f"there is no such queue{suggestion(name, names)}", obj=f"Queue {name}")
