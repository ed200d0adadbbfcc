"""`tierwise topology`: the tree of hyperNodes as the scheduler sees it, and where it could come from."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, TextIO

import click
import msgspec

from tierwise.api.errors import InputError
from tierwise.cli import options
from tierwise.cli.inputs import Source
from tierwise.cli.options import Output, argument, option, verb

if TYPE_CHECKING:
    from tierwise.api.codec import Raw
    from tierwise.dialects.koordinator.topology_map import Entry
    from tierwise.discovery.tree import Discovered, SourceRemark, Tree
    from tierwise.fetch.origin import SourceLocation
    from tierwise.model.snapshot import Snapshot
    from tierwise.port import Objects

__all__ = ["FoundTree", "SourceOptions", "diff", "export_", "find", "generate", "import_", "topology"]


# The options that say where a topology comes from, and the hyperNodes that come of it.
#
# Shared by `topology generate` and `topology diff`.


_USERNAME: Final = "TIERWISE_UFM_USERNAME"
_PASSWORD: Final = "TIERWISE_UFM_PASSWORD"
_TOKEN: Final = "TIERWISE_UFM_TOKEN"


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


class SourceOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Where a topology comes from, word for word; lists run from the innermost tier outwards."""

    origin: str = option(
        "--from KIND[:PLACE]",
        "slurm, csv, json: a file, or - for standard input. ufm: an address. label, hypernodes, topograph, aws and "
        "other presets: manifests.  [default: the preset whose labels the nodes carry]",
        default="",
    )
    preset: str = option(
        "--preset NAME", "Node labels to read: aws, azure, coreweave, gke, nebius, oke, topograph.", default=""
    )
    fabric: str = option("--fabric NAME", "The fabric of the hyperNodes, where there are several.", default="")
    name_prefix: str = option("--name-prefix TEXT", "Put before the name of every hyperNode.", default="")
    tier_names: tuple[str, ...] = option(
        "--tier-names NAME,...", "tierNames, innermost first.", default="", read=_words
    )
    host_column: str = option("--host-column NAME", "csv, json: the column of the hosts.", default="")
    tiers: tuple[str, ...] = option("--tiers NAME,...", "csv, json: columns, innermost first.", default="", read=_words)
    topology: str = option("--topology NAME", "slurm: which topology of a topology.yaml.", default="")
    insecure: bool = option("--insecure-skip-verify", "ufm: do not check the certificate.")
    timeout: float = option("--timeout SECONDS", "ufm: how long to wait.", default=30.0, least=0.1)


class FoundTree(msgspec.Struct, frozen=True):
    """What came of it: the tree and its hyperNodes, and the kind of source that they are marked with."""

    source: str
    origin: str
    tree: Tree
    hypernodes: list[Raw]


def find(filenames: Sequence[str], wish: SourceOptions) -> tuple[FoundTree, Objects]:
    """The topology of a source, and the objects that were given beside it; remarks go to standard error."""
    from tierwise.cli.inputs import load
    from tierwise.cli.main import report_error
    from tierwise.fetch.origin import FROM_MANIFESTS, SourceLocation
    from tierwise.port import Objects

    origin = _origin(wish)
    if not wish.origin and not filenames:
        raise click.UsageError("the nodes of a cluster are expected: give -f FILE, or another source with --from")
    given = [*filenames, *([origin.place] if origin.kind in FROM_MANIFESTS and origin.place else [])]
    if origin.kind in FROM_MANIFESTS and not given:
        raise click.UsageError(f"{origin.kind} reads manifests: give -f FILE, or --from {origin.kind}:FILE")
    objects = load(given) if given else Objects()
    if not origin.kind:
        origin = SourceLocation(_carried(objects))
    if origin.kind == "label":
        return _from_labels(objects, origin, wish), objects
    discovered = _fetched(origin, objects)
    for remark in discovered.warnings:
        report_error(f"warning: {remark}")
    _refuse(discovered.errors)
    return _named(discovered, origin, wish), objects


