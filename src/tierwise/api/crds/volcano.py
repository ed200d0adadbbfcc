"""Volcano's pod groups, queues, hyperNodes and commands as custom resources; its jobs are in `volcano_job`."""

from __future__ import annotations

from typing import Final

from tierwise.api.codec import Raw
from tierwise.api.crds.definition import AGE, Definition, PrinterColumn
from tierwise.api.crds.schema import (
    amounts,
    anything,
    conditions,
    each,
    flag,
    items,
    names,
    number,
    part,
    selector,
    text,
)
from tierwise.api.limits import MEMBERS, PODS, POLICIES, TIER

__all__ = ["COMMAND", "HYPER_NODE", "POD_GROUP", "QUEUE", "network_topology"]

_LONGEST: Final = 253


def network_topology(about: str) -> Raw:
    """How near pods must be to each other: the same fields wherever Volcano asks for it."""
    return part(
        about,
        {
            "mode": text(
                "hard refuses what is too far apart, soft only prefers near.", allowed=("hard", "soft"), default="hard"
            ),
            "highestTierAllowed": number("The highest tier that the pods may span.", least=0),
            "highestTierName": text("The same by the tierName of hyperNodes.", longest=_LONGEST),
        },
    )


def _sub_groups() -> Raw:
    policy = part(
        "One way of parting the pods.",
        {
            "name": text("The name of the policy.", longest=_LONGEST),
            "subGroupSize": number("How many pods make one sub-group.", least=1),
            "minSubGroups": number("How many sub-groups must find a place together.", least=0),
            "labelSelector": selector("The pods that the policy is about."),
            "matchLabelKeys": names("Labels whose values part the pods into sub-groups."),
            "networkTopology": network_topology("How near the pods of one sub-group must be."),
        },
    )
    return items("How the pods are parted into sub-groups.", policy, most=POLICIES)


POD_GROUP: Final = Definition(
    family="volcano",
    group="scheduling.volcano.sh",
    version="v1beta1",
    kind="PodGroup",
    plural="podgroups",
    short_names=("pg", "podgroup-v1beta1"),
    about="Pods that start together or not at all.",
    columns=(
        PrinterColumn("Status", ".status.phase"),
        PrinterColumn("Min", ".spec.minMember", "integer"),
        PrinterColumn("Running", ".status.running", "integer"),
        PrinterColumn("HyperNode", r".metadata.annotations.tierwise\.io/hypernode"),
        AGE,
        PrinterColumn("Queue", ".spec.queue", wide=True),
        PrinterColumn("Tier", r".metadata.annotations.tierwise\.io/tier", wide=True),
        PrinterColumn("Reason", ".status.conditions[-1].reason", wide=True),
    ),
    fields={
        "spec": part(
            "What the gang needs to start.",
            {
                "minMember": number("How many pods must find a place together.", least=0, most=PODS),
                "minTaskMember": each("The same for single roles.", {"type": "integer"}),
                "queue": text("The queue that pays for the pods.", default="default", longest=_LONGEST),
                "priorityClassName": text("The priority class of the gang.", longest=_LONGEST),
                "minResources": amounts("What the minimum needs in all."),
                "networkTopology": network_topology("How near the pods must be."),
                "subGroupPolicy": _sub_groups(),
                "preemptable": flag("Whether others may evict the pods."),
            },
        ),
        "status": part(
            "The state of the gang.",
            {
                "phase": text("Pending, Inqueue, Running, Unknown or Completed."),
                "conditions": conditions("Why the gang is where it is."),
                "running": number("Pods that run.", least=0),
                "succeeded": number("Pods that succeeded.", least=0),
                "failed": number("Pods that failed.", least=0),
            },
        ),
    },
)


def _node_groups(about: str) -> Raw:
    return part(
        about,
        {
            "requiredDuringSchedulingIgnoredDuringExecution": names("Node groups that are insisted on."),
            "preferredDuringSchedulingIgnoredDuringExecution": names("Node groups that are preferred."),
        },
    )


_CLUSTER: Final = part(
    "One further cluster.",
    {
        "name": text("The cluster."),
        "weight": number("Its share of the jobs."),
        "capacity": amounts("What it has."),
    },
)

