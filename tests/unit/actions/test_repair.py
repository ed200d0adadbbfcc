"""Gangs that lose nodes: what is evicted, where replacements go, and who makes room for them."""

from __future__ import annotations

from functools import partial

import pytest
from msgspec.structs import replace as replaced
from tests.support.draw import Gang, Outcome, World, allocate, draw, gang, groups, placed, spots, waiting, why
from tests.support.languages import composite, kubernetes_gang
from tests.support.volumes import claim, storage_class

from tierwise.api.codec import Raw
from tierwise.api.merge_patch import merged
from tierwise.config.profile import DEFAULT, PluginChoice
from tierwise.dialects.kubernetes.volumes import FAILED_AT
from tierwise.model.job import Verdict

ON_LOSS = "tierwise.io/on-node-loss"
REPLACE = {ON_LOSS: "replace"}
NOT_READY: Raw = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
TAINTED: Raw = {"spec": {"taints": [{"key": "maintenance", "effect": "NoExecute"}]}}
SICK: Raw = {"status": {"conditions": [{"type": "GPUUnhealthy", "status": "True"}]}}
WATCHING = replaced(DEFAULT, tiers=(*DEFAULT.tiers, (PluginChoice("repair", {"conditions": ["GPUUnhealthy"]}),)))
NEW_YEAR = 1_767_225_600.0  # 2026
RACKS = "s0: r0[n0 n1 n2] r1[n3 n4 n5]"


_gang = partial(gang, owned=True)


def _with(world: World, **nodes: Raw) -> World:
    """The cluster with fields of some nodes merged in."""
    return World(tuple(merged(raw, nodes.get(_node(raw), {})) for raw in world.manifests), world.drawing)


def _node(raw: Raw) -> str:
    """The name of a node; "" for everything else."""
    return _name(raw) if raw["kind"] == "Node" else ""


def _name(raw: Raw) -> str:
    metadata = raw["metadata"]
    return str(metadata["name"]) if isinstance(metadata, dict) else ""


def _evicted(outcome: Outcome) -> dict[str, str]:
    return {eviction.task.key.partition("/")[2]: eviction.reason for eviction in outcome.report.evictions}


# -- triggers


@pytest.mark.parametrize(
    ("fields", "text"),
    [(NOT_READY, "node n1 is not ready"), (TAINTED, "node n1 has taint maintenance:NoExecute")],
)
def test_pods_on_lost_nodes_are_evicted(fields: Raw, text: str) -> None:
    """A job that wants replacements loses the pods of the lost node at once, and no others."""
    world = _with(draw(RACKS), n1=fields)

    outcome = allocate(world, _gang("train", tasks=3, within=1, on="n0 n1 n2", marks=REPLACE))

    assert {"train-1": text} == _evicted(outcome)


def test_a_node_that_is_gone_is_lost() -> None:
    """Pods that name a node which no longer exists are evicted."""
    outcome = allocate(draw(RACKS), _gang("train", tasks=2, within=1, on="n0 n9", marks=REPLACE))

    assert {"train-1": "its node is gone"} == _evicted(outcome)


@pytest.mark.parametrize("action", ["preempt", "gangpreempt", "jobpreempt", "podpreempt"])
def test_evictions_go_on_beside_pods_whose_nodes_are_gone(action: str) -> None:
    """Pods of nodes that are gone and of nodes that are lost go by repair, and others for a more important gang."""
    world = _with(draw("r0[n0 n1 n2]", node="cpu=1"), n1=NOT_READY)
    lost = _gang("lost", tasks=2, minimum=1, on="n1 n9", marks=REPLACE)
    victim = _gang("victim", tasks=2, minimum=1, on="n0 n2")
    urgent = _gang("urgent", tasks=1, priority=9)
    profile = replaced(DEFAULT, actions=("allocate", action))

    gone = sorted(_evicted(allocate(world, lost, victim, urgent, profile=profile)))

    assert ["lost-0", "lost-1"] == gone[:2]
    assert ["victim"] == [name.partition("-")[0] for name in gone[2:]]


