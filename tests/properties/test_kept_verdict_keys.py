"""By what verdicts are kept: each part of their key in turn is all that tells two gangs, or two clusters, apart.

Where a part is missing, one gang hears what was found out about another, or what was true in the last cycle.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support import languages, volumes
from tests.support.koordinator import objects_of
from tests.support.sight import cycle
from tests.support.strategies import profile

from tierwise.api.codec import Raw
from tierwise.config.profile import DEFAULT, PluginChoice, Profile
from tierwise.explain.wire import pending_wire
from tierwise.snapshot.builder import Reader

Gang = list[Any]
TIED = profile("predicates", PluginChoice("nodegroup", {"strict": False}), "gang", "network-topology-aware")


def _hypernode(name: str, tier: int, kind: str, inside: Iterable[str], fabric: str = "") -> Raw:
    members = [{"type": kind, "selector": {"exactMatch": {"name": member}}} for member in inside]
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": name, "labels": {"tierwise.io/fabric": fabric} if fabric else {}},
        "spec": {"tier": tier, "tierName": f"t{tier}", "members": members},
    }


def cluster() -> list[Any]:
    """Two racks of two nodes with two cpu each, all of them in use: what fits when they are empty waits as well."""
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "q"}, "spec": {}}
    return [
        *languages.nodes({"s0": {"r0": "n0 n1", "r1": "n2 n3"}}, cpu=2),
        *(languages.pod(f"full-{i}", on=f"n{i}", cpu=2) for i in range(4)),
        _hypernode("r0", 1, "Node", ("n0", "n1")),
        _hypernode("r1", 1, "Node", ("n2", "n3")),
        _hypernode("s0", 2, "HyperNode", ("r0", "r1")),
        languages.topology(),
        queue,
    ]


def _gang(
    name: str,
    pods: int = 12,
    *,
    least: int | None = None,
    cpu: int = 1,
    tier: int = 0,
    roles: tuple[int, ...] = (),
    parts: int = 0,
    part_tier: int = 1,
    need_parts: int = 0,
    resources: str = "",
    fabric: str = "",
    spec: Raw | None = None,
) -> Gang:
    """A gang of Volcano's; pods of its second role are twice as large."""
    group, *made = languages.volcano_gang(name, pods, least=least)
    found: list[Any] = [group, *made]
    said = found[0]["spec"]
    said["queue"] = "q"
    if tier:
        said["networkTopology"] = {"mode": "hard", "highestTierAllowed": tier}
    if roles:
        said["minTaskMember"] = {f"role{i}": number for i, number in enumerate(roles)}
    if parts:
        near = {"mode": "hard", "highestTierAllowed": part_tier}
        policy: Any = {"name": "s", "subGroupSize": parts, "matchLabelKeys": ["part"], "networkTopology": near}
        said["subGroupPolicy"] = [policy | ({"minSubGroups": need_parts} if need_parts else {})]
    if resources:
        said["minResources"] = {"cpu": resources}
    if fabric:
        rule = f'[{{"fabric": "{fabric}", "tier": 1, "mode": "hard"}}]'
        found[0]["metadata"]["annotations"] = {"tierwise.io/topology-constraints": rule}
    for i, pod in enumerate(found[1:]):
        pod["spec"]["schedulerName"] = "volcano"
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = str(cpu)
        pod["spec"] |= spec or {}
        if roles:
            pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = str(cpu + i % len(roles))
            marks = pod["metadata"]["annotations"]
            pod["metadata"]["annotations"] = marks | {"volcano.sh/task-spec": f"role{i % len(roles)}"}
        if parts:
            pod["metadata"]["labels"] = {"part": f"p{i // parts}"}
    return found


