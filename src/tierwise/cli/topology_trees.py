"""The trees that the verbs of `tierwise topology` work on: of sources, of a cluster, and of lists of domains."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from typing import Final, TextIO

import click
import msgspec
import yaml
from msgspec.structs import replace

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.core import ConfigMap, Node
from tierwise.api.errors import InputError, suggestion
from tierwise.api.json_text import values
from tierwise.api.manifest import manifest
from tierwise.api.plurals import count, joined, of, verb
from tierwise.api.volcano import HyperNode
from tierwise.api.yaml_text import documents
from tierwise.cli.inputs import load, tell_crashes
from tierwise.cli.main import report_error
from tierwise.cli.progress import show_progress
from tierwise.cli.topology_source import SourceOptions
from tierwise.controllers.discovery.labels import wanted
from tierwise.dialects.koordinator.topology_map import Entry, members_of
from tierwise.dialects.volcano.discovery import read_label_source
from tierwise.discovery import from_hypernodes, slurm
from tierwise.discovery.from_hypernodes import without_planes as without_plane_hypernodes
from tierwise.discovery.manifests import hypernodes
from tierwise.discovery.naming import names
from tierwise.discovery.presets import PRESETS, carried, preset_named
from tierwise.discovery.slurm import Switch, without_planes
from tierwise.discovery.topograph import labels
from tierwise.discovery.tree import Discovered, SourceRemark, Tree
from tierwise.fetch.origin import FROM_MANIFESTS, KINDS, SourceLocation, discover
from tierwise.fetch.ufm import FetchError, Ufm
from tierwise.manifests.files import sources
from tierwise.model.snapshot import Snapshot
from tierwise.model.topology import fabric_kind, fabric_title
from tierwise.port import Objects, key_of
from tierwise.sim.cluster.driver import reconcile
from tierwise.sim.cluster.store import EmbeddedCluster
from tierwise.snapshot.builder import build

__all__ = [
    "find",
    "list_in",
    "merge_plane_entries",
    "patches",
    "slurm_text",
    "summary",
    "tell_presets",
    "tree_of",
    "yaml_text",
]

_USERNAME: Final = "TIERWISE_UFM_USERNAME"
_PASSWORD: Final = "TIERWISE_UFM_PASSWORD"
_TOKEN: Final = "TIERWISE_UFM_TOKEN"


class FoundTree(msgspec.Struct, frozen=True):
    """Tree that a source gave: its domains, its hyperNodes, and the kind of source that they are labelled with."""

    source: str
    origin: str
    tree: Tree
    hypernodes: list[Raw]


def find(filenames: Sequence[str], wish: SourceOptions) -> tuple[FoundTree, Objects]:
    """The topology of a source, and the objects that were given beside it; remarks go to standard error."""
    origin = _origin(wish)
    if not wish.origin and not filenames:
        raise click.UsageError("the nodes of a cluster are expected: give -f FILE, or another source with --from")
    sources = [*filenames, *([origin.place] if origin.kind in FROM_MANIFESTS and origin.place else [])]
    if origin.kind in FROM_MANIFESTS and not sources:
        raise click.UsageError(f"{origin.kind} reads manifests: give -f FILE, or --from {origin.kind}:FILE")
    objects = load(sources) if sources else Objects()
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
    if wish.preset:
        preset = preset_named(wish.preset)
        if wish.origin:
            raise click.UsageError("--from and --preset both name a source: give one of them")
        if preset is None:
            near = suggestion(wish.preset, PRESETS)
            raise click.UsageError(f'--preset: "{wish.preset}" is none of {", ".join(PRESETS)}{near}')
        return SourceLocation(preset.name)
    kind, _, place = wish.origin.partition(":")
    if not kind and not place:
        return SourceLocation("")
    if kind not in KINDS:
        raise click.UsageError(f'--from: "{kind}" is none of {", ".join(KINDS)}{suggestion(kind, KINDS)}')
    if not place and kind not in FROM_MANIFESTS:
        raise click.UsageError(f"--from: {kind} needs a place, as in {kind}:{'ADDRESS' if kind == 'ufm' else 'FILE'}")
    secrets = {"username": _USERNAME, "password": _PASSWORD, "token": _TOKEN}
    credentials = {name: os.environ.get(variable, "") for name, variable in secrets.items()}
    server = Ufm(place, **credentials, verify=not wish.insecure, timeout=wish.timeout) if kind == "ufm" else None
    return SourceLocation(kind, place, wish.host_column, wish.tiers, wish.topology, server, fabric=wish.fabric)


def _carried(objects: Objects) -> str:
    """The one preset whose labels the nodes carry, and a word about it; InputError for none and for several."""
    nodes = objects.every(Node)
    preset_nodes = carried(nodes.values())
    if not preset_nodes:
        preset_names = ", ".join(PRESETS)
        raise InputError(f"no node carries the labels of a preset ({preset_names}): name another source with --from")
    carried_presets = [f"{name} ({count(number, 'node')})" for name, number in preset_nodes.items()]
    if len(preset_nodes) > 1:
        raise InputError(
            f"nodes carry the labels of several presets, {', '.join(carried_presets)}: choose one with --preset"
        )
    ((name, number),) = preset_nodes.items()
    report_error(f"found the labels of {name} on {of(number, len(nodes), 'node')}")
    return name


def _fetched(origin: SourceLocation, objects: Objects) -> Discovered:
    with show_progress(f"reading {origin}"):
        try:
            return discover(origin, objects, sys.stdin)
        except FetchError as error:
            raise InputError(str(error)) from None


def _refuse(errors: Sequence[SourceRemark]) -> None:
    """All problems, one line each, so that a file can be corrected in one go."""
    for remark in errors[:-1]:
        report_error(str(remark))
    if errors:
        raise InputError(errors[-1].text, file=errors[-1].where or None)


_LABEL_VALUE: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


def _named(discovered: Discovered, origin: SourceLocation, wish: SourceOptions) -> FoundTree:
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
    manifests = hypernodes(tree, names(tree, wish.name_prefix), origin.kind, wish.fabric)
    return FoundTree(origin.kind, str(origin), tree, manifests)


def _from_labels(objects: Objects, origin: SourceLocation, wish: SourceOptions) -> FoundTree:
    """HyperNodes as the label controller makes them: it has names of its own, and keeps those that exist."""
    if wish.name_prefix or wish.tier_names or wish.fabric:
        text = "label discovery names hyperNodes and tiers itself: no --name-prefix, no --tier-names, no --fabric"
        raise click.UsageError(text)
    manifests = wanted(objects)
    if manifests is None:
        configs = [source for c in objects.every(ConfigMap).values() if (source := read_label_source(c)) is not None]
        faults = [fault for source in configs for fault in source.faults]
        raise InputError(faults[0] if faults else "no configuration enables label discovery", file=str(origin))
    records = [codec.decode(raw) for raw in manifests]
    hypernodes_declared = [record for record in records if isinstance(record, HyperNode)]
    discovered = from_hypernodes.read(hypernodes_declared, objects.every(Node).values())
    _refuse(discovered.errors)  # such as a node that two networks claim
    return FoundTree(origin.kind, str(origin), discovered.tree, manifests)


def slurm_text(found_tree: FoundTree, target: str) -> str:
    """The tree in one of Slurm's formats; InputError for a name that it cannot hold."""
    try:
        if target == "slurm":
            return slurm.write_conf(found_tree.tree)
        return slurm.write_yaml(found_tree.tree)
    except ValueError as error:
        raise InputError(str(error), file=found_tree.origin) from None


