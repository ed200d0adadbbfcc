"""`tierwise probe`: measure what the network between zones and regions takes, or answer those who measure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tierwise.api.errors import InputError
from tierwise.cli import options

if TYPE_CHECKING:
    from tierwise.daemons.round_trip import Answerer
    from tierwise.port import Objects

__all__ = ["probe"]

_PORT = 10191


@click.command(
    epilog="""\b
Examples:
  tierwise probe --answer
  kubectl get nodes -o json | tierwise probe -f - --node n1 --once --print
  tierwise probe -f nodes.yaml --node n1 --answer --interval 300 --print
"""
)
@click.option(
    "-f",
    "--filename",
    "filenames",
    multiple=True,
    type=click.Path(allow_dash=True),
    metavar="FILE",
    help="Manifests with the nodes of the cluster, their labels and addresses.",
)
@click.option("--node", metavar="NAME", envvar="NODE_NAME", help="The node that this runs on.  [env: NODE_NAME]")
@click.option("--answer", is_flag=True, help="Answer others until interrupted; alone, measure nothing.")
@click.option("--host", default="0.0.0.0", metavar="ADDRESS", help="Where to answer.  [default: 0.0.0.0]")
@click.option("--port", type=click.IntRange(1, 65535), default=_PORT, show_default=True, help="Of every node.")
@click.option("--count", type=click.IntRange(1, 1000), default=100, show_default=True, help="Round trips per node.")
@click.option("--timeout", type=click.FloatRange(0.1, 60), default=5.0, show_default=True, help="Seconds per node.")
@click.option("--interval", type=click.IntRange(10, 86400), default=300, show_default=True, help="Seconds to the next.")
@click.option("--once", is_flag=True, help="Measure once, and end.")
@click.option("--namespace", default="default", show_default=True, help="Of the ConfigMap.")
@click.option("--name", default="netperf-metrics", show_default=True, help="Of the ConfigMap.")
@options.printed
def probe(
    filenames: tuple[str, ...],
    node: str | None,
    answer: bool,
    host: str,
    port: int,
    count: int,
    timeout: float,
    interval: int,
    once: bool,
    namespace: str,
    name: str,
    printed: bool,
) -> None:
    """Measure round trips over TCP, and print them as the ConfigMap that the NetworkTopology controller reads.

    One pair of nodes is measured for each pair of zones and of regions; this node measures those in which it comes
    first. A node that does not answer is left out. Each pair costs a few kilobytes.
    """
    if not filenames and not answer:
        raise click.UsageError("Give the nodes with -f, or --answer.")
    if filenames and not node:
        raise click.UsageError("Name the node that this runs on with --node.")
    if answer and not filenames:
        _answerer(host, port).run()
        return
    import threading
    import time

    from tierwise.cli.inputs import load

    objects = load(filenames)
    if answer and not once:
        threading.Thread(target=_answerer(host, port).run, daemon=True).start()
    while True:
        data = _measured(objects, str(node), port=port, count=count, timeout=timeout)
        objects = _written(objects, namespace, name, str(node), data)
        if once:
            return
        time.sleep(interval)


def _answerer(host: str, port: int) -> Answerer:
    from tierwise.daemons.round_trip import Answerer

    try:
        return Answerer(host, port)
    except OSError as error:
        raise InputError(f"cannot answer on {host}:{port}: {error.strerror or error}", field="--port") from None


def _measured(objects: Objects, node: str, *, port: int, count: int, timeout: float) -> dict[str, str]:
    """What the pairs took in which this node comes first; who does not answer is named and left out."""
    from tierwise.api.core import Node
    from tierwise.cli.main import complain
    from tierwise.daemons.latency_map import entries
    from tierwise.daemons.pairs import address_of, pairs
    from tierwise.daemons.round_trip import measure

    nodes = objects.every(Node)
    if node not in nodes:
        raise InputError("there is no such node", obj=f"Node {node}")
    data: dict[str, str] = {}
    for origin, destination in pairs(nodes):
        if origin == node:
            try:
                times = measure(address_of(nodes[destination]), port, count=count, timeout=timeout)
            except OSError as error:
                complain(f"node {destination} does not answer: {error.strerror or error}")
                continue
            data.update(entries(origin, destination, times))
    return data


def _written(objects: Objects, namespace: str, name: str, node: str, data: dict[str, str]) -> Objects:
    """Print the ConfigMap where it changes; the objects with it."""
    from tierwise.api.core import Node
    from tierwise.cli.screen import print_json
    from tierwise.daemons.latency_map import publish
    from tierwise.sim.cluster import EmbeddedCluster

    cluster = EmbeddedCluster(objects)
    cluster.apply(publish(objects, namespace, name, origin=node, data=data, nodes=objects.every(Node)))
    for raw in cluster.changed():
        print_json(raw)
    return cluster.read()