def test_conditions_count_where_the_profile_lists_them() -> None:
    """A listed condition of a node counts as its loss; others do not."""
    world = _with(draw(RACKS), n1=SICK)
    train = _gang("train", tasks=2, within=1, on="n0 n1", marks=REPLACE)

    assert {} == _evicted(allocate(world, train))
    assert {"train-1": "node n1 has condition GPUUnhealthy=True"} == _evicted(allocate(world, train, profile=WATCHING))


def test_nothing_is_placed_on_unhealthy_nodes() -> None:
    """A gang does not start on nodes with a condition that the profile lists."""
    world = _with(draw("r0[n0 n1]", node="cpu=1"), n1=SICK)

    outcome = allocate(world, _gang("train", tasks=2), profile=WATCHING)

    assert {} == placed(outcome, "train")


def test_pods_stay_on_an_unhealthy_node_while_there_is_no_other() -> None:
    """A pod that still runs is not evicted from an unhealthy node without room for a replacement."""
    world = _with(draw("r0[n0 n1]", node="cpu=1"), n1=SICK)

    outcome = allocate(world, _gang("train", tasks=2, within=1, on="n0 n1", marks=REPLACE), profile=WATCHING)

    assert {} == _evicted(outcome)
    attempts = outcome.report.eviction_attempts["default/train"]
    assert ["NoRoomForReplacements"] == [a.obstacle.code for a in attempts if a.obstacle is not None]


def test_a_taint_that_is_tolerated_for_good_evicts_nobody() -> None:
    """Toleration for some seconds is no reason to wait for them; toleration for good is one to stay."""
    world = _with(draw(RACKS), n1=TAINTED)
    toleration: Raw = {"key": "maintenance", "operator": "Exists", "effect": "NoExecute"}
    for_good = _gang("train", tasks=2, on="n0 n1", marks=REPLACE, spec={"tolerations": [toleration]})
    limited: Raw = {"tolerations": [{**toleration, "tolerationSeconds": 300}]}
    a_while = _gang("train", tasks=2, on="n0 n1", marks=REPLACE, spec=limited)

    assert ({}, ["train-1"]) == (_evicted(allocate(world, for_good)), [*_evicted(allocate(world, a_while))])


def test_a_pod_is_not_bound_where_repair_would_evict_it() -> None:
    """It waits if it tolerates the taint for a time only, and goes in if for good; jobs that nobody repairs go in."""
    world = _with(draw("r0[n0]"), n0=TAINTED)
    toleration: Raw = {"key": "maintenance", "operator": "Exists", "effect": "NoExecute"}
    limited: Raw = {"tolerations": [{**toleration, "tolerationSeconds": 300}]}
    repaired = _gang("repaired", tasks=1, marks=REPLACE, spec=limited)
    plain = _gang("plain", tasks=1, spec={"tolerations": [{**toleration, "tolerationSeconds": 301}]})
    for_good = _gang("for-good", tasks=1, marks=REPLACE, spec={"tolerations": [toleration]})

    outcome = allocate(world, repaired, plain, for_good)

    assert ({}, {"n0": 1}, {"n0": 1}) == tuple(placed(outcome, name) for name in ("repaired", "plain", "for-good"))
    told = str(outcome.report.rejections["default/repaired"])
    assert "had taint maintenance:NoExecute, which is not tolerated for good" in told