def patches(found_tree: FoundTree) -> list[Raw]:
    """Nodes with nothing but their labels, for `kubectl apply --server-side`."""
    return [manifest("v1", "Node", node, labels=node_labels) for node, node_labels in labels(found_tree.tree).items()]


def summary(found_tree: FoundTree) -> str:
    """A comment at the head: how much there is of each tier."""
    tree = found_tree.tree
    counts = {tier: sum(path[-1].tier == tier for path in tree) for tier in tree.tiers}
    tiers = [f"{number} of tier {tier} {tree.tier_names.get(tier, '')}".rstrip() for tier, number in counts.items()]
    size = f"{count(len(tree.places), 'node')} in {count(len(tree), 'domain')}"
    return f"# {found_tree.origin}: {size}{': ' if tiers else ''}{', '.join(tiers)}\n"


def yaml_text(manifests: list[Raw]) -> str:
    """Manifests, each a document of its own."""
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    return "".join(f"---\n{yaml.dump(raw, Dumper=dumper, sort_keys=False, width=1 << 20)}" for raw in manifests)


def _planes_merged(objects: Objects) -> Objects:
    """The objects with one hyperNode for all planes of a domain; warnings go to standard error."""
    declared = objects.every(HyperNode)
    remaining, remarks = without_plane_hypernodes(declared.values())
    for remark in remarks:
        report_error(f"warning: {remark}")
    if not remarks:
        return objects
    merged = declared.keys() - {hypernode.metadata.name for hypernode in remaining}
    return objects.updated(
        {key_of(hypernode): (hypernode, None) for hypernode in remaining},
        [key_of(declared[name]) for name in merged],
        objects.version + 1,
    )


