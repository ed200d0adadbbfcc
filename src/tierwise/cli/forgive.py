"""`tierwise forgive`: what a node has failed so far counts no more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tierwise.cli.inputs import Source, moment, tell_unread
from tierwise.cli.options import argument, option, verb

if TYPE_CHECKING:
    from tierwise.port import Objects

__all__ = ["forgive"]


@verb("""
  kubectl tierwise forgive node-7
  tierwise forgive -f state.json node-7 | kubectl apply --server-side -f -
""")
def forgive(
    *,
    nodes: tuple[str, ...] = argument("NODE..."),
    namespace: str = option(
        "--record-namespace NAMESPACE", "Where the profile keeps the record (failedStarts).", default="tierwise"
    ),
    source: Source,
) -> None:
    """Forgive NODEs the starts that failed there: jobs no longer avoid them, and they are not suspected.

    Writes the ConfigMap tierwise-failed-starts, so whoever may write that may forgive; with files, prints what is to be
    applied.
    """
    from tierwise.api.core import ConfigMap
    from tierwise.snapshot.failed_starts import forgiving, record_key

    objects = source.objects(tell_unread)
    _check(objects, nodes)
    key = record_key(namespace)
    record = objects.record(key)
    found = record if isinstance(record, ConfigMap) else None
    if source.filenames:
        import yaml

        about = {"name": key.name, "namespace": key.namespace}
        data = forgiving(found, nodes, moment(objects, None))
        shown = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": about, "data": data}
        click.echo(yaml.safe_dump(shown, sort_keys=False), nl=False)
        return
    import asyncio
    import time

    from tierwise.cli.connection import connect
    from tierwise.kube.once import patch_once

    access = connect(source.cluster.kubeconfig, source.cluster.context, in_cluster=False)
    if found is None:
        click.echo("nothing is remembered of any node")
        return
    asyncio.run(patch_once(access, [(key, {"data": forgiving(found, nodes, time.time())})]))
    for node in nodes:
        click.echo(f"node/{node} forgiven")


def _check(objects: Objects, nodes: tuple[str, ...]) -> None:
    from tierwise.api.core import Node
    from tierwise.api.errors import InputError, suggestion

    known = objects.every(Node)
    for name in nodes:
        if name not in known:
            raise InputError(f"there is no such node{suggestion(name, known)}", obj=f"Node {name}")
