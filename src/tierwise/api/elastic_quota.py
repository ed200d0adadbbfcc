"""Koordinator's ElasticQuota as users write it: spec, labels and annotations.

Built by the codec. `dialects.elastic_quota` gives it its meaning in scheduling, `admission` checks it. Half
of a quota is in labels and annotations, so their names, and the parsing of their JSON, are here.
"""

from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec

from tierwise.api.core import ObjectMeta, Record, ResourceList
from tierwise.api.quantity import amount, show

__all__ = [
    "ALLOCATED",
    "CAN_PREEMPT",
    "CHILD_REQUEST",
    "DEFAULT_QUOTA",
    "DISABLE_PREEMPTIBLE",
    "FIRM_REQUEST",
    "FIRM_USED",
    "FORCED",
    "GUARANTEED",
    "IGNORES_DEFAULT_TREE",
    "IS_PARENT",
    "IS_ROOT",
    "LENDS",
    "NAMESPACES",
    "OVER_SINCE",
    "PARENT",
    "PREEMPTIBLE",
    "QUOTA_NAME",
    "REQUEST",
    "ROOT_QUOTA",
    "RUNTIME",
    "SHARED_WEIGHT",
    "STRICT_KEYS",
    "SYSTEM_QUOTA",
    "TOTAL",
    "TREE_ID",
    "ElasticQuota",
    "read_amounts",
    "read_list",
    "write_amounts",
]

_PREFIX: Final = "quota.scheduling.koordinator.sh/"

PARENT: Final = f"{_PREFIX}parent"
IS_PARENT: Final = f"{_PREFIX}is-parent"
IS_ROOT: Final = f"{_PREFIX}is-root"
TREE_ID: Final = f"{_PREFIX}tree-id"
IGNORES_DEFAULT_TREE: Final = f"{_PREFIX}ignore-default-tree"
LENDS: Final = f"{_PREFIX}allow-lent-resource"
FORCED: Final = f"{_PREFIX}allow-force-update"
QUOTA_NAME: Final = f"{_PREFIX}name"  # on pods
PREEMPTIBLE: Final = f"{_PREFIX}preemptible"  # on pods
CAN_PREEMPT: Final = f"{_PREFIX}can-preempible"  # on pods and pod groups; the spelling is the documents'
DISABLE_PREEMPTIBLE: Final = "scheduling.koordinator.sh/disable-preemptible"  # on pods
"""Labels."""

SHARED_WEIGHT: Final = f"{_PREFIX}shared-weight"
NAMESPACES: Final = f"{_PREFIX}namespaces"
TOTAL: Final = f"{_PREFIX}total-resource"
STRICT_KEYS: Final = f"{_PREFIX}max-strict-check-resource-keys"
RUNTIME: Final = f"{_PREFIX}runtime"
REQUEST: Final = f"{_PREFIX}request"
CHILD_REQUEST: Final = f"{_PREFIX}child-request"
GUARANTEED: Final = f"{_PREFIX}guaranteed"
ALLOCATED: Final = f"{_PREFIX}allocated"
FIRM_REQUEST: Final = f"{_PREFIX}non-preemptible-request"
FIRM_USED: Final = f"{_PREFIX}non-preemptible-used"
OVER_SINCE: Final = "tierwise.io/quota-over-since"
"""Annotations; the first four are written by people, the others by the controller."""

ROOT_QUOTA: Final = "koordinator-root-quota"
SYSTEM_QUOTA: Final = "koordinator-system-quota"
DEFAULT_QUOTA: Final = "koordinator-default-quota"
"""Quotas that always exist."""

T = TypeVar("T")


class ElasticQuotaSpec(Record, frozen=True):
    """Guaranteed minimum and allowed maximum of a quota."""

    min: ResourceList = {}
    max: ResourceList = {}


class ElasticQuotaStatus(Record, frozen=True):
    """Resources that the pods of a quota use."""

    used: ResourceList = {}


class ElasticQuota(Record, frozen=True):
    """A share of the cluster that is lent while it is idle."""

    metadata: ObjectMeta
    spec: ElasticQuotaSpec = ElasticQuotaSpec()
    status: ElasticQuotaStatus = ElasticQuotaStatus()


def read_amounts(quota: ElasticQuota, annotation: str) -> dict[str, int] | None:
    """Amounts in the units of their resources, {} where none are given; None where they cannot be read."""
    amounts = _json(quota.metadata.annotations.get(annotation, ""), dict[str, str | int | float], {})
    try:
        if amounts is None:
            return None
        return {name: amount(name, quantity) for name, quantity in amounts.items()}
    except ValueError:
        return None


def read_list(meta: ObjectMeta, annotation: str) -> tuple[str, ...] | None:
    """A JSON list of texts, () where there is none; None where it cannot be read."""
    items = _json(meta.annotations.get(annotation, ""), list[str], [])
    return None if items is None else tuple(items)


def write_amounts(amounts: Mapping[str, int]) -> str:
    """Amounts as the JSON that annotations carry: compact, keys sorted, quantities as texts."""
    shown = {name: show(name, amounts[name]) for name in sorted(amounts)}
    return msgspec.json.encode(shown).decode()


def _json(text: str, form: type[T], absent: T) -> T | None:
    if not text:
        return absent
    try:
        return msgspec.json.decode(text, type=form)
    except (msgspec.DecodeError, RecursionError):
        return None
