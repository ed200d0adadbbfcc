"""`tierwise topology`: the tree of hyperNodes as the scheduler sees it, and where it could come from."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Final

import click
import msgspec

from tierwise.api.errors import InputError
from tierwise.cli import options
from tierwise.cli.inputs import Source, load, moment, profile_of, tell_unread
from tierwise.cli.options import Output, argument, option, verb
from tierwise.cli.progress import show_progress
from tierwise.cli.screen import print_json
from tierwise.cli.topology_source import SourceOptions

__all__ = ["topology"]


# `tierwise topology generate`: a site's description of its network as hyperNodes, or in another format.


_FORMATS: Final = ("hypernodes", "slurm", "slurm-yaml", "topograph")


@verb("""
  tierwise topology generate --from slurm:/etc/slurm | kubectl apply -f -
  tierwise topology generate --from csv:hosts.csv --host-column host --tiers rack,spine
  kubectl get nodes -o yaml | tierwise topology generate -f - --preset aws
  kubectl get nodes -o yaml | tierwise topology generate -f -
  tierwise topology generate --from hypernodes:cluster.yaml --to slurm > topology.conf
""")
def generate(
    *,
    filenames: tuple[str, ...] = options.optional_filenames,
    wish: SourceOptions,
    target: str = option("--to", "What to print.", choices=_FORMATS, default="hypernodes"),
    output_format: str = option("-o --output", "How to print manifests.", choices=("yaml", "json"), default="yaml"),
) -> None:
    """Print the hyperNodes of a network as its site describes it.

    The same input gives the same names and the same bytes. Warnings go to standard error; with an error nothing is
    printed, because half a tree is worse than the old one.
    """
    from tierwise.cli import topology_trees as trees

    found_tree, _ = trees.find(filenames, wish)
    if target.startswith("slurm"):
        if output_format == "json":
            raise click.UsageError(f"--to {target} is not JSON")
        click.echo(trees.summary(found_tree) + trees.slurm_text(found_tree, target), nl=False)
        return
    manifests = found_tree.hypernodes if target == "hypernodes" else trees.patches(found_tree)
    if output_format == "json":
        print_json({"apiVersion": "v1", "kind": "List", "items": manifests})
    else:
        click.echo(trees.summary(found_tree) + trees.yaml_text(manifests), nl=False)


# `tierwise topology diff`: what a site's description of its network would change in a cluster.


@verb("""
  kubectl get nodes,hypernodes -o yaml | tierwise topology diff -f - --from slurm:/etc/slurm/topology.conf
  tierwise topology diff -f cluster.yaml --from topograph
  tierwise topology diff -f cluster.yaml --from csv:hosts.csv -o json | jq '.moves'
""")
def diff(*, filenames: tuple[str, ...] = options.filenames, wish: SourceOptions, output: Output) -> None:
    """Show which hyperNodes of a cluster a source would create, change and delete.

    Only hyperNodes that carry the mark of the source are deleted. The exit status is 0 where nothing differs and 1
    where something does.
    """
    from tierwise.api import codec
    from tierwise.api.core import Node
    from tierwise.api.volcano import HyperNode
    from tierwise.cli.topology_trees import find
    from tierwise.discovery.changes import changes
    from tierwise.explain.text.topology import changes_lines, changes_wire

    found_tree, objects = find(filenames, wish)
    records = [codec.decode(raw) for raw in found_tree.hypernodes]
    declared = [record for record in records if isinstance(record, HyperNode)]
    differences = changes(declared, objects.every(HyperNode), source=found_tree.source, nodes=objects.every(Node))
    output.show(lambda: changes_wire(differences), lambda page: changes_lines(page, differences, found_tree.origin))
    if not differences.none:
        click.get_current_context().exit(1)


# `tierwise topology export` and `import`: the tree as a JSON list, to carry elsewhere.


_KEY = "topology.json"
"""Where an exported ConfigMap holds its list."""


@verb(
    """
  tierwise topology export -f cluster.yaml > topology.json
  tierwise topology export -f cluster.yaml --config-map network | kubectl apply -f -
