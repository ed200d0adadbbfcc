"""Events are read as manifests are; no object can hide the others of its list or end their watch."""

from __future__ import annotations

import json
import logging

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.errors import InputError
from tierwise.kube.decoding import event, page
from tierwise.kube.errors import ApiError
from tierwise.kube.kinds import Resource

PODS = Resource("", "v1", "Pod", "pods", namespaced=True, status=True)
NODES = Resource("", "v1", "Node", "nodes", namespaced=False, status=True)
GROUPS = Resource("scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups", namespaced=True, status=True)
DEPTHS = [300, 1_500, 10_000, 200_000]


def _group(name: str, depth: int = 0, word: str = "1") -> str:
    deep = '{"a":[' * (depth // 2) + word + "]}" * (depth // 2)
    meta = f'{{"name":"{name}","namespace":"default","resourceVersion":"5"}}'
    return f'{{"metadata":{meta},"spec":{{"minMember":2,"more":{deep}}}}}'


@pytest.mark.parametrize("depth", DEPTHS[1:])
@pytest.mark.parametrize("word", ["1", r'"]}\"]}"', '"[[["'])
def test_list_shows_the_others(depth: int, word: str, caplog: pytest.LogCaptureFixture) -> None:
    """What is nested more deeply than any decoder goes is left out by name, with brackets in texts or without."""
    items = ",".join((_group("a"), _group("deep", depth, word), _group("b", 20, word)))
    found = page(GROUPS, f'{{"metadata":{{"resourceVersion":"7"}},"items":[{items}]}}'.encode())

    assert ("7", ["a", "b"]) == (found.version, [record.metadata.name for record, _ in found.entries])
    assert ["left out: PodGroup default/deep: nested too deeply"] == [r.getMessage() for r in caplog.records]
    assert logging.ERROR == caplog.records[0].levelno


@pytest.mark.parametrize("depth", DEPTHS[1:])
def test_watch_goes_on_behind_it(depth: int) -> None:
    """A line that cannot be read still tells from which version to go on."""
    found = event(GROUPS, f'{{"type":"ADDED","object":{_group("deep", depth)}}}'.encode())

    assert ("5", None) == (found.version, found.entry)


def test_moderate_depth_is_read() -> None:
    """Nothing is cut as long as everything can be read."""
    found = page(GROUPS, f'{{"metadata":{{"resourceVersion":"7"}},"items":[{_group("a", DEPTHS[0])}]}}'.encode())

    assert ["a"] == [record.metadata.name for record, _ in found.entries]


VALUES = st.recursive(
    st.none() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@given(VALUES)
def test_others_are_read_to_the_letter(value: object) -> None:
    """Whatever the texts of an object beside it hold, brackets and quotes among it: its manifest stays as it is."""
    beside = _group("a", 2, json.dumps(value))
    items = f"{_group('deep', 3_000)},{beside}"
    found = page(GROUPS, f'{{"metadata":{{"resourceVersion":"7"}},"items":[{items}]}}'.encode())

    [(_, raw)] = found.entries
    assert raw is not None
    assert {"minMember": 2, "more": {"a": [value]}} == raw["spec"]


TIMES = st.sampled_from([None, "", "2026-01-01T00:00:00Z", "soon"])
NAMES = st.sampled_from(["cpu", "memory", "x.io/gpu"])
AMOUNTS = st.dictionaries(NAMES, st.sampled_from(["1", "500m", "2Gi", "much", "-1", 3, None]), max_size=2)
CONDITIONS = st.lists(
    st.fixed_dictionaries(
        {"type": st.just("Ready"), "status": st.sampled_from(["True", "False"])},
        optional={"lastProbeTime": TIMES, "lastTransitionTime": TIMES, "reason": st.sampled_from([None, "why"])},
    ),
    max_size=2,
)
TERMINATED = st.fixed_dictionaries({"exitCode": st.just(1)}, optional={"startedAt": TIMES, "finishedAt": TIMES})
TEXTS = st.sampled_from(["", '{"lastTransitionTime":null}', ',"startedAt":null', "lastTransitionTime"])
METADATA = st.fixed_dictionaries(
    {"name": st.just("a"), "namespace": st.just("default"), "resourceVersion": st.just("5")},
    optional={
        "creationTimestamp": TIMES,
        "annotations": st.dictionaries(TEXTS, TEXTS | st.none(), max_size=2),
        "labels": st.none() | st.just({"a": "b"}),
    },
)
POD_OBJECTS = st.fixed_dictionaries(
    {"metadata": METADATA},
    optional={
        "spec": st.fixed_dictionaries(
            {},
            optional={
                "nodeName": st.sampled_from(["", "n0", None]),
                "overhead": AMOUNTS,
                "hostNetwork": st.booleans(),
                "containers": st.lists(
                    st.fixed_dictionaries(
                        {"name": st.just("c")},
                        optional={
                            "resources": st.fixed_dictionaries({}, optional={"limits": AMOUNTS, "requests": AMOUNTS}),
                            "ports": st.just([{"containerPort": 80}]),
                        },
                    ),
                    max_size=2,
                ),
            },
        ),
        "status": st.fixed_dictionaries(
            {},
            optional={
                "conditions": st.none() | CONDITIONS,
                "containerStatuses": st.lists(
                    st.fixed_dictionaries(
                        {"state": st.fixed_dictionaries({}, optional={"terminated": TERMINATED})},
                        optional={"resources": st.fixed_dictionaries({"requests": AMOUNTS})},
                    ),
                    max_size=1,
                ),
            },
        ),
    },
)
NODE_OBJECTS = st.fixed_dictionaries(
    {"metadata": METADATA},
    optional={"status": st.fixed_dictionaries({}, optional={"conditions": CONDITIONS, "allocatable": AMOUNTS})},
)


@given(
    st.tuples(st.just(PODS), POD_OBJECTS) | st.tuples(st.just(NODES), NODE_OBJECTS),
    st.sampled_from(["ADDED", "MODIFIED", "DELETED"]),
    st.sampled_from([(",", ":"), (", ", ": ")]),
)
@example(
    (NODES, {"metadata": {"name": "a", "resourceVersion": "5"}, "status": {"capacity": {"cpu": "much"}}}),
    "ADDED",
    (",", ":"),
)
@example(
    (
        NODES,
        {"metadata": {"name": "a", "resourceVersion": "5"}, "status": {"conditions": [{"lastTransitionTime": None}]}},
    ),
    "ADDED",
    (",", ":"),
)
def test_events_are_read_as_manifests_are(drawn: tuple[Resource, Raw], kind: str, between: tuple[str, str]) -> None:
    """The short ways from JSON to a record and the long one by way of a manifest end at the same record, or at none."""
    resource, raw = drawn
    try:
        expected = codec.decode({"apiVersion": "v1", "kind": resource.kind, **raw})
    except InputError:
        expected = None
    line = json.dumps({"type": kind, "object": raw}, separators=between)
    found = event(resource, line.encode())

    assert (kind, "5") == (found.type, found.version)
    assert expected == (found.entry[0] if found.entry is not None else None)


def test_bookmarks_and_errors_are_no_changes() -> None:
    """What a bookmark shows is no object, and an error ends the watch."""
    mark = b'{"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"resourceVersion":"9"}}}'
    found = event(PODS, mark)

    assert ("BOOKMARK", "9", None) == (found.type, found.version, found.entry)
    with pytest.raises(ApiError, match="too old"):
        event(PODS, b'{"type":"ERROR","object":{"kind":"Status","metadata":{},"code":410,"message":"too old"}}')


@pytest.mark.parametrize("told", ['{"items": []}', '{"kind": "List", "metadata": {}, "items": null}', "{}"])
def test_a_list_of_no_version_is_none(told: str) -> None:
    """Everything would be gone by it, and no watch could go on from there."""
    with pytest.raises(ValueError, match="without a version"):
        page(GROUPS, told.encode())


@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED", "DELETED", "BOOKMARK"])
@pytest.mark.parametrize("resource", [GROUPS, Resource("", "v1", "Pod", "pods", namespaced=True, status=True)])
def test_news_of_no_version_is_none(resource: Resource, kind: str) -> None:
    """The watch could not go on behind it."""
    with pytest.raises(ValueError, match="without a version"):
        event(resource, f'{{"type": "{kind}", "object": {{"metadata": {{"name": "a"}}}}}}'.encode())


def test_news_of_no_known_type_is_none() -> None:
    """It is no change that was seen."""
    with pytest.raises(ValueError, match="nothing that a watch tells"):
        event(GROUPS, b'{"type": "REDIRECT", "object": {"metadata": {"name": "a", "resourceVersion": "5"}}}')
