"""The table of plugins by the name that a configuration gives them. A plugin is loaded when a profile first uses it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module

from tierwise.framework.extension import Factory

__all__ = ["PLUGINS"]


def _plugin(module: str, name: str) -> Factory:
    @cache
    def load() -> Factory:
        factory: Factory = getattr(import_module(f"tierwise.plugins.{module}"), name)
        return factory

    return lambda arguments, view: load()(arguments, view)


PLUGINS: Mapping[str, Factory] = {
    "ImageLocality": _plugin("kubernetes.scores", "ImageLocality"),
    "InterPodAffinity": _plugin("kubernetes.scores", "InterPodAffinity"),
    "NetworkOverhead": _plugin("network_overhead.plugin", "NetworkOverhead"),
    "NodeAffinity": _plugin("kubernetes.scores", "NodeAffinity"),
    "NodeResourcesBalancedAllocation": _plugin("kubernetes.scores", "NodeResourcesBalancedAllocation"),
    "NodeResourcesFit": _plugin("kubernetes.scores", "NodeResourcesFit"),
    "PodTopologySpread": _plugin("kubernetes.scores", "PodTopologySpread"),
    "QOSSort": _plugin("qos_sort", "QosSort"),
    "TaintToleration": _plugin("kubernetes.scores", "TaintToleration"),
    "TopologicalSort": _plugin("network_overhead.topological_sort", "TopologicalSort"),
    "binpack": _plugin("binpack", "Binpack"),
    "capacity": _plugin("queues.capacity", "Capacity"),
    "conformance": _plugin("conformance", "Conformance"),
    "coscheduling": _plugin("coscheduling", "Coscheduling"),
    "drf": _plugin("queues.drf", "drf"),
    "elasticquota": _plugin("elastic_quota.plugin", "elastic_quota"),
    "gang": _plugin("gang", "Gang"),
    "network-topology-aware": _plugin("network_topology.plugin", "NetworkTopologyAware"),
    "nodegroup": _plugin("nodegroup", "NodeGroup"),
    "nodeorder": _plugin("kubernetes.nodeorder", "NodeOrder"),
    "overcommit": _plugin("queues.overcommit", "Overcommit"),
    "patience": _plugin("patience", "Patience"),
    "pdb": _plugin("pdb", "DisruptionBudgets"),
    "predicates": _plugin("kubernetes.predicates", "Predicates"),
    "priority": _plugin("priority", "Priority"),
    "proportion": _plugin("queues.proportion", "Proportion"),
    "propose": _plugin("propose.plugin", "Propose"),
    "resource-strategy-fit": _plugin("resource_strategy_fit", "ResourceStrategyFit"),
    "resourcequota": _plugin("resourcequota", "ResourceQuotas"),
    "sla": _plugin("sla", "Sla"),
}
