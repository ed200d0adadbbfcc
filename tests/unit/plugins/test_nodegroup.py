"""nodegroup: which groups of nodes are open to a queue, and which it likes best, through the command line's cycle."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.commands import answer, manifests
from tests.support.manifests import node

_CONTAINER = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}
GROUPS = {"n0": "", "n1": "a", "n2": "b"}


def _queue(
    name: str, near: tuple[list[str], list[str]] | None, far: tuple[list[str], list[str]], parent: str
) -> object:
    def terms(given: tuple[list[str], list[str]]) -> dict[str, list[str]]:
        required, preferred = given
        return {
            "requiredDuringSchedulingIgnoredDuringExecution": required,
            "preferredDuringSchedulingIgnoredDuringExecution": preferred,
        }

    spec: dict[str, object] = {"parent": parent} if parent else {}
    if near is not None:
        spec["affinity"] = {"nodeGroupAffinity": terms(near), "nodeGroupAntiAffinity": terms(far)}
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def _explained(folder: Path, *queues: object, arguments: str = "{}", hierarchy: bool = False) -> dict[str, object]:
    """Open nodes for a pod of queue q, with their scores."""
    (folder / "conf").write_text(
        "actions: allocate\ntiers: [{plugins: [{name: predicates}, {name: nodegroup,"
        f" enableHierarchy: {str(hierarchy).lower()}, arguments: {arguments}}}]}}]\n"
    )
    groups = [
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": name},
            "spec": {"queue": name, "minMember": 1},
        }
        for name in ("q", "other")
    ]
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{name}-0", "annotations": {"scheduling.k8s.io/group-name": name}},
            "spec": {"schedulerName": "volcano", "containers": [_CONTAINER]},
        }
        for name in ("q", "other")
    ]
    nodes = [node(name, **({"volcano.sh__nodegroup-name": group} if group else {})) for name, group in GROUPS.items()]
    other = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "other"}}
    files = manifests(folder, *nodes, other, *queues, *groups, *pods)
    found = answer("explain", "-f", files, "--config", folder / "conf", "--pod", "default/q-0")["nodes"]
    return {name: entry["scores"]["nodegroup"] for name, entry in found.items() if entry["feasible"]}


NONE: tuple[list[str], list[str]] = ([], [])


@pytest.mark.parametrize(
    ("near", "far", "arguments", "expected"),
    [
        ((["a"], []), NONE, "{}", {"n1": 100.0}),
        (([], ["a"]), NONE, "{}", {"n1": 50.0}),
        (([], ["b", "a"]), NONE, "{enablePreferredOrder: true}", {"n1": 25.0, "n2": 50.0}),
        ((["a", "b"], ["b"]), NONE, "{}", {"n1": 100.0, "n2": 150.0}),
        ((["a", "b"], []), (["b"], []), "{}", {"n1": 100.0}),
        ((["a"], []), ([], ["b"]), "{}", {"n1": 100.0, "n2": -1.0}),
        (NONE, NONE, "{}", {}),
        (NONE, NONE, "{strict: false}", {"n0": 0.0}),
        (None, NONE, "{strict: false}", {"n0": 0.0}),
        (None, NONE, "{}", {}),
    ],
)
def test_groups_are_open_as_the_queue_says(
    tmp_path: Path,
    near: tuple[list[str], list[str]] | None,
    far: tuple[list[str], list[str]],
    arguments: str,
    expected: dict[str, float],
) -> None:
    """Required, preferred, forbidden and avoided groups, and nodes in none; a like pod elsewhere changes nothing."""
    assert expected == _explained(tmp_path, _queue("q", near, far, ""), arguments=arguments)


def test_without_any_group_nothing_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plugin alone does not stop a cluster whose nodes nobody has put into groups; an affinity still holds."""
    monkeypatch.setitem(GROUPS, "n1", "")
    monkeypatch.setitem(GROUPS, "n2", "")

    assert {"n0", "n1", "n2"} == set(_explained(tmp_path, _queue("q", None, NONE, "")))
    assert {} == _explained(tmp_path, _queue("q", (["a"], []), NONE, ""))


@pytest.mark.parametrize(("hierarchy", "expected"), [(True, {"n1": 100.0}), (False, {})])
def test_an_affinity_is_inherited_where_that_is_on(tmp_path: Path, *, hierarchy: bool, expected: object) -> None:
    """From the nearest ancestor that has one."""
    queues = [_queue("top", (["a"], []), NONE, ""), _queue("mid", None, NONE, "top"), _queue("q", None, NONE, "mid")]

    assert expected == _explained(tmp_path, *queues, hierarchy=hierarchy)
