"""`tierwise topology`: the tree of hyperNodes as the scheduler sees it, and where it could come from."""

from __future__ import annotations

import click

from tierwise.cli import options
from tierwise.cli.topology_carry import export_, import_
from tierwise.cli.topology_diff import diff
from tierwise.cli.topology_generate import generate

__all__ = ["topology"]


@click.group()
def topology() -> None:
    """Look at the tree of domains, make it from what a site knows of its network, or carry it elsewhere."""


@topology.command(
    epilog="""\b
Examples:
  tierwise topology show -f cluster.yaml
  kubectl get nodes,hypernodes,pods -A -o yaml | tierwise topology show -f -
  tierwise topology show -f cluster.yaml -o json | jq '.problems'
"""
)
@options.source
@options.config
@options.now
@options.everything
@options.output
def show(
    filenames: tuple[str, ...], config_file: str | None, now: float | None, everything: bool, output_format: str
) -> None:
    """Show the tree with its tiers, what the nodes have and use, and what is wrong with it.

    HyperNodes that label discovery would make are made first. Broken ones are named and left out of the tree.
    """
    from tierwise.cli.inputs import load, moment, profile_of
    from tierwise.cli.progress import patience
    from tierwise.dialects.build import build
    from tierwise.sim.cluster import EmbeddedCluster
    from tierwise.sim.rounds import reconcile

    profile_of(config_file)  # the tree does not depend on it, but a broken one is bad input all the same
    objects = load(filenames)
    time = moment(objects, now)
    with patience("building the tree"):
        cluster = EmbeddedCluster(objects)
        reconcile(cluster, time)
        snapshot = build(cluster.read(), time)
    if output_format == "json":
        from tierwise.cli.screen import print_json
        from tierwise.explain.wire import topology_wire

        print_json(topology_wire(snapshot))
    else:
        from tierwise.cli.screen import print_page
        from tierwise.explain.landscape import topology_lines

        print_page(lambda page: topology_lines(page, snapshot), everything=everything)


topology.add_command(generate)
topology.add_command(diff)
topology.add_command(export_)
topology.add_command(import_)