def test_spares_are_not_kept_on_lost_nodes() -> None:
    """A gang that runs on a node which is lost to it has its spare on another kind of node."""
    toleration: Raw = {"key": "maintenance", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    world = _with(draw("r0[n0 n1 n2]", node="cpu=1"), n0=TAINTED, n1=TAINTED)
    marks = {**REPLACE, "tierwise.io/spares": "1"}
    owner = _gang("owner", tasks=1, each="cpu=1", on="n0", marks=marks, spec={"tolerations": [toleration]})
    other = _gang("other", tasks=1, each="cpu=1", spec={"tolerations": [toleration]})

    assert {"n1": 1} == placed(allocate(world, owner, other), "other")


def test_who_says_nothing_is_left_alone() -> None:
    """Without the annotation nothing is evicted, and a profile may say it for all."""
    world, train = _with(draw(RACKS), n1=NOT_READY), _gang("train", tasks=2, on="n0 n1")
    usual = replaced(DEFAULT, tiers=(*DEFAULT.tiers, (PluginChoice("repair", {"onNodeLoss": "restart-all"}),)))

    assert {} == _evicted(allocate(world, train))
    assert ["train-0", "train-1"] == sorted(_evicted(allocate(world, train, profile=usual)))


# -- what is restarted


@pytest.mark.parametrize(
    ("wish", "expected"),
    [
        ("replace", ["train-part-0-1"]),
        ("restart-subgroup", ["train-part-0-0", "train-part-0-1"]),
        ("restart-all", ["train-part-0-0", "train-part-0-1", "train-part-1-0", "train-part-1-1"]),
    ],
)
def test_a_job_chooses_what_is_restarted(wish: str, expected: list[str]) -> None:
    """The pod alone, its sub-group, or everything."""
    world = _with(draw(RACKS), n1=NOT_READY)
    train = _gang("train", groups=(groups(2, 2, within=1),), on="n0 n1 n3 n4", marks={ON_LOSS: wish})

    assert expected == sorted(_evicted(allocate(world, train)))


def test_pods_that_are_going_already_count_as_lost() -> None:
    """Where somebody else deletes the pods of a lost node first, the rest is restarted all the same."""
    world = _with(draw(RACKS), n1=NOT_READY)

    outcome = allocate(world, _gang("train", tasks=2, on="n0 n1!", marks={ON_LOSS: "restart-all"}))

    assert ["train-0"] == [*_evicted(outcome)]


def test_what_was_made_anew_is_not_restarted_again() -> None:
    """A pod that stays terminating on a lost node restarts its gang once, not whenever a part of it runs again."""
    world = _with(draw(RACKS), n1=NOT_READY)
    train = _gang("train", tasks=2, minimum=1, on="n0 n1!", marks={ON_LOSS: "restart-all"})
    later: Raw = {"metadata": {"creationTimestamp": "2999-01-01T00:00:00Z"}}
    raws = [merged(raw, later if _name(raw) == "train-0" else {}) for raw in train.manifests()]

    assert {} == _evicted(allocate(World((*world.manifests, *raws), world.drawing)))


def test_pods_that_nobody_would_make_anew_stay() -> None:
    """Neither are they evicted from lost nodes, nor does a gang move that has one of them."""
    lost = allocate(_with(draw(RACKS), n1=NOT_READY), gang("train", tasks=2, on="n0 n1", marks=REPLACE))
    world = draw(RACKS, node="cpu=1", running="n2:cpu=1")
    stuck = allocate(world, gang("train", tasks=3, within=1, on="n0 n1", marks=REPLACE))

    told = [child.reason.text for child in stuck.report.rejections["default/train"].children]
    assert ({}, {}) == (_evicted(lost), _evicted(stuck))
    assert told[0].endswith("elsewhere: no controller would recreate pod default/train-0 anew")


# -- replacements


def _ranked(name: str, ranks: int, *lost: int) -> dict[str, dict[str, str]]:
    """What running pods of a gang were told with their nodes."""
    told = {"tierwise.io/ranks": str(ranks)}
    return {f"{name}-{i}": {"tierwise.io/rank": str(i), **told} for i in range(ranks) if i not in lost}


def test_replacements_go_where_their_block_of_the_grid_is() -> None:
    """Of two lost ranks each comes back to the rack of its own tensor-parallel group."""
    world = draw("s0: r0[n0 n1 n2 n3] r1[n4 n5 n6 n7] r2[n8 n9]", node="cpu=1")
    marks = {"tierwise.io/pattern": "dp=2,tp=4", **REPLACE}
    on = "n0 n1 - n3 n4 n5 n6 -"
    outcome = allocate(world, _gang("train", tasks=8, within=2, on=on, marks=marks, told=_ranked("train", 8, 2, 7)))

    assert {"train-2": "n2", "train-7": "n7"} == outcome.bindings


def test_the_rack_of_the_block_comes_before_the_rack_with_most_of_the_gang() -> None:
    """A lost rank does not go where more of the gang is, but where those are that it talks to."""
    world = draw("s0: r0[n0 n1 n2 n3] r1[n4 n5 n6]", node="cpu=1")
    marks = {"tierwise.io/pattern": "dp=2,tp=3"}
    train = _gang("train", tasks=6, within=2, on="n0 n1 n2 n4 n5 -", marks=marks, told=_ranked("train", 6, 5))

    assert {"train-5": "n6"} == allocate(world, train).bindings


def test_a_replacement_leaves_the_room_of_others_alone() -> None:
    """A rank whose own rack is full does not take the place of one whose rack it is."""
    world = draw("s0: r0[n0 n1 n2] r1[n3 n4 n5] r2[n6]", node="cpu=1", running="n2:cpu=1")
    marks = {"tierwise.io/pattern": "dp=2,tp=3", **REPLACE}
    outcome = allocate(
        world, _gang("train", tasks=6, within=2, on="n0 n1 - n3 n4 -", marks=marks, told=_ranked("train", 6, 2, 5))
    )

    assert {"train-2": "n6", "train-5": "n5"} == outcome.bindings


# -- room for them


def test_what_its_own_lost_pod_keeps_out_is_not_kept_out_for_ever() -> None:
    """The replacement may not stand beside the old pod, which is evicted in this cycle: it waits until that is gone."""
    term: Raw = {"labelSelector": {"matchLabels": {"app": "train"}}, "topologyKey": "kubernetes.io/os"}
    apart: Raw = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    os: Raw = {"metadata": {"labels": {"kubernetes.io/os": "linux"}}}
    own = {f"train-{i}": {"app": "train"} for i in range(2)}
    world = _with(draw("r0[n0 n1]"), n0=merged(NOT_READY, os), n1=os)
    train = _gang("train", tasks=2, minimum=1, on="n0 -", marks=REPLACE, labels=own, spec=apart)

    outcome = allocate(world, train)

    assert (["train-0"], {}) == ([*_evicted(outcome)], placed(outcome, "train"))
    assert Verdict.NOT_NOW == outcome.report.rejections["default/train"].verdict


def test_the_smallest_part_moves() -> None:
    """Where a sub-group's rack has no room for a replacement, the sub-group moves and the other one stays."""
    world = draw("s0: r0[n0 n1] r1[n2 n3] r2[n4 n5]", node="cpu=1", running="n1:cpu=1")
    train = _gang("train", groups=(groups(2, 2, within=1),), on="n0 - n2 n3", marks=REPLACE)
    outcome = allocate(world, train)

    assert ["train-part-0-0"] == [*_evicted(outcome)]
    assert "MovesForRepair" == why(outcome, "train")


def test_the_gang_moves_where_all_of_it_has_a_place() -> None:
    """A gang within a rack that cannot be completed there moves to one that holds it."""
    world = draw(RACKS, node="cpu=1", running="n2:cpu=1")
    outcome = allocate(world, _gang("train", tasks=3, within=1, on="n0 n1", marks=REPLACE))

    assert ["train-0", "train-1"] == sorted(_evicted(outcome))


def test_nobody_moves_without_a_place() -> None:
    """What runs goes on where the gang has no place elsewhere, and the reason says so."""
    world = draw(RACKS, node="cpu=1", running="n2:cpu=1 n3:cpu=1")
    outcome = allocate(world, _gang("train", tasks=3, within=1, on="n0 n1", marks=REPLACE))

    told = [child.reason.code for child in outcome.report.rejections["default/train"].children]
    assert ({}, ["NoRoomForReplacements"]) == (_evicted(outcome), told)


# -- whom repair spares


def _budget(allowed: int) -> Raw:
    """A budget for the pods of the gang train."""
    meta: Raw = {"name": "budget", "namespace": "default"}
    spec: Raw = {"selector": {"matchLabels": {"app": "train"}}}
    status: Raw = {"disruptionsAllowed": allowed}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": spec, "status": status}


def _guarded(world: World, train: Gang, allowed: int) -> World:
    """The cluster with a gang and a budget for it."""
    own: Raw = {"metadata": {"labels": {"app": "train"}}}
    raws = [merged(raw, own if raw["kind"] == "Pod" else {}) for raw in train.manifests()]
    return World((*world.manifests, *raws, _budget(allowed)), world.drawing)


@pytest.mark.parametrize(("allowed", "expected"), [(0, []), (1, []), (2, ["train-0", "train-1"])])
def test_a_gang_moves_where_its_budget_lets_all_of_it_go(allowed: int, expected: list[str]) -> None:
    """Healthy pods are moved all or none: half a gang elsewhere helps nobody."""
    world = draw(RACKS, node="cpu=1", running="n2:cpu=1")
    train = _gang("train", tasks=3, within=1, on="n0 n1", marks=REPLACE)

    assert expected == sorted(_evicted(allocate(_guarded(world, train, allowed))))


@pytest.mark.parametrize(("allowed", "expected"), [(1, ["train-1"]), (3, ["train-0", "train-1", "train-2"])])
def test_a_gang_restarts_where_its_budget_lets_all_of_it_go(allowed: int, expected: list[str]) -> None:
    """What was on a lost node goes anyway; the healthy pods go with it, or none of them does."""
    world = _with(draw(RACKS), n1=NOT_READY)
    train = _gang("train", tasks=3, on="n0 n1 n2", marks={ON_LOSS: "restart-all"})
    outcome = allocate(_guarded(world, train, allowed))

    told = [a.obstacle.code for a in outcome.report.eviction_attempts.get("default/train", ()) if a.obstacle]
    assert (expected, ["SparedByRepair"] if allowed == 1 else []) == (sorted(_evicted(outcome)), told)


def test_a_pod_on_an_unhealthy_node_stays_where_its_budget_keeps_it() -> None:
    """The node is bad and the pod still runs: its budget decides."""
    world = _with(draw(RACKS), n1=SICK)
    train = _gang("train", tasks=2, on="n0 n1", marks=REPLACE)

    assert {} == _evicted(allocate(_guarded(world, train, 0), profile=WATCHING))


def _as_one(*, owned: bool = True) -> list[Raw]:
    """A group of Kubernetes' own on n0 and n1 whose pods are disrupted together."""
    owner: Raw = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "train", "uid": "train", "controller": True}
    marks: Raw = {"annotations": dict(REPLACE), "labels": {"app": "train"}}
    raws = kubernetes_gang("train", 2, on={0: "n0", 1: "n1"}, disruptionMode={"all": {}})
    owners: list[Raw] = [{}, {"ownerReferences": [owner]}, {"ownerReferences": [owner]} if owned else {}]
    return [merged(raw, {"metadata": marks | own}) for raw, own in zip(raws, owners, strict=True)]