QUEUE: Final = Definition(
    family="volcano",
    group="scheduling.volcano.sh",
    version="v1beta1",
    kind="Queue",
    plural="queues",
    short_names=("q", "queue-v1beta1"),
    namespaced=False,
    about="Who waits where, and what it may use.",
    columns=(
        PrinterColumn("State", ".status.state"),
        PrinterColumn("Parent", ".spec.parent"),
        PrinterColumn("Weight", ".spec.weight", "integer"),
        PrinterColumn("Pending", ".status.pending", "integer"),
        PrinterColumn("Inqueue", ".status.inqueue", "integer"),
        PrinterColumn("Running", ".status.running", "integer"),
        AGE,
    ),
    fields={
        "spec": part(
            "What the queue may use, is owed, and is guaranteed.",
            {
                "weight": number("Its share of what no other queue asks for.", default=1),
                "capability": amounts("What it may use at most."),
                "deserved": amounts("What it is owed: lent while unused, and reclaimed."),
                "guarantee": part("What is set aside for it.", {"resource": amounts("Set aside even while unused.")}),
                "reclaimable": flag("Whether others may reclaim what it uses beyond its share.", default=True),
                "priority": number("Queues of higher priority are served first, and reclaimed from last."),
                "parent": text("The queue above it."),
                "type": text("A kind of queue; not used."),
                "affinity": part(
                    "Groups of nodes for its pods.",
                    {
                        "nodeGroupAffinity": _node_groups("Node groups to run in."),
                        "nodeGroupAntiAffinity": _node_groups("Node groups to keep out of."),
                    },
                ),
                "extendClusters": items("Further clusters that its jobs may be sent to.", _CLUSTER),
                "dequeueStrategy": text("Whether jobs behind one that does not fit may go first: fifo or traverse."),
                "dra": anything("Limits by class of device; not used."),
            },
        ),
        "status": part(
            "What the queue holds.",
            {
                "state": text("Open, Closed, Closing or Unknown."),
                "pending": number("Pod groups that have not entered."),
                "inqueue": number("Pod groups that wait for a place."),
                "running": number("Pod groups that run."),
                "completed": number("Pod groups that are done."),
                "unknown": number("Pod groups that run in part."),
                "allocated": amounts("What its pods use."),
                "reservation": part(
                    "Nodes that are kept for it.",
                    {"nodes": names("The nodes."), "resource": amounts("What is idle there.")},
                ),
            },
        ),
    },
)

_WAYS: Final = ("exactMatch", "regexMatch", "labelMatch")
_ONE_SELECTOR: Final = {
    " || ".join(f"has(self.{way})" for way in _WAYS): f"one of {', '.join(_WAYS)} is needed",
    " + ".join(f"(has(self.{way}) ? 1 : 0)" for way in _WAYS) + " <= 1": f"only one of {', '.join(_WAYS)} is allowed",
}

_MEMBER: Final = part(
    "Some of the members.",
    {
        "type": text("What the members are.", allowed=("Node", "HyperNode")),
        "selector": part(
            "Which they are: exactly one of the three.",
            {
                "exactMatch": part("A member by name.", {"name": text("The name.", longest=_LONGEST)}, needs=("name",)),
                "regexMatch": part(
                    "Members by a regular expression in Go's syntax, which need not match the whole name.",
                    {"pattern": text("The expression.")},
                    needs=("pattern",),
                ),
                "labelMatch": selector("Members by their labels."),
            },
            rules=_ONE_SELECTOR,
        ),
    },
    needs=("type",),
)

HYPER_NODE: Final = Definition(
    family="volcano",
    group="topology.volcano.sh",
    version="v1alpha1",
    kind="HyperNode",
    plural="hypernodes",
    short_names=("hn",),
    namespaced=False,
    about="A domain of the network: nodes, or hyperNodes, that reach each other equally well.",
    columns=(
        PrinterColumn("Tier", ".spec.tier", "integer"),
        PrinterColumn("TierName", ".spec.tierName"),
        PrinterColumn("NodeCount", ".status.nodeCount", "integer"),
        AGE,
    ),
    fields={
        "spec": part(
            "Height and members of the domain.",
            {
                "tier": number("The height: the lower, the faster.", least=0, most=TIER),
                "tierName": text("A name for the tier, to refer to it.", longest=_LONGEST),
                "members": items("What the domain consists of.", _MEMBER, least=1, most=MEMBERS),
            },
            needs=("tier",),
        ),
        "status": part(
            "What the controller counted.",
            {"nodeCount": number("Nodes below the domain.", least=0), "conditions": conditions("What is wrong.")},
        ),
    },
)

COMMAND: Final = Definition(
    family="volcano",
    group="bus.volcano.sh",
    version="v1alpha1",
    kind="Command",
    plural="commands",
    about="An order to a job or a queue, carried out once and then removed.",
    columns=(PrinterColumn("Action", ".action"), PrinterColumn("Target", ".target.name"), AGE),
    fields={
        "action": text("What to do, such as AbortJob, ResumeJob, OpenQueue or CloseQueue."),
        "target": anything("The object that the order is for, in the form of an owner reference."),
        "reason": text("Why, in one word."),
        "message": text("Why, in a sentence."),
    },
)
