"""`tierwise probe`: measure the network between zones and regions, or answer measurements."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from tierwise.api.errors import InputError
from tierwise.cli import options
from tierwise.cli.connection import access_options
from tierwise.cli.on_node import ending, live_access, tell

if TYPE_CHECKING:
    from tierwise.daemons.round_trip import Answerer
    from tierwise.port import Effect, Key, Objects

__all__ = ["probe"]

_PORT = 10191


@click.command(
    epilog="""\b
Examples:
  tierwise probe --answer
  tierwise probe --in-cluster --node n1 --answer
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
@access_options
def probe(
    kubeconfig: str | None,
    in_cluster: bool,
    context: str | None,
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
    """Measure round trips over TCP, for the ConfigMap that the NetworkTopology controller reads.

    One pair of nodes is measured for each pair of zones and of regions; this node measures those in which it comes
    first, and writes no other entries. A node that does not answer is left out. Each pair costs a few kilobytes.
    """
    live = bool(kubeconfig or context or in_cluster)
    if not filenames and not live:
        if not answer:
            raise click.UsageError("Give the nodes with -f, or --answer.")
        with ending():
            _answerer(host, port).run()
        return
    if not node:
        raise click.UsageError("Name the node that this runs on with --node.")
    access = live_access(kubeconfig, context, in_cluster=in_cluster, files=bool(filenames), printed=printed)
    task = _Task(node, port, count, timeout, namespace, name)
    if access is None:
        _print(task, filenames, _answerer(host, port) if answer and not once else None, None if once else interval)
        return
    from tierwise.kube.node_reports import NodeView

    if answer and not once:
        _in_background(_answerer(host, port))
    sight = NodeView(config_map=task.config_map)
    tell(access, sight, task.measured, task.worth_telling, once=once, interval=interval)


class _Task(msgspec.Struct, frozen=True):
    """Who measures, how, and where the results go."""

    node: str
    port: int
    count: int
    timeout: float
    namespace: str
    name: str

    def measured(self, objects: Objects) -> dict[str, str]:
        """What the pairs took in which this node comes first; who does not answer is named and left out."""
        from tierwise.api.core import Node
        from tierwise.cli.main import report_error
        from tierwise.daemons.latency_map import entries
        from tierwise.daemons.pairs import address_of, pairs
        from tierwise.daemons.round_trip import measure

        nodes = objects.every(Node)
        if self.node not in nodes:
            raise InputError("there is no such node", obj=f"Node {self.node}")
        data: dict[str, str] = {}
        for origin, destination in pairs(nodes):
            if origin == self.node:
                try:
                    times = measure(address_of(nodes[destination]), self.port, count=self.count, timeout=self.timeout)
                except OSError as error:
                    report_error(f"node {destination} does not answer: {error.strerror or error}")
                    continue
                data.update(entries(origin, destination, times))
        return data

    def wanted(self, objects: Objects, data: dict[str, str]) -> list[Effect]:
        """What to write for these measurements."""
        from tierwise.api.core import Node
        from tierwise.daemons.latency_map import publish

        nodes = objects.every(Node)
        return publish(objects, self.namespace, self.name, origin=self.node, data=data, nodes=nodes)

    def worth_telling(self, objects: Objects, data: dict[str, str]) -> list[Effect]:
        """The same, but most nodes of a cluster measure nothing, and need not make an empty ConfigMap."""
        return self.wanted(objects, data) if data or objects.raw(self.config_map) is not None else []

    @property
    def config_map(self) -> Key:
        from tierwise.port import Key

        return Key("", "ConfigMap", self.namespace, self.name)


def _print(task: _Task, filenames: tuple[str, ...], answerer: Answerer | None, interval: int | None) -> None:
    """Print the ConfigMap whenever it changes; without an interval, once."""
    import time

    from tierwise.cli.inputs import load
    from tierwise.cli.screen import print_json
    from tierwise.sim.cluster.store import EmbeddedCluster

    objects = load(filenames)
    if answerer is not None:
        _in_background(answerer)
    while True:
        cluster = EmbeddedCluster(objects)
        cluster.apply(task.wanted(objects, task.measured(objects)))
        for raw in cluster.changed():
            print_json(raw)
        objects = cluster.read()
        if interval is None:
            return
        time.sleep(interval)


def _in_background(answerer: Answerer) -> None:
    import threading

    threading.Thread(target=answerer.run, daemon=True).start()


def _answerer(host: str, port: int) -> Answerer:
    from tierwise.daemons.round_trip import Answerer

    try:
        return Answerer(host, port)
    except OSError as error:
        raise InputError(f"cannot answer on {host}:{port}: {error.strerror or error}", field="--port") from None