@pytest.mark.parametrize(
    ("fields", "allowed", "owned", "expected"),
    [
        (SICK, 2, True, ["train-0", "train-1"]),
        (SICK, 1, True, []),
        (SICK, 2, False, []),
        (NOT_READY, 2, True, ["train-0"]),
    ],
    ids=["unhealthy", "unhealthy, within a budget", "unhealthy, and nobody makes the other anew", "lost"],
)
def test_a_group_that_is_disrupted_as_one_leaves_an_unhealthy_node_as_one(
    fields: Raw, allowed: int, owned: bool, expected: list[str]
) -> None:
    """While its pods run all of them go or none; a pod of a lost node runs no more, and is replaced."""
    world = _with(draw(RACKS), n0=fields)
    world = World((*world.manifests, *_as_one(owned=owned), _budget(allowed)), world.drawing)

    assert expected == sorted(_evicted(allocate(world, profile=WATCHING)))


@pytest.mark.parametrize("wish", ["replace", "restart-subgroup", "restart-all"])
@pytest.mark.parametrize("unowned", [(), ("a-0",), ("a-1",), ("b-0",), ("a-1", "b-0")])
@pytest.mark.parametrize("older", ["", "a-1", "b-0"])
def test_a_group_that_is_disrupted_as_one_restarts_as_one(wish: str, unowned: tuple[str, ...], older: str) -> None:
    """Where a node is lost, the healthy pods restart all or none: none where nobody would make one of them anew.

    Without an `older` one the lost pod is on its way out, and all others were made again since.
    """
    whole: Raw = {"metadata": {"annotations": {ON_LOSS: wish}}}
    inner: Raw = {"spec": {"parentCompositePodGroupName": "train"}}
    first, *a = kubernetes_gang("a", 2, on={0: "n0", 1: "n1"})
    second, *b = kubernetes_gang("b", 2, on={0: "n2", 1: "n3"})
    owner: Raw = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "train", "uid": "train", "controller": True}
    pods: list[Raw] = []
    for pod in (*a, *b):
        meta: Raw = {"creationTimestamp": f"2026-01-01T0{int(_name(pod) != older)}:00:00Z"}
        meta |= {} if _name(pod) in unowned else {"ownerReferences": [owner]}
        meta |= {} if _name(pod) != "a-0" else {"deletionTimestamp": "2026-01-01T00:30:00Z"}
        pods.append(merged(pod, {"metadata": meta}))
    world = _with(draw("r0[n0 n1 n2 n3]"), n0=NOT_READY)
    raws = [
        merged(composite("train", 2, disruptionMode={"all": {}}), whole),
        merged(first, inner),
        merged(second, inner),
        *pods,
    ]
    outcome = allocate(World((*world.manifests, *raws), world.drawing))

    restarts = older and not unowned and wish != "replace"
    assert (["a-1", "b-0", "b-1"] if restarts else []) == sorted(_evicted(outcome))