def _origin(wish: SourceOptions) -> SourceLocation:
    """The source that was named; one without a kind where that is left to the labels of the nodes."""
    from tierwise.discovery.presets import PRESETS, preset_named
    from tierwise.fetch.origin import FROM_MANIFESTS, KINDS, SourceLocation
    from tierwise.fetch.ufm import Ufm

    if wish.preset:
        preset = preset_named(wish.preset)
        if wish.origin:
            raise click.UsageError("--from and --preset both name a source: give one of them")
        if preset is None:
            raise click.UsageError(f'--preset: "{wish.preset}" is none of {", ".join(PRESETS)}')
        return SourceLocation(preset.name)
    kind, _, place = wish.origin.partition(":")
    if not kind and not place:
        return SourceLocation("")
    if kind not in KINDS:
        raise click.UsageError(f'--from: "{kind}" is none of {", ".join(KINDS)}')
    if not place and kind not in FROM_MANIFESTS:
        raise click.UsageError(f"--from: {kind} needs a place, as in {kind}:{'ADDRESS' if kind == 'ufm' else 'FILE'}")
    secrets = {"username": _USERNAME, "password": _PASSWORD, "token": _TOKEN}
    known = {name: os.environ.get(variable, "") for name, variable in secrets.items()}
    server = Ufm(place, **known, verify=not wish.insecure, timeout=wish.timeout) if kind == "ufm" else None
    return SourceLocation(kind, place, wish.host_column, wish.tiers, wish.topology, server, fabric=wish.fabric)


def _carried(objects: Objects) -> str:
    """The one preset whose labels the nodes carry, and a word about it; InputError for none and for several."""
    from tierwise.api.core import Node
    from tierwise.api.plurals import count, of
    from tierwise.cli.main import report_error
    from tierwise.discovery.presets import PRESETS, carried

    nodes = objects.every(Node)
    found = carried(nodes.values())
    if not found:
        known = ", ".join(PRESETS)
        raise InputError(f"no node carries the labels of a preset ({known}): name another source with --from")
    told = [f"{name} ({count(number, 'node')})" for name, number in found.items()]
    if len(found) > 1:
        raise InputError(f"nodes carry the labels of several presets, {', '.join(told)}: choose one with --preset")
    ((name, number),) = found.items()
    report_error(f"found the labels of {name} on {of(number, len(nodes), 'node')}")
    return name


def _fetched(origin: SourceLocation, objects: Objects) -> Discovered:
    from tierwise.cli.progress import show_progress
    from tierwise.fetch.origin import discover
    from tierwise.fetch.ufm import FetchError

    with show_progress(f"reading {origin}"):
        try:
            return discover(origin, objects, sys.stdin)
        except FetchError as error:
            raise InputError(str(error)) from None


def _refuse(errors: Sequence[SourceRemark]) -> None:
    """All problems, one line each, so that a file can be corrected in one go."""
    from tierwise.cli.main import report_error

    for remark in errors[:-1]:
        report_error(str(remark))
    if errors:
        raise InputError(errors[-1].text, file=errors[-1].where or None)


_LABEL_VALUE: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


def _named(discovered: Discovered, origin: SourceLocation, wish: SourceOptions) -> FoundTree:
    from msgspec.structs import replace

    from tierwise.discovery.manifests import hypernodes
    from tierwise.discovery.naming import names

    tree = discovered.tree
    if wish.tier_names:
        if len(wish.tier_names) > len(tree.tiers):
            raise click.UsageError(f"--tier-names: {len(wish.tier_names)} names for {len(tree.tiers)} tiers")
        named = zip(tree.tiers, wish.tier_names, strict=False)
        tree = replace(tree, tier_names={**tree.tier_names, **dict(named)})
        called = list(tree.tier_names.values())
        if twice := next((name for name in wish.tier_names if name and called.count(name) > 1), ""):
            raise click.UsageError(f'--tier-names: "{twice}" would be the name of several tiers')
    if wish.fabric and not _LABEL_VALUE.fullmatch(wish.fabric):
        raise click.UsageError(f'--fabric: "{wish.fabric}" cannot be the value of a label')
    made = hypernodes(tree, names(tree, wish.name_prefix), origin.kind, wish.fabric)
    return FoundTree(origin.kind, str(origin), tree, made)