""",
    "export",
)
def export_(
    *,
    filenames: tuple[str, ...] = options.filenames,
    config_map: str | None = option("--config-map NAME", "Print a ConfigMap of this name that holds the list."),
    fabric: str = option("--fabric NAME", "Which of several trees, as in `topology show`.", default=""),
) -> None:
    """Print the tree as a JSON list of domains with their layers, parents and children.

    The tree is that of the hyperNodes, or of the ClusterNetworkTopology where there are none, as in `topology show`.
    Planes, which are hyperNodes of one tier with the same members, are one domain of the list, with a warning.
    """
    from tierwise.cli import topology_trees as trees
    from tierwise.dialects.koordinator.topology_map import entries_of

    objects = load(filenames)
    tell_unread(objects)
    snapshot = trees.tree_of(objects, moment(objects, None), fabric, planes=False)
    entries = [msgspec.to_builtins(entry) for entry in entries_of(snapshot.topology, snapshot.nodes.names)]
    text = json.dumps(entries, indent=2)
    if config_map is None:
        click.echo(text)
    else:
        _echo_yaml([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": config_map}, "data": {_KEY: text}}])


def _echo_yaml(objects: Sequence[Mapping[str, object]]) -> None:
    import yaml

    click.echo(yaml.safe_dump_all(objects, sort_keys=False, explicit_start=len(objects) > 1), nl=False)


@verb(
    """
  tierwise topology import topology.json > hypernodes.yaml
  kubectl get configmap network -o yaml | tierwise topology import -
""",
    "import",
)
def import_(*, file: str = argument()) -> None:
    """Print the hyperNodes for a JSON list of domains, or for a ConfigMap that holds one.

    Planes, which are domains of one layer with the same members, become one hyperNode, with a warning.
    """
    from tierwise.cli import topology_trees as trees
    from tierwise.dialects.koordinator.topology_map import hypernodes_of, read_entries

    try:
        _echo_yaml(hypernodes_of(trees.merge_plane_entries(read_entries(trees.list_in(file, sys.stdin)))))
    except InputError as error:
        raise error.inside(file=file) from None


_FABRIC: Final = "Which of several trees: a fabric that hyperNodes name, or HyperNode, ClusterNetworkTopology."


@click.group()
def topology() -> None:
    """Look at the tree of domains, make it from what a site knows of its network, or carry it elsewhere."""


@verb("""
  tierwise topology show -f cluster.yaml
  kubectl get nodes,hypernodes,pods -A -o yaml | tierwise topology show -f -
  tierwise topology show -f cluster.yaml --fabric nvlink
  tierwise topology show -f cluster.yaml -o json | jq '.problems'
""")
def show(
    *,
    source: Source,
    config_file: str | None = options.config,
    fabric: str = option("--fabric NAME", _FABRIC, default=""),
    now: float | None = options.now,
    output: Output,
) -> None:
    """Show the tree with its tiers, what the nodes have and use, and what is wrong with it.

    HyperNodes that label discovery would make are made first. Broken ones are named and left out of the tree.
    """
    from tierwise.cli import topology_trees as trees
    from tierwise.explain.amounts import amounts_wire
    from tierwise.explain.text.topology import topology_lines
    from tierwise.explain.wire import topology_wire

    profile = profile_of(config_file)  # the tree does not depend on it, but what its domains share may
    objects = source.objects(tell_unread)
    with show_progress("building the tree"):
        snapshot = trees.tree_of(objects, moment(objects, now), fabric)
    if len(snapshot.topology) == 1:  # the root alone
        trees.tell_presets(objects)
    output.show(
        lambda: topology_wire(snapshot) | amounts_wire(snapshot, profile),
        lambda page: topology_lines(page, snapshot, profile),
    )


for command in (show, generate, diff, export_, import_):
    topology.add_command(command)