def test_borrowers_stay_where_their_budget_keeps_them() -> None:
    """Who borrows has agreed to go, and still within its budget."""
    world = draw("r0[n0 n1 n2] r1[n3]", node="cpu=1")
    owner = _gang("other", tasks=2, within=1, on="n0 -", marks=OWNER)
    lent = _gang("train", tasks=1, on="n2", marks=BORROWER)

    assert {} == _evicted(allocate(_guarded(world, lent, 0), owner, _gang("busy", tasks=1, on="n1")))


FIRM = {
    "group": ({"volcano.sh/preemptable": "false"}, {}),
    "pod": ({}, {"volcano.sh/preemptable": "false"}),
    "quota": ({}, {"quota.scheduling.koordinator.sh/preemptible": "false"}),
    "koordinator": ({}, {"scheduling.koordinator.sh/disable-preemptible": "true"}),
}
"""Marks as not preemptable: annotations of the group, and labels of its first pod."""


@pytest.mark.parametrize("mark", FIRM)
@pytest.mark.parametrize(
    ("wish", "expected"), [("replace", []), ("restart-all", ["train-0", "train-1"])], ids=["moved", "restarted"]
)
def test_marks_hold_unless_the_job_asks_for_its_restart(wish: str, expected: list[str], mark: str) -> None:
    """A pod marked as not preemptable is not moved; a job that wants all of its pods restarted gets that."""
    marks, labels = FIRM[mark]
    world = draw(RACKS, node="cpu=1", running="n2:cpu=1")
    if wish == "restart-all":
        world = _with(draw(RACKS), n1=NOT_READY)
    tasks = 3 if wish == "replace" else 2
    said = {ON_LOSS: wish, **marks}
    train = _gang("train", tasks=tasks, within=1, on="n0 n1", marks=said, labels={"train-0": labels})

    assert expected == sorted(_evicted(allocate(world, train)))


