"""What pages say of nodes besides whether they take pods: suspected, closed for a time, kept in part."""

from __future__ import annotations

import json
from typing import Any

from msgspec.structs import replace
from tests.support.boards import scheduled
from tests.support.reservations import MINUTE, NOW, TWO_RACKS
from tests.support.windows import window

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.config.profile import DEFAULT
from tierwise.explain.board import Board
from tierwise.port import Objects

REMEMBERS = replace(
    DEFAULT,
    action_arguments={"allocate": {"failedStarts": "tierwise", "keptPlaces": "tierwise", "keptPlacesFor": "5m"}},
)


def board(*parts: list[Raw]) -> Board:
    """The two racks with these objects, as a page shows them."""
    every = [*TWO_RACKS.manifests, *(raw for part in parts for raw in part)]
    objects = Objects.of((codec.decode(raw), raw) for raw in every)
    return Board(scheduled(objects, REMEMBERS, now=NOW))


def record(name: str, **data: str) -> list[Raw]:
    """A ConfigMap in the namespace of records."""
    metadata = {"name": name, "namespace": "tierwise"}
    return [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}]


def marks(shown: Board, name: str) -> Any:
    """What is said of a node, on its page and in the list."""
    page: Any = shown.node(name)
    listed: Any = shown.nodes("cluster")
    assert page["marks"] == next(node["marks"] for node in listed["nodes"] if node["name"] == name)
    return page["marks"]


def test_a_suspected_node_is_marked_and_no_namespace_is_named() -> None:
    """Two namespaces have failed there: how many they are is told, and not which."""
    lines = [[f"u{i}", gang, "n0", NOW - 60, "OutOfcpu", False] for i, gang in enumerate(("alpha/x", "beta/y"))]
    shown = board(record("tierwise-failed-starts", starts="".join(f"{json.dumps(line)}\n" for line in lines)))

    text = "pods of 2 namespaces failed to start here: it is used last for a while"
    assert {"suspected": text} == marks(shown, "n0")
    assert {} == marks(shown, "n1")


def test_windows_that_are_open_or_ahead_are_marked() -> None:
    """With the times between which the nodes are closed, and why."""
    ahead, inside = board(window(reason="new firmware")), board(window(begins=-MINUTE))

    text = "window firmware from 1970-01-12T14:46:40Z until 1970-01-12T15:46:40Z (new firmware)"
    assert {"window": text} == marks(ahead, "n0")
    assert {"closed": "closed by window firmware until 1970-01-12T14:45:40Z"} == marks(inside, "n1")
    assert {} == marks(ahead, "n2")


def test_places_that_are_kept_for_successors_are_marked() -> None:
    """A pod of a StatefulSet is gone for a minute: its place is kept for four more."""
    line = ["default/web-0", "u0", "default/web-0", "", "", True, "n2", "default", {"cpu": 1}, NOW - MINUTE]
    shown = board(record("tierwise-kept-places", places=f"{json.dumps(line)}\n"))

    text = "1 place kept until 1970-01-12T13:50:40Z at most for pods that are about to come back"
    assert {"kept": text} == marks(shown, "n2")


def test_a_page_hears_of_a_mark_that_came_or_went() -> None:
    """What follows the nodes is told of one whose mark alone has changed."""
    known: dict[str, bytes] = {}
    board().node_changes(known)

    assert {"n0", "n1"} == set(board(window()).node_changes(known))
    assert {"n0", "n1"} == set(board().node_changes(known))
