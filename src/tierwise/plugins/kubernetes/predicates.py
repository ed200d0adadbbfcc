"""Kubernetes' node filters: cordons, readiness, selectors, node affinity, taints, and the rules between pods.

Resources, pod slots and host ports are not asked about here: they are columns of the ledger, and fit counts
include them. Filters that change while tasks are placed are in `pod_affinity`; this module has the static ones, which
are computed once per shape.

Arguments, as Volcano spells them, all true by default: `predicate.NodeAffinityEnable` (node selector and affinity),
`predicate.TaintTolerationEnable`, `predicate.PodAffinityEnable`, `predicate.PodTopologySpreadEnable`.

`dynamicresources.bindingTimeoutSeconds` (600) is how long drivers may take to prepare devices that have conditions for
it.

A KubeSchedulerConfiguration sets two more: `kubernetes`, by which readiness is left to taints and no label is made up,
and `addedAffinity`, the node affinity that it adds to that of every pod.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from tierwise.api.core import Taint
from tierwise.config.arguments import flag, number
from tierwise.framework.declaration import chooses, takes_part
from tierwise.framework.extension import Arguments, CycleView, Filter, PreBind, Preparation, Tie
from tierwise.framework.pod_rules import PodRules, joined
from tierwise.model.arrays import Bools, Why
from tierwise.model.job import Job, Reason, Shape, Task
from tierwise.plugins.kubernetes import node_affinity
from tierwise.plugins.kubernetes.pod_affinity import PodRequirements

if TYPE_CHECKING:
    from tierwise.plugins.kubernetes.devices import DeviceRules

__all__ = ["DevicePredicates", "Predicates", "predicates"]

_PLUGIN = "predicates"
_TIMEOUT = 600.0
_CORDON = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
_UNSCHEDULABLE = Reason("NodeUnschedulable", _PLUGIN, "were unschedulable")
_NOT_READY = Reason("NodeNotReady", _PLUGIN, "were not ready")
_SELECTOR = Reason("NodeSelectorMismatch", _PLUGIN, "did not match the node selector")
_AFFINITY = Reason("NodeAffinityMismatch", _PLUGIN, "did not match the required node affinity")

_ADDED = Reason("NodeAffinityMismatch", _PLUGIN, "did not match the node affinity that the configuration adds")


@takes_part(Filter)
class Predicates:
    """Which nodes Kubernetes' own rules exclude for a shape."""

    def __init__(self, arguments: Arguments, view: CycleView) -> None:
        self._nodes = view.nodes
        self._reasons = view.reasons
        self._node_affinity = flag(arguments, "predicate.NodeAffinityEnable", default=True)
        self._taints = flag(arguments, "predicate.TaintTolerationEnable", default=True)
        self._any_cordoned = bool(view.nodes.cordoned.any())
        kubernetes = flag(arguments, "kubernetes", default=False)
        self._unready: Bools | None = None if kubernetes or view.nodes.ready.all() else ~view.nodes.ready
        self._added = node_affinity.added_affinity(arguments).required if self._node_affinity else None
        self._pod_affinity = flag(arguments, "predicate.PodAffinityEnable", default=True)
        self._spread = flag(arguments, "predicate.PodTopologySpreadEnable", default=True)
        self._by_name = not kubernetes
        self._rules = PodRequirements(
            view, plugin=_PLUGIN, affinity=self._pod_affinity, spread=self._spread, by_name=self._by_name
        )
        self._never: dict[int, Bools] = {}  # by shape that shares a claim
        timeout = number(arguments, "dynamicresources.bindingTimeoutSeconds", _TIMEOUT)
        self._devices = _device_rules(view, timeout, self._barred) if view.snapshot.devices is not None else None

    def why_not(self, shape: Shape) -> Why:
        """The first objection per row, in the order cordon, readiness, selector, affinity, taint; 0 where none."""
        why = self._why_tainted(shape)  # what is written later overrules, so the first objection comes last
        self._rules.object_statically(shape, why)
        if self._devices is not None:
            self._devices.object_statically(shape, why)
        if self._node_affinity:
            self._object_to_labels(shape, why)
        self._object_to_missing(shape, why)
        if self._unready is not None:
            self._object(why, self._unready, _NOT_READY)
        if self._any_cordoned and not node_affinity.tolerates(shape.tolerations, _CORDON):
            self._object(why, self._nodes.cordoned, _UNSCHEDULABLE)
        return why

    def concerns(self, shape: Shape) -> bool:
        """Whether rules between pods apply to the shape, its own or those of others, or devices are matched for it."""
        return self._rules.concerns(shape) or (self._devices is not None and self._devices.concerns(shape))

    def why_not_now(self, shape: Shape, span: slice) -> Why:
        """The first objection of devices or of rules between pods, given the pods placed now; 0 for none."""
        why = self._rules.why_not_now(shape, span)
        if self._devices is not None and self._devices.concerns(shape):
            lacking = self._devices.why_not_now(shape, span)
            why = np.where(lacking > 0, lacking, why).astype(np.uint16)
        return why

    def order_free(self, shape: Shape) -> bool:
        """Whether one rule at most changes for a shape as its own tasks are placed, besides what each node has."""
        devices = self._devices is not None and self._devices.concerns(shape)
        if devices and self._devices is not None and self._devices.reached_from_several(shape):
            return False
        return self._rules.own(shape) + devices <= 1

    def pod_rules(self, shapes: tuple[Shape, ...]) -> PodRules:
        """The rules between pods of these shapes; what devices are left for others is not among them."""
        rules = self._rules.among(shapes)
        if self._devices is None:
            return rules
        return joined((rules, PodRules(unstated=frozenset(s.number for s in shapes if self._devices.concerns(s)))))

    def _barred(self, shape: Shape) -> Bools:
        """The rows that cannot take tasks of a shape for other reasons than devices, as pods are placed now."""
        never = self._never.get(shape.number)
        if never is None:
            never = self._never[shape.number] = self.why_not(shape) != 0
        barred: Bools = never | (self._rules.why_not_now(shape, slice(0, len(self._nodes))) != 0)
        return barred

    def ties(self, shape: Shape) -> tuple[Tie, ...]:
        """Where required pod affinity, or a claim that it shares, ties tasks of the shape to the first of some."""
        all_ties = self._rules.tie(shape), self._devices.tie(shape) if self._devices is not None else None
        return tuple(tie for tie in all_ties if tie is not None)

    def _why_tainted(self, shape: Shape) -> Why:
        numbers = np.zeros(max(1, len(self._nodes.taints)), dtype=np.uint16)
        if self._taints:
            for i, taints in enumerate(self._nodes.taints):
                taint = node_affinity.untolerated(taints, shape.tolerations)
                if taint is not None:
                    numbers[i] = self._reasons.number(_bars(taint))
        if not numbers.any():
            return np.zeros(len(self._nodes), dtype=np.uint16)
        why: Why = numbers[self._nodes.taint_set]
        return why

    def _object_to_labels(self, shape: Shape, why: Why) -> None:
        node_affinity_terms = shape.affinity.node_affinity if shape.affinity is not None else None
        if node_affinity_terms is not None and node_affinity_terms.required is not None:
            self._object(why, ~node_affinity.in_any_term(self._nodes, node_affinity_terms.required), _AFFINITY)
        if self._added is not None:
            self._object(why, ~node_affinity.in_any_term(self._nodes, self._added), _ADDED)
        if shape.node_selector:
            self._object(why, ~node_affinity.selected(self._nodes, shape.node_selector), _SELECTOR)

    def _object_to_missing(self, shape: Shape, why: Why) -> None:
        """Labels without which no node will do, whoever goes, and which no node has."""
        rules_by_code = [
            ("NodeSelectorMismatch", "node selector", [*shape.node_selector] if self._node_affinity else [])
        ]
        if self._spread:
            hard = [rule.topology_key for rule in shape.spread if rule.when_unsatisfiable == "DoNotSchedule"]
            rules_by_code.append(("TopologySpreadViolated", "topology spread", hard))
        near = shape.affinity.pod_affinity if shape.affinity is not None and self._pod_affinity else None
        if near is not None:
            rules_by_code.append(
                ("PodAffinityUnsatisfied", "pod affinity", [term.topology_key for term in near.required])
            )
        for code, rule, keys in rules_by_code:
            for key in keys:
                if (node_affinity.places(self._nodes, key, by_name=self._by_name)[0] < 0).all():
                    why[:] = self._reasons.number(Reason(code, _PLUGIN, f"lacked the label {key} of the {rule}"))

    def _object(self, why: Why, rows: Bools, reason: Reason) -> None:
        np.copyto(why, np.uint16(self._reasons.number(reason)), where=rows)


@takes_part(Filter, PreBind)
class DevicePredicates(Predicates):
    """Filters of Kubernetes where there are devices: their claims are written before a bind."""

    def before_bind(self, job: Job, task: Task, row: int) -> Preparation | None:
        """What is written on the claims of a task before it is bound."""
        if self._devices is not None:
            return self._devices.before_bind(job, task, row)
        return None


@chooses(Predicates, DevicePredicates)
def predicates(arguments: Arguments, view: CycleView) -> Predicates | DevicePredicates:
    """The plugin; no task is asked about before its bind where there are no devices."""
    return (Predicates if view.snapshot.devices is None else DevicePredicates)(arguments, view)


def _device_rules(view: CycleView, timeout: float, barred: Callable[[Shape], Bools]) -> DeviceRules:
    from tierwise.plugins.kubernetes.devices import DeviceRules  # most clusters have no devices

    return DeviceRules(view, _PLUGIN, timeout, barred)


def _bars(taint: Taint) -> Reason:
    value = f"={taint.value}" if taint.value else ""
    return Reason("UntoleratedTaint", _PLUGIN, f"had untolerated taint {taint.key}{value}:{taint.effect}")
