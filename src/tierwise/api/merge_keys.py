"""Lists whose items are merged by a field, as containers are by their names, and the field that tells them apart.

Kubernetes' types say it for each of their lists; here a table of field names does, which mean the same in all kinds.
Asked for patches that merge: those of the API server, and those of workloads that patch templates of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

__all__ = ["merge_key"]

_KEYS: Final[Mapping[str, str]] = {
    "addresses": "type",
    "conditions": "type",
    "containers": "name",
    "env": "name",
    "ephemeralContainers": "name",
    "hostAliases": "ip",
    "imagePullSecrets": "name",
    "initContainers": "name",
    "ownerReferences": "uid",
    "podIPs": "ip",
    "resourceClaims": "name",
    "resourceClaimStatuses": "name",
    "schedulingGates": "name",
    "secrets": "name",
    "taints": "key",
    "topologySpreadConstraints": "topologyKey",
    "volumeDevices": "devicePath",
    "volumeMounts": "mountPath",
    "volumes": "name",
}


def merge_key(field: str, items: Sequence[object]) -> str:
    """The field that tells the items of a list apart; "" where a list is replaced as a whole."""
    if field == "ports":
        inside = any(isinstance(item, dict) and "containerPort" in item for item in items)
        return "containerPort" if inside else "port"
    return _KEYS.get(field, "")
