"""`tierwise advertise-bandwidth`: the speed of a node's interface as a resource of the node."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tierwise.api.errors import InputError
from tierwise.cli import options
from tierwise.cli.connection import ClusterAccess
from tierwise.cli.on_node import live_access, tell
from tierwise.cli.options import option, verb

if TYPE_CHECKING:
    from tierwise.port import Effect, Objects

__all__ = ["advertise_bandwidth"]


@verb("""
  tierwise advertise-bandwidth --in-cluster --node n1
  tierwise advertise-bandwidth --node n1 --once --print
  tierwise advertise-bandwidth --node n1 --interface eth1 --sysfs /host/sys --print
  kubectl get nodes -o json | tierwise advertise-bandwidth -f - --node n1 --speed 10G --once --print
""")
def advertise_bandwidth(
    *,
    filenames: tuple[str, ...] = option(
        "-f --filename FILE",
        "Manifests with the node: its patch then holds all its amounts, and is left out where it changes nothing.",
    ),
    node: str = option("--node NAME", "The node.  [env: NODE_NAME]", env="NODE_NAME"),
    interface: str = option("--interface NAME", "Default: the interface of the default route.", default=""),
    given: str | None = option("--speed QUANTITY", "Bits per second, for interfaces that do not say: 10G."),
    sysfs: Path = option("--sysfs", "Folder of the node's /sys.", default="/sys"),
    procfs: Path = option("--procfs", "Folder of the node's /proc.", default="/proc"),
    interval: int = option("--interval", "Seconds to the next.", default=300, least=10, most=86400),
    once: bool = option("--once", "Publish once and exit."),
    printed: bool = options.printed,
    cluster: ClusterAccess,
) -> None:
    """Read the speed of the node's interface, and give the node so much bandwidth: in a cluster, or as a patch.

    The resource is network.aware.com/bandwidth, in bits per second. Without --once, looks again and again, and writes
    when something has changed.
    """
    from tierwise.daemons.link_speed import advertise, default_interface, speed

    access = live_access(cluster, files=bool(filenames), printed=printed)
    fixed = None if given is None else _given(given)

    def bits() -> int:
        if fixed is not None:
            return fixed
        return speed(sysfs, interface or default_interface(procfs))

    if access is None:
        _print(filenames, node, bits, None if once else interval)
        return
    from tierwise.kube.node_reports import NodeView

    def wanted(objects: Objects, bandwidth: int) -> list[Effect]:
        return advertise(objects, node, bandwidth)

    tell(access, NodeView(node), lambda _: bits(), wanted, once=once, interval=interval)


def _print(filenames: tuple[str, ...], node: str, bits: Callable[[], int], interval: int | None) -> None:
    """Print the patch whenever the speed changes; without an interval, once."""
    import time

    printed = 0
    while True:
        bandwidth = bits()
        if bandwidth != printed:
            _write(filenames, node, bandwidth)
        printed = bandwidth
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
