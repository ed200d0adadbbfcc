"""Simulated lives: the same input gives the same bytes, and every pod has one course and one end."""

from __future__ import annotations

import re
from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st
from tests.support.depth import examples
from tests.support.lives import gang, lived, machines
from tests.support.manifests import job, task
from tests.support.sight import cycle, sees

from tierwise.api.codec import Raw
from tierwise.api.core import Node, Pod
from tierwise.config.profile import DEFAULT
from tierwise.controllers import run
from tierwise.port import Objects, RecordEvent
from tierwise.scheduler.effects import effects
from tierwise.sim.cluster.agenda import Incident, NodeBack, NodeLost, PodFails
from tierwise.sim.cluster.provisioner import provision
from tierwise.sim.cluster.simulation import Moment, Simulation
from tierwise.snapshot.builder import build
from tierwise.status.pod_group import statuses

NODES = ("n0", "n1", "n2")
LETTERS = {
    "Created": "c",
    "Bound": "b",
    "Nominated": "n",
    "Started": "s",
    "Restarted": "r",
    "BackOff": "x",
    "Completed": "E",
    "Failed": "E",
    "TaintManagerEviction": "t",
    "Killing": "k",
    "Evicted": "k",
    "Gone": "g",
}
COURSE = re.compile(r"(c?n*b?(s(xr?)*E?)?t?k?g?)*")
"""Made, bound, started, perhaps restarted, ended, told to go, gone: each at most once, in this order; then again."""


@st.composite
def gangs(draw: st.DrawFn) -> list[Raw]:
    """One to three gangs with lives of their own, and perhaps a job whose pods are made again."""
    found: list[Raw] = []
    for name in "abc"[: draw(st.integers(1, 3))]:
        marks = draw(
            st.fixed_dictionaries(
                {},
                optional={
                    "run_for": st.sampled_from(["0s", "1s", "30s", "10m"]),
                    "exit_code": st.sampled_from(["0", "1"]),
                    "start_after": st.sampled_from(["0s", "5s"]),
                    "stop_after": st.sampled_from(["0s", "20s"]),
                },
            )
        )
        found += gang(name, draw(st.integers(1, 3)), draw(st.sampled_from(["Never", "OnFailure", "Always"])), **marks)
    if draw(st.booleans()):
        found.append(job("j", task("w", draw(st.integers(1, 2)))))
    if draw(st.booleans()):
        brief = task("w", draw(st.integers(1, 2)))
        template = brief["template"]
        assert isinstance(template, dict)
        template["metadata"] = {"annotations": {"tierwise.io/run-for": "20s"}}
        found.append(job("k", brief, metadata={"uid": "u2"}, ttlSecondsAfterFinished=draw(st.sampled_from([0, 30]))))
    return found


INCIDENTS = st.lists(
    st.one_of(
        st.builds(PodFails, st.integers(0, 900), st.sampled_from(["default/a-0", "default/j-w-0"]), st.just(137)),
        st.builds(NodeLost, st.integers(0, 900), st.sampled_from(NODES)),
        st.builds(NodeBack, st.integers(0, 900), st.sampled_from(NODES)),
    ),
    max_size=4,
)


def _bytes(world: Objects) -> str:
    return "\n".join(f"{key}: {world.raw(key)}" for key in world)


def _run(raws: list[Raw], incidents: list[Incident], *, log: bool = True) -> tuple[Simulation, list[Moment]]:
    return lived(machines(*NODES, allocatable="cpu=2 pods=9"), raws, incidents=incidents, until=1200, log=log)


@sees(refusals=5, moments=9)
@given(gangs(), INCIDENTS)
@examples(4)
def test_nobody_has_anything_left_to_do_at_the_end_of_a_moment(raws: list[Raw], incidents: list[Incident]) -> None:
    """Whoever is passed over because nothing concerns him would do nothing: the scheduler, controllers, storage."""
    life, moments = _run(raws, incidents)
    for moment in moments:
        if moment.at == 1200:
            continue  # the end of the run, at which nobody acts
        now = life.start + moment.at
        snapshot = build(moment.objects, now, DEFAULT)
        report = cycle(snapshot, DEFAULT)
        written = [e for e in statuses(moment.objects, snapshot, report) if not isinstance(e, RecordEvent)]
        asked = (*effects(snapshot, report), *written, *run(moment.objects, now))
        assert () == (*asked, *provision(moment.objects, now).effects)


@sees(moments=24)
@given(gangs(), INCIDENTS)
@examples(8)
def test_the_same_input_gives_the_same_bytes(raws: list[Raw], incidents: list[Incident]) -> None:
    """Two runs tell the same and end the same; the order of the manifests does not matter."""
    one, first = _run(raws, incidents)
    two, second = _run(raws[::-1], incidents)

    assert one.history.events == two.history.events
    assert [_bytes(moment.objects) for moment in first] == [_bytes(moment.objects) for moment in second]


@sees(moments=22)
@given(gangs(), INCIDENTS)
@examples(8)
def test_a_run_of_which_nobody_reads_the_log_is_the_same(raws: list[Raw], incidents: list[Incident]) -> None:
    """It leaves out the cycles that would count the pods which have started, and counts them all the same."""
    told, moments = _run(raws, incidents)
    quiet, others = _run(raws, incidents, log=False)

    assert [_bytes(moment.objects) for moment in moments] == [_bytes(moment.objects) for moment in others]
    assert told.cycles >= quiet.cycles


@sees(moments=14)
@given(gangs(), INCIDENTS)
@examples(15)
def test_every_pod_has_one_course(raws: list[Raw], incidents: list[Incident]) -> None:
    """No pod starts twice, ends twice or comes back from its end; what is left of it is its last state."""
    cluster, moments = _run(raws, incidents)
    courses: dict[str, str] = defaultdict(str)
    for entry in cluster.history.events:
        if entry.about.kind == "Pod" and entry.reason != "NotRunning":
            courses[entry.about.path] += LETTERS[entry.reason]
    left = moments[-1].objects.every(Pod)

    assert {} == {pod: course for pod, course in courses.items() if COURSE.fullmatch(course) is None}
    for path, course in courses.items():
        gone = course.endswith(("g", "k")) and path not in left
        assert gone != (path in left)
        if path in left and left[path].status.phase in ("Succeeded", "Failed"):
            assert course.count("E") >= 1
    assert all(moment.at <= 1200 for moment in moments)


@sees(moments=26)
@given(gangs(), INCIDENTS)
@examples(8)
def test_no_node_holds_more_than_it_has(raws: list[Raw], incidents: list[Incident]) -> None:
    """At every moment at most two pods of a cpu each stand on a node of two, dying ones included."""
    _, moments = _run(raws, incidents)
    for moment in moments:
        held = [
            pod.spec.node_name
            for pod in moment.objects.every(Pod).values()
            if pod.spec.node_name and pod.status.phase not in ("Succeeded", "Failed")
        ]
        assert all(held.count(node) <= 2 for node in moment.objects.every(Node))
