"""`tierwise topology`: the tree of domains as the scheduler sees it, and the same as a text to carry elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TextIO

import click

from tierwise.cli import options

__all__ = ["topology"]

_KEY = "topology.json"
"""Where an exported ConfigMap holds its list."""


@click.group()
def topology() -> None:
    """Look at the tree of domains, or carry it from one form to another."""


@topology.command(
    epilog="""\b
Examples:
  tierwise topology show -f cluster.yaml
  kubectl get nodes,hypernodes,pods -A -o yaml | tierwise topology show -f -
  tierwise topology show -f cluster.yaml -o json | jq '.problems'
"""
)
@options.filenames
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


@topology.command(
    "export",
    epilog="""\b
Examples:
  tierwise topology export -f cluster.yaml > topology.json
  tierwise topology export -f cluster.yaml --config-map network | kubectl apply -f -
""",
)
@options.filenames
@click.option("--config-map", metavar="NAME", help="Print a ConfigMap of this name that holds the list.")
def export_(filenames: tuple[str, ...], config_map: str | None) -> None:
    """Print the tree as a JSON list of domains with their layers, parents and children.

    The tree is that of the ClusterNetworkTopology or of the hyperNodes, as `topology show` draws it.
    """
    import json

    import msgspec

    from tierwise.cli.inputs import load, moment
    from tierwise.dialects.build import build
    from tierwise.dialects.topology_map import entries_of
    from tierwise.sim.cluster import EmbeddedCluster
    from tierwise.sim.rounds import reconcile

    objects = load(filenames)
    time = moment(objects, None)
    cluster = EmbeddedCluster(objects)
    reconcile(cluster, time)
    snapshot = build(cluster.read(), time)
    entries = [msgspec.to_builtins(entry) for entry in entries_of(snapshot.topology, snapshot.nodes.names)]
    text = json.dumps(entries, indent=2)
    if config_map is None:
        click.echo(text)
    else:
        _echo_yaml([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": config_map}, "data": {_KEY: text}}])


@topology.command(
    "import",
    epilog="""\b
Examples:
  tierwise topology import topology.json > hypernodes.yaml
  kubectl get configmap network -o yaml | tierwise topology import -
""",
)
@click.argument("file")
def import_(file: str) -> None:
    """Print the hyperNodes for a JSON list of domains, or for a ConfigMap that holds one."""
    import sys

    from tierwise.api.errors import InputError
    from tierwise.dialects.topology_map import hypernodes_of, read_entries

    try:
        _echo_yaml(hypernodes_of(read_entries(_list_in(file, sys.stdin))))
    except InputError as error:
        raise error.inside(file=file) from None


def _list_in(file: str, stdin: TextIO) -> object:
    """The list in a file: the file itself, or the one text of a ConfigMap."""
    from tierwise.api.errors import InputError
    from tierwise.api.json_text import values
    from tierwise.api.yaml_text import documents
    from tierwise.sim.sources import sources

    (source,) = sources([file], stdin)
    found = [document for document, _ in documents(source.read(), file=source.name) if document is not None]
    if len(found) != 1:
        raise InputError(f"one list or one ConfigMap is expected, not {len(found)} documents", file=source.name)
    document = found[0]
    if not isinstance(document, dict):
        return document
    data = document.get("data")
    texts = list(data.items()) if isinstance(data, dict) else []
    if document.get("kind") != "ConfigMap" or len(texts) != 1:
        raise InputError("expected a list of domains, or a ConfigMap with one text", file=source.name)
    key, text = texts[0]
    where = f"{source.name}: data.{key}"
    found = values(str(text).encode(), file=where)
    if len(found) != 1:
        raise InputError("expected one JSON list", file=where)
    return found[0]


def _echo_yaml(objects: Sequence[Mapping[str, object]]) -> None:
    import yaml

    click.echo(yaml.safe_dump_all(objects, sort_keys=False, explicit_start=len(objects) > 1), nl=False)
