"""What `tierwise simulate` is to replay: files and options become contenders on a trace, or policies on shared GPUs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec
from msgspec.structs import replace

from tierwise.api.errors import InputError
from tierwise.cli.inputs import profile_of
from tierwise.replay.contenders import BUILT_IN, Contender
from tierwise.replay.fabric import Fabric
from tierwise.replay.fillings import Fillings
from tierwise.replay.incidents import draw
from tierwise.replay.openb import WHOLE, is_openb, order, read_nodes, read_pods
from tierwise.replay.policies import POLICIES, sharing
from tierwise.replay.queues import weighted_queues
from tierwise.replay.readers import Table, read_fabric, read_table, read_trace
from tierwise.replay.rules import Rules
from tierwise.replay.run import Comparison
from tierwise.replay.synthetic import PREFIX, synthetic_fabric, synthetic_trace
from tierwise.replay.trace import Trace

__all__ = ["Asked", "comparison", "fillings", "shared_nodes"]


class Asked(msgspec.Struct, frozen=True):
    """Options as they were given; times are seconds."""

    topology: str
    trace: str
    profiles: tuple[str, ...]
    gpus_per_host: int
    load: float | None
    jobs: int | None
    queues: str | None
    between_failures: float
    repair: float


def shared_nodes(topology: str) -> Table | None:
    """The table of nodes where GPUs are shared; None for a fabric of hosts and switches."""
    if topology.startswith(PREFIX):
        return None
    table = read_table(topology)
    return table if is_openb(table) else None


def comparison(asked: Asked, rules: Rules, checkpoint: str | None) -> Comparison:
    """Contenders on a trace."""
    if checkpoint and rules.controllers:
        raise InputError("a replay through the controllers cannot be interrupted and go on", field="--checkpoint")
    fabric, trace = _fabric(asked), _trace(asked, rules.seed)
    trace = trace.first(asked.jobs) if asked.jobs else trace
    trace = trace.at_load(asked.load, fabric.gpus) if asked.load else trace
    hosts, between, repair = len(fabric.nodes), asked.between_failures, asked.repair
    incidents = draw(hosts, trace.span, between=between, repair=repair, seed=rules.seed)
    queues = weighted_queues(asked.queues, trace, fabric) if asked.queues else ()
    contenders = [_contender(name, rules.seed) for name in dict.fromkeys(asked.profiles)]
    return Comparison(fabric, trace, contenders, replace(rules, incidents=incidents, queues=queues))


def fillings(asked: Asked, nodes: Table, seed: int) -> Fillings:
    """Policies on nodes whose GPUs are shared."""
    names, empty = read_nodes(nodes)
    pods = read_pods(read_table(asked.trace))
    gpus = int(empty.left.sum()) // WHOLE
    arriving = order(pods, asked.load or 1.0, gpus, seed)
    policies = {
        name if name in POLICIES else Path(name).stem: POLICIES.get(name) or sharing(profile_of(_file(name, POLICIES)))
        for name in asked.profiles
    }
    return Fillings(names, empty, pods, arriving[: asked.jobs], policies)


def _fabric(asked: Asked) -> Fabric:
    read = synthetic_fabric if asked.topology.startswith(PREFIX) else read_fabric
    return read(asked.topology, asked.gpus_per_host)


def _trace(asked: Asked, seed: int) -> Trace:
    return synthetic_trace(asked.trace, seed) if asked.trace.startswith(PREFIX) else read_trace(asked.trace)


def _contender(name: str, seed: int) -> Contender:
    """One by its name, else the profile of a configuration file."""
    if name in BUILT_IN:
        return BUILT_IN[name](seed)
    return Contender(Path(name).stem, profile_of(_file(name, BUILT_IN)))


def _file(name: str, known: Iterable[str]) -> str:
    if not Path(name).exists():
        raise InputError(f"{name} is neither a file nor one of {', '.join(known)}", field="--profile")
    return name
