"""Kubernetes' volume rules: VolumeBinding, VolumeZone, NodeVolumeLimits and VolumeRestrictions, for gangs.

A claim with a volume ties its pod to the nodes that reach the volume. A claim that waits for its first consumer gets
the smallest volume that fits, or one that is made for the node; which one is written down before the pod is bound, and
the gang waits until all claims of its minimum are bound (`before_bind`). How many volumes a driver may attach to a node
is counted as a resource; a volume that several pods use counts once.

The scheduler adds this plugin itself where pods have volumes. A profile may name it for its argument:
`bindTimeoutSeconds` (600), for how long a gang waits for volumes before its choice is taken back.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from typing import Final

import msgspec
import numpy as np

from tierwise.api.codec import Raw
from tierwise.api.core import LabelSelector, NodeSelector, NodeSelectorTerm, Requirement, format_time
from tierwise.api.plurals import joined, verb
from tierwise.api.storage import BOUND_BY_CONTROLLER, SELECTED_NODE, TopologyRequirement, TopologySelectorTerm
from tierwise.config.arguments import number
from tierwise.dialects.kubernetes.csi_migration import ZONE_LABELS
from tierwise.dialects.kubernetes.volumes import CHOSEN_AT, CHOSEN_NODE, FAILED_AT
from tierwise.framework.declaration import takes_part
from tierwise.framework.extension import Arguments, CycleView, Delay, Delaying, Filter, Gate, PreBind, Preparation
from tierwise.framework.ledger import Ledger, Pool, Tally
from tierwise.framework.pod_rules import Apart, AtMost, PodRules
from tierwise.model.arrays import Bools, Ints, Why
from tierwise.model.job import Job, Reason, Shape, Status, Task
from tierwise.model.node import NodeTable
from tierwise.model.volumes import ATTACH_PREFIX, Claim, ClaimTerms, DiskUse, PodVolumes, VolumeTerms
from tierwise.plugins.kubernetes.node_affinity import in_any_term
from tierwise.plugins.kubernetes.volume_pool import MADE, RESERVED, VolumePool
from tierwise.port import Key, Prepare

__all__ = ["Volumes"]

_PLUGIN: Final = "volumes"
_TIMEOUT: Final = 600.0
_PAUSE: Final = 10.0
"""Seconds before a choice that came to nothing is made again, the longest that Kubernetes' scheduler waits."""

_OLD: Final = dict(zip(ZONE_LABELS[:2], ZONE_LABELS[2:], strict=True))
"""Labels of zones and regions from before they had their present names."""

_ZONE: Final = ZONE_LABELS[2]
_UNLIMITED: Final = 2**62

_encode = msgspec.msgpack.Encoder().encode


