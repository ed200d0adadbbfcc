"""The rows of the benchmark: each measures one thing through `scheduler.cycle` with the default profile.

Numbers and goals are those of docs/benchmarks.md. Ratios come from one process, so they travel between machines
better than times do.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from tierwise.bench.changes import c16a, c16b, c16c
from tierwise.bench.compare import SpeedComparison, compare
from tierwise.bench.devices import d1a, d1b
from tierwise.bench.everyday import EVERYDAY
from tierwise.bench.evictions import c3a, c3b, c3c, c4, e1, p9a, p9b, p9c
from tierwise.bench.files import c13a, c13b
from tierwise.bench.lab import Lab
from tierwise.bench.live_jobs import c1a, c1b, c1c, c1d
from tierwise.bench.measure import Pass, Row, at_least, at_most, decisions, in_turns, start_seconds, stream
from tierwise.bench.proposals import p10a, p10b
from tierwise.bench.reading import p7, p8
from tierwise.bench.realistic import REALISTIC
from tierwise.bench.replays import s3a, s3b
from tierwise.bench.searches import g1a, g1b, g2a, g2b, g3, g4
from tierwise.bench.services import c14, n1, p11
from tierwise.bench.volumes import v1a, v1b, v1c
from tierwise.bench.worlds import CLASSES, GangSpec, cluster, flat_cluster, jobs, mix, snapshot, with_leaders
from tierwise.config.profile import DEFAULT
from tierwise.scheduler import cycle

__all__ = ["ROWS", "chosen"]

_WHOLE_NODE = CLASSES[7]  # 8 GPUs
_HALF_NODE = CLASSES[5]  # 4 GPUs
_ONE_GPU = CLASSES[0]
_ONE_POD = """\
{apiVersion: v1, kind: Node, metadata: {name: n0}, status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}}
---
apiVersion: v1
kind: Pod
metadata: {name: p0, namespace: default}
spec: {schedulerName: tierwise, containers: [{name: c, resources: {requests: {cpu: "1"}}}]}
"""


def chosen(wanted: Sequence[str]) -> list[str]:
    """The ids of the rows asked for, all where none is; "p3" means P3a and P3b. KeyError for an unknown one."""
    names: dict[str, None] = {}
    for asked in wanted:
        found = [name for name in ROWS if asked.upper() in (name.upper(), name.rstrip("abcd"))]
        if not found:
            raise KeyError(asked)
        names.update(dict.fromkeys(found))
    return list(names or ROWS)


def _p1(lab: Lab) -> Row:
    done, floor = lab.mixed(lab.size.large)
    what = f"median placed gang at {lab.size.large:,} nodes ÷ idle.min() ({_micro(done.median())} ÷ {_micro(floor)})"
    return Row("P1", what, done.median() / floor, at_most(20, 4))


def _p2(lab: Lab) -> Row:
    large, small = (lab.mixed(nodes)[0].median() for nodes in (lab.size.large, lab.size.small))
    what = f"median placed gang at {lab.size.large:,} ÷ at {lab.size.small:,} nodes ({_micro(large)} ÷ {_micro(small)})"
    return Row("P2", what, large / small, at_most(3, 1.5))


def _p3a(lab: Lab) -> Row:
    gang = GangSpec(_WHOLE_NODE, lab.size.gang, 4)
    found = compare(cluster(lab.size.small, load=0.2), [gang], lab.size.repeats)
    what = f"pod-by-pod ÷ engine, one gang of {gang.pods} pods at {lab.size.small:,} nodes ({_both(found)})"
    return Row("P3a", what, found.ratio, at_least(500, 5_000))


def _p3b(lab: Lab) -> Row:
    where = cluster(lab.size.small, load=0.2)
    found = compare(where, mix(lab.size.sample, top=where.top), lab.size.repeats)
    what = (
        f"pod-by-pod ÷ engine, {lab.size.sample} gangs of the mix at {lab.size.small:,} nodes"
        f" ({_both(found)}; median gang {_plain(found.median)})"
    )
    return Row("P3b", what, found.ratio, at_least(50, 200))


def _p4(lab: Lab) -> Row:
    where = cluster(lab.size.small, load=0.3)
    done = decisions(snapshot(where, jobs(mix(lab.size.backlog, top=where.top))), max(2, lab.size.repeats // 3))
    refused, placed = done.seconds[~done.placed], done.seconds[done.placed]
    if not len(refused):
        raise RuntimeError("the backlog is meant to exceed the cluster")
    what = (
        f"mean refused gang ÷ mean placed gang, {len(refused):,} of {len(done.placed):,} refused"
        f" ({_micro(refused.mean())} ÷ {_micro(placed.mean())}; medians {_micro(float(np.median(refused)))}"
        f" ÷ {_micro(float(np.median(placed)))})"
    )
    return Row("P4", what, float(refused.mean() / placed.mean()), at_most(1 / 10, 1 / 50))


def _p5(lab: Lab) -> Row:
    snap = snapshot(cluster(lab.size.small), jobs([GangSpec(_WHOLE_NODE, lab.size.giant, 4)]))
    done, floor = _all_placed(decisions(snap, lab.size.repeats)), stream(snap)
    seconds = float(done.seconds[0])
    what = (
        f"one gang of {lab.size.giant:,} pods × 8 GPUs at {lab.size.small:,} nodes ÷ idle.min()"
        f" ({_micro(seconds)} ÷ {_micro(floor)})"
    )
    return Row("P5", what, seconds / floor, at_most(3_000, 600))


def _p6(lab: Lab) -> Row:
    done, _ = lab.mixed(lab.size.small)
    what = (
        f"seconds for a full cycle, {lab.size.gangs:,} gangs of 1–512 pods at {lab.size.small:,} nodes"
        f" ({int(done.placed.sum()):,} gangs placed, {done.pods:,} pods, {done.pods / done.whole:,.0f} pods/s)"
    )
    return Row("P6", what, done.whole, at_most(1, 0.3))


def _c10(lab: Lab) -> Row:
    """Groups of a leader and workers, against groups of one shape."""
    where = cluster(lab.size.everyday, load=0.3)
    gangs = max(2, lab.size.everyday // 500)
    alike = jobs([GangSpec(_ONE_GPU, 128, 3, 8)] * gangs)
    led = [alike[0], *(with_leaders(job) for job in alike[1:])]
    both = [snapshot(where, workload) for workload in (led, alike)]
    if any(len(cycle(full, DEFAULT).decisions) != len(alike) for full in both):
        raise RuntimeError("the gangs are meant to fit, and one was refused")
    seconds = in_turns(max(2, lab.size.repeats // 10), *(partial(cycle, full, DEFAULT) for full in both))
    what = (
        f"cycle over {gangs} gangs of 16 groups of a leader and 7 workers at {lab.size.everyday:,} nodes"
        f" ÷ of groups of one shape ({seconds[0] * 1e3:,.0f} ms ÷ {seconds[1] * 1e3:,.0f} ms)"
    )
    return Row("C10", what, seconds[0] / seconds[1], at_most(5, 3))


def _c15(lab: Lab) -> Row:
    """A large gang that may stand anywhere: scores alone choose its nodes."""
    gang = GangSpec(_HALF_NODE, lab.size.giant, None)
    snap = snapshot(cluster(lab.size.small, load=0.3), jobs([gang]))
    seconds = float(_all_placed(decisions(snap, max(2, lab.size.repeats // 4))).seconds[0])
    what = (
        f"ms for one gang of {gang.pods:,} pods × 4 GPUs without a topology"
        f" at {lab.size.small:,} nodes, three in ten of them in use"
    )
    return Row("C15", what, seconds * 1e3, at_most(1_000, 200))


def _p12(lab: Lab) -> Row:
    core, arrays = start_seconds(("import tierwise.scheduler", "import numpy"), lab.size.imports)
    what = f"importing the core ÷ importing numpy ({core * 1e3:.0f} ms ÷ {arrays * 1e3:.0f} ms)"
    return Row("P12", what, core / arrays, at_most(1.5, 1.1))


def _p13(lab: Lab) -> Row:
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(_ONE_POD)
        file.flush()
        words = ["schedule", "-f", file.name]
        verb = f"from tierwise.cli.main import cli; cli({words!r}, standalone_mode=False)"
        first, arrays = start_seconds((verb, "import numpy"), lab.size.imports)
    what = f"the first output of tierwise schedule ÷ importing numpy ({first * 1e3:.0f} ms ÷ {arrays * 1e3:.0f} ms)"
    return Row("P13", what, first / arrays, at_most(5, 3))


def _s1(lab: Lab) -> Row:
    size = lab.size
    rate, nodes = _rate(lab, [GangSpec(_HALF_NODE, size.crowd, 2)] * size.crowds)
    what = f"pods/s, {size.crowds} gangs of {size.crowd:,} pods × 4 GPUs on {nodes:,} nodes in {size.racks} racks"
    return Row("S1", what, rate, at_least(5_000))


def _s2(lab: Lab) -> Row:
    size = lab.size
    rate, nodes = _rate(lab, [GangSpec(_ONE_GPU, 4, 1)] * size.handfuls)
    what = f"pods/s, {size.handfuls} gangs of 4 pods on {nodes:,} nodes, all {size.racks} racks weighed for each"
    return Row("S2", what, rate, at_least(2_000))


ROWS: dict[str, Callable[[Lab], Row]] = {
    "P1": _p1,
    "P2": _p2,
    "P3a": _p3a,
    "P3b": _p3b,
    "P4": _p4,
    "P5": _p5,
    "P6": _p6,
    "P7": p7,
    "P8": p8,
    "P9a": p9a,
    "P9b": p9b,
    "P9c": p9c,
    "P10a": p10a,
    "P10b": p10b,
    "P11": p11,
    "P12": _p12,
    "P13": _p13,
    "S1": _s1,
    "S2": _s2,
    "S3a": s3a,
    "S3b": s3b,
    "E1": e1,
    "N1": n1,
    "G1a": g1a,
    "G1b": g1b,
    "G2a": g2a,
    "G2b": g2b,
    "G3": g3,
    "G4": g4,
    "C1a": c1a,
    "C1b": c1b,
    "C1c": c1c,
    "C1d": c1d,
    "C3a": c3a,
    "C3b": c3b,
    "C3c": c3c,
    "C4": c4,
    **EVERYDAY,
    "C13a": c13a,
    "C13b": c13b,
    "C10": _c10,
    **REALISTIC,
    "C14": c14,
    "C15": _c15,
    "C16a": c16a,
    "C16b": c16b,
    "C16c": c16c,
    "D1a": d1a,
    "D1b": d1b,
    "V1a": v1a,
    "V1b": v1b,
    "V1c": v1c,
}


def _rate(lab: Lab, gangs: Sequence[GangSpec]) -> tuple[float, int]:
    """Pods per second of whole cycles over a flat cluster that takes all of them, and how many nodes it has."""
    where = flat_cluster(lab.size.racks, lab.size.rack)
    done = _all_placed(decisions(snapshot(where, jobs(gangs)), lab.size.repeats))
    return done.pods / done.whole, len(where.nodes)


def _all_placed(done: Pass) -> Pass:
    if not done.placed.all():
        raise RuntimeError("the workload is meant to fit, and a gang of it was refused")
    return done


def _both(found: SpeedComparison) -> str:
    return f"{found.reference:.2f} s ÷ {_micro(found.engine)}"


def _plain(number: float) -> str:
    return f"{number:,.3g}" if number < 100 else f"{number:,.0f}"


def _micro(seconds: float) -> str:
    return f"{_plain(seconds * 1e6)} µs"
