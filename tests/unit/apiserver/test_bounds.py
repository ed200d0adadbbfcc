"""No request makes more of itself than a server can hold: bytes, depth and work of every kind of patch are bounded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.support.playground import Json, Playground

from tierwise.apiserver.failures import MOST_BYTES, MOST_OPERATIONS, ApiFailure
from tierwise.apiserver.objects import ObjectApi

MAPS = "v1/configmaps"
MANY = 60_000


def _deep(levels: int, end: object = "x") -> Any:
    found = end
    for _ in range(levels):
        found = {"a": found}
    return found


def _texts(number: int, mark: str = "t") -> list[str]:
    return [f"{mark}{index}" for index in range(number)]


def _operations(*operations: tuple[str, str, object]) -> list[Json]:
    named = {"copy": "from", "move": "from"}
    return [{"op": op, "path": path, named.get(op, "value"): value} for op, path, value in operations]


def _ground(**fields: object) -> Playground:
    ground = Playground()
    ground.create(MAPS, {"metadata": {"name": "cm"}, "data": {"a": "x" * 1000}, **fields})
    return ground


PATCHES: dict[str, tuple[str, Callable[[], object], dict[str, object], int]] = {
    "a map copied into itself": (
        ObjectApi.JSON_PATCH,
        lambda: _operations(*(("copy", f"/data/k{n}", "/data") for n in range(24))),
        {},
        413,
    ),
    "a list copied into itself": (
        ObjectApi.JSON_PATCH,
        lambda: _operations(("add", "/l", ["x" * 1000]), *(("copy", "/l/-", "/l") for _ in range(24))),
        {},
        413,
    ),
    "a copy that is moved and copied again": (
        ObjectApi.JSON_PATCH,
        lambda: _operations(
            *(step for n in range(24) for step in (("copy", f"/k{n}", "/data"), ("move", f"/data/{n}", f"/k{n}")))
        ),
        {},
        413,
    ),
    "one text copied a thousand times": (
        ObjectApi.JSON_PATCH,
        lambda: _operations(("add", "/t", "x" * 100_000), *(("copy", f"/k{n}", "/t") for n in range(1000))),
        {},
        413,
    ),
    "copies of which none is left": (
        ObjectApi.JSON_PATCH,
        lambda: _operations(
            ("add", "/t", "x" * 100_000),
            *[step for _ in range(60) for step in (("copy", "/k", "/t"), ("remove", "/k", 0))],
        ),
        {},
        413,
    ),
    "too many operations": (
        ObjectApi.JSON_PATCH,
        lambda: _operations(*[("add", "/data/a", "y")] * (MOST_OPERATIONS + 1)),
        {},
        413,
    ),
    "operations on a long list": (
        ObjectApi.JSON_PATCH,
        lambda: _operations(*[("add", "/list/0", 1)] * 1000),
        {"list": _texts(MANY)},
        413,
    ),
    "a long path": (ObjectApi.JSON_PATCH, lambda: _operations(("add", "/a" * 5000, 1)), {}, 400),
    "ever deeper": (
        ObjectApi.JSON_PATCH,
        lambda: _operations(*(("add", "/d" + "/a" * n, {}) for n in range(300))),
        {},
        400,
    ),
    "deep by copying": (
        ObjectApi.JSON_PATCH,
        lambda: _operations(("add", "/d", _deep(100)), *(("copy", "/d" + "/a" * 100, "/d") for _ in range(3))),
        {},
        400,
    ),
    "deep, merged": (ObjectApi.MERGE_PATCH, lambda: {"b": _deep(250)}, {}, 400),
    "deep, strategic": (ObjectApi.STRATEGIC_PATCH, lambda: {"b": _deep(250)}, {}, 400),
    "deep, applied": (ObjectApi.APPLY, lambda: {"b": _deep(250)}, {}, 400),
    "large, merged": (ObjectApi.MERGE_PATCH, lambda: {"b": "x" * (MOST_BYTES - 500)}, {}, 413),
    "large, strategic": (ObjectApi.STRATEGIC_PATCH, lambda: {"b": "x" * (MOST_BYTES - 500)}, {}, 413),
    "large, applied": (ObjectApi.APPLY, lambda: {"b": "x" * (MOST_BYTES - 500)}, {}, 413),
    "each item against each": (
        ObjectApi.STRATEGIC_PATCH,
        lambda: {"metadata": {"finalizers": _texts(MANY, "b")}},
        {},
        413,
    ),
    "each item deleted": (
        ObjectApi.STRATEGIC_PATCH,
        lambda: {"$deleteFromPrimitiveList/list": _texts(MANY, "b")},
        {"list": _texts(MANY)},
        413,
    ),
    "each key retained": (
        ObjectApi.STRATEGIC_PATCH,
        lambda: {"$retainKeys": _texts(MANY)},
        dict.fromkeys(_texts(1000), "x"),
        413,
    ),
    "very many fields, applied": (ObjectApi.APPLY, lambda: {"data": dict.fromkeys(_texts(MANY), "x")}, {}, 413),
}


@pytest.mark.parametrize("name", sorted(PATCHES))
def test_patches_are_refused_where_they_make_too_much(name: str) -> None:
    """With a status that says so, and the object stays as it was."""
    kind, patch, fields, code = PATCHES[name]
    meta = {"finalizers": _texts(MANY)} if name == "each item against each" else {}
    ground = _ground(**fields, metadata={"name": "cm", **meta})
    before = ground.get(MAPS, "cm")

    with pytest.raises(ApiFailure) as refused:
        ground.patch(MAPS, "cm", patch(), kind, fieldManager="m", force="true")

    assert code == refused.value.code
    assert before == ground.get(MAPS, "cm")


def test_what_is_within_the_bounds_is_done() -> None:
    """Ten thousand operations on a map, and a copy of a megabyte."""
    ground = _ground()
    ground.patch(
        MAPS,
        "cm",
        _operations(*[("add", f"/data/k{n % 50}", str(n)) for n in range(MOST_OPERATIONS)]),
        ObjectApi.JSON_PATCH,
    )
    ground.patch(
        MAPS,
        "cm",
        _operations(("add", "/data/l", "x" * 1_000_000), ("copy", "/data/m", "/data/l")),
        ObjectApi.JSON_PATCH,
    )

    data = ground.get(MAPS, "cm")["data"]
    assert ("9999", 1_000_000, data["l"]) == (data["k49"], len(data["l"]), data["m"])


def test_objects_have_a_depth() -> None:
    """What cannot be read by every other part is not kept, new or in place of another."""
    ground = _ground()
    raw: Json = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm"}, "deep": _deep(300)}

    with pytest.raises(ApiFailure) as created:
        ground.api.create(ground.place(MAPS), raw | {"metadata": {"name": "other"}}, {})
    with pytest.raises(ApiFailure) as updated:
        ground.api.update(ground.place(MAPS, "cm"), raw, {})

    assert [400, 400] == [created.value.code, updated.value.code]


def test_applying_twice_costs_what_it_should() -> None:
    """A few thousand fields that one manager has applied are applied again, and fields that it drops go."""
    ground = _ground()
    fields = dict.fromkeys(_texts(2000), "x")
    ground.patch(MAPS, "cm", {"data": fields}, ObjectApi.APPLY, fieldManager="m")
    ground.patch(MAPS, "cm", {"data": dict.fromkeys(_texts(1000), "y")}, ObjectApi.APPLY, fieldManager="m")

    data = ground.get(MAPS, "cm")["data"]
    assert (1001, "y") == (len(data), data["t999"])
