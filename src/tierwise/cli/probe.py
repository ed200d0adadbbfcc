"""`tierwise probe`: measure the network between zones and regions, or answer measurements."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from tierwise.api.errors import InputError, suggestion
from tierwise.cli import options
from tierwise.cli.connection import ClusterAccess
from tierwise.cli.on_node import ending, live_access, tell
from tierwise.cli.options import option, verb

if TYPE_CHECKING:
    from tierwise.daemons.round_trip import Answerer
    from tierwise.port import Effect, Key, Objects

__all__ = ["probe"]

_PORT = 10191


@verb("""
  tierwise probe --answer
  tierwise probe --in-cluster --node n1 --answer
  kubectl get nodes -o json | tierwise probe -f - --node n1 --once --print
  tierwise probe -f nodes.yaml --node n1 --answer --interval 300 --print
""")
def probe(
    *,
    filenames: tuple[str, ...] = option(
        "-f --filename FILE", "Manifests with the nodes of the cluster, their labels and addresses."
    ),
    node: str | None = option("--node NAME", "The node that this runs on.  [env: NODE_NAME]", env="NODE_NAME"),
    answer: bool = option("--answer", "Answer others until interrupted; alone, measure nothing."),
    host: str = option("--host ADDRESS", "Where to answer.", default="0.0.0.0"),
    port: int = option("--port", "Of every node.", default=_PORT, least=1, most=65535),
    count: int = option("--count", "Round trips per node.", default=100, least=1, most=1000),
    timeout: float = option("--timeout", "Seconds per node.", default=5.0, least=0.1, most=60),
    interval: int = option("--interval", "Seconds to the next.", default=300, least=10, most=86400),
    once: bool = option("--once", "Measure once and exit."),
    namespace: str = option("--namespace", "Of the ConfigMap.", default="default"),
    name: str = option("--name", "Of the ConfigMap.", default="netperf-metrics"),
    printed: bool = options.printed,
    cluster: ClusterAccess,
) -> None:
    """Measure round trips over TCP, for the ConfigMap that the NetworkTopology controller reads.

    One pair of nodes is measured for each pair of zones and of regions; this node measures those in which it comes
    first, and writes no other entries. A node that does not answer is left out. Each pair costs a few kilobytes.
    """
    if not filenames and not cluster.given:
        if not answer:
            raise click.UsageError("Give the nodes with -f, or --answer.")
        with ending():
            _answerer(host, port).run()
        return
    if not node:
        raise click.UsageError("Name the node that this runs on with --node.")
    access = live_access(cluster, files=bool(filenames), printed=printed)
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
        """Measured times by entry, for the pairs in which this node comes first; silent nodes are reported."""
        from tierwise.api.core import Node
        from tierwise.cli.main import report_error
        from tierwise.daemons.latency_map import entries
        from tierwise.daemons.pairs import address_of, pairs
        from tierwise.daemons.round_trip import measure

        nodes = objects.every(Node)
        if self.node not in nodes:
            raise InputError(f"there is no such node{suggestion(self.node, nodes)}", obj=f"Node {self.node}")
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
        """Effects that write these measurements."""
        from tierwise.api.core import Node
        from tierwise.daemons.latency_map import publish

        nodes = objects.every(Node)
        return publish(objects, self.namespace, self.name, origin=self.node, data=data, nodes=nodes)

    def worth_telling(self, objects: Objects, data: dict[str, str]) -> list[Effect]:
        """Effects that write these measurements; none for a node that measures nothing and has no ConfigMap."""
        if data or objects.raw(self.config_map) is not None:
            return self.wanted(objects, data)
        return []

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