@pytest.mark.parametrize("mark", FIRM)
def test_borrowers_have_agreed_to_go(mark: str) -> None:
    """Whoever borrows spares gives them back though it is marked as not preemptable, and goes for nobody else."""
    marks, labels = FIRM[mark]
    world = draw("r0[n0 n1 n2] r1[n3]", node="cpu=1")
    owner = _gang("train", tasks=2, within=1, on="n0 -", marks=OWNER)
    lent = _gang("lent", tasks=1, on="n2", marks={**BORROWER, **marks}, labels={"lent-0": labels})
    busy = _gang("busy", tasks=1, on="n1")

    assert ["lent-0"] == sorted(_evicted(allocate(world, owner, lent, busy)))
    urgent = _gang("urgent", tasks=2, within=1, priority=9)
    profile = replaced(DEFAULT, actions=("allocate", "gangpreempt"))
    assert ["busy-0"] == sorted(_evicted(allocate(world, lent, busy, urgent, profile=profile)))


# -- spares


OWNER = {"tierwise.io/spares": "1"}
BORROWER = {"tierwise.io/borrows-spares": "true"}


def test_spares_are_kept_from_others() -> None:
    """The last free node of the owner's rack is not for everybody."""
    world = draw("r0[n0 n1 n2]", node="cpu=1")
    owner = _gang("train", tasks=2, within=1, on="n0 n1", marks=OWNER)
    outcome = allocate(world, owner, _gang("small", tasks=1))

    told = [child.reason.text for child in outcome.report.rejections["default/small"].children]
    assert ({}, ["1 spare of default/train is kept free, where it would fit"]) == (placed(outcome, "small"), told)


