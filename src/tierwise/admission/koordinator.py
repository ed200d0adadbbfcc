"""Checks of Koordinator's objects: layers that form a chain, gangs that can be satisfied, network requirements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from tierwise.admission.context import Surroundings
from tierwise.admission.findings import Issue, at_least, error, one_of, warning
from tierwise.api.core import Node, ObjectMeta, Pod, read_number
from tierwise.api.koordinator import GROUPS, ClusterNetworkTopology, GatherSpec, PodGroup, gang_names, gather_spec
from tierwise.dialects.koordinator import gangs as gangs
from tierwise.dialects.koordinator.network_topology import Layers, default_topology, layer_faults, read_layers
from tierwise.port import Key

__all__ = ["admit", "check_groups", "check_mode", "check_pod", "check_topology", "known_layers"]

_STRATEGIES: Final = {"mustgather": "MustGather", "prefergather": "PreferGather"}
_PARALLEL: Final = frozenset({"data-parallel", "pipeline-parallel", "tensor-parallel"})
_MODES: Final = frozenset({"", "Strict", "NonStrict"})
_MATCHES: Final = frozenset({"", "only-waiting", "waiting-and-running", "once-satisfied"})
_AT: Final = "metadata.annotations."


def check_topology(record: ClusterNetworkTopology, nodes: Sequence[Node]) -> Iterator[Issue]:
    """Issues of a network topology over these nodes."""
    spec = record.spec
    layers = read_layers(record)
    for fault in layer_faults(layers, nodes):
        where = "spec.hierarchy" if spec.hierarchy else "spec.networkTopologySpec"
        yield error(where, fault.text) if layers.fault else warning(where, fault.text)
    if spec.hierarchy and spec.network_topology_spec:
        yield warning("spec.hierarchy", "both spellings are used: their layers are taken together")
    if record.metadata.name != "default":
        yield warning("metadata.name", 'only the object named "default" counts')


def known_layers(topologies: Mapping[str, ClusterNetworkTopology]) -> Layers | None:
    """The layers of the cluster; None where there is no usable tree of them."""
    record = default_topology(topologies)
    layers = read_layers(record) if record is not None else None
    if layers is not None and not layers.fault:
        return layers
    return None


def check_groups(meta: ObjectMeta, key: str, records: Mapping[str, PodGroup], pods: Iterable[Pod]) -> Iterator[Issue]:
    """Warnings of a gang group that binds no gang: one that others do not name as well, or that crosses namespaces."""
    if key and meta.annotations.get(GROUPS):
        for fault in gangs.gang_faults(gangs.read_gangs(records, pods)):
            if fault.subject == f"Gang {key}":
                yield warning(_AT + GROUPS, fault.text)


def admit(record: PodGroup, key: Key, around: Surroundings) -> Iterator[Issue]:
    """Issues of a pod group, and of the gangs that it says it starts with."""
    spec = record.spec
    layers = around.layers
    yield from at_least("spec.minMember", spec.min_member, 0)
    yield from at_least("spec.scheduleTimeoutSeconds", spec.schedule_timeout_seconds, 0)
    if spec.network_topology_aware is not None:
        yield from _check_asks("spec.networkTopologyAware", spec.network_topology_aware, layers, spec.min_member)
    yield from _check_annotations(record.metadata, layers, spec.min_member)
    pods = around.objects.every(Pod).values()
    yield from check_groups(record.metadata, key.path, around.objects.every(PodGroup), pods)


def check_pod(pod: Pod, layers: Layers | None) -> Iterator[Issue]:
    """Issues of what a pod's annotations say of its gang."""
    annotations = pod.metadata.annotations
    minimum = annotations.get(gangs.MINIMUM, "")
    if (
        gangs.NAME in annotations
        and gangs.MINIMUM in annotations
        and (read_number(minimum) or -1) < 0
        and minimum != "0"
    ):
        yield error(_AT + gangs.MINIMUM, f'"{minimum}" is not a whole number')
    index = annotations.get(gangs.INDEX)
    if index is not None and read_number(index.strip()) is None:
        yield warning(_AT + gangs.INDEX, f'"{index}" is not a whole number: the pod comes after those that have one')
    if gangs.NAME in annotations:
        yield from _check_annotations(pod.metadata, layers, read_number(minimum))


