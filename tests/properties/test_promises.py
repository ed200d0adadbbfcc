"""Promises: a moment names all that it depends on, and nobody is held back for good, whoever breaks a word."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from math import inf
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.depth import size
from tests.support.draw import draw
from tests.support.drawn_gang import manifest
from tests.support.reservations import HOUR, MINUTE, NOW, job, profile, running
from tests.support.sight import cycle, saw, sees

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.core import format_time
from tierwise.config.profile import PluginChoice, Profile
from tierwise.framework.report import CycleReport, Reservation
from tierwise.port import Objects
from tierwise.snapshot.builder import build

WORLD = draw("s0[r0[n0 n1] r1[n2 n3]]", node="gpu=4")
POOLS = {"old": ("n0", "n1"), "new": ("n2", "n3"), "any": ("n0", "n1", "n2", "n3")}


Run = tuple[float | None, str, int, int]
"""In how many seconds it ends, by its own word; its queue, its GPUs and the deadline of its pod."""
Wait = tuple[str, str, str, int, int]
"""The pool where it may run, how long it runs, its queue, its pods and the GPUs of each."""
QUEUES = st.tuples(*[st.sampled_from([0, 3, 5, 6, 8])] * 2)
ENDS = st.sampled_from([None, -HOUR, -20 * MINUTE, -2 * MINUTE, 10 * MINUTE, HOUR, 3 * HOUR])
RUN = st.tuples(ENDS, st.sampled_from("ab"), st.integers(1, 4), st.sampled_from([0, 0, 0, 1800, 7200]))
WAIT = st.tuples(
    st.sampled_from(sorted(POOLS)),
    st.sampled_from(["", "5m", "2h"]),
    st.sampled_from("ab"),
    st.integers(1, 4),
    st.integers(1, 4),
)


def queues_of(capabilities: tuple[int, ...]) -> list[Raw]:
    """Two queues with so many GPUs each; 0 for any number."""
    specs: list[Raw] = [{"capability": {"nvidia.com/gpu": str(most)}} if most else {} for most in capabilities]
    return [
        manifest("scheduling.volcano.sh/v1beta1", "Queue", {"name": name}, spec=spec)
        for name, spec in zip("ab", specs, strict=True)
    ]


def run_of(number: int, run: Run) -> list[Raw]:
    """A job of one pod on the node of its number."""
    ends_in, queue, gpus, deadline = run
    ago = HOUR + max(0.0, -(ends_in or 0.0))
    raws = running(f"run{number}", f"n{number}", ends_in=ends_in, ago=ago, queue=queue, each=f"gpu={gpus}")
    return [_with_spec(raw, activeDeadlineSeconds=deadline) if deadline else raw for raw in raws]


def wait_of(number: int, wait: Wait) -> list[Raw]:
    """A gang that waits, served in the order of numbers."""
    pool, lasts, queue, tasks, gpus = wait
    raws = job(f"wait{number}", tasks, lasts=lasts, turn=number, queue=queue, each=f"gpu={gpus}")
    hosts: Raw = {"key": "kubernetes.io/hostname", "operator": "In", "values": list(POOLS[pool])}
    terms: Raw = {"nodeSelectorTerms": [{"matchExpressions": [hosts]}]}
    affinity: Raw = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    return [_with_spec(raw, affinity=affinity) for raw in raws]


def _with_spec(raw: Raw, **more: Any) -> Raw:
    body: Any = raw
    return {**body, "spec": {**body["spec"], **more}} if body["kind"] == "Pod" else raw


MODES = st.sampled_from(["easy", "conservative"])
PLUGINS = st.sampled_from(["", "capacity"])


def profile_of(mode: str, plugin: str) -> Profile:
    """One with reservations for gangs of any size, and perhaps with a further plugin."""
    found = profile(mode, reservationPods=1)
    return replace(found, tiers=(*found.tiers, (PluginChoice(plugin),))) if plugin else found


def decided(parts: Iterable[list[Raw]], now: float, given_profile: Profile) -> CycleReport:
    """One cycle at a moment of these objects, to which nothing has happened."""
    every = [*WORLD.manifests, *(raw for part in parts for raw in part)]
    objects = Objects.of((codec.decode(raw), raw) for raw in every)
    return cycle(build(objects, now, given_profile), given_profile)


def begun(part: list[Raw], report: CycleReport, now: float) -> list[Raw]:
    """The same objects once everybody runs whom a cycle has bound."""
    nodes = {task.key: f"n{row}" for one in report.decisions if one.bound for task, row in one.places()}
    return [_started(raw, nodes, now) for raw in part]


def _started(raw: Raw, nodes: Mapping[str, str], now: float) -> Raw:
    body: Any = raw
    key = f"default/{body['metadata']['name']}"
    if raw["kind"] != "Pod" or key not in nodes:
        return raw
    status: Raw = {"phase": "Running", "startTime": format_time(now)}
    return {**body, "spec": {**body["spec"], "nodeName": nodes[key]}, "status": status}


@sees(reservations=20, lapsed=10, of_quotas=3)
@given(
    queues=QUEUES,
    runs=st.lists(RUN, min_size=1, max_size=4),
    waits=st.lists(WAIT, min_size=1, max_size=5),
    mode=MODES,
    plugin=PLUGINS,
)
@settings(max_examples=size(60, 2000))
def test_nobody_is_held_back_for_good(
    queues: tuple[int, ...], runs: list[Run], waits: list[Wait], mode: str, plugin: str
) -> None:
    """The clock goes on and nothing ends: in the end everybody runs whom a profile without reservations binds."""
    now, chosen = NOW, profile_of(mode, plugin)
    holding: list[Reservation] = []
    parts = [queues_of(queues), *map(run_of, range(4), runs), *map(wait_of, range(5), waits)]
    for looks in range(100):
        report = decided(parts, now, chosen)
        holding = [one for one in report.reservations if one.holds]
        saw(reservations=len(holding), of_quotas=sum(bool(one.quotas) for one in holding), lapsed=bool(looks))
        assert all(one.lapses > now for one in holding)
        parts = [begun(part, report, now) for part in parts]
        following = now if report.decisions else report.retry_after(now)
        if following == inf:
            break
        now = following

    # Nothing is expected any more, so nothing that is kept for somebody will ever be used.
    assert [] == holding
    assert () == decided(parts, now, replace(chosen, action_arguments={})).decisions


@sees(known=15, of_quotas=5)
@given(queues=QUEUES, runs=st.lists(RUN, min_size=4, max_size=4), wait=WAIT, plugin=PLUGINS)
@settings(max_examples=size(100, 3000))
def test_a_moment_names_all_that_it_depends_on(
    queues: tuple[int, ...], runs: list[Run], wait: Wait, plugin: str
) -> None:
    """With the named runs gone its job starts; and each of those that a quota needs, on other nodes, is needed."""
    chosen, asked = profile_of("easy", plugin), [queues_of(queues), wait_of(0, wait)]
    everybody = {f"default/run{i}": run_of(i, run) for i, run in enumerate(runs)}
    report = decided([*asked, *everybody.values()], NOW, chosen)
    held = next((one for one in report.reservations if one.start < inf), None)
    if held is None:
        return
    there = {f"default/run{row}" for _, rows, _ in held.held for row in rows.tolist()}
    of_quota = set(held.awaits) - there
    saw(known=1, of_quotas=bool(of_quota))

    def starts(without: Container[str]) -> bool:
        """Whether the job starts with these runs gone."""
        left = [raws for key, raws in everybody.items() if key not in without]
        return bool(decided([*asked, *left], NOW, chosen).decisions)

    assert starts(held.awaits)
    assert bool(of_quota) <= (held.quotas == (wait[2],))
    for name in of_quota:
        assert not starts([key for key in held.awaits if key != name]), name
