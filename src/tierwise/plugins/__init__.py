"""The table of plugins by the name that a configuration gives them."""

from __future__ import annotations

from collections.abc import Mapping

from tierwise.framework.extension import Factory
from tierwise.plugins.binpack import Binpack
from tierwise.plugins.conformance import Conformance
from tierwise.plugins.gang import Gang
from tierwise.plugins.network_topology_aware import NetworkTopologyAware
from tierwise.plugins.nodeorder import NodeOrder
from tierwise.plugins.predicates import Predicates
from tierwise.plugins.priority import Priority

__all__ = ["PLUGINS"]

PLUGINS: Mapping[str, Factory] = {
    "binpack": Binpack,
    "conformance": Conformance,
    "gang": Gang,
    "network-topology-aware": NetworkTopologyAware,
    "nodeorder": NodeOrder,
    "predicates": Predicates,
    "priority": Priority,
}
