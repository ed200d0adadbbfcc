"""Whatever clients send, alone or at the same time: refused or kept, and the cluster goes on."""

from __future__ import annotations

import copy
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.playground import Json, Playground, deployment, nodes

from tierwise.apiserver.failures import ApiFailure
from tierwise.apiserver.objects import ObjectApi
from tierwise.apiserver.tables import table

POD: Json = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "labels": {"a": "b"}, "ownerReferences": [{"kind": "Node", "name": "n0", "uid": "u"}]},
    "spec": {
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}],
        "tolerations": [{"key": "k", "operator": "Exists"}],
    },
}
JOB: Json = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "j"},
    "spec": {
        "completions": 2,
        "backoffLimit": 1,
        "ttlSecondsAfterFinished": 1,
        "template": {
            "metadata": {"annotations": {"tierwise.io/run-for": "1s"}},
            "spec": {"containers": [{"name": "c"}], "restartPolicy": "Never"},
        },
    },
}
BUDGET: Json = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "b"},
    "spec": {"minAvailable": "50%", "selector": {"matchLabels": {"app": "web"}}},
}
KINDS = {
    "v1/pods": POD,
    "batch/v1/jobs": JOB,
    "policy/v1/poddisruptionbudgets": BUDGET,
    "apps/v1/deployments": deployment(),
    "v1/nodes": nodes("n9")[0],
}
JUNK: st.SearchStrategy[object] = st.sampled_from(
    [None, "", 0, -1, 1.5, True, [], {}, "x", [1], {"a": 1}, [{}], 10**30, "\x00", {"": ""}, [None]]
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, inner in items for place in ((*path, key), *_places(inner, (*path, key)))]


@st.composite
def _spoilt(draw: st.DrawFn, raw: Json) -> Json:
    """A manifest with something else in some places."""
    found: Any = copy.deepcopy(raw)
    for place in draw(st.lists(st.sampled_from(_places(raw)), min_size=1, max_size=3)):
        holder = found
        try:
            for step in place[:-1]:
                holder = holder[step]
            holder[place[-1]] = draw(JUNK)
        except (KeyError, IndexError, TypeError):
            continue  # it is gone already
    result: Json = found
    return result


@given(st.data())
def test_no_object_stops_the_cluster(data: st.DataObject) -> None:
    """A spoilt object is refused with a reason or kept; a good one beside it runs in either case."""
    ground = Playground(nodes("n0"))
    path = data.draw(st.sampled_from(sorted(KINDS)))
    raw = KINDS[path]
    place = ground.place(path, raw["metadata"]["name"])
    kind = data.draw(st.sampled_from([ObjectApi.MERGE_PATCH, ObjectApi.STRATEGIC_PATCH, ObjectApi.APPLY]))
    writes: tuple[Callable[[], object], ...] = (
        lambda: ground.api.create(ground.place(path), data.draw(_spoilt(raw)), {}),
        lambda: ground.api.create(ground.place(path), raw, {}),
        lambda: ground.api.patch(place, data.draw(_spoilt(raw)), kind, {"fieldManager": "m", "force": "true"}),
        lambda: ground.api.patch(place, data.draw(_spoilt(raw)), ObjectApi.MERGE_PATCH, {}, "status"),
    )
    for write in writes:
        with suppress(ApiFailure):
            write()
    ground.create("apps/v1/deployments", deployment("good", replicas=1))

    ground.live(3)

    listed: Any = ground.api.list(ground.place(path), {})["items"]
    assert len(listed) == len(table(place.served, listed, {}, now=ground.now)["rows"])  # type: ignore[arg-type]
    assert 1 == ground.get("apps/v1/deployments", "good")["status"]["replicas"]


def test_writers_at_the_same_time_lose_nothing() -> None:
    """Each reads, adds one and writes, and tries again where another was faster."""
    ground = Playground()
    ground.create("v1/configmaps", {"metadata": {"name": "cm"}, "data": {"n": "0"}})
    place = ground.place("v1/configmaps", "cm")

    def add(_: int) -> None:
        while True:
            seen: Json = ground.api.get(place)
            try:
                ground.api.update(place, seen | {"data": {"n": str(int(seen["data"]["n"]) + 1)}}, {})
            except ApiFailure:
                continue  # another was faster
            return

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(200)))

    assert "200" == ground.get("v1/configmaps", "cm")["data"]["n"]


def test_clients_write_while_the_cluster_lives() -> None:
    """Labels that clients set and pods that the cluster makes are all there in the end."""
    ground = Playground(nodes("n0", cpu="64"))

    def write(number: int) -> None:
        ground.create("apps/v1/deployments", deployment(f"web-{number}", replicas=1))
        ground.patch("apps/v1/deployments", f"web-{number}", {"metadata": {"labels": {"seen": "yes"}}})

    with ThreadPoolExecutor(4) as pool:
        written = [pool.submit(write, number) for number in range(20)]
        ground.live(5)
        for one in written:
            one.result()
    ground.live(5)

    found = ground.list("apps/v1/deployments", labelSelector="seen=yes")
    assert 20 == len(found)
    assert {1} == {one["status"]["readyReplicas"] for one in found}


@pytest.mark.parametrize("given_", ["soon", -1, 1.5, True, [1], 10**12, "²", "9" * 5000])
def test_a_grace_period_that_is_none_is_refused(given_: object) -> None:
    """Before anything is deleted."""
    ground = Playground()
    ground.create("v1/pods", POD)

    with pytest.raises(ApiFailure) as refused:
        ground.delete("v1/pods", "p", gracePeriodSeconds=given_)

    assert 400 == refused.value.code
    assert ["p"] == ground.names("v1/pods")
