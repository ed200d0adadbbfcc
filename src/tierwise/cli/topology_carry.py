"""`tierwise topology export` and `import`: the tree as a JSON list, to carry elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TextIO

import click
import msgspec

from tierwise.cli import options

if TYPE_CHECKING:
    from tierwise.dialects.topology_map import Entry

__all__ = ["export_", "import_"]

_KEY = "topology.json"
"""Where an exported ConfigMap holds its list."""


@click.command(
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

    The tree is that of the hyperNodes, or of the ClusterNetworkTopology where there are none, as in `topology show`.
    """
    import json

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


@click.command(
    "import",
    epilog="""\b
Examples:
  tierwise topology import topology.json > hypernodes.yaml
  kubectl get configmap network -o yaml | tierwise topology import -
""",
)
@click.argument("file")
def import_(file: str) -> None:
    """Print the hyperNodes for a JSON list of domains, or for a ConfigMap that holds one.

    Planes, which are domains of one layer with the same members, become one hyperNode, with a warning.
    """
    import sys

    from tierwise.api.errors import InputError
    from tierwise.dialects.topology_map import hypernodes_of, read_entries

    try:
        _echo_yaml(hypernodes_of(_without_planes(read_entries(_list_in(file, sys.stdin)))))
    except InputError as error:
        raise error.inside(file=file) from None


def _without_planes(entries: Sequence[Entry]) -> list[Entry]:
    """One domain for each set of planes; InputError where a domain or a node has two parents that differ."""
    from msgspec.structs import replace

    from tierwise.api.errors import InputError
    from tierwise.cli.main import complain
    from tierwise.dialects.topology_map import members_of
    from tierwise.discovery.switches import Switch, without_planes

    domains = {entry.name: i for i, entry in enumerate(entries)}
    members = members_of(entries)
    written = [
        Switch(
            name,
            nodes=tuple(m for m in members[name] if m not in domains),
            children=tuple(m for m in members[name] if m in domains),
            where=f"[{i}]",
        )
        for name, i in domains.items()
    ]
    switches, _, remarks = without_planes(written)
    for remark in remarks:
        if remark.error:
            raise InputError(remark.text.replace("switch ", "domain "), field=remark.where)
        complain(f"warning: {remark.where}: {remark.text.replace('switch ', 'domain ')}")
    return [
        replace(entry, parents=(), children=(*kept.children, *kept.nodes))
        for entry in entries
        if (kept := switches.get(entry.name)) is not None
    ]


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