def _from_labels(objects: Objects, origin: SourceLocation, wish: SourceOptions) -> FoundTree:
    """HyperNodes as the label controller makes them: it has names of its own, and keeps those that exist."""
    from tierwise.api import codec
    from tierwise.api.core import ConfigMap, Node
    from tierwise.api.volcano import HyperNode
    from tierwise.controllers.discovery.labels import wanted
    from tierwise.dialects.volcano.discovery import read_label_source
    from tierwise.discovery import from_hypernodes

    if wish.name_prefix or wish.tier_names or wish.fabric:
        text = "label discovery names hyperNodes and tiers itself: no --name-prefix, no --tier-names, no --fabric"
        raise click.UsageError(text)
    manifests = wanted(objects)
    if manifests is None:
        configs = [source for c in objects.every(ConfigMap).values() if (source := read_label_source(c)) is not None]
        faults = [fault for source in configs for fault in source.faults]
        raise InputError(faults[0] if faults else "no configuration enables label discovery", file=str(origin))
    records = [codec.decode(raw) for raw in manifests]
    found = [record for record in records if isinstance(record, HyperNode)]
    discovered = from_hypernodes.read(found, objects.every(Node).values())
    _refuse(discovered.errors)  # such as a node that two networks claim
    return FoundTree(origin.kind, str(origin), discovered.tree, manifests)


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
    found, _ = find(filenames, wish)
    if target.startswith("slurm"):
        if output_format == "json":
            raise click.UsageError(f"--to {target} is not JSON")
        click.echo(_summary(found) + _slurm(found, target), nl=False)
        return
    manifests = found.hypernodes if target == "hypernodes" else _patches(found)
    if output_format == "json":
        from tierwise.cli.screen import print_json

        print_json({"apiVersion": "v1", "kind": "List", "items": manifests})
    else:
        click.echo(_summary(found) + _yaml(manifests), nl=False)


def _slurm(found: FoundTree, target: str) -> str:
    from tierwise.discovery import slurm

    try:
        return slurm.write_conf(found.tree) if target == "slurm" else slurm.write_yaml(found.tree)
    except ValueError as error:
        raise InputError(str(error), file=found.origin) from None


def _patches(found: FoundTree) -> list[Raw]:
    """Nodes with nothing but their labels, for `kubectl apply --server-side`."""
    from tierwise.discovery.topograph import labels

    return [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node, "labels": given}}
        for node, given in labels(found.tree).items()
    ]


def _summary(found: FoundTree) -> str:
    """A comment at the head: how much there is of each tier."""
    from tierwise.api.plurals import count

    tree = found.tree
    counts = {tier: sum(path[-1].tier == tier for path in tree) for tier in tree.tiers}
    told = [f"{number} of tier {tier} {tree.tier_names.get(tier, '')}".rstrip() for tier, number in counts.items()]
    whole = f"{count(len(tree.places), 'node')} in {count(len(tree), 'domain')}"
    return f"# {found.origin}: {whole}{': ' if told else ''}{', '.join(told)}\n"