GANGS: dict[str, Callable[[str], Gang]] = {
    "as it is": _gang,
    "another minimum": lambda name: _gang(name, least=11),
    "more pods": lambda name: _gang(name, 13, least=12),
    "larger pods": lambda name: _gang(name, cpu=3),
    "within a rack": lambda name: _gang(name, tier=1),
    "within a spine": lambda name: _gang(name, tier=2),
    "two roles": lambda name: _gang(name, least=6, roles=(6, 0)),
    "other minimums of roles": lambda name: _gang(name, least=6, roles=(0, 6)),
    "in threes": lambda name: _gang(name, parts=3),
    "in sixes": lambda name: _gang(name, parts=6),
    "in sixes within a spine": lambda name: _gang(name, parts=6, part_tier=2),
    "in sixes, one of which is enough": lambda name: _gang(name, parts=6, need_parts=1, least=6),
    "of four pods": lambda name: _gang(name, 4, tier=2, roles=(2, 2)),
    "of four that promise more": lambda name: _gang(name, 4, tier=2, roles=(2, 2), resources="400"),
    "one pod": lambda name: _gang(name, 1, cpu=3),
    "nodes with a label": lambda name: _gang(name, spec={"nodeSelector": {languages.RACK: "r1"}}),
    "of Kubernetes' own": lambda name: list(languages.kubernetes_gang(name, 14)),
    "of Kubernetes' own within a rack": lambda name: list(languages.kubernetes_gang(name, 14, key=languages.RACK)),
    "of sub-groups": lambda name: _kai(name, {"a": 5, "b": 3}, ""),
    "of sub-groups within racks": lambda name: _kai(name, {"a": 5, "b": 3}, "a"),
    "of sub-groups, another within a rack": lambda name: _kai(name, {"a": 5, "b": 3}, "b"),
}


def _kai(name: str, sizes: dict[str, int], near: str) -> Gang:
    """A gang of KAI's with sub-groups, one of which must stand in a rack."""
    limit = {"topologyConstraint": languages.near(required=languages.RACK)}
    groups = [{"name": sub, "minMember": n} | (limit if sub == near else {}) for sub, n in sizes.items()]
    return list(languages.kai_gang(name, sizes, subGroups=groups))


def _told(raws: Iterable[Raw], by: Profile = DEFAULT, reader: Reader | None = None) -> dict[str, list[str]]:
    """What each gang hears, its own name left out."""
    snapshot = (reader or Reader(by)).read(objects_of(list(raws)), 0.0)
    report = cycle(snapshot, by)
    found: dict[str, list[str]] = {}
    for entry in pending_wire(snapshot, report, {}):
        name = str(entry["pod"]).partition("/")[2].rpartition("-")[0].partition("-")[0]
        words = f"{entry['verdict']} {entry['reason']} {entry['message']}".replace(name, "it")
        found[name] = sorted({*found.get(name, ()), words})
    return found


def test_gangs_that_differ_in_one_thing_hear_each_what_it_hears_alone() -> None:
    """All of them wait in one cluster, in either order, and gangs of a kind share what is found out."""
    alone = {what: _told([*cluster(), *made("g0")])["g0"] for what, made in GANGS.items()}
    for order in (list(GANGS), list(reversed(GANGS))):
        gangs = {f"g{i}": what for i, what in enumerate(order)}
        raws = [raw for name, what in gangs.items() for raw in GANGS[what](name)]
        together = _told([*cluster(), *raws])

        assert alone == {what: together[name] for name, what in gangs.items()}


def test_no_two_of_these_gangs_hear_the_same() -> None:
    """Else nobody would notice that one heard what was found out about the other."""
    alone = [tuple(_told([*cluster(), *made("g0")])["g0"]) for made in GANGS.values()]

    assert len(GANGS) == len(set(alone))


# -- what a kept verdict reads besides


def _changed(kind: str, name: str, change: Callable[[Any], None]) -> Callable[[list[Any]], list[Any]]:
    def made(raws: list[Any]) -> list[Any]:
        found = copy.deepcopy(raws)
        for raw in found:
            if (raw["kind"], raw["metadata"]["name"]) == (kind, name):
                change(raw)
        return found

    return made


def _grows(raw: Any) -> None:
    raw["status"]["allocatable"]["cpu"] = "3"


def _is_tainted(raw: Any) -> None:
    raw.setdefault("spec", {})["taints"] = [{"key": "pool", "effect": "NoSchedule"}]


def _is_unready(raw: Any) -> None:
    raw["status"]["conditions"] = [{"type": "Ready", "status": "False"}]


def _is_relabelled(raw: Any) -> None:
    raw["metadata"]["labels"] |= {languages.RACK: "r1", "volcano.sh/nodegroup-name": "fast"}


def _loses_a_node(raw: Any) -> None:
    del raw["spec"]["members"][1:]


def _moves(raws: list[Any]) -> list[Any]:
    """Node n1 is below the other rack: nodes stand in the same order as before."""
    moved = {"r0": ("n0",), "r1": ("n1", "n2", "n3")}
    return [
        _hypernode(name, 1, "Node", moved[name]) if (name := raw["metadata"]["name"]) in moved else raw for raw in raws
    ]