def merge_plane_entries(entries: Sequence[Entry]) -> list[Entry]:
    """One domain for each set of planes; InputError where a domain or a node has two parents that differ."""
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
        replace(entry, parents=(), children=(*merged_switch.children, *merged_switch.nodes))
        for entry in entries
        if (merged_switch := switches.get(entry.name)) is not None
    ]


def list_in(file: str, stdin: TextIO) -> object:
    """The list in a file: the file itself, or the one text of a ConfigMap."""
    (source,) = sources([file], stdin)
    contents = [document for document, _ in documents(source.read(), file=source.name) if document is not None]
    if len(contents) != 1:
        raise InputError(f"one list or one ConfigMap is expected, not {len(contents)} documents", file=source.name)
    document = contents[0]
    if not isinstance(document, dict):
        return document
    data = document.get("data")
    texts = list(data.items()) if isinstance(data, dict) else []
    if document.get("kind") != "ConfigMap" or len(texts) != 1:
        raise InputError("expected a list of domains, or a ConfigMap with one text", file=source.name)
    key, text = texts[0]
    where = f"{source.name}: data.{key}"
    contents = values(str(text).encode(), file=where)
    if len(contents) != 1:
        raise InputError("expected one JSON list", file=where)
    return contents[0]


def tree_of(objects: Objects, now: float, fabric: str, *, planes: bool = True) -> Snapshot:
    """The objects with the hyperNodes that controllers make of them, on the tree that is asked for.

    Without `planes` those of one domain are one. InputError where there is no such tree.
    """
    cluster = EmbeddedCluster(objects)
    guard = reconcile(cluster, now)
    tell_crashes(guard)
    found = guard.over(cluster.read())
    kind = fabric_kind(fabric) if fabric else ""
    snapshot = build(found if planes else _planes_merged(found), now, follow=kind)
    if fabric and snapshot.kind != snapshot.tree_aliases.get(kind, kind):
        fabric_titles = [*map(fabric_title, (*snapshot.kinds, *snapshot.tree_aliases))]
        are = f"{verb(len(snapshot.kinds), 'is', 'are')} {', '.join(fabric_titles)}{suggestion(fabric, fabric_titles)}"
        raise InputError(f'there is no tree "{fabric}": there {are}')
    return snapshot


def tell_presets(objects: Objects) -> None:
    """A word about labels that a tree could be made of."""
    preset_nodes = carried(objects.every(Node).values())
    if preset_nodes:
        carriers = joined(
            [f"{name} ({count(number, 'node')})" for name, number in preset_nodes.items()], limit=len(preset_nodes)
        )
        report_error(f"nodes carry the labels of {carriers}: tierwise topology generate makes hyperNodes of them")