def _yaml(manifests: list[Raw]) -> str:
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    return "".join(f"---\n{yaml.dump(raw, Dumper=dumper, sort_keys=False, width=1 << 20)}" for raw in manifests)


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
    from tierwise.discovery.changes import changes
    from tierwise.explain.text.topology import changes_lines, changes_wire

    found, objects = find(filenames, wish)
    records = [codec.decode(raw) for raw in found.hypernodes]
    wanted = [record for record in records if isinstance(record, HyperNode)]
    told = changes(wanted, objects.every(HyperNode), source=found.source, nodes=objects.every(Node))
    output.show(lambda: changes_wire(told), lambda page: changes_lines(page, told, found.origin))
    if not told.none:
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
    import json

    from tierwise.cli.inputs import load, moment, tell_crashes, tell_unread
    from tierwise.dialects.koordinator.topology_map import entries_of
    from tierwise.model.topology import fabric_kind
    from tierwise.sim.cluster.driver import reconcile
    from tierwise.sim.cluster.store import EmbeddedCluster
    from tierwise.snapshot.builder import build

    objects = load(filenames)
    tell_unread(objects)
    time = moment(objects, None)
    cluster = EmbeddedCluster(objects)
    guard = reconcile(cluster, time)
    tell_crashes(guard)
    merged = _planes_merged(guard.over(cluster.read()))
    snapshot = build(merged, time, follow=fabric_kind(fabric) if fabric else "")
    _known_fabric(snapshot, fabric)
    entries = [msgspec.to_builtins(entry) for entry in entries_of(snapshot.topology, snapshot.nodes.names)]
    text = json.dumps(entries, indent=2)
    if config_map is None:
        click.echo(text)
    else:
        _echo_yaml([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": config_map}, "data": {_KEY: text}}])


def _planes_merged(objects: Objects) -> Objects:
    """The objects with one hyperNode for all planes of a domain; warnings go to standard error."""
    from tierwise.api.volcano import HyperNode
    from tierwise.cli.main import report_error
    from tierwise.discovery.from_hypernodes import without_planes
    from tierwise.port import key_of

    given = objects.every(HyperNode)
    kept, remarks = without_planes(given.values())
    for remark in remarks:
        report_error(f"warning: {remark}")
    if not remarks:
        return objects
    merged = given.keys() - {hypernode.metadata.name for hypernode in kept}
    return objects.updated(
        {key_of(hypernode): (hypernode, None) for hypernode in kept},
        [key_of(given[name]) for name in merged],
        objects.version + 1,
    )


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
    import sys

    from tierwise.api.errors import InputError
    from tierwise.dialects.koordinator.topology_map import hypernodes_of, read_entries

    try:
        _echo_yaml(hypernodes_of(_without_planes(read_entries(_list_in(file, sys.stdin)))))
    except InputError as error:
        raise error.inside(file=file) from None


def _without_planes(entries: Sequence[Entry]) -> list[Entry]:
    """One domain for each set of planes; InputError where a domain or a node has two parents that differ."""
    from msgspec.structs import replace

    from tierwise.api.errors import InputError
    from tierwise.cli.main import report_error
    from tierwise.dialects.koordinator.topology_map import members_of
    from tierwise.discovery.slurm import Switch, without_planes

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
        report_error(f"warning: {remark.where}: {remark.text.replace('switch ', 'domain ')}")
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
    from tierwise.manifests.files import sources

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
    from tierwise.cli.inputs import moment, profile_of, tell_crashes, tell_unread
    from tierwise.cli.progress import show_progress
    from tierwise.explain.text.topology import topology_lines
    from tierwise.explain.wire import topology_wire
    from tierwise.model.topology import fabric_kind
    from tierwise.sim.cluster.driver import reconcile
    from tierwise.sim.cluster.store import EmbeddedCluster
    from tierwise.snapshot.builder import build

    profile_of(config_file)  # the tree does not depend on it, but a broken one is bad input all the same
    objects = source.objects(tell_unread)
    time = moment(objects, now)
    with show_progress("building the tree"):
        cluster = EmbeddedCluster(objects)
        guard = reconcile(cluster, time)
        snapshot = build(guard.over(cluster.read()), time, follow=fabric_kind(fabric) if fabric else "")
    tell_crashes(guard)
    _known_fabric(snapshot, fabric)
    if len(snapshot.topology) == 1:  # the root alone
        _tell_presets(objects)
    output.show(lambda: topology_wire(snapshot), lambda page: topology_lines(page, snapshot))


def _known_fabric(snapshot: Snapshot, name: str) -> None:
    """InputError where the tree that was asked for is not there."""
    from tierwise.model.topology import fabric_kind, fabric_title

    kind = fabric_kind(name)
    if name and snapshot.kind != snapshot.tree_aliases.get(kind, kind):
        known = ", ".join(map(fabric_title, (*snapshot.kinds, *snapshot.tree_aliases)))
        raise InputError(f'there is no tree "{name}": there {"is" if len(snapshot.kinds) == 1 else "are"} {known}')


def _tell_presets(objects: Objects) -> None:
    """A word about labels that a tree could be made of."""
    from tierwise.api.core import Node
    from tierwise.api.plurals import count, joined
    from tierwise.cli.main import report_error
    from tierwise.discovery.presets import carried

    found = carried(objects.every(Node).values())
    if found:
        told = joined([f"{name} ({count(number, 'node')})" for name, number in found.items()], most=len(found))
        report_error(f"nodes carry the labels of {told}: tierwise topology generate makes hyperNodes of them")


for command in (show, generate, diff, export_, import_):
    topology.add_command(command)
