"""`tierwise topology diff`: what a site's description of its network would change in a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tierwise.cli import options, topology_source

if TYPE_CHECKING:
    from tierwise.cli.topology_source import Wish

__all__ = ["diff"]


@click.command(
    epilog="""\b
Examples:
  kubectl get nodes,hypernodes -o yaml | tierwise topology diff -f - --from slurm:/etc/slurm/topology.conf
  tierwise topology diff -f cluster.yaml --from topograph
  tierwise topology diff -f cluster.yaml --from csv:hosts.csv -o json | jq '.moves'
"""
)
@options.filenames
@topology_source.options
@options.everything
@options.output
@click.pass_context
def diff(ctx: click.Context, filenames: tuple[str, ...], everything: bool, output_format: str, wish: Wish) -> None:
    """Show which hyperNodes of a cluster a source would create, change and delete.

    Only hyperNodes that carry the mark of the source are deleted. The exit status is 0 where nothing differs and 1
    where something does.
    """
    from tierwise.api import codec
    from tierwise.api.core import Node
    from tierwise.api.volcano import HyperNode
    from tierwise.discovery.changes import changes

    found, objects = topology_source.find(filenames, wish)
    records = [codec.decode(raw) for raw in found.hypernodes]
    wanted = [record for record in records if isinstance(record, HyperNode)]
    told = changes(wanted, objects.every(HyperNode), source=found.source, nodes=objects.every(Node))
    if output_format == "json":
        from tierwise.cli.screen import print_json
        from tierwise.explain.topology_changes import changes_wire

        print_json(changes_wire(told))
    else:
        from tierwise.cli.screen import print_page
        from tierwise.explain.topology_changes import changes_lines

        print_page(lambda page: changes_lines(page, told, found.origin), everything=everything)
    if not told.none:
        ctx.exit(1)