class _Reach:
    """Which nodes volumes can be reached from, and which they can be made for."""

    def __init__(self, view: CycleView) -> None:
        self._nodes = view.nodes
        self._storage = view.snapshot.storage
        self._masks: dict[bytes, Bools] = {}
        self._migrated: dict[str, Bools] = {}

    def affinity(self, selector: NodeSelector | None) -> Bools:
        """The nodes of a volume's affinity; fields of nodes do not count there."""
        if selector is None:
            return np.ones(len(self._nodes), dtype=bool)
        key = _encode(selector)
        mask = self._masks.get(key)
        if mask is None:
            terms = selector.node_selector_terms
            if any(term.match_fields and not term.match_expressions for term in terms):
                mask = np.ones(len(self._nodes), dtype=bool)
            else:
                labels = (NodeSelectorTerm(match_expressions=term.match_expressions) for term in terms)
                mask = in_any_term(self._nodes, NodeSelector(node_selector_terms=tuple(labels)))
            self._masks[key] = mask
        return mask

    def rows(self, kinds: Ints) -> tuple[Ints, Ints]:
        """The rows of nodes that the volumes of these kinds can be reached from, kind after kind; how many each has.

        Local disks come by the ten thousands, each with the name of its node: those are looked up by the label's value.
        """
        labels, (rows, label_starts, label_ends) = self._storage.columns.label[kinds], self._labelled
        begins = label_starts[labels]
        ends = label_ends[labels]
        sources = [rows]
        for i in np.flatnonzero(labels < 0).tolist():
            rows_of_volume = np.flatnonzero(self.affinity(self._storage.volumes[int(kinds[i])][0].affinity))
            begins[i] = sum(map(len, sources))
            ends[i] = begins[i] + len(rows_of_volume)
            sources.append(rows_of_volume)
        widths = ends - begins
        before = np.cumsum(widths) - widths
        every = np.concatenate(sources) if len(sources) > 1 else rows
        return every[np.repeat(begins - before, widths) + np.arange(int(widths.sum()))], widths

    @cached_property
    def _labelled(self) -> tuple[Ints, Ints, Ints]:
        """Rows by the labels that kinds of volumes ask for, and where those of each label begin and end."""
        rows: list[Ints] = [np.zeros(0, dtype=np.int64)]
        spans: list[tuple[int, int]] = []
        spans_by_key: dict[str, dict[str, tuple[int, int]]] = {}  # by key and value of a label
        length = 0
        for key, value in self._storage.columns.labels:
            if key not in spans_by_key:
                column = self._nodes.labels.column(key)
                order = np.argsort(column.codes, kind="stable")
                bounds = (length + np.searchsorted(column.codes[order], np.arange(len(column.values) + 1))).tolist()
                spans_by_key[key] = dict(zip(column.values, pairwise(bounds), strict=True))
                rows.append(order)
                length += len(order)
            spans.append(spans_by_key[key].get(value, (0, 0)))
        spans.append((0, 0))  # the last is for kinds that ask for something else
        starts, stops = np.array(spans, dtype=np.int64).T
        return np.concatenate(rows), starts, stops

    def settled(self, volume: VolumeTerms) -> Bools:
        """The nodes that a settled volume can be reached from, zones aside."""
        reached = self.affinity(volume.affinity)
        if not volume.plugin:
            return reached
        served = self._served(volume.plugin)
        if not served.any():
            return reached
        reached_by_driver = np.zeros_like(served) if volume.untranslatable else self.affinity(volume.migrated)
        return np.where(served, reached_by_driver, reached)

    def _served(self, plugin: str) -> Bools:
        """The nodes where a driver does the work of a plugin."""
        served = self._migrated.get(plugin)
        if served is None:
            served = self._migrated[plugin] = np.zeros(len(self._nodes), dtype=bool)
            for name, plugins in self._storage.migrated.items():
                if plugin in plugins and name in self._nodes.row:
                    served[self._nodes.row[name]] = True
        return served

    def zones(self, volume: VolumeTerms) -> Bools:
        """The nodes in the zones and regions of a volume; a node without any such label is in all of them."""
        marked = np.zeros(len(self._nodes), dtype=bool)
        inside = np.ones(len(self._nodes), dtype=bool)
        for key in ZONE_LABELS:
            marked |= self._nodes.labels.column(key).codes >= 0
        for key, values in volume.zones:
            column = self._nodes.labels.column(key)
            in_zone = column.where([value in values for value in column.values], missing=False)
            if key in _OLD:  # nodes may have the present name alone
                old_column = self._nodes.labels.column(_OLD[key])
                newer = old_column.where([value in values for value in old_column.values], missing=False)
                in_zone = np.where(column.codes >= 0, in_zone, newer)
            inside &= in_zone
        return inside | ~marked

    def made(self, claim: ClaimTerms) -> tuple[Bools, Bools]:
        """The nodes that a volume can be made for by the rules of its class, and those of them with room for it."""
        storage_class = self._storage.classes.get(claim.storage_class)
        if storage_class is None or not storage_class.provisioner:
            nowhere = np.zeros(len(self._nodes), dtype=bool)
            return nowhere, nowhere
        allowed = self._topologies(storage_class.topologies)
        if storage_class.rooms is None or not claim.sized:
            return allowed, allowed
        roomy = np.zeros(len(self._nodes), dtype=bool)
        size_needed = -(-claim.size // 1000)
        for largest, nodes in storage_class.rooms:
            if largest >= size_needed and nodes is not None:
                roomy |= self._selected(nodes)
        return allowed, allowed & roomy

    def _topologies(self, terms: tuple[TopologySelectorTerm, ...]) -> Bools:
        if not terms:
            return np.ones(len(self._nodes), dtype=bool)
        requirements = (map(_has_one_of, term.match_label_expressions) for term in terms)
        selector = NodeSelector(
            node_selector_terms=tuple(
                NodeSelectorTerm(match_expressions=(*term_requirements,)) for term_requirements in requirements
            )
        )
        return in_any_term(self._nodes, selector)

    def _selected(self, selector: LabelSelector) -> Bools:
        label_requirements = [Requirement(key=k, operator="In", values=(v,)) for k, v in selector.match_labels.items()]
        expressions = (*label_requirements, *selector.match_expressions)
        if not expressions:
            return np.ones(len(self._nodes), dtype=bool)
        if any(requirement.operator not in ("In", "NotIn", "Exists", "DoesNotExist") for requirement in expressions):
            return np.zeros(len(self._nodes), dtype=bool)
        term = NodeSelectorTerm(match_expressions=expressions)
        return in_any_term(self._nodes, NodeSelector(node_selector_terms=(term,)))


class _SharedVolumes:
    """Volumes that several pods use, of drivers with limits: each counts once on a node, however many pods use it."""

    def __init__(self, view: CycleView, shapes: list[Shape]) -> None:
        self._column = {
            name.removeprefix(ATTACH_PREFIX): r
            for r, name in enumerate(view.axis.names)
            if name.startswith(ATTACH_PREFIX)
        }
        self._users: dict[tuple[str, str], Ints] = {}  # per row; of those that a task to be placed uses
        ledger = view.ledger
        users_by_volume: dict[tuple[str, str], Ints] = {}
        for number_, rows in ledger.held.items():
            volumes = view.snapshot.shapes[number_].volumes
            for volume in volumes.shared if volumes is not None else ():
                users_by_volume.setdefault(volume, np.zeros(len(view.nodes), dtype=np.int64))
                np.add.at(users_by_volume[volume], rows, 1)
        for shape in shapes:
            for volume in shape.volumes.shared if shape.volumes is not None else ():
                self._users[volume] = users_by_volume.setdefault(volume, np.zeros(len(view.nodes), dtype=np.int64))
        self._standing = {volume: users.copy() for volume, users in users_by_volume.items() if volume in self._users}
        for (driver, _), users in users_by_volume.items():
            if driver in self._column and users.any():
                ledger.occupy(self._column[driver], np.flatnonzero(users), 1)
        if self._users:
            ledger.follow(self, linger=self._attached)

    def count(self, ledger: Ledger, shape: Shape, rows: Ints, counts: Ints) -> None:
        """A volume takes its place with the first task on a node, and leaves it with the last."""
        for volume in shape.volumes.shared if shape.volumes is not None else ():
            users = self._users.get(volume)
            if users is None:
                continue
            before = users[rows]
            ledger.save(users, rows)
            users[rows] = after = np.maximum(before + counts, 0)
            column = self._column.get(volume[0])
            if column is None:
                continue
            came = rows[(before == 0) & (after > 0)]
            went = rows[(before > 0) & (after == 0)]
            evicted = self._standing[volume][went] > 0
            for moved, amount in ((came, 1), (went[~evicted], -1)):
                if len(moved):
                    ledger.occupy(column, moved, amount)
            if evicted.any():
                ledger.vacate(column, went[evicted], 1)

    def _attached(self, ledger: Ledger, shape: Shape, rows: Ints, counts: Ints) -> None:
        """Evicted tasks use their volumes until they are gone; what their going frees is counted already."""
        for volume in shape.volumes.shared if shape.volumes is not None else ():
            if volume in self._users:
                ledger.save(self._users[volume], rows)
                self._users[volume][rows] += counts

    def limited(self, shape: Shape) -> frozenset[tuple[str, str]]:
        """The volumes that tasks of a shape share, of drivers that attach only so many to some node."""
        shared = shape.volumes.shared if shape.volumes is not None else ()
        return frozenset(volume for volume in shared if volume[0] in self._column)

    def takes_more(self, shape: Shape) -> bool:
        """Whether each task of a shape takes places of some driver for itself."""
        return any(shape.request[column] for column in self._column.values())

    def full(self, ledger: Ledger, shape: Shape, volumes: PodVolumes, span: slice) -> Bools:
        """Which rows cannot attach the shared volumes of one more task besides its own."""
        full = np.zeros(span.stop - span.start, dtype=bool)
        for driver in dict.fromkeys(driver for driver, _ in volumes.shared):
            column = self._column.get(driver)
            if column is None:
                continue
            need = np.full(len(full), int(shape.request[column]), dtype=np.int64)
            promised = np.zeros(len(full), dtype=bool)
            for shared_volume in volumes.shared:
                if shared_volume[0] == driver:
                    need += self._users[shared_volume][span] == 0
                    promised |= (self._users[shared_volume][span] > 0) & (self._standing[shared_volume][span] == 0)
            free = ledger.free(np.array([column]), span, Pool.IDLE)[0]
            # A place that is only kept for another user of the volume may not hold it any more.
            full |= (need > free) & ((need > 0) | promised)
        return full


@takes_part(Delaying, Gate, Filter, PreBind, ignores_names=True)
class Volumes:
    """Says which nodes a pod's volumes allow, and what must be written before it is bound."""

    def __init__(self, arguments: Arguments, view: CycleView) -> None:
        self._view = view
        self._nodes: NodeTable = view.nodes
        self._now = view.snapshot.now
        self._timeout = number(arguments, "bindTimeoutSeconds", _TIMEOUT)
        self._reach = _Reach(view)
        self._claims: dict[int, list[str]] = {}  # of some task of a shape
        shapes: dict[int, Shape] = {}
        for job in view.jobs:
            for pod_set in job.every_pod_set():
                if pod_set.shape.volumes is not None:
                    shapes[pod_set.shape.number] = pod_set.shape
                    if pod_set.tasks and pod_set.shape.number not in self._claims:
                        self._claims[pod_set.shape.number] = list(pod_set.tasks[0].volume_names)
        placed = list(shapes.values())
        storage = view.snapshot.storage
        self._pool = VolumePool(view.ledger, storage, placed, self._reach.rows, len(view.nodes))
        self._shared = _SharedVolumes(view, placed)
        self._exclusive = self._count_users(placed)
        self._disks = self._count_disks(placed)
        self._made: dict[bytes, tuple[Bools, Bools]] = {}
        self._besides: dict[int, list[Bools]] = {}
        self._moving: dict[int, bool] = {}
        self._dealt: dict[tuple[int, int], list[list[int]]] | None = None
        self._given: dict[int, int] = {}  # by kind of volume: how many were given away
        self._prepared: set[str] = set()  # claims that something was said about in this cycle

    # -- filters

    def why_not(self, shape: Shape) -> Why:
        """The first objection per row: a claim that is not in order, affinity, zone, a volume to be had."""
        why = np.zeros(len(self._nodes), dtype=np.uint16)
        volumes = shape.volumes
        if volumes is None:
            return why
        if volumes.refusal is not None:
            text = f"cannot help: {volumes.refusal.text}"
            why[:] = self._view.reasons.number(Reason(volumes.refusal.code, _PLUGIN, text))
            return why
        self._object_to_choice(shape, volumes, why)
        for volume in volumes.settled:
            if volume.zones:
                where = ", ".join(f"{key}={' or '.join(values)}" for key, values in volume.zones)
                text = f"were not in the zone of {self._named(shape, 'the volume')} ({where})"
                self._object(why, ~self._reach.zones(volume), Reason("VolumeZoneMismatch", _PLUGIN, text))
            text = f"could not reach {self._named(shape, 'the volume')}"
            self._object(why, ~self._reach.settled(volume), Reason("VolumeNodeAffinity", _PLUGIN, text))
        return why

    def _object_to_choice(self, shape: Shape, volumes: PodVolumes, why: Why) -> None:
        """Claims without a volume: none fits that can be reached, and none can be made."""
        for claim in volumes.wanted:
            allowed, roomy = self._made_for(claim)
            had = self._reserved(claim)
            if not claim.selected_node and not claim.reserved:
                had = had | self._pool.reachable(claim)
            text = f"had no storage left to make {self._named(shape, 'a volume')}"
            self._object(why, allowed & ~roomy & ~had, Reason("VolumeCapacity", _PLUGIN, text))
            text = f"had no volume that fits, and none can be made for them, for {self._named(shape, '')}"
            self._object(why, ~allowed & ~had, Reason("NoVolume", _PLUGIN, text))
            if claim.selected_node:
                elsewhere = np.ones(len(self._nodes), dtype=bool)
                row = self._nodes.row.get(claim.selected_node)
                if row is not None:
                    elsewhere[row] = False
                text = f"are not {claim.selected_node}, for which {self._named(shape, 'a volume')} is being made"
                self._object(why, elsewhere, Reason("VolumeNodeSelected", _PLUGIN, text))

    def _made_for(self, claim: ClaimTerms) -> tuple[Bools, Bools]:
        key = _encode((claim.storage_class, claim.size, claim.sized))
        if key not in self._made:
            self._made[key] = self._reach.made(claim)
        return self._made[key]

    def _reserved(self, claim: ClaimTerms) -> Bools:
        """The nodes from which the volume can be reached that is meant for a claim."""
        if claim.selected_node or not claim.reserved:
            return np.zeros(len(self._nodes), dtype=bool)
        return self._reach.affinity(claim.reserved[0].affinity)

    def concerns(self, shape: Shape) -> bool:
        """Whether tasks that are placed take away what the volumes of this shape need."""
        is_concerned = self._moving.get(shape.number)
        if is_concerned is None:
            volumes = shape.volumes
            is_concerned = volumes is not None and bool(
                volumes.shared
                or volumes.exclusive
                or volumes.disks
                or (self._pool.chooses(shape) and not all(b.all() for b in self._besides_of(shape, volumes)))
            )
            self._moving[shape.number] = is_concerned
        return is_concerned

    def own_row(self, shape: Shape) -> bool:
        """Whether the volumes that its tasks take can be reached from one node alone, as local disks are."""
        volumes = shape.volumes
        if volumes is None or volumes.shared or volumes.exclusive or volumes.disks:
            return False
        return self._pool.local(shape)

    def order_free(self, shape: Shape) -> bool:
        """Whether no volume that its tasks may take could be taken from two nodes."""
        return not self._pool.chooses(shape) or self._pool.local(shape)

    def room(self, shape: Shape) -> Ints | None:
        """How many tasks find a volume on each node where each of them wants one; with several, it is tried."""
        volumes = shape.volumes
        if volumes is None or len(volumes.wanted) != 1 or not self.own_row(shape):
            return None
        (besides,) = self._besides_of(shape, volumes)
        return np.where(besides, _UNLIMITED, self._pool.free(shape))

    def why_not_now(self, shape: Shape, span: slice) -> Why:
        """The first objection per row: claims and disks in use, volumes that are taken, no room to attach more."""
        why = np.zeros(span.stop - span.start, dtype=np.uint16)
        volumes = shape.volumes
        if volumes is None:
            return why
        if self._pool.chooses(shape):
            lacking = self._pool.lacking(shape, span, self._besides_of(shape, volumes))
            text = f"had no volume left that fits, for {self._named(shape, '')}"
            self._object(why, lacking, Reason("NoVolume", _PLUGIN, text))
        if volumes.shared:
            text = "would have more volumes than their drivers attach"
            full = self._shared.full(self._view.ledger, shape, volumes, span)
            self._object(why, full, Reason("VolumeLimit", _PLUGIN, text))
        for claim in volumes.exclusive:
            if self._exclusive[claim][0] > 0:
                text = f"cannot be used while claim {claim}, which is for one pod at a time, is in use"
                why[:] = self._view.reasons.number(Reason("VolumeInUse", _PLUGIN, text))
        for disk in volumes.disks:
            text = f"had disk {disk.names[0] if disk.names else ''} in use by another pod"
            self._object(why, self._disks[disk][span] > 0, Reason("DiskConflict", _PLUGIN, text))
        return why

    def pod_rules(self, shapes: tuple[Shape, ...]) -> PodRules:
        """Claims and disks that one pod at a time uses, and how many volumes there are to choose from in each place.

        Where a shape has several claims to choose for, or places overlap, more may be asked for than is there. Nor is
        it told how many places of a driver tasks take together that share some of its volumes and not others.
        """
        every = slice(0, len(self._nodes))
        concerned_shapes = [shape for shape in shapes if self.concerns(shape)]
        closed_now = {shape.number: self.why_not_now(shape, every) != 0 for shape in concerned_shapes}
        records = [*self._used_by_one(concerned_shapes), *self._disks_apart(concerned_shapes)]
        choosing = [shape for shape in concerned_shapes if self._pool.chooses(shape)]
        unstated = self._attached_unlike(shapes)
        for i, shape in enumerate(choosing):
            stated = self._supply(shape, [*choosing[:i], *choosing[i + 1 :]])
            if stated is None:
                unstated.add(shape.number)
            elif shape.number == min(stated.shapes):
                records.append(stated)
        return PodRules(records=tuple(records), unstated=frozenset(unstated), lonely=closed_now)

    def _used_by_one(self, shapes: list[Shape]) -> Iterator[AtMost]:
        users: dict[str, set[int]] = {}
        for shape in shapes:
            for claim in shape.volumes.exclusive if shape.volumes is not None else ():
                users.setdefault(claim, set()).add(shape.number)
        anywhere = np.zeros(len(self._nodes), dtype=np.int64)
        for numbers in users.values():
            yield AtMost(frozenset(numbers), anywhere, 1)

    def _disks_apart(self, shapes: list[Shape]) -> Iterator[AtMost | Apart]:
        rows = np.arange(len(self._nodes))
        uses: list[tuple[DiskUse, int]] = []
        for shape in shapes:
            uses += [(disk, shape.number) for disk in (shape.volumes.disks if shape.volumes is not None else ())]
        for disk, user in dict.fromkeys(uses):
            if _conflict(disk, disk):
                yield AtMost(frozenset((user,)), rows, 1)
            conflicting_shapes = frozenset(
                other_shape for use, other_shape in uses if other_shape != user and _conflict(disk, use)
            )
            if conflicting_shapes:
                yield Apart(frozenset((user,)), conflicting_shapes, rows)

    def _attached_unlike(self, shapes: tuple[Shape, ...]) -> set[int]:
        """Shapes that share volumes of a driver with a limit, where other tasks take places of that driver as well."""
        limited: dict[int, frozenset[tuple[str, str]]] = {}
        for shape in shapes:
            shared = self._shared.limited(shape)
            if shared:
                limited[shape.number] = shared
        alike = len({*limited.values()}) <= 1
        return set() if alike and not any(map(self._shared.takes_more, shapes)) else {*limited}

    def _supply(self, shape: Shape, other_shapes: list[Shape]) -> AtMost | None:
        """What a shape and those that choose alike leave for each other; None where that cannot be said in places."""
        volumes = shape.volumes
        assert volumes is not None
        if len(volumes.wanted) != 1:
            return None
        alike = [other_shape for other_shape in other_shapes if self._pool.alike(shape, other_shape)]
        if any(self._pool.meet(shape, other_shape) for other_shape in other_shapes if other_shape not in alike):
            return None
        supply = self._pool.supplies(shape)
        if supply is None:
            return None
        (besides,) = self._besides_of(shape, volumes)
        numbers = frozenset(shape_alike.number for shape_alike in (shape, *alike))
        return AtMost(numbers, np.where(besides, -1, supply[0]), supply[1], others=True)

    def _besides_of(self, shape: Shape, volumes: PodVolumes) -> list[Bools]:
        """For each claim of a shape, the nodes where it needs no volume of the pool: one is made, or meant for it."""
        masks = self._besides.get(shape.number)
        if masks is None:
            masks = [self._made_for(claim)[1] | self._reserved(claim) for claim in volumes.wanted]
            self._besides[shape.number] = masks
        return masks

    def _object(self, why: Why, rows: Bools, reason: Reason) -> None:
        if rows.any():
            np.copyto(why, np.uint16(self._view.reasons.number(reason)), where=rows)

    def _named(self, shape: Shape, what: str) -> str:
        """Claims of a shape as messages name them."""
        names = self._claims.get(shape.number, [])
        claims = f"a claim of {joined(names)}" if names else "its claim"
        claims = f"claim {names[0]}" if len(names) == 1 else claims
        return f"{what} of {claims}" if what else claims

    # -- what tasks take from each other

    def _count_users(self, shapes: list[Shape]) -> dict[str, Ints]:
        """How many pods on nodes use each claim that is for one at a time."""
        everywhere = np.zeros(len(self._nodes), dtype=np.int64)
        users: dict[str, dict[int, int]] = {}
        for shape in self._view.snapshot.shapes:
            for claim in shape.volumes.exclusive if shape.volumes is not None else ():
                users.setdefault(claim, {})[shape.number] = 1
        users_by_claim: dict[str, Ints] = {}
        for shape in shapes:
            for claim in shape.volumes.exclusive if shape.volumes is not None else ():
                if claim not in users_by_claim:
                    users_by_claim[claim] = np.zeros(1, dtype=np.int64)
                    self._view.ledger.tally(Tally(users_by_claim[claim], everywhere, users[claim]))
        return users_by_claim

    def _count_disks(self, shapes: list[Shape]) -> dict[DiskUse, Ints]:
        """How many pods on each node use a disk in a way that another's use conflicts with."""
        rows = np.arange(len(self._nodes))
        users: dict[tuple[str, str], list[tuple[DiskUse, int]]] = {}
        for shape in self._view.snapshot.shapes:
            for disk in shape.volumes.disks if shape.volumes is not None else ():
                for name in disk.names:
                    users.setdefault((disk.kind, name), []).append((disk, shape.number))
        users_by_disk: dict[DiskUse, Ints] = {}
        for shape in shapes:
            for disk in shape.volumes.disks if shape.volumes is not None else ():
                if disk not in users_by_disk:
                    users_by_disk[disk] = np.zeros(len(self._nodes), dtype=np.int64)
                    uses_of_disk = (use for name in disk.names for use in users[disk.kind, name])
                    conflicting = dict.fromkeys(
                        (number for other_use, number in uses_of_disk if _conflict(disk, other_use)), 1
                    )
                    self._view.ledger.tally(Tally(users_by_disk[disk], rows, conflicting))
        return users_by_disk

    # -- gangs

    def admit(self, job: Job) -> Reason | None:
        """Why a job cannot start: too many of its pods have a claim that is not in order."""
        waiting = [task for task in job.tasks if task.status is Status.PENDING]
        refused = [t for t in waiting if t.shape.volumes is not None and t.shape.volumes.refusal is not None]
        if not refused:
            return None
        ready = sum(sub.ready for sub in job.subs)
        usable = len(waiting) - len(refused)
        if usable and ready + usable >= job.minimum:
            return None
        first_volumes = refused[0].shape.volumes
        assert first_volumes is not None
        assert first_volumes.refusal is not None
        text = (
            first_volumes.refusal.text if len(waiting) == 1 else f"pod {refused[0].key}: {first_volumes.refusal.text}"
        )
        return Reason(first_volumes.refusal.code, _PLUGIN, text)

    def shared_places(self, job: Job) -> Ints | None:
        """Zones, for a job whose pods share a claim without a volume: that is made for the node of the first of them,
        and most drivers reach it from one zone alone.
        """
        if not any(p.shape.volumes is not None and p.shape.volumes.wanted for p in job.pod_sets()):
            return None  # as most jobs, which are not looked at task by task
        users: dict[str, list[Claim]] = {}
        for claim in (c for task in job.tasks if task.status is Status.PENDING for c in task.volume_claims):
            users.setdefault(claim.key, []).append(claim)
        shared = [claims[0] for claims in users.values() if len(claims) > 1 and not claims[0].volume]
        zones: Ints = self._nodes.labels.column(_ZONE).codes.astype(np.int64)
        if not shared or zones.max(initial=-1) < 1:
            return None
        chosen_rows = [self._nodes.row[claim.chosen] for claim in shared if claim.chosen in self._nodes.row]
        return np.where(zones == zones[chosen_rows[0]], zones, -1) if chosen_rows else zones

    def defer(self, job: Job, rows: Ints) -> Delay | None:
        """Whether a choice of volumes that has come to nothing is too recent to make another."""
        return next((pause for task in job.tasks if (pause := self._pause(task)) is not None), None)

    def _pause(self, task: Task) -> Delay | None:
        for claim in task.volume_claims:
            until = claim.failed + _PAUSE
            if claim.failed and not claim.chosen and self._now < until:
                text = f"no volume was bound to claim {claim.key}; another try is made at {format_time(until)}"
                return Delay(Reason("VolumeBindingFailed", _PLUGIN, text), until)
        return None

    def before_bind(self, job: Job, task: Task, row: int) -> Preparation | None:
        """The volume of each claim, or the node that one is made for; and whether all of them are there."""
        volumes = task.shape.volumes
        if not task.volume_claims or volumes is None:
            return None
        if row < 0:
            undo = tuple(write for claim in task.volume_claims for write in self._taken_back(job, claim))
            return Preparation(undo=undo) if undo else None
        pause = self._pause(task)
        if pause is not None:  # one of the pods beyond a minimum: the others of its job do not wait for it
            return Preparation(waits=pause.reason, until=pause.until)
        undo = tuple(write for claim in task.volume_claims for write in self._taken_back(job, claim, failed=True))
        node = self._nodes.names[row]
        writes: list[Prepare] = []
        until: list[float] = []
        for claim, choice in zip(task.volume_claims, self._choices(task.shape, row), strict=True):
            ends = claim.since + self._timeout
            if claim.refused:
                text = f"no volume was made for claim {claim.key} on node {claim.chosen}: the choice is undone"
                return Preparation(failed=Reason("VolumeBindingFailed", _PLUGIN, text), undo=undo)
            if claim.chosen and self._now >= ends:
                text = f"no volume was bound to claim {claim.key} in {self._timeout:.0f} seconds: the choice is undone"
                return Preparation(failed=Reason("VolumeBindingTimedOut", _PLUGIN, text), undo=undo)
            if not claim.chosen and claim.key not in self._prepared:
                writes += self._chosen(job, claim, node, choice)
            until.append(ends if claim.chosen else self._now + self._timeout)
            self._prepared.add(claim.key)
        names = [f"claim {claim.key}" for claim in task.volume_claims]
        text = f"{joined(names)} {verb(len(names), 'has', 'have')} no volume on node {node} yet"
        return Preparation(tuple(writes), Reason("WaitsForVolume", _PLUGIN, text), until=min(until), undo=undo)

    def _choices(self, shape: Shape, row: int) -> list[int]:
        """By claim of a task on a row: a kind of volume, or that one is made, or is meant for it."""
        assert shape.volumes is not None
        if self._dealt is None:
            self._dealt = self._pool.taken()
        stack = self._dealt.get((shape.number, row))
        dealt = stack.pop(0) if stack else [MADE] * len(shape.volumes.wanted)
        return [
            RESERVED if claim.reserved and self._reserved(claim)[row] else choice
            for claim, choice in zip(shape.volumes.wanted, dealt, strict=True)
        ]

    def _chosen(self, job: Job, claim: Claim, node: str, choice: int) -> list[Prepare]:
        """What tells everybody which volume a claim gets."""
        marks: Raw = {CHOSEN_NODE: node, CHOSEN_AT: format_time(self._now), FAILED_AT: None}
        if choice == MADE:
            marks[SELECTED_NODE] = node
            return [Prepare(_claim_key(claim), {"metadata": {"annotations": marks}}, job.key, claim.version)]
        volume = claim.volume
        version = claim.volume_version
        if choice != RESERVED:
            names = self._pool.names(choice)
            place = self._given[choice] = self._given.get(choice, -1) + 1
            volume = names[place]
            version = self._view.snapshot.storage.versions.get(volume, "")
        namespace, _, name = claim.key.partition("/")
        reference: Raw = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": name}
        if claim.uid:
            reference["uid"] = claim.uid
        patch: Raw = {"spec": {"claimRef": reference}}
        if choice != RESERVED:
            patch["metadata"] = {"annotations": {BOUND_BY_CONTROLLER: "yes"}}
        key = _claim_key(claim)
        # A volume that is tied to a claim which is gone by now would be of no use from there on.
        return [
            Prepare(key, {"metadata": {"annotations": marks}}, job.key, claim.version),
            Prepare(Key("", "PersistentVolume", "", volume), patch, job.key, version, after=key),
        ]

    def _taken_back(self, job: Job, claim: Claim, *, failed: bool = False) -> list[Prepare]:
        """What undoes a choice of ours; a volume that people meant for the claim stays so."""
        if not claim.chosen:
            return []
        marks: Raw = {CHOSEN_NODE: None, CHOSEN_AT: None, SELECTED_NODE: None}
        if failed:
            marks[FAILED_AT] = format_time(self._now)
        undo = [Prepare(_claim_key(claim), {"metadata": {"annotations": marks}}, job.key, claim.version)]
        if claim.volume and claim.by_scheduler:
            freed: Raw = {"spec": {"claimRef": None}, "metadata": {"annotations": {BOUND_BY_CONTROLLER: None}}}
            undo.append(Prepare(Key("", "PersistentVolume", "", claim.volume), freed, job.key, claim.volume_version))
        return undo


def _has_one_of(requirement: TopologyRequirement) -> Requirement:
    return Requirement(key=requirement.key, operator="In", values=requirement.values)


def _conflict(disk_use: DiskUse, other_use: DiskUse) -> bool:
    """Whether two pods of one node may not both use a disk in these ways."""
    same_disk = disk_use.kind == other_use.kind and not set(disk_use.names).isdisjoint(other_use.names)
    return same_disk and not (disk_use.shareable and other_use.shareable)


def _claim_key(claim: Claim) -> Key:
    namespace, _, name = claim.key.partition("/")
    return Key("", "PersistentVolumeClaim", namespace, name)