def test_spares_are_kept_after_their_owner_was_served() -> None:
    """An owner that takes one of two free nodes keeps the other one."""
    world = draw("r0[n0 n1 n2]", node="cpu=1")
    owner = _gang("train", tasks=2, within=1, on="n0 -", marks=OWNER, priority=1)
    outcome = allocate(world, owner, _gang("small", tasks=1))

    assert (1, {}) == (len(placed(outcome, "train")), placed(outcome, "small"))


def test_spares_may_be_borrowed() -> None:
    """A job that says so runs on spares."""
    world = draw("r0[n0 n1 n2]", node="cpu=1")
    owner = _gang("train", tasks=2, within=1, on="n0 n1", marks=OWNER)

    assert "n2" == spots(allocate(world, owner, _gang("small", tasks=1, marks=BORROWER)), "small")


def test_what_is_lent_counts_as_kept() -> None:
    """No second spare is kept while the first is lent."""
    world = draw("r0[n0 n1 n2 n3]", node="cpu=1")
    owner = _gang("train", tasks=2, within=1, on="n0 n1", marks=OWNER)
    lent = _gang("lent", tasks=1, on="n2", marks=BORROWER)

    assert "n3" == spots(allocate(world, owner, lent, _gang("small", tasks=1)), "small")


def test_borrowers_give_back_at_once() -> None:
    """In the cycle in which the owner needs a replacement the borrower is evicted, and its node is kept for it."""
    world = draw("r0[n0 n1 n2] r1[n3]", node="cpu=1")
    owner = _gang("train", tasks=2, within=1, on="n0 -", marks=OWNER)
    others = (_gang("lent", tasks=1, on="n2", marks=BORROWER), _gang("busy", tasks=1, on="n1"))
    outcome = allocate(world, owner, *others)

    assert {"lent-0": "it gives back a spare node, because the owner of the spare has lost a node"} == _evicted(outcome)
    assert {"n2": 1} == waiting(outcome, "train")


