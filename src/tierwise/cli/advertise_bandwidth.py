"""`tierwise advertise-bandwidth`: the speed of a node's interface as a resource of the node."""

from __future__ import annotations

import click

from tierwise.api.errors import InputError
from tierwise.cli import options

__all__ = ["advertise_bandwidth"]


@click.command(
    epilog="""\b
Examples:
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
def advertise_bandwidth(
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
    """Read the speed of the node's interface, and print the patch that gives the node so much bandwidth.

    The resource is network.aware.com/bandwidth, in bits per second. Without --once, looks again and again, and prints
    when the speed has changed.
    """
    import time

    last = 0
    while True:
        bits = _given(given) if given is not None else _read(interface, sysfs, procfs)
        if bits != last:
            _write(filenames, node, bits)
        last = bits
        if once:
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
        raise InputError(f"{text} is no speed", field="--speed")
    return bits


def _read(interface: str, sysfs: str, procfs: str) -> int:
    from pathlib import Path

    from tierwise.daemons.link_speed import default_interface, speed

    return speed(Path(sysfs), interface or default_interface(Path(procfs)))