def _on(node: str) -> list[Any]:
    """A volume that one node reaches, and its claim."""
    near = volumes.within("kubernetes.io/hostname", node)
    return [
        volumes.claim("disk", to="disk", modes=("ReadWriteOnce",)),
        volumes.volume("disk", of="disk", affinity=near),
    ]


def _volume_moves(raws: list[Any]) -> list[Any]:
    return [raw for raw in raws if raw["kind"] not in ("PersistentVolume", "PersistentVolumeClaim")] + _on("n2")


def _is_tied(raw: Any) -> None:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": ["slow"]}
    raw["spec"]["affinity"] = {"nodeGroupAffinity": required}


def _is_of_a_fabric(raw: Any) -> None:
    raw["metadata"]["labels"] = {"tierwise.io/fabric": "nvlink"}


def _without(kind: str, name: str) -> Callable[[list[Any]], list[Any]]:
    return lambda raws: [raw for raw in raws if (raw["kind"], raw["metadata"]["name"]) != (kind, name)]


_DISK: Raw = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "disk"}}]}

CHANGES: dict[str, tuple[Gang, Callable[[list[Any]], list[Any]], Profile]] = {
    "a node has more": (_gang("g"), _changed("Node", "n0", _grows), DEFAULT),
    "a node is gone": (_gang("g"), _without("Node", "n3"), DEFAULT),
    "a node has a taint": (_gang("g"), _changed("Node", "n0", _is_tainted), DEFAULT),
    "a node is not ready": (_gang("g", 8), _changed("Node", "n0", _is_unready), DEFAULT),
    "a node has another label": (
        _gang("g", spec={"nodeSelector": {languages.RACK: "r1"}}),
        _changed("Node", "n0", _is_relabelled),
        DEFAULT,
    ),
    "a rack has fewer nodes": (_gang("g", tier=1), _changed("HyperNode", "r0", _loses_a_node), DEFAULT),
    "a node is below another rack": (_gang("g", tier=1), _moves, DEFAULT),
    "a volume is elsewhere": (
        [*_gang("g", 8, roles=(4, 0), least=4, spec=_DISK | {"nodeSelector": {languages.RACK: "r1"}}), *_on("n0")],
        _volume_moves,
        DEFAULT,
    ),
    "a spine is gone": (_gang("g", tier=2), _without("HyperNode", "s0"), DEFAULT),
    "a rack is of another tree": (_gang("g", tier=1), _changed("HyperNode", "r0", _is_of_a_fabric), DEFAULT),
    "a queue is tied to nodes": (_gang("g"), _changed("Queue", "q", _is_tied), TIED),
    "a level of labels has other nodes": (
        list(languages.kubernetes_gang("g", 12, key=languages.RACK)),
        _changed("Node", "n0", _is_relabelled),
        DEFAULT,
    ),
}


@pytest.mark.parametrize("what", CHANGES)
def test_clusters_that_differ_in_one_thing_are_not_taken_for_each_other(what: str) -> None:
    """Forwards and back again, a gang hears what a scheduler that starts now would tell it."""
    gang, change, by = CHANGES[what]
    before, after = [*cluster(), *gang], change([*cluster(), *gang])
    new = [_told(raws, by) for raws in (before, after)]
    reader = Reader(by)

    assert new[0] != new[1]  # or nothing would be noticed
    assert [*new, new[0]] == [_told(raws, by, reader) for raws in (before, after, before)]


def test_what_is_found_out_on_nodes_that_are_not_well_is_not_taken_for_all_of_them() -> None:
    """A gang that would fit if all nodes were well waits for them, whatever was found out without them."""
    raws = _changed("Node", "n0", _is_unready)([*cluster(), *_gang("g", 8), *_gang("h", 4, roles=(3, 3), least=4)])

    assert {"not-now"} == {words.split()[0] for told in _told(raws).values() for words in told}


def test_a_profile_is_part_of_what_was_read() -> None:
    """One snapshot under two profiles, of which one minds no taints."""
    raws = _changed("Node", "n0", _is_tainted)([*cluster(), *_gang("g")])
    snapshot = Reader(DEFAULT).read(objects_of(raws), 0.0)
    lax = profile("gang", "network-topology-aware")

    def told(by: Profile, *, kept: bool) -> object:
        seen = snapshot if kept else replace(snapshot, kept_verdicts=None)
        return cycle(seen, by).rejections

    expected = [told(by, kept=False) for by in (DEFAULT, lax)]
    assert expected[0] != expected[1]
    assert expected == [told(by, kept=True) for by in (DEFAULT, lax)]
