"""Custom resource definitions of all kinds that tierwise reads and that Kubernetes lacks.

Printed by `tierwise crds` and kept in deploy/crds, for clusters where the projects that own the kinds have not
installed theirs. A definition holds every field that its owner's has, so that nothing a user wrote is dropped.
"""

from __future__ import annotations

from typing import Final

from tierwise.api.crds import koordinator, network_aware, scheduler_plugins, volcano, volcano_job
from tierwise.api.crds.definition import Definition

__all__ = ["DEFINITIONS", "FAMILIES", "Definition"]

DEFINITIONS: Final[tuple[Definition, ...]] = (
    volcano.POD_GROUP,
    volcano.QUEUE,
    volcano.HYPER_NODE,
    volcano.COMMAND,
    volcano_job.JOB,
    koordinator.CLUSTER_NETWORK_TOPOLOGY,
    koordinator.POD_GROUP,
    koordinator.DOCUMENT_POD_GROUP,
    koordinator.ELASTIC_QUOTA,
    network_aware.APP_GROUP,
    network_aware.NETWORK_TOPOLOGY,
    network_aware.KEP_APP_GROUP,
    network_aware.KEP_NETWORK_TOPOLOGY,
    scheduler_plugins.POD_GROUP,
)

FAMILIES: Final[tuple[str, ...]] = tuple(dict.fromkeys(definition.family for definition in DEFINITIONS))
"""The projects that the kinds come from; each can be installed by itself."""
