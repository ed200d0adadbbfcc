"""The kinds that Koordinator reads: its network topology, and the pod groups and quotas of scheduling.sigs.k8s.io."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from tierwise.api.codec import Raw
from tierwise.api.crds.definition import AGE, Definition, PrinterColumn
from tierwise.api.crds.schema import amounts, conditions, items, names, number, part, text, time

__all__ = ["CLUSTER_NETWORK_TOPOLOGY", "DOCUMENT_POD_GROUP", "ELASTIC_QUOTA", "POD_GROUP"]

# A text in the design document, a list of texts in Koordinator: no schema but the empty one allows both.
_LABEL_KEY: Final[Raw] = {
    "description": "The node label that names the domain: one key, or several of which the first that is set counts.",
    "x-kubernetes-preserve-unknown-fields": True,
}
_DOMAIN: Final = part(
    "A domain of the tree.",
    {"topologyLayer": text("Its layer."), "topologyName": text("Its name; empty for the whole cluster.")},
)

CLUSTER_NETWORK_TOPOLOGY: Final = Definition(
    family="koordinator",
    group="scheduling.koordinator.sh",
    version="v1alpha1",
    kind="ClusterNetworkTopology",
    plural="clusternetworktopologies",
    short_names=("cnt",),
    namespaced=False,
    about="The layers of the network and the node labels that name them; the object named default counts.",
    columns=(AGE,),
    fields={
        "spec": part(
            "The layers, in either spelling.",
            {
                "networkTopologySpec": items(
                    "The layers as Koordinator spells them.",
                    part(
                        "One layer.",
                        {
                            "topologyLayer": text("The name of the layer."),
                            "parentTopologyLayer": text("The layer above it."),
                            "labelKey": _LABEL_KEY,
                        },
                        needs=("topologyLayer",),
                    ),
                ),
                "hierarchy": items(
                    "The layers as the design document spells them.",
                    part(
                        "One layer.",
                        {
                            "layerName": text("The name of the layer."),
                            "parentTopologyLayer": text("The layer above it."),
                            "labelKey": _LABEL_KEY,
                        },
                        needs=("layerName",),
                    ),
                ),
            },
        ),
        "status": part(
            "The tree that the labels of the nodes gave.",
            {
                "detailStatus": items(
                    "Every domain, from the root down.",
                    part(
                        "One domain.",
                        {
                            "topologyInfo": _DOMAIN,
                            "parentTopologyInfo": _DOMAIN,
                            "childTopologyLayer": text("The layer below it."),
                            "childTopologyNames": names("The domains below it."),
                            "nodeNum": number("Nodes below it."),
                        },
                    ),
                ),
                "conditions": conditions("What is wrong."),
            },
        ),
    },
)

_GATHER: Final = part(
    "One wish.",
    {
        "layer": text("The layer of the domain to gather in."),
        "strategy": text("Whether that is required.", allowed=("MustGather", "PreferGather")),
        "podCountMultiple": number("Domains of the layer hold a multiple of so many pods.", least=0),
    },
    needs=("layer",),
)
_PARALLEL: Final = part(
    "One dimension.",
    {
        "parallelStrategy": text("data-parallel or pipeline-parallel."),
        "parallelism": number("How many pods wide it is.", least=1),
    },
)

POD_GROUP: Final = Definition(
    family="koordinator",
    group="scheduling.sigs.k8s.io",
    version="v1alpha1",
    kind="PodGroup",
    plural="podgroups",
    short_names=("pgs",),
    about="Pods that start together or not at all.",
    columns=(
        PrinterColumn("Status", ".status.phase"),
        PrinterColumn("Min", ".spec.minMember", "integer"),
        PrinterColumn("Scheduled", ".status.scheduled", "integer"),
        PrinterColumn("Running", ".status.running", "integer"),
        AGE,
    ),
    fields={
        "spec": part(
            "What the gang needs to start.",
            {
                "minMember": number("How many pods must find a place together."),
                "minResources": amounts("What the minimum needs in all."),
                "scheduleTimeoutSeconds": number("Seconds after which a gang that found no place gives up."),
                "networkTopologyAware": part(
                    "How near to each other the pods are placed, as the design document spells it.",
                    {
                        "gatherStrategy": items("Where to gather.", _GATHER),
                        "parallelModel": items("How the pods work in parallel.", _PARALLEL),
                        "communicationMode": text("How the pods talk to each other; not used."),
                    },
                ),
            },
        ),
        "status": part(
            "The state of the gang.",
            {
                "phase": text("Its phase."),
                "occupiedBy": text("The workload that it belongs to."),
                "scheduleStartTime": time("When it was first tried."),
                "scheduled": number("Pods that have a place."),
                "running": number("Pods that run."),
                "succeeded": number("Pods that succeeded."),
                "failed": number("Pods that failed."),
                "conditions": conditions("Why the gang is where it is."),
            },
        ),
    },
)

DOCUMENT_POD_GROUP: Final = replace(POD_GROUP, group="scheduling.koordinator.sh", short_names=())
"""The same in the group that the design document gives it."""

ELASTIC_QUOTA: Final = Definition(
    family="koordinator",
    group="scheduling.sigs.k8s.io",
    version="v1alpha1",
    kind="ElasticQuota",
    plural="elasticquotas",
    short_names=("eq",),
    about="What a group of pods is guaranteed, and may use at most.",
    columns=(
        PrinterColumn("Parent", r".metadata.labels.quota\.scheduling\.koordinator\.sh/parent"),
        AGE,
        PrinterColumn("Tree", r".metadata.labels.quota\.scheduling\.koordinator\.sh/tree-id", wide=True),
    ),
    fields={
        "spec": part(
            "The quota.",
            {"min": amounts("What is guaranteed, and lent while unused."), "max": amounts("The most it may use.")},
        ),
        "status": part("Its use.", {"used": amounts("What its pods use.")}),
    },
)
