"""What the plugins of Kubernetes' scheduler come to here, by name: one line for each that a configuration may name.

Read by `config.kube`. To teach tierwise a further name, add a line to `PLUGINS`; an own plugin is also listed in
`tierwise.plugins`, and one of another package needs no line. Most in-tree filters are parts of `predicates`, and
scores are plugins (`plugins.kubernetes.scores`); room, ports and pod slots are always counted, so what would switch
that off has no effect.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

__all__ = ["ALIASES", "DEFAULTS", "PLUGINS", "RESERVED", "KubePlugin", "of_another_package"]


class KubePlugin(msgspec.Struct, frozen=True):
    """The meaning of one name. All empty: it is accepted, and what it does is done here anyway, or not needed."""

    plugin: str = ""  # a plugin of ours that does its work, with its arguments and its weight
    switches: Mapping[str, str] = {}  # of that plugin, all of them, each with its extension point
    filters: str = ""  # the argument of `predicates` that its filter turns on
    arguments: Mapping[str, object] = {}  # of that plugin, which a configuration may change
    evicts: str = ""  # the action that its postFilter asks for
    evicts_if: str = ""  # ... where this argument of its own is true
    acts: str = ""  # an action that it brings, whatever its points
    acts_if: str = ""  # ... which does its work where this argument of its own is true, and else says that it does not
    idle: str = ""  # what it means that it has no effect here, where users may count on it
    refused: tuple[str, ...] = ()  # arguments that change which nodes are allowed, in ways that are not known here

    def off_but(self, points: Collection[str]) -> frozenset[str]:
        """The switches that are off where only these points are enabled."""
        return frozenset(switch for switch, point in self.switches.items() if point not in points)

    def stands_at(self, point: str) -> bool:
        """Whether it has a part in an extension point: what enabling it everywhere means."""
        legacy_points = {"filter": self.filters, "postFilter": self.evicts}.get(point)
        return bool(legacy_points) or point in self.switches.values()


_NOTHING: Final = KubePlugin()
_SCORES: Final = {"NodeOrder": "score"}
_LOAD: Final = "no metrics are read, so nodes are ranked by requests alone"
_NUMA: Final = "nothing inside a node is modelled, so NUMA policies are not kept"

PLUGINS: Final[Mapping[str, KubePlugin]] = MappingProxyType(
    {
        # in-tree
        "DefaultBinder": _NOTHING,
        "DefaultPreemption": KubePlugin(evicts="podpreempt"),
        "ImageLocality": KubePlugin(plugin="ImageLocality", switches=_SCORES),
        "InterPodAffinity": KubePlugin(
            filters="predicate.PodAffinityEnable", plugin="InterPodAffinity", switches=_SCORES
        ),
        "NodeAffinity": KubePlugin(filters="predicate.NodeAffinityEnable", plugin="NodeAffinity", switches=_SCORES),
        "NodeName": _NOTHING,
        "NodePorts": _NOTHING,
        "NodeResourcesBalancedAllocation": KubePlugin(plugin="NodeResourcesBalancedAllocation", switches=_SCORES),
        "NodeResourcesFit": KubePlugin(
            plugin="NodeResourcesFit", switches=_SCORES, refused=("ignoredResources", "ignoredResourceGroups")
        ),
        "NodeResourcesLeastAllocated": KubePlugin(plugin="NodeResourcesFit", switches=_SCORES),
        "NodeResourcesMostAllocated": KubePlugin(
            plugin="NodeResourcesFit", switches=_SCORES, arguments={"scoringStrategy": {"type": "MostAllocated"}}
        ),
        "NodeUnschedulable": _NOTHING,
        "PodTopologySpread": KubePlugin(
            filters="predicate.PodTopologySpreadEnable",
            plugin="PodTopologySpread",
            switches=_SCORES,
            refused=("defaultConstraints",),
        ),
        "PrioritySort": KubePlugin(switches={"JobOrder": "queueSort"}),  # `priority` is in every profile
        "SchedulingGates": _NOTHING,
        "TaintToleration": KubePlugin(
            filters="predicate.TaintTolerationEnable", plugin="TaintToleration", switches=_SCORES
        ),
        "NodeLabel": KubePlugin(idle="labels are looked at as pods ask for, and not for all of them"),
        "NodePreferAvoidPods": KubePlugin(idle="the annotation that it reads is not"),
        "RequestedToCapacityRatio": KubePlugin(idle="NodeResourcesFit has the strategy of that name"),
        "SelectorSpread": KubePlugin(idle="PodTopologySpread does its work"),
        "ServiceAffinity": KubePlugin(idle="services are not read"),
        **dict.fromkeys(
            (
                *("AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"),
                *("DynamicResources", "NodeVolumeLimits", "VolumeBinding", "VolumeRestrictions", "VolumeZone"),
                *("DeferredPodScheduling", "GangScheduling", "NodeDeclaredFeatures", "PodGroupPodsCount"),
                "TopologyPlacementGenerator",
            ),
            _NOTHING,
        ),
        # Koordinator
        "Coscheduling": KubePlugin(
            plugin="coscheduling",
            switches=_SCORES,
            evicts="jobpreempt",
            evicts_if="enablePreemption",
        ),
        "ElasticQuota": KubePlugin(
            plugin="elasticquota",
            switches={"Allocatable": "preFilter"},
            evicts="quotapreempt",
            acts="giveback",
            acts_if="monitorAllQuotas",
        ),
        "DefaultPreBind": _NOTHING,
        "DeviceShare": KubePlugin(idle="devices are counted as whole resources of nodes, and not shared"),
        "LoadAwareScheduling": KubePlugin(idle=_LOAD),
        "NodeNUMAResource": KubePlugin(idle=_NUMA),
        "NodeResourcesFitPlus": KubePlugin(idle="each resource is scored alike: see NodeResourcesFit"),
        "Reservation": KubePlugin(idle="reservations hold no capacity, and pods do not use them"),
        "ScarceResourceAvoidance": KubePlugin(idle="nodes with scarce resources are not avoided"),
        "SchedulingHint": KubePlugin(idle="hints about nodes are not followed"),
        # scheduler-plugins
        "CapacityScheduling": KubePlugin(idle="the ElasticQuotas of scheduling.x-k8s.io are not read"),
        "CrossNodePreemption": KubePlugin(idle="DefaultPreemption looks at whole gangs already"),
        "LoadVariationRiskBalancing": KubePlugin(idle=_LOAD),
        "LowRiskOverCommitment": KubePlugin(idle=_LOAD),
        "NodeMetadata": KubePlugin(idle="nodes are not ranked by numbers or times in their labels"),
        "NodeResourceTopologyMatch": KubePlugin(idle=_NUMA),
        "NodeResourcesAllocatable": KubePlugin(idle="nodes are not ranked by their size"),
        "Peaks": KubePlugin(idle="nodes are not ranked by the power that they draw"),
        "PodState": KubePlugin(idle="nodes are not ranked by pods that end or are nominated there"),
        "PreemptionToleration": KubePlugin(idle="its tolerations are not read; DefaultPreemption evicts without them"),
        "SySched": KubePlugin(idle="system calls are not compared"),
        "TargetLoadPacking": KubePlugin(idle=_LOAD),
        # own
        "NetworkOverhead": KubePlugin(
            plugin="NetworkOverhead",
            switches={"Predicate": "filter", "NodeOrder": "score"},
        ),
        "QOSSort": KubePlugin(plugin="QOSSort", switches={"JobOrder": "queueSort"}),
        "TopologicalSort": KubePlugin(plugin="TopologicalSort", switches={"JobOrder": "queueSort"}),
    }
)

ALIASES: Final[Mapping[str, str]] = {"BalancedAllocation": "NodeResourcesBalancedAllocation"}
"""Names that documents use for plugins that are registered under another one."""

RESERVED: Final = frozenset(ALIASES) | {name for name, plugin in PLUGINS.items() if not plugin.idle}
"""Names that no other package can give a plugin: they mean something here. Those without effect are free."""

_POINTS: Final[Mapping[str, str]] = {
    "Predicate": "filter",
    "NodeOrder": "score",
    "HyperNodeOrder": "score",
    "JobOrder": "queueSort",
    "JobEnqueued": "preEnqueue",
    "JobReady": "permit",
    "JobStarving": "postFilter",
    "Preemptable": "postFilter",
    "Preemptive": "postFilter",
    "Reclaimable": "postFilter",
    "Victim": "postFilter",
    "VictimQueueOrder": "postFilter",
}
"""The points of the switches of other packages' plugins; the rest is asked before nodes are, at preFilter."""


