"""`tierwise advertise-bandwidth`: the speed of a node's interface as a resource of the node."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from tierwise.api.errors import InputError
from tierwise.cli import options
from tierwise.cli.connection import access_options
from tierwise.cli.on_node import live_access, tell

if TYPE_CHECKING:
    from tierwise.port import Effect, Objects

__all__ = ["advertise_bandwidth"]


@click.command(
    epilog="""\b
Examples:
  tierwise advertise-bandwidth --in-cluster --node n1
  tierwise advertise-bandwidth --node n1 --once --print
  tierwise advertise-bandwidth --node n1 --interface eth1 --sysfs /host/sys --print
  kubectl get nodes -o json | tierwise advertise-bandwidth -f - --node n1 --speed 10G --once --print
"""
)
@click.option(
    "-f",
    "--filename",
    "filenames",
    multiple=True,
    type=click.Path(allow_dash=True),
    metavar="FILE",
    help="Manifests with the node: its patch then holds all its amounts, and is left out where it changes nothing.",
)
@click.option("--node", required=True, metavar="NAME", envvar="NODE_NAME", help="The node.  [env: NODE_NAME]")
@click.option("--interface", default="", metavar="NAME", help="Default: the interface of the default route.")
@click.option("--speed", "given", metavar="QUANTITY", help="Bits per second, for interfaces that do not say: 10G.")
@click.option("--sysfs", type=click.Path(), default="/sys", show_default=True, help="Where /sys of the node is.")
@click.option("--procfs", type=click.Path(), default="/proc", show_default=True, help="Where /proc of the node is.")
@click.option("--interval", type=click.IntRange(10, 86400), default=300, show_default=True, help="Seconds to the next.")
@click.option("--once", is_flag=True, help="Look once, and end.")
@options.printed
@access_options
def advertise_bandwidth(
    kubeconfig: str | None,
    in_cluster: bool,
    context: str | None,
    filenames: tuple[str, ...],
    node: str,
    interface: str,
    given: str | None,
    sysfs: str,
    procfs: str,
    interval: int,
    once: bool,
    printed: bool,
) -> None:
    """Read the speed of the node's interface, and give the node so much bandwidth: in a cluster, or as a patch.

    The resource is network.aware.com/bandwidth, in bits per second. Without --once, looks again and again, and writes
    when something has changed.
    """
    access = live_access(kubeconfig, context, in_cluster=in_cluster, files=bool(filenames), printed=printed)
    fixed = None if given is None else _given(given)

    def bits() -> int:
        return fixed if fixed is not None else _read(interface, sysfs, procfs)

    if access is None:
        _print(filenames, node, bits, None if once else interval)
        return
    from tierwise.daemons.link_speed import advertise
    from tierwise.kube.node_reports import NodeView

    def wanted(objects: Objects, found: int) -> list[Effect]:
        return advertise(objects, node, found)

    tell(access, NodeView(node), lambda _: bits(), wanted, once=once, interval=interval)


def _print(filenames: tuple[str, ...], node: str, bits: Callable[[], int], interval: int | None) -> None:
    """Print the patch whenever the speed changes; without an interval, once."""
    import time

    last = 0
    while True:
        found = bits()
        if found != last:
            _write(filenames, node, found)
        last = found
        if interval is None:
            return
        time.sleep(interval)


def _write(filenames: tuple[str, ...], node: str, bits: int) -> None:
    """Print the patch of the node's status."""
    from tierwise.cli.inputs import load
    from tierwise.cli.screen import print_json
    from tierwise.daemons.link_speed import RESOURCE, advertise, manifest
    from tierwise.port import PatchStatus

    if not filenames:
        print_json(manifest(node, {"capacity": {RESOURCE: str(bits)}}))
        return
    for effect in advertise(load(filenames), node, bits):
        if isinstance(effect, PatchStatus):
            print_json(manifest(node, effect.status))


def _given(text: str) -> int:
    from tierwise.api.quantity import whole

    try:
        bits = whole(text)
    except ValueError as error:
        raise InputError(str(error), field="--speed") from None
    if bits <= 0:
        raise InputError(f"{text} is not a speed", field="--speed")
    return bits


def _read(interface: str, sysfs: str, procfs: str) -> int:
    from pathlib import Path

    from tierwise.daemons.link_speed import default_interface, speed

    return speed(Path(sysfs), interface or default_interface(Path(procfs)))
