"""The actions that a profile may name, in one table.

The scheduler looks up an action's family here; the snapshot reader, admission, replays and tests look up which actions
evict, and whether they evict pod by pod.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

import msgspec

__all__ = ["ACTIONS", "EVICTING", "EVICTING_BY_POD", "PLACING", "Family"]


class Family(enum.Enum):
    """Actions that are the same code with other parameters."""

    ENQUEUE = "enqueue"
    ALLOCATE = "allocate"
    BACKFILL = "backfill"
    CLASSIC = "classic eviction"  # pod after pod, as Volcano's preempt and reclaim
    GANG = "gang eviction"  # the minimum of a gang as a whole
    GIVE_BACK = "giving back"  # quotas that hold more than their share


class Action(msgspec.Struct, frozen=True):
    """Properties of an action that are known before it runs."""

    family: Family
    arguments: str = ""  # the names of its arguments
    purpose: str = ""  # "preempt" or "reclaim": whose pods an action may evict
    victim_order: str = ""  # "job", "quota" or "pod": how pods are weighed that fall one by one; "" for whole bundles
    across: bool = False  # less important pods of every queue may go


_CACHE: Final = "predicateErrorCacheEnable"
_RESERVATIONS: Final = """
    reservations reservationDepth reservationPods reservationWindow reservationAging reservationAgingLimit
    reservationAgingPause
    expectedDuration expectedDuration.* trustStatedDurations runHistory
"""
_RECORDS: Final = "failedStarts failedStartsHalfLife suspectedBy suspectedCondition keptPlaces keptPlacesFor"
_BUNDLES: Final = f"maxDomains allowWholeBundle evictRemainder efficiencyThreshold {_CACHE}"
_CLASSIC: Final = f"""
    enableTopologyAwarePreemption topologyAwarePreemptWorkerNum minCandidateNodesPercentage
    minCandidateNodesAbsolute maxCandidateNodesAbsolute {_CACHE}
"""

ACTIONS: Final[Mapping[str, Action]] = {
    "enqueue": Action(Family.ENQUEUE, "overcommit-factor"),
    "allocate": Action(Family.ALLOCATE, f"{_CACHE} {_RESERVATIONS} searchSteps cycleSteps idleRoom {_RECORDS}"),
    "backfill": Action(Family.BACKFILL, _CACHE),
    "preempt": Action(Family.CLASSIC, _CLASSIC, "preempt"),
    "reclaim": Action(Family.CLASSIC, _CACHE, "reclaim"),
    "gangpreempt": Action(Family.GANG, _BUNDLES, "preempt"),
    "gangreclaim": Action(Family.GANG, _BUNDLES, "reclaim"),
    "jobpreempt": Action(Family.GANG, _BUNDLES, "preempt", "job", across=True),
    "podpreempt": Action(Family.GANG, _BUNDLES, "preempt", "pod", across=True),
    "quotapreempt": Action(Family.GANG, _BUNDLES, "preempt", "quota"),
    "giveback": Action(Family.GIVE_BACK, "enabled"),
}
"""Every action by the name that profiles use."""

PLACING: Final = tuple(n for n, action in ACTIONS.items() if action.family in (Family.ALLOCATE, Family.BACKFILL))
"""Actions that place pods and evict none."""

EVICTING: Final = frozenset(
    n for n, action in ACTIONS.items() if action.family in (Family.CLASSIC, Family.GANG, Family.GIVE_BACK)
)
"""Actions that evict."""

EVICTING_BY_POD: Final = frozenset(n for n, action in ACTIONS.items() if action.victim_order)
"""Actions whose victims fall one by one; a profile of Kubernetes' kind runs them for each job right after its turn."""
