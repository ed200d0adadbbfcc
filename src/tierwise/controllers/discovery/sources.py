"""HyperNodes from all other discovery sources: node labels of clouds and topograph, and records of fetched sources.

Called by `controllers.run`. If a source cannot be read its hyperNodes stay as they are, and `hypernode_status` reports
the problem on each of them. `fetch.refresh` does the fetching and leaves the records.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Final

import msgspec

from tierwise.api.codec import Raw
from tierwise.api.core import ConfigMap, Node
from tierwise.api.volcano import HyperNode
from tierwise.controllers.discovery.hypernodes import reconcile_hypernodes
from tierwise.controllers.stamp import stamp
from tierwise.dialects.volcano.discovery import SOURCE_LABEL, OtherSource, other_sources, read_label_source
from tierwise.discovery import fetch_record
from tierwise.discovery.manifests import hypernodes
from tierwise.discovery.naming import names
from tierwise.discovery.presets import PRESETS, carried
from tierwise.discovery.presets import read as read_preset
from tierwise.discovery.tree import Tree
from tierwise.port import Effect, Objects, key_of_raw

__all__ = ["FETCHED", "failures", "reconcile"]


# The state of the enabled discovery sources: the tree each has to offer, and what keeps it from a newer one.
#
# Called by the controller that makes hyperNodes of the trees, and by the one that tells people of the failures.


FETCHED: Final = frozenset({"ufm", "slurm", "csv", "json"})
"""Kinds of sources that are read from a record of the last fetch."""


ANY_PRESET: Final = "preset"
"""The kind of source that means whichever preset's labels the nodes carry."""


class SourceState(msgspec.Struct, frozen=True):
    """A source with the tree to use, None for none, and why that is not the newest; "" where it is."""

    source: OtherSource
    tree: Tree | None
    failure: str = ""


def source_states(objects: Objects) -> list[SourceState]:
    """Every enabled source but `label`, which has a controller of its own."""
    return [_source_state(objects, source) for source in other_sources(objects.every(ConfigMap).values())]


def _source_state(objects: Objects, source: OtherSource) -> SourceState:
    nodes = objects.every(Node).values()
    preset = PRESETS.get(source.kind)
    if source.kind == ANY_PRESET:
        carries = carried(nodes)
        if len(carries) != 1:
            failure = (
                f"nodes carry the labels of several presets: {', '.join(carries)}" if carries else "no preset is found"
            )
            return SourceState(source, None, failure)
        preset = PRESETS[next(iter(carries))]
    if preset is not None:
        tree_read = read_preset(preset, nodes)
        return SourceState(source, None if tree_read.errors else tree_read.tree, "; ".join(map(str, tree_read.errors)))
    if source.kind not in FETCHED:
        return SourceState(source, None, f'"{source.kind}" is not a known source')
    config_map = objects.every(ConfigMap).get(f"{source.namespace}/{fetch_record.record_name(source.kind)}")
    if config_map is None:
        return SourceState(source, None, "not fetched yet")
    try:
        found_record = fetch_record.read(config_map)
    except ValueError as error:
        return SourceState(source, None, str(error))
    return SourceState(source, found_record.tree, _told(found_record, source.interval))


def _told(record: fetch_record.FetchRecord, interval: float) -> str:
    """Text about a failing source: the error, number of failures, next attempt, and age of the tree in use; "" if it
    works.
    """
    if not record.failures:
        return ""
    times = "1 failure" if record.failures == 1 else f"{record.failures} failures in a row"
    text = f"{record.error}; {times}, next try at {stamp(fetch_record.next_try(record, interval))}"
    return text + (f"; the tree of {stamp(record.fetched_at)} is kept" if record.tree is not None else "")


def failures(objects: Objects) -> dict[str, str]:
    """Error text of each failing source, by its kind."""
    by_source = {state.source.kind: state.failure for state in source_states(objects) if state.failure}
    for config in objects.every(ConfigMap).values():
        label = read_label_source(config)
        if label is not None and label.faults:
            by_source["label"] = "; ".join(label.faults)
    return by_source


def reconcile(objects: Objects, now: float) -> list[Effect]:
    """Bring the hyperNodes of each enabled source in line with its last tree."""
    effects: list[Effect] = []
    claimed: set[str] = set()
    for state in source_states(objects):
        if state.tree is not None:
            manifests = _wanted(objects, state.tree, state.source, claimed)
            claimed |= {key_of_raw(manifest).name for manifest in manifests}
            effects += reconcile_hypernodes(objects, manifests, state.source.kind)
    return effects


def _wanted(objects: Objects, tree: Tree, source: OtherSource, claimed: Set[str]) -> list[Raw]:
    """The hyperNodes of a tree; a name that another source or a person has given stays theirs."""
    theirs = {
        name for name, h in objects.every(HyperNode).items() if h.metadata.labels.get(SOURCE_LABEL) != source.kind
    }
    called = names(tree, source.text("namePrefix"), used_names=theirs | claimed)
    return hypernodes(tree, called, source.kind, source.text("fabric"))
