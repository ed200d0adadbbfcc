"""A replay as a plain record, and the function from it to its result: what `simulate`, sweeps and notebooks call.

    from tierwise_lab.replay.spec import ReplaySpec, replay

    found = replay(ReplaySpec(topology="synthetic:spines=4", trace="synthetic:jobs=500", profile=("tree",), load=0.9))
    found.outcomes[0]["times"]["wait_seconds"]["mean"]

The same record gives the same bytes, wherever it runs; what it names as files is read there.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta

from tierwise.api.errors import InputError, suggestion
from tierwise.api.natural import natural
from tierwise.config.profile import Profile
from tierwise.manifests.configuration import read_profile
from tierwise.model.arrays import Ints
from tierwise.model.job import Queue
from tierwise_lab.replay.engine.contenders import BUILT_IN, Contender
from tierwise_lab.replay.engine.rules import Lemons, Rules, draw, draw_lemons
from tierwise_lab.replay.engine.run import Comparison
from tierwise_lab.replay.shared_gpu.openb import is_openb
from tierwise_lab.replay.traces.fabric import AXIS, Fabric
from tierwise_lab.replay.traces.readers import read_fabric, read_table, read_trace
from tierwise_lab.replay.traces.synthetic import PREFIX, synthetic_fabric, synthetic_trace
from tierwise_lab.replay.traces.trace import Trace, pods_of

__all__ = ["ReplayResult", "ReplaySpec", "command", "comparison", "existing", "replay"]

# The queues of a replay: those that the trace names, with what each deserves of the fabric.
#
# `share` gives a queue the share that its jobs have of all GPU time in the trace, `equal` gives all the same, and
# `a=3,b=1` gives weights, 1 for queues that are not named. A weight is for proportion, deserved amounts are for
# capacity.


_OPTION = "--queues"
_PARTS = 1000
"""Weights by share are thousandths, and at least one."""


def weighted_queues(text: str, trace: Trace, fabric: Fabric) -> tuple[Queue, ...]:
    """A queue for each that the trace names, in its order; InputError where the text names others."""
    weights = _weights(text, trace)
    total = fabric.nodes.allocatable.sum(axis=1)
    return tuple(
        Queue(
            name,
            order=natural(name),
            weight=weight,
            deserved={resource: int(total[i]) * weight // int(weights.sum()) for i, resource in enumerate(AXIS.names)},
        )
        for name, weight in zip(trace.queues, weights.tolist(), strict=True)
    )


def _weights(text: str, trace: Trace) -> Ints:
    number = len(trace.queues)
    if text == "equal":
        return np.ones(number, dtype=np.int64)
    if text == "share":
        work = np.bincount(trace.queue, weights=trace.gpus * trace.seconds, minlength=number)
        parts: Ints = np.maximum(1, np.rint(_PARTS * work / work.sum())).astype(np.int64)
        return parts
    weights = np.ones(number, dtype=np.int64)
    for pair in filter(None, text.split(",")):
        name, _, value = pair.partition("=")
        if name not in trace.queues or not (value.isascii() and value.isdigit()) or not int(value):
            queue_names = ", ".join(trace.queues)
            raise InputError(f"{pair} is neither share nor equal nor a weight of one of {queue_names}", field=_OPTION)
        weights[trace.queues.index(name)] = int(value)
    return weights


class ReplaySpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """Settings of a replay: the options of `tierwise simulate`, and the axes of a sweep."""

    topology: Annotated[
        str, Meta(description="CSV of hosts and their switches, or synthetic:NUMBERS.", extra={"word": "FILE"})
    ]
    trace: Annotated[
        str, Meta(description="CSV of jobs (Philly's columns), or synthetic:NUMBERS.", extra={"word": "FILE"})
    ]
    profile: Annotated[
        tuple[str, ...],
        Meta(
            description=f"{', '.join(BUILT_IN)}, or a configuration file. [default: default]",
            extra={"word": "NAME"},
        ),
    ] = ("default",)
    gpus_per_host: Annotated[int, Meta(ge=1, le=64, description="Where the topology does not say.  [default: 8]")] = 8
    load: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(description="Draw arrivals together to offer this share of the GPUs."),
    ] = None
    jobs: Annotated[Annotated[int, Meta(ge=1)] | None, Meta(description="Only the first so many jobs.")] = None
    elastic: Annotated[
        float,
        Meta(
            gt=0,
            le=1,
            description="Gangs of several hosts start with this share of their GPUs, and grow.  [default: 1, whole]",
        ),
    ] = 1.0
    roles: Annotated[
        str | None,
        Meta(
            description="Pods that gangs of several hosts have besides, as in 1x2+2x1.  [default: none]",
            extra={"word": "NxGPUS"},
        ),
    ] = None
    services: Annotated[
        float, Meta(ge=0, lt=1, description="The share of the jobs, drawn, that run on.  [default: none]")
    ] = 0.0
    queues: Annotated[
        str | None,
        Meta(
            description="Queues of the trace, by what they deserve: share (of its GPU time), equal, or "
            "NAME=WEIGHT,...  [default: one queue]",
            extra={"word": "HOW"},
        ),
    ] = None
    through: Annotated[
        Literal["cycle", "controllers"],
        Meta(
            description="Call the scheduler's cycle, or live through it with controllers and kubelets: slower by far."
        ),
    ] = "cycle"
    period: Annotated[float, Meta(ge=0, description="Seconds that share a cycle.")] = 10.0
    look_ahead: Annotated[int, Meta(ge=1, description="Waiting gangs that a cycle sees.")] = 64
    mtbf: Annotated[float, Meta(ge=0, description="Mean hours between failures of a host.  [default: none fail]")] = 0.0
    repair: Annotated[
        float, Meta(ge=0, description="Mean hours until it is back.", extra={"flags": "--repair --mttr"})
    ] = 4.0
    restart_cost: Annotated[float, Meta(ge=0, description="Seconds of work that a stopped gang repeats.")] = 600.0
    checkpoint_interval: Annotated[
        float,
        Meta(
            ge=0,
            description="Seconds of work between two checkpoints of a gang: what comes after the last is repeated too."
            "  [default: 0]",
        ),
    ] = 0.0
    contention: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="The share of their time in which gangs communicate: m rings on an uplink, above two, slow "
            "that by m/2.  [default: 0]",
        ),
    ] = 0.0
    lemons: Annotated[
        str | None,
        Meta(
            description="Hosts, drawn, on which four of five starts fail: 2% of them, or 2%x0.5 for half of the "
            "starts.  [default: none]",
            extra={"word": "SHARE%[xHOW-OFTEN]"},
        ),
    ] = None
    spares: Annotated[int, Meta(ge=0, description="Spares of each gang with profile spares.")] = 1
    durations: Annotated[
        Literal["stated", "rough", "history", "unknown"],
        Meta(
            description="What profiles that go by ends know of durations: the true ones, ones that are wrong by up to "
            "a factor of 2, those of ended jobs, or nothing."
        ),
    ] = "stated"
    seed: Annotated[int, Meta(ge=0)] = 1


class ReplayResult(msgspec.Struct, frozen=True):
    """Result of a replay; docs/reference/simulation-metrics.md defines every number."""

    inputs: dict[str, Any]
    outcomes: list[dict[str, Any]]  # of each profile, in the order of the spec


def command(spec: ReplaySpec) -> str:
    """The command that gives the same result, with the options that are not as they come."""
    words = ["tierwise", "simulate"]
    for field in msgspec.structs.fields(spec):
        value = getattr(spec, field.name)
        if value != field.default:
            for item in value if isinstance(value, tuple) else (value,):
                words += [f"--{field.encode_name}", f"{item:g}" if isinstance(item, float) else str(item)]
    return shlex.join(words)


def replay(spec: ReplaySpec) -> ReplayResult:
    """Replay to the end; InputError where the record, or a file that it names, cannot be used."""
    run = comparison(spec)
    for _ in run.run():
        pass
    return msgspec.convert(run.results(), ReplayResult)


def _profile(file: str) -> Profile:
    return read_profile(file)[0]


def comparison(
    spec: ReplaySpec, profile_of: Callable[[str], Profile] = _profile, *, record: bool = False
) -> Comparison:
    """The contenders on their trace, about to start; with `record` what happens is kept to be played."""
    fabric = _fabric(spec)
    trace = _trace(spec, fabric)
    between, repair = 3600 * spec.mtbf, 3600 * spec.repair
    rules = Rules(
        spec.period,
        spec.look_ahead,
        spec.restart_cost,
        spec.seed,
        incidents=draw(fabric.nodes.names, trace.span, between=between, repair=repair, seed=spec.seed),
        controllers=spec.through == "controllers",
        durations=spec.durations,
        queues=weighted_queues(spec.queues, trace, fabric) if spec.queues else (),
        checkpoint_interval=spec.checkpoint_interval,
        contention=spec.contention,
        lemons=draw_lemons(fabric.nodes.names, *_lemons(spec.lemons), spec.seed) if spec.lemons else Lemons(),
    )
    contenders = [_contender(name, spec.seed, profile_of) for name in dict.fromkeys(spec.profile)]
    contenders = [c.with_spares(spec.spares) if c.spares else c for c in contenders]
    if rules.controllers:
        _check_for_controllers(contenders, trace)
        if spec.contention:
            raise InputError("kubelets run for as long as a job says: leave out contention", field="--contention")
    if rules.lemons.hosts:
        _check_for_lemons(spec, contenders)
    return Comparison(fabric, trace, contenders, rules, record=record)


def _trace(spec: ReplaySpec, fabric: Fabric) -> Trace:
    """The jobs of a trace as the settings change them, one setting after the other."""
    trace = synthetic_trace(spec.trace, spec.seed) if spec.trace.startswith(PREFIX) else read_trace(spec.trace)
    if spec.jobs:
        trace = trace.first(spec.jobs)
    if spec.roles:
        trace = trace.with_roles(_roles(spec.roles), fabric.gpus_per_host)
    if spec.elastic < 1:
        trace = trace.elastic(spec.elastic, fabric.gpus_per_host)
    if spec.services:
        trace = trace.with_services(spec.services, spec.seed)
    return trace.at_load(spec.load, fabric.gpus) if spec.load else trace


def _check_for_controllers(contenders: Sequence[Contender], trace: Trace) -> None:
    """InputError for contenders and jobs that cannot go through the controllers."""
    if any(contender.replaces for contender in contenders):
        raise InputError("jobs that go through controllers restart as a whole: leave out repair", field="--profile")
    if any(contender.rule for contender in contenders):
        raise InputError("simple rules decide in place of the cycle: they go through no controllers", field="--profile")
    if trace.least:
        raise InputError("gangs that go through controllers start whole: leave out elastic ones", field="--elastic")


_FAILS = 0.8
"""How often a start fails on a host that is a lemon, where nothing is said."""
_LEMONS = re.compile(r"(\d{1,3}(?:\.\d{1,6})?)%(?:x([01](?:\.\d{1,6})?))?", re.ASCII)


def _lemons(text: str) -> tuple[float, float]:
    """The share of hosts on which starts fail, and how often they do; InputError where the text says neither."""
    match = _LEMONS.fullmatch(text)
    share = float(match[1]) / 100 if match is not None else -1.0
    fails = float(match[2] or _FAILS) if match is not None else -1.0
    if not 0 <= share <= 1 or not 0 <= fails < 1:
        wrong = f'"{text}" is neither a share of the hosts such as 2% nor one with how often starts fail there, 2%x0.5'
        raise InputError(wrong, field="--lemons")
    return share, fails


def _check_for_lemons(spec: ReplaySpec, contenders: Sequence[Contender]) -> None:
    """InputError for what cannot be replayed where starts fail."""
    if spec.through == "controllers":
        raise InputError("starts fail in replays through the cycle alone: leave out lemons", field="--lemons")
    if spec.elastic < 1 or any(contender.replaces for contender in contenders):
        raise InputError("starts fail as a whole: leave out elastic gangs and repair", field="--lemons")


def _roles(text: str) -> tuple[int, ...]:
    try:
        return pods_of(text)
    except ValueError as error:
        raise InputError(str(error), field="--roles") from None


def _fabric(spec: ReplaySpec) -> Fabric:
    if spec.topology.startswith(PREFIX):
        return synthetic_fabric(spec.topology, spec.gpus_per_host)
    if is_openb(read_table(spec.topology)):
        raise InputError("nodes whose GPUs are shared are for `tierwise simulate` alone", file=spec.topology)
    return read_fabric(spec.topology, spec.gpus_per_host)


def _contender(name: str, seed: int, profile_of: Callable[[str], Profile]) -> Contender:
    """One by its name, else the profile of a configuration file."""
    if name in BUILT_IN:
        return BUILT_IN[name](seed)
    return Contender(Path(name).stem, profile_of(existing(name, BUILT_IN)))


def existing(name: str, names_known: Iterable[str]) -> str:
    """A configuration file that is there; InputError where neither the file nor a profile of this name is."""
    if not Path(name).exists():
        names = list(names_known)
        near = suggestion(name, names)
        raise InputError(f"{name} is neither a file nor one of {', '.join(names)}{near}", field="--profile")
    return name