def check_mode(record: PodGroup | Pod) -> Iterator[Issue]:
    """A warning where a gang says in words that are not known how its pods talk to each other."""
    gather_specs = {
        _AT + key: gather_spec(text) for key in gangs.GATHER if (text := record.metadata.annotations.get(key))
    }
    if isinstance(record, PodGroup):
        gather_specs["spec.networkTopologyAware"] = record.spec.network_topology_aware or GatherSpec()
    for path, asks in gather_specs.items():
        mode = asks.communication_mode if isinstance(asks, GatherSpec) else ""
        if mode and not gangs.pattern_of(mode):
            text = f'"{mode}" is not known, and has no effect: AllRingDuce, Ring and AllToAll are'
            yield warning(f"{path}.communicationMode", text)


def _check_annotations(meta: ObjectMeta, layers: Layers | None, size: int | None) -> Iterator[Issue]:
    annotations = meta.annotations
    yield from one_of(_AT + gangs.MODE, annotations.get(gangs.MODE, ""), _MODES)
    yield from one_of(_AT + gangs.MATCH_POLICY, annotations.get(gangs.MATCH_POLICY, ""), _MATCHES)
    total = annotations.get(gangs.TOTAL, "")
    if total and not total.isdecimal():
        yield error(_AT + gangs.TOTAL, f'"{total}" is not a whole number')
    elif total and size is not None and int(total) < size:
        yield error(_AT + gangs.TOTAL, f"the total {total} is less than the minimum {size}")
    names = gang_names(annotations[GROUPS]) if annotations.get(GROUPS) else ()
    if isinstance(names, str):
        yield error(_AT + GROUPS, names)
    for key in gangs.GATHER:
        asks = gather_spec(annotations[key]) if annotations.get(key) else None
        if isinstance(asks, str):
            yield error(_AT + key, asks)
        elif asks is not None:
            yield from _check_asks(_AT + key, asks, layers, size)


def _check_asks(path: str, asks: GatherSpec, layers: Layers | None, size: int | None) -> Iterator[Issue]:
    tiers = layers.tiers() if layers is not None else None
    for index, rule in enumerate(asks.gather_strategy):
        where = f"{path}.gatherStrategy[{index}]"
        yield from one_of(
            f"{where}.strategy", _STRATEGIES.get(rule.strategy.lower(), rule.strategy), {*_STRATEGIES.values()}
        )
        yield from at_least(f"{where}.podCountMultiple", rule.pod_count_multiple, 1)
        if tiers is not None and rule.layer not in tiers:
            yield warning(f"{where}.layer", f'layer "{rule.layer}" is not in the network topology')
        multiple = rule.pod_count_multiple or 1
        if size is not None and multiple > 1 and size % multiple:
            text = f"minMember {size} is not a multiple of {multiple}: the gang alone can never be placed"
            yield warning(f"{where}.podCountMultiple", text)
    for index, parallel in enumerate(asks.parallel_model):
        where = f"{path}.parallelModel[{index}]"
        yield from one_of(f"{where}.parallelStrategy", parallel.parallel_strategy, _PARALLEL)
        yield from at_least(f"{where}.parallelism", parallel.parallelism, 1)
        pipeline = parallel.parallelism if parallel.parallel_strategy == "pipeline-parallel" else None
        if size is not None and pipeline is not None and pipeline > 0 and size % pipeline:
            yield warning(f"{where}.parallelism", f"{pipeline} does not divide minMember {size}: it counts as 1")
