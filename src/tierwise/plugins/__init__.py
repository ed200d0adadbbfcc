"""The table of plugins by the name that a configuration gives them."""

from __future__ import annotations

from collections.abc import Mapping

from tierwise.framework.extension import Factory
from tierwise.plugins.binpack import Binpack
from tierwise.plugins.capacity import Capacity
from tierwise.plugins.conformance import Conformance
from tierwise.plugins.drf import drf
from tierwise.plugins.gang import Gang
from tierwise.plugins.network_topology_aware import NetworkTopologyAware
from tierwise.plugins.nodeorder import NodeOrder
from tierwise.plugins.overcommit import Overcommit
from tierwise.plugins.pdb import DisruptionBudgets
from tierwise.plugins.predicates import Predicates
from tierwise.plugins.priority import Priority
from tierwise.plugins.proportion import Proportion
from tierwise.plugins.resourcequota import ResourceQuotas
from tierwise.plugins.sla import Sla

__all__ = ["PLUGINS"]

PLUGINS: Mapping[str, Factory] = {
    "binpack": Binpack,
    "capacity": Capacity,
    "conformance": Conformance,
    "drf": drf,
    "gang": Gang,
    "network-topology-aware": NetworkTopologyAware,
    "nodeorder": NodeOrder,
    "overcommit": Overcommit,
    "pdb": DisruptionBudgets,
    "predicates": Predicates,
    "priority": Priority,
    "proportion": Proportion,
    "resourcequota": ResourceQuotas,
    "sla": Sla,
}
