"""Queues: their weights, limits and hierarchy as a cycle sees them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

__all__ = ["NodeGroups", "Queue"]


class NodeGroups(msgspec.Struct, frozen=True):
    """The groups of nodes that a queue asks for, and those that it must not use or would rather not."""

    required: tuple[str, ...] = ()
    preferred: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    avoided: tuple[str, ...] = ()

    def any(self) -> bool:
        """Whether it says anything."""
        return bool(self.required or self.preferred or self.forbidden or self.avoided)

    def opens(self, group: str) -> bool:
        """Whether the queue may use a group."""
        asked = group in self.required or group in self.preferred
        return group in self.avoided or (asked and group not in self.forbidden)


class Queue(msgspec.Struct, frozen=True):
    """A queue as declared; amounts are in the units of the axis."""

    name: str
    order: tuple[object, ...] = ()  # natural order of the name
    weight: int = 1
    priority: int = 0
    parent: str = ""
    open: bool = True
    reclaimable: bool = True
    capability: Mapping[str, int] = {}
    deserved: Mapping[str, int] = {}
    guarantee: Mapping[str, int] = {}
    hierarchy: str = ""  # path for hierarchical fairness, "root/eng/prod"; empty where none is declared
    hierarchy_weights: str = ""  # a weight for each step of the path, "1/2/8"
    elastic: bool = False  # an ElasticQuota: it lends what it does not use
    weights: Mapping[str, int] = {}  # by resource: how what is lent is shared
    lends: bool = True  # whether others may use what it is guaranteed while it is idle
    tree: str = ""  # the tree of quotas that it is in, where that shares a total of its own; empty for the cluster's
    total: Mapping[str, int] | None = None  # what its tree shares, where it is the one that says so
    aside: bool = True  # that total is not the cluster's own tree's to share
    scope: str = ""  # the namespace whose quotas it shares with alone; empty for those that all namespaces see
    enclosing: str = ""  # the queue or quota in which what it holds counts as well, whatever it declares itself
    minimum_run_time: float = 0.0  # seconds for which pods of its jobs are not evicted
    reclaim_run_time: float | None = None  # the same where another queue reclaims; None: the same number
    expected_duration: float = 0.0  # seconds that its jobs run where they do not say; 0 where it is not known
    over_since: float | None = None  # since when it has held more than its share; None where it has not

    @property
    def served_with(self) -> str:
        """The queue with which its jobs are served: a namespace gets no extra turns from quotas that it declares."""
        return self.enclosing or self.name

    groups: NodeGroups | None = None  # of nodes, where it declares an affinity to them
