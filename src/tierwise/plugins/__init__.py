"""The table of plugins by the name that a configuration gives them, those of other packages included.

A plugin is imported when a profile first uses it (`framework.registry`).
"""

from __future__ import annotations

from tierwise.framework.registry import Registry

__all__ = ["IMPLIED", "PLUGINS"]

PLUGINS = Registry(
    {
        "ImageLocality": "plugins.kubernetes.scores:ImageLocality",
        "InterPodAffinity": "plugins.kubernetes.scores:InterPodAffinity",
        "NetworkOverhead": "plugins.network_overhead.plugin:NetworkOverhead",
        "NodeAffinity": "plugins.kubernetes.scores:NodeAffinityScore",
        "NodeResourcesBalancedAllocation": "plugins.kubernetes.scores:NodeResourcesBalancedAllocation",
        "NodeResourcesFit": "plugins.kubernetes.scores:NodeResourcesFit",
        "PodTopologySpread": "plugins.kubernetes.scores:PodTopologySpread",
        "QOSSort": "plugins.qos_sort:QosSort",
        "TaintToleration": "plugins.kubernetes.scores:TaintToleration",
        "TopologicalSort": "plugins.network_overhead.topological_sort:TopologicalSort",
        "amounts": "plugins.amounts:Amounts",
        "binpack": "plugins.binpack:Binpack",
        "capacity": "plugins.queues.capacity:Capacity",
        "conformance": "plugins.conformance:Conformance",
        "coscheduling": "plugins.coscheduling:Coscheduling",
        "drf": "plugins.queues.drf:drf",
        "elasticquota": "plugins.elastic_quota.plugin:elastic_quota",
        "gang": "plugins.gang:GangPlugin",
        "network-topology-aware": "plugins.network_topology.plugin:NetworkTopologyAware",
        "nodegroup": "plugins.nodegroup:NodeGroup",
        "nodeorder": "plugins.kubernetes.nodeorder:NodeOrder",
        "overcommit": "plugins.queues.overcommit:Overcommit",
        "fairshare": "plugins.queues.fairshare:fairshare",
        "eviction-cost": "plugins.eviction_cost:EvictionCost",
        "patience": "plugins.patience:Patience",
        "places": "plugins.places:Places",
        "pdb": "plugins.pdb:DisruptionBudgets",
        "predicates": "plugins.kubernetes.predicates:predicates",
        "priority": "plugins.priority:Priority",
        "proportion": "plugins.queues.proportion:Proportion",
        "propose": "plugins.propose.plugin:Propose",
        "repair": "plugins.repair:Repair",
        "resource-strategy-fit": "plugins.resource_strategy_fit:ResourceStrategyFit",
        "resourcequota": "plugins.resourcequota:ResourceQuotas",
        "sla": "plugins.sla:Sla",
        "volumes": "plugins.kubernetes.volumes:Volumes",
    },
    reserved=("capability", "lost-nodes", "marks"),  # the scheduler adds them itself
)

IMPLIED = Registry(
    {
        "amounts": "plugins.amounts:Amounts",
        "capability": "plugins.queues.capability:Capability",
        "lost-nodes": "plugins.lost_nodes:KeptOffLostNodes",
        "marks": "plugins.marks:Marks",
        "patience": "plugins.patience:Patience",
        "pdb": "plugins.pdb:KeptBudgets",
        "volumes": "plugins.kubernetes.volumes:Volumes",
    }
)
"""Those that the scheduler adds where a profile does not list them."""
