"""The rows of the benchmark: each measures one thing through `scheduler.cycle` with the default profile.

docs/reference/benchmark-rows.md lists them. Ratios come from one process, so they travel between machines
better than times do.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import partial
from string import ascii_lowercase

import numpy as np

from tierwise.api.natural import natural
from tierwise.config.profile import DEFAULT
from tierwise.scheduler import cycle
from tierwise_lab.bench import (  # noqa: F401 - they register rows
    backlogs,
    changes,
    claims,
    everyday,
    evictions,
    files,
    measure,
    negative_answers,
    realistic,
    replays,
    searches,
    services,
)
from tierwise_lab.bench.compare import compare
from tierwise_lab.bench.lab import GOALS_OF_ROWS, REGISTERED, Lab, Measured, row
from tierwise_lab.bench.worlds import CLASSES, GangSpec, cluster, flat_cluster, jobs, mix, snapshot, with_leaders

__all__ = ["GOALS", "ROWS", "chosen"]

_WHOLE_NODE = CLASSES[7]  # 8 GPUs
_HALF_NODE = CLASSES[5]  # 4 GPUs
_ONE_GPU = CLASSES[0]
_GROUPS = "PSEGCRDV"  # of rows, in the order of docs/reference/benchmark-rows.md
_ONE_POD = """\
{apiVersion: v1, kind: Node, metadata: {name: n0}, status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}}
---
apiVersion: v1
kind: Pod
metadata: {name: p0, namespace: default}
spec: {schedulerName: tierwise, containers: [{name: c, resources: {requests: {cpu: "1"}}}]}
"""


def chosen(patterns: Sequence[str]) -> list[str]:
    """The ids of the rows asked for, all where none is; "p3" means P3a and P3b. KeyError for an unknown one."""
    names: dict[str, None] = {}
    for pattern in patterns:
        names_matching = [name for name in ROWS if pattern.upper() in (name.upper(), name.rstrip(ascii_lowercase))]
        if not names_matching:
            raise KeyError(pattern)
        names.update(dict.fromkeys(names_matching))
    return list(names or ROWS)


@row("P1", measure.at_most(20, 4))
def _p1(lab: Lab) -> Measured:
    done, floor = lab.mixed(lab.size.large)
    return measure.compared(f"median placed gang at {lab.size.large:,} nodes ÷ idle.min()", done.median(), floor)


@row("P2", measure.at_most(3, 1.5))
def _p2(lab: Lab) -> Measured:
    large, small = (lab.mixed(nodes)[0].median() for nodes in (lab.size.large, lab.size.small))
    return measure.compared(f"median placed gang at {lab.size.large:,} ÷ at {lab.size.small:,} nodes", large, small)


@row("P3a", measure.at_least(500, 5_000))
def _p3a(lab: Lab) -> Measured:
    gang = GangSpec(_WHOLE_NODE, lab.size.gang, 4)
    comparison = compare(cluster(lab.size.small, load=0.2), [gang], lab.size.repeats)
    what = f"pod-by-pod ÷ engine, one gang of {gang.pods} pods at {lab.size.small:,} nodes"
    return measure.compared(what, comparison.reference, comparison.engine)


@row("P3b", measure.at_least(50, 200))
def _p3b(lab: Lab) -> Measured:
    where = cluster(lab.size.small, load=0.2)
    comparison = compare(where, mix(lab.size.sample, top=where.top), lab.size.repeats)
    gangs = f"{lab.size.sample} gangs of the mix at {lab.size.small:,} nodes, the median gang {comparison.median:,.3g}"
    return measure.compared(f"pod-by-pod ÷ engine, {gangs}", comparison.reference, comparison.engine)


@row("P4", measure.at_most(1 / 10, 1 / 50))
def _p4(lab: Lab) -> Measured:
    where = cluster(lab.size.small, load=0.3)
    done = measure.decisions(snapshot(where, jobs(mix(lab.size.backlog, top=where.top))), max(2, lab.size.repeats // 3))
    refused = done.seconds[~done.placed]
    placed = done.seconds[done.placed]
    if not len(refused):
        raise RuntimeError("the backlog is meant to exceed the cluster")
    means, medians = (
        " ÷ ".join(measure.duration(float(middle(seconds))) for seconds in (refused, placed))
        for middle in (np.mean, np.median)
    )
    share = f"{len(refused):,} of {len(done.placed):,} refused"
    what = f"mean refused gang ÷ mean placed gang, {share} ({means}; medians {medians})"
    return what, float(refused.mean() / placed.mean())


@row("P5", measure.at_most(3_000, 600))
def _p5(lab: Lab) -> Measured:
    snap = snapshot(cluster(lab.size.small), jobs([GangSpec(_WHOLE_NODE, lab.size.giant, 4)]))
    done = _all_placed(measure.decisions(snap, lab.size.repeats))
    floor = measure.stream(snap)
    what = f"one gang of {lab.size.giant:,} pods × 8 GPUs at {lab.size.small:,} nodes ÷ idle.min()"
    return measure.compared(what, float(done.seconds[0]), floor)


@row("P6", measure.at_most(1, 0.3))
def _p6(lab: Lab) -> Measured:
    done, _ = lab.mixed(lab.size.small)
    what = (
        f"seconds for a full cycle, {lab.size.gangs:,} gangs of 1–512 pods at {lab.size.small:,} nodes"
        f" ({int(done.placed.sum()):,} gangs placed, {done.pods:,} pods, {done.pods / done.whole:,.0f} pods/s)"
    )
    return what, done.whole


@row("C10", measure.at_most(5, 3))
def _c10(lab: Lab) -> Measured:
    """Groups of a leader and workers, against groups of one shape."""
    where = cluster(lab.size.everyday, load=0.3)
    gangs = max(2, lab.size.everyday // 500)
    alike = jobs([GangSpec(_ONE_GPU, 128, 3, 8)] * gangs)
    led = [alike[0], *(with_leaders(job) for job in alike[1:])]
    both = [snapshot(where, workload) for workload in (led, alike)]
    if any(len(cycle(full, DEFAULT).decisions) != len(alike) for full in both):
        raise RuntimeError("the gangs are meant to fit, and one was refused")
    seconds = measure.in_turns(max(2, lab.size.repeats // 10), *(partial(cycle, full, DEFAULT) for full in both))
    what = f"cycle over {gangs} gangs of 16 groups of a leader and 7 workers at {lab.size.everyday:,} nodes"
    return measure.compared(f"{what} ÷ of groups of one shape", *seconds)


@row("C15", measure.at_most(1_000, 200))
def _c15(lab: Lab) -> Measured:
    """A large gang that may stand anywhere: scores alone choose its nodes."""
    gang = GangSpec(_HALF_NODE, lab.size.giant, None)
    snap = snapshot(cluster(lab.size.small, load=0.3), jobs([gang]))
    seconds = float(_all_placed(measure.decisions(snap, max(2, lab.size.repeats // 4))).seconds[0])
    what = (
        f"ms for one gang of {gang.pods:,} pods × 4 GPUs without a topology"
        f" at {lab.size.small:,} nodes, three in ten of them in use"
    )
    return what, seconds * 1e3


@row("P12", measure.at_most(1.5, 1.1))
def _p12(lab: Lab) -> Measured:
    core, arrays = measure.start_seconds(("import tierwise.scheduler", "import numpy"), lab.size.imports)
    return measure.compared("importing the core ÷ importing numpy", core, arrays)


@row("P13", measure.at_most(5, 3))
def _p13(lab: Lab) -> Measured:
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(_ONE_POD)
        file.flush()
        words = ["schedule", "-f", file.name]
        verb = f"from tierwise.cli.main import cli; cli({words!r}, standalone_mode=False)"
        verb_seconds, arrays = measure.start_seconds((verb, "import numpy"), lab.size.imports)
    return measure.compared("the first output of tierwise schedule ÷ importing numpy", verb_seconds, arrays)


@row("S1", measure.at_least(5_000))
def _s1(lab: Lab) -> Measured:
    size = lab.size
    rate, nodes = _rate(lab, [GangSpec(_HALF_NODE, size.crowd, 2)] * size.crowds)
    what = f"pods/s, {size.crowds} gangs of {size.crowd:,} pods × 4 GPUs on {nodes:,} nodes in {size.racks} racks"
    return what, rate


@row("S2", measure.at_least(2_000))
def _s2(lab: Lab) -> Measured:
    size = lab.size
    rate, nodes = _rate(lab, [GangSpec(_ONE_GPU, 4, 1)] * size.handfuls)
    what = f"pods/s, {size.handfuls} gangs of 4 pods on {nodes:,} nodes, all {size.racks} racks weighed for each"
    return what, rate


def _rate(lab: Lab, gangs: Sequence[GangSpec]) -> tuple[float, int]:
    """Pods per second of whole cycles over a flat cluster that takes all of them, and how many nodes it has."""
    where = flat_cluster(lab.size.racks, lab.size.rack)
    done = _all_placed(measure.decisions(snapshot(where, jobs(gangs)), lab.size.repeats))
    return done.pods / done.whole, len(where.nodes)


def _all_placed(done: measure.Pass) -> measure.Pass:
    if not done.placed.all():
        raise RuntimeError("the workload is meant to fit, and a gang of it was refused")
    return done


ROWS = dict(sorted(REGISTERED.items(), key=lambda entry: (_GROUPS.index(entry[0][0]), natural(entry[0]))))
"""All rows by their ids."""
GOALS = {name: GOALS_OF_ROWS[name] for name in ROWS}
"""Their gates and stretches."""
