"""The kinds of network-aware scheduling: AppGroup and NetworkTopology, as diktyo ships them and as the KEP has them.

The two forms live in different groups and name some fields differently; a manifest keeps to those of its own group.
"""

from __future__ import annotations

from typing import Final

from tierwise.api.codec import Raw
from tierwise.api.crds.definition import AGE, Definition, PrinterColumn
from tierwise.api.crds.schema import anything, conditions, flag, items, number, part, quantity, text, time

__all__ = ["APP_GROUP", "KEP_APP_GROUP", "KEP_NETWORK_TOPOLOGY", "NETWORK_TOPOLOGY"]

_KEP: Final = "scheduling.sigs.x-k8s.io"
_MOST_COST: Final = 10000


def _app_group(group: str, short_names: tuple[str, ...], *, needs: tuple[str, ...]) -> Definition:
    def workload(about: str) -> Raw:
        return part(
            about,
            {
                "kind": text("Its kind."),
                "apiVersion": text("Group and version of its kind."),
                "namespace": text("Its namespace."),
                "name": text("Its name."),
                "selector": text("The value of the label that its pods carry."),
            },
            needs=needs,
        )

    dependency = part(
        "One workload that is called.",
        {
            "workload": workload("The workload."),
            "minBandwidth": quantity("Bandwidth that every pair of pods reserves."),
            "maxNetworkCost": number("The highest cost of the way there.", least=0, most=_MOST_COST),
        },
        needs=("workload",),
    )
    member = part(
        "One workload of the application.",
        {"workload": workload("The workload."), "dependencies": items("Workloads that it calls.", dependency)},
        needs=("workload",),
    )
    place = part(
        "The place of one workload.",
        {
            "workload": workload("The workload."),
            "index": number("Its place, from 1."),
            "workloadStatistics": anything("Figures of its links; not used."),
        },
    )
    return Definition(
        family="network-aware",
        group=group,
        version="v1alpha1",
        kind="AppGroup",
        plural="appgroups",
        short_names=short_names,
        about="An application of several workloads that call each other.",
        columns=(
            PrinterColumn("Members", ".spec.numMembers", "integer"),
            PrinterColumn("Running", ".status.runningWorkloads", "integer"),
            PrinterColumn("Order", ".spec.topologySortingAlgorithm"),
            AGE,
        ),
        fields={
            "spec": part(
                "The workloads and their dependencies.",
                {
                    "numMembers": number("How many workloads there are.", least=1),
                    "topologySortingAlgorithm": text("In which order the workloads are placed, such as ReverseKahn."),
                    "workloads": items("The workloads.", member),
                },
                needs=("numMembers", "topologySortingAlgorithm", "workloads"),
            ),
            "status": part(
                "What the controller worked out.",
                {
                    "runningWorkloads": number("Pods that run.", least=0),
                    "scheduleStartTime": time("When the first pod was seen."),
                    "topologyCalculationTime": time("When the order was worked out."),
                    "topologyOrder": items("The order of the workloads.", place),
                    "appGroupStatistics": anything("Figures of all links; not used."),
                    "conditions": conditions("What is wrong."),
                },
            ),
        },
    )


def _network_topology(
    group: str, short_names: tuple[str, ...], *, keys: str, origins: str, costs: str, needs: tuple[str, ...]
) -> Definition:
    """`keys`, `origins` and `costs` are what the group calls its three nested lists."""
    cost = part(
        "The way to one destination.",
        {
            "destination": text("The zone or region at the other end."),
            "networkCost": number("The cost of the way.", least=0, default=0 if group == _KEP else None),
            "bandwidthCapacity": quantity("The bandwidth of the link."),
            "bandwidthAllocated": quantity("What of it is reserved."),
            "bandwidthAllocatable": quantity("What of it is left."),
            "isAllowed": flag("Whether the way may be used; not used."),
        },
        needs=needs,
    )
    origin = part(
        "The ways from one origin.",
        {
            "origin": text("The zone or region where they start."),
            costs: items("The ways.", cost),
            "originInterStatistics": anything("Figures of the ways out; not used."),
            "originIntraStatistics": anything("Figures of the ways within; not used."),
        },
        needs=("origin",),
    )
    key = part(
        "The weights between domains of one kind.",
        {"topologyKey": text("The node label that names the domain."), origins: items("By origin.", origin)},
        needs=("topologyKey", origins),
    )
    weights = part(
        "One set of weights.",
        {"name": text("The name of the set, such as UserDefined."), keys: items("By topology key.", key)},
        needs=("name", keys),
    )
    return Definition(
        family="network-aware",
        group=group,
        version="v1alpha1",
        kind="NetworkTopology",
        plural="networktopologies",
        short_names=short_names,
        about="What it costs to reach zones and regions from each other, and what their links carry.",
        columns=(
            PrinterColumn("Nodes", ".status.nodeCount", "integer"),
            PrinterColumn("ConfigMap", ".spec.configmapName"),
            AGE,
        ),
        fields={
            "spec": part(
                "The weights.",
                {
                    "configmapName": text("The ConfigMap with measured latencies."),
                    **({"configMapName": text("The same, as the KEP's examples spell it.")} if group == _KEP else {}),
                    "weights": items("Sets of weights.", weights),
                },
            ),
            "status": part(
                "What the controller worked out.",
                {
                    "nodeCount": number("Nodes of the cluster.", least=0),
                    "weightCalculationTime": time("When measured weights were last worked out."),
                    "conditions": conditions("What is wrong."),
                },
            ),
        },
    )


APP_GROUP: Final = _app_group("appgroup.diktyo.x-k8s.io", ("ag",), needs=("kind", "name", "selector"))
KEP_APP_GROUP: Final = _app_group(_KEP, ("ag", "ags"), needs=("kind", "name"))
NETWORK_TOPOLOGY: Final = _network_topology(
    "networktopology.diktyo.x-k8s.io",
    ("nt",),
    keys="topologyList",
    origins="originList",
    costs="costList",
    needs=("destination", "networkCost"),
)
KEP_NETWORK_TOPOLOGY: Final = _network_topology(
    _KEP,
    ("net-topo", "nt"),
    keys="costList",
    origins="originCosts",
    costs="costs",
    needs=("destination", "bandwidthCapacity", "networkCost"),
)
