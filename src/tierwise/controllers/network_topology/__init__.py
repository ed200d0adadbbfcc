"""Every NetworkTopology: weights from measurements, what links carry already, and how many nodes there are.

Called by `controllers.run`. Of the weights it owns the set named "NetperfCosts" alone; in the others it writes what is
reserved on their links, and nothing else. Whatever it writes follows from the objects of this moment, so it is exact
after any history.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tierwise.api.codec import Raw
from tierwise.api.core import ConfigMap, Node, Pod
from tierwise.api.network_aware import AppGroup, KepAppGroup, KepNetworkTopology, NetworkTopology
from tierwise.controllers.network_topology.form import Form, form_of
from tierwise.controllers.network_topology.measured import measured
from tierwise.controllers.network_topology.reserved import reserved
from tierwise.controllers.stamp import stamp
from tierwise.dialects.services import app_groups, network_topologies
from tierwise.model.services import MEASURED, USER_DEFINED, Link
from tierwise.port import Effect, Objects, PatchStatus, Update, key_of

__all__ = ["READS", "reconcile"]

READS: Final = (NetworkTopology, KepNetworkTopology, AppGroup, KepAppGroup, ConfigMap, Node, Pod)

_DEFAULT_CAPACITY: Final = "1G"
"""Shown for a measured pair that the user does not list; a link is limited by the user's word alone."""


def reconcile(objects: Objects, now: float) -> list[Effect]:
    """Bring each NetworkTopology up to date."""
    topologies = network_topologies(objects.every(NetworkTopology), objects.every(KepNetworkTopology))
    if not topologies:
        return []
    groups = app_groups(objects.every(AppGroup), objects.every(KepAppGroup))
    nodes = objects.every(Node)
    taken = reserved(groups, objects.every(Pod).values(), nodes)
    effects: list[Effect] = []
    for topology in topologies.values():
        effects += _of(objects, topology, taken, nodes, now)
    return effects


def _of(
    objects: Objects,
    topology: NetworkTopology | KepNetworkTopology,
    taken: Mapping[Link, int],
    nodes: Mapping[str, Node],
    now: float,
) -> Iterable[Effect]:
    key, form = key_of(topology), form_of(topology)
    raw = objects.raw(key) or {}
    spec = raw.get("spec")
    spec = spec if isinstance(spec, dict) else {}
    given = [weight for weight in spec.get("weights") or () if isinstance(weight, dict)]
    namespace = topology.metadata.namespace or "default"
    config = objects.every(ConfigMap).get(f"{namespace}/{topology.spec.measurements}")
    weights = given if config is None else _with_measured(given, measured(config.data, nodes), form)
    recounted = [form.with_reserved(weight, taken) for weight in weights]
    if recounted != given:
        yield Update(key, {**raw, "spec": {**spec, "weights": recounted}})
    status: Raw = {"nodeCount": len(nodes)}
    fresh = form.listed(_named(given, MEASURED), "networkCost") == form.listed(_named(weights, MEASURED), "networkCost")
    if config is not None and not (fresh and topology.status.weight_calculation_time):
        status["weightCalculationTime"] = stamp(now)
    shown = raw.get("status")
    changes = {k: v for k, v in status.items() if not isinstance(shown, dict) or shown.get(k) != v}
    if changes:
        yield PatchStatus(key, changes)


def _named(weights: Iterable[Raw], name: str) -> Raw:
    return next((weight for weight in weights if weight.get("name") == name), {})


def _with_measured(weights: list[Raw], costs: Mapping[Link, int], form: Form) -> list[Raw]:
    """The weights with the measured set in its place, or at the end where there was none."""
    capacities = form.listed(_named(weights, USER_DEFINED), "bandwidthCapacity")
    entries: dict[Link, Raw] = {}
    for link, cost in costs.items():
        capacity = capacities.get(link, _DEFAULT_CAPACITY)
        shown = {} if capacity is None else {"bandwidthCapacity": capacity}
        entries[link] = {"destination": link.destination, **shown, "networkCost": cost}
    made = form.weight(MEASURED, entries)
    if any(weight.get("name") == MEASURED for weight in weights):
        return [made if weight.get("name") == MEASURED else weight for weight in weights]
    return [*weights, made]
