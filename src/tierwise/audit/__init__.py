"""The auditor: checks, by counting, what must hold in any cluster that tierwise schedules.

It reads objects only and shares no code with the scheduler except the records, so that a bug in one is not repeated in
the other. Slow and plain on purpose.
"""

from __future__ import annotations

from tierwise.audit.devices import devices
from tierwise.audit.gangs import gangs
from tierwise.audit.gathered import gathered
from tierwise.audit.koordinator import koordinator_gangs
from tierwise.audit.languages import (
    composite_groups,
    grove_gangs,
    kai_groups,
    kubernetes_groups,
    kueue_groups,
    plugin_groups,
    workload_groups,
)
from tierwise.audit.neighbours import neighbours
from tierwise.audit.nodes import nodes, support
from tierwise.audit.pods import Finding
from tierwise.audit.queues import queues
from tierwise.audit.quotas import quotas
from tierwise.audit.topology import topology
from tierwise.audit.volumes import volumes
from tierwise.port import Objects

__all__ = ["Finding", "audit"]


def audit(objects: Objects) -> list[Finding]:
    """Everything that is wrong, rule by rule."""
    own = (gangs, koordinator_gangs)
    others = (
        kubernetes_groups,
        composite_groups,
        workload_groups,
        plugin_groups,
        kai_groups,
        grove_gangs,
        kueue_groups,
    )
    checks = (nodes, support, neighbours, volumes, devices, *own, *others, topology, gathered, queues, quotas)
    return [finding for check in checks for finding in check(objects)]