def test_borrowers_stay_while_the_owner_had_better_wait() -> None:
    """Nobody goes for a replacement whose volume has just failed: it would not start there yet."""
    owner = _gang("train", tasks=2, within=1, on="n0 -", marks=OWNER).manifests()
    mounts: Raw = {"spec": {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}}
    failed = claim("data", annotations={FAILED_AT: "2026-01-01T00:00:00Z"})
    owner = [merged(raw, mounts if _name(raw) == "train-1" else {}) for raw in owner]
    drawn = draw("r0[n0 n1 n2] r1[n3]", node="cpu=1")
    world = World((*drawn.manifests, *owner, storage_class(), failed), drawn.drawing)
    others = (_gang("lent", tasks=1, on="n2", marks=BORROWER), _gang("busy", tasks=1, on="n1"))
    soon, later = (allocate(world, *others, now=NEW_YEAR + after) for after in (1, 3600))

    assert ({}, "VolumeBindingFailed") == (_evicted(soon), why(soon, "train"))
    assert ["lent-0"] == list(_evicted(later))


def test_a_gang_of_borrowers_goes_as_a_whole() -> None:
    """A borrower that would stand below its minimum is evicted with all its pods."""
    world = draw("r0[n0 n1 n2] r1[n3]", node="cpu=1")
    owner = _gang("train", tasks=2, within=1, on="n0 -", marks=OWNER)
    others = (_gang("lent", tasks=2, on="n2 n3", marks=BORROWER), _gang("busy", tasks=1, on="n1"))

    assert ["lent-0", "lent-1"] == sorted(_evicted(allocate(world, owner, *others)))


def test_spares_in_each_domain_of_a_tier() -> None:
    """`1@rack` keeps one in each rack that the job runs in, and none elsewhere."""
    world = draw("s0: r0[n0 n1] r1[n2 n3] r2[n4 n5]", node="cpu=1", tier_names={1: "rack"})
    owner = _gang("train", tasks=2, within=2, on="n0 n2", marks={"tierwise.io/spares": "1@rack"})
    several = replaced(DEFAULT, tiers=(*DEFAULT.tiers, (PluginChoice("repair", {"maxSpares": 2}),)))
    outcome = allocate(world, owner, *(_gang(f"small-{i}", tasks=1) for i in range(4)), profile=several)

    assert ["n4", "n5"] == sorted(outcome.bindings.values())


def test_an_unknown_tier_of_spares_is_told() -> None:
    """No spares are kept in domains of a tier that does not exist, and somebody hears of it."""
    owner = _gang("train", tasks=2, on="n0 n1", marks={"tierwise.io/spares": "1@floor"})
    outcome = allocate(draw("r0[n0 n1 n2]"), owner, _gang("small", tasks=1))

    assert ["UnknownTier"] == [reason.code for _, reason in outcome.report.complaints]


# -- what cannot be read


@pytest.mark.parametrize(
    ("marks", "text"),
    [
        ({ON_LOSS: "reboot"}, '"reboot" is not one of replace, restart-subgroup, restart-all'),
        ({"tierwise.io/spares": "some"}, '"some" is not a number of spares such as 2 or 1@rack'),
        ({"tierwise.io/borrows-spares": "yes"}, '"yes" is neither true nor false'),
    ],
)
def test_bad_values_are_told(marks: dict[str, str], text: str) -> None:
    """A gang with a value that cannot be read waits, with one line that names annotation and value."""
    outcome = allocate(draw(RACKS), _gang("train", tasks=2, marks=marks))

    reason = outcome.report.rejections["default/train"].reason
    assert ("InvalidRepairTerms", f"annotation {next(iter(marks))}: {text}") == (reason.code, reason.text)
