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
    "ImageLocality": _plugin("kube_scores", "ImageLocality"),
    "InterPodAffinity": _plugin("kube_scores", "InterPodAffinity"),
    "NetworkOverhead": _plugin("network_overhead", "NetworkOverhead"),
    "NodeAffinity": _plugin("kube_scores", "NodeAffinity"),
    "NodeResourcesBalancedAllocation": _plugin("kube_scores", "NodeResourcesBalancedAllocation"),
    "NodeResourcesFit": _plugin("kube_scores", "NodeResourcesFit"),
    "PodTopologySpread": _plugin("kube_scores", "PodTopologySpread"),
    "QOSSort": _plugin("qos_sort", "QosSort"),
    "TaintToleration": _plugin("kube_scores", "TaintToleration"),
    "TopologicalSort": _plugin("topological_sort", "TopologicalSort"),
    "binpack": _plugin("binpack", "Binpack"),
    "capacity": _plugin("capacity", "Capacity"),
    "conformance": _plugin("conformance", "Conformance"),
    "coscheduling": _plugin("coscheduling", "Coscheduling"),
    "drf": _plugin("drf", "drf"),
    "elasticquota": _plugin("elastic_quota", "elastic_quota"),
    "gang": _plugin("gang", "Gang"),
    "network-topology-aware": _plugin("network_topology_aware", "NetworkTopologyAware"),
    "nodegroup": _plugin("nodegroup", "NodeGroup"),
    "nodeorder": _plugin("nodeorder", "NodeOrder"),
    "overcommit": _plugin("overcommit", "Overcommit"),
    "patience": _plugin("patience", "Patience"),
    "pdb": _plugin("pdb", "DisruptionBudgets"),
    "predicates": _plugin("predicates", "Predicates"),
    "priority": _plugin("priority", "Priority"),
    "proportion": _plugin("proportion", "Proportion"),
    "propose": _plugin("propose", "Propose"),
    "resource-strategy-fit": _plugin("resource_strategy_fit", "ResourceStrategyFit"),
    "resourcequota": _plugin("resourcequota", "ResourceQuotas"),
    "sla": _plugin("sla", "Sla"),
}
