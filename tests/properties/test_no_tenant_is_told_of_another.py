"""Facts, starts, help and dry runs on drawn clusters: no answer to a namespace has a name of another one in it."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from tests.support.draw import Gang, draw, gang
from tests.support.sight import saw, sees
from tests.support.tenants import in_namespace, shared_objects

from tierwise.api.errors import InputError
from tierwise.config.profile import DEFAULT
from tierwise.port import Objects
from tierwise.sim.answers.dry_run import dry_run
from tierwise.sim.answers.facts import cluster_facts, starts
from tierwise.sim.answers.help import help_for
from tierwise.sim.what_if.runs import prepared

NAMESPACES = ("azure", "crimson", "olive")
NODES = tuple(f"n{number}" for number in range(6))


@st.composite
def _gang(draw_value: st.DrawFn, namespace: str, number: int) -> Gang:
    tasks = draw_value(st.integers(1, 4))
    where = draw_value(
        st.sampled_from(["", " ".join(draw_value(st.lists(st.sampled_from(NODES), min_size=1, max_size=tasks)))])
    )
    duration = draw_value(st.sampled_from([{}, {"tierwise.io/expected-duration": "1h"}]))
    return gang(
        f"{namespace}-{number}",
        tasks=tasks,
        each=f"gpu={draw_value(st.sampled_from([1, 2, 4]))}",
        within=draw_value(st.sampled_from([None, 1, 2])),
        queue=draw_value(st.sampled_from(["", "shared"])),
        on=where,
        created=draw_value(st.integers(1, 5)),
        marks=duration,
    )


@st.composite
def _clusters(draw_value: st.DrawFn) -> Objects:
    world = draw("s0: r0[n0 n1 n2] r1[n3 n4 n5]", node="gpu=4", queues="shared")
    gangs = {
        namespace: [draw_value(_gang(namespace, number)) for number in range(draw_value(st.integers(1, 3)))]
        for namespace in NAMESPACES
    }
    return shared_objects(world, gangs)


def _names_others(namespace: str, answer: object) -> list[str]:
    text = msgspec.json.encode(answer).decode()
    return [other for other in NAMESPACES if other != namespace and other in text]


@sees(waiting=5, behind_others=1)
@given(_clusters())
def test_no_tenant_is_told_of_another(objects: Objects) -> None:
    """Whatever runs and waits, and whichever question is asked about whichever job."""
    scenario = prepared(objects, DEFAULT, 1_767_225_600.0)
    facts = cluster_facts(scenario)
    expected = starts(scenario)
    for namespace, known in facts.namespaces.items():
        own_starts = expected.get(namespace, {})
        assert [] == _names_others(namespace, known)
        assert [] == _names_others(namespace, own_starts)
        waiting = [job.name for job in known.jobs.values() if job.verdict]
        saw(waiting=len(waiting), behind_others=sum(answer.after_others for answer in own_starts.values()))
        for name in waiting[:1]:
            note(f"{namespace}/{name}")
            assert [] == _names_others(namespace, help_for(scenario, f"{namespace}/{name}", name))
        new = in_namespace(gang(f"{namespace}-new", tasks=2, each="gpu=4", within=1).manifests(), namespace)
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": new}).encode()
        assert [] == _names_others(namespace, dry_run(scenario, namespace, text, frozenset()))


def test_a_dry_run_for_another_namespace_is_refused() -> None:
    """By the object that is not of the namespace."""
    objects = shared_objects(draw("r0[n0]", node="gpu=4"), {"azure": [gang("azure-0", tasks=1, each="gpu=1")]})
    scenario = prepared(objects, DEFAULT, 0.0)
    text = json.dumps(in_namespace(gang("x", tasks=1).manifests(), "crimson")[0]).encode()

    with pytest.raises(InputError) as raised:
        dry_run(scenario, "azure", text, frozenset())

    assert "PodGroup crimson/x: metadata.namespace: it is not of namespace azure" == str(raised.value)