def of_another_package(name: str, switches: Collection[str]) -> KubePlugin:
    """The meaning of a plugin of another package: it is at the points of its switches."""
    return KubePlugin(plugin=name, switches={switch: _POINTS.get(switch, "preFilter") for switch in sorted(switches)})


_WEIGHTS: Final = {"ImageLocality": 1, "NodeResourcesBalancedAllocation": 1, "NodeResourcesFit": 1}
_EARLIER: Final = {"InterPodAffinity": 1, "NodeAffinity": 1, "PodTopologySpread": 2, "TaintToleration": 1}
_TODAY: Final = {"InterPodAffinity": 2, "NodeAffinity": 2, "PodTopologySpread": 2, "TaintToleration": 3}
_UNWEIGHTED: Final = ("PrioritySort", "DefaultPreemption")

DEFAULTS: Final[Mapping[str, Mapping[str, int]]] = {
    version: {**dict.fromkeys(_UNWEIGHTED, 0), **_WEIGHTS, **weights}
    for version, weights in (("v1beta1", _EARLIER), ("v1beta2", _EARLIER), ("v1beta3", _TODAY), ("v1", _TODAY))
}
"""By version of the format: the plugins that are enabled at all their points unless a profile says otherwise, with
their weights; those that mean nothing here are left out."""
