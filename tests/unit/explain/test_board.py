"""The board: sums of domains, jobs with their reasons, stories, queues; and that it tells what the commands tell."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace
from tests.support.boards import scheduled
from tests.support.commands import EXAMPLES, answer
from tests.support.draw import draw, gang, groups, objects_of

from tierwise.api.natural import natural
from tierwise.cli.inputs import load, moment, profile_of
from tierwise.config.profile import DEFAULT, PluginChoice
from tierwise.explain.board import Board, JobQuery
from tierwise.explain.text.schedule import Run
from tierwise.model.job import Constraint
from tierwise.model.topology import AlternateTopology
from tierwise.port import Objects

GPU = "nvidia.com/gpu"
WORLD = draw("s0: r0[n0 n1] r1[n2 n3]", node="gpu=4", running="n0:gpu=1", cordoned="n3", tier_names={1: "rack"})
GANGS = (
    gang("fits", tasks=2, each="gpu=3", within=1),
    gang("waits", tasks=4, each="gpu=4", within=1),
    gang("parts", groups=(groups(count=1, size=1, within=1),), each="gpu=1"),
)


def _board(objects: Objects) -> Board:
    return Board(scheduled(objects))


def _wire(board: Board) -> Any:
    return msgspec.json.decode(msgspec.json.encode(board.wire()))


def _used(wire: Any) -> int:
    return int(wire["fabrics"][0]["amounts"][GPU]["used"][0])


def _jobs(board: Board, **query: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(board.jobs(JobQuery(**query))))["list"]


def _example(name: str, config: str = "") -> tuple[Run, Any]:
    folder = EXAMPLES / name
    profile = profile_of(str(folder / config) if config else None)
    objects = load([str(folder)])
    run = scheduled(objects, profile, now=moment(objects, None))
    return run, _wire(Board(run))


def test_domains_hold_the_sums_of_their_nodes() -> None:
    """What there is, what is used, what of it is new; nodes that take no pods have nothing free."""
    fabric = _wire(_board(objects_of(WORLD, *GANGS)))["fabrics"][0]
    amounts = fabric["amounts"][GPU]

    assert ["cluster", "s0", "r0", "r1"] == fabric["name"]
    assert [-1, 0, 1, 1] == fabric["parent"]
    assert [16, 16, 8, 8] == amounts["total"]
    assert amounts["used"][1] == amounts["used"][2] + amounts["used"][3] == 1 + 6 + 1
    assert 7 == amounts["new"][0]
    assert [0, 0, 0, 1] == [shut - (d < 2) for d, shut in enumerate(fabric["shut"])]
    assert amounts["free"][3] == 8 - amounts["used"][3] - 4


def test_jobs_stand_or_wait_with_one_sentence() -> None:
    """The reason is the one that `schedule` gives."""
    run, wire = _example("01-llm-training")
    listed = _jobs(Board(run))
    jobs = {job["path"]: job for job in listed}
    pending = answer("schedule", "-f", EXAMPLES / "01-llm-training")["pending"][0]

    assert ("default/pretrain", 16) == (listed[0]["path"], jobs["default/pretrain"]["waiting"])
    assert pending["message"] == jobs["default/pretrain"]["message"]
    assert ("spine-0", 24, 24) == (
        wire["fabrics"][0]["name"][jobs["default/llm-train"]["hyperNodes"][0]],
        jobs["default/llm-train"]["pods"],
        jobs["default/llm-train"]["new"],
    )
    assert sum(len(job.tasks) for job in run.after.jobs) == wire["jobs"]["podsRunning"] + wire["jobs"]["podsWaiting"]


def test_the_story_of_a_job_is_that_of_explain() -> None:
    """Message, tiers tried and causes; and the domains that light up hold all its pods."""
    run, wire = _example("01-llm-training")
    board = Board(run)
    told: Any = answer("explain", "-f", EXAMPLES / "01-llm-training", "--job", "default/pretrain")
    waits: Any = board.job("default/pretrain")
    stands: Any = board.job("default/llm-train")

    assert {key: waits["why"][key] for key in ("verdict", "reason", "message")}.items() <= told.items()
    assert told["tried"] == [{key: t[key] for key in told["tried"][0]} for t in waits["why"]["tried"]]
    assert all(
        text.startswith(f"{cause['nodes']} node")
        for t in waits["why"]["tried"]
        for text, cause in zip(t["told"], t["causes"], strict=True)
    )
    assert [0, 24] == stands["hyperNodes"][0][0]
    assert {f"worker-{n}": 4 for n in range(6)} == {part["name"]: part["standing"] for part in stands["subGroups"]}
    assert "worker 0-3" == stands["places"][0][0]["pods"]
    assert wire["fabrics"][0]["name"][stands["places"][0][0]["hyperNode"]] == "rack-0"
    assert board.job("default/nobody") is None


def test_the_line_in_the_story_of_a_job_is_that_of_the_list() -> None:
    """With the same words: the page draws both with the same functions."""
    board = Board(_example("01-llm-training")[0])
    stories = [board.job(line["path"]) for line in _jobs(board)]

    assert _jobs(board) == [story["line"] for story in stories if story is not None]


def test_evictions_are_told_with_who_profits() -> None:
    """In the cycle that decided them, and in the story of whoever had to go."""
    run, wire = _example("08-shared-cluster", "scheduler.conf")
    groups_ = [group for cycle in wire["cycles"] for group in cycle["evictions"]]
    evicted: Any = Board(run).job("default/sweep")

    assert {"default/finetune"} == {group["by"] for group in groups_}
    assert len(run.evictions) == sum(len(group["pods"]) for group in groups_)
    assert ["default/finetune"] * 2 == [entry["by"] for entry in evicted["evictions"]]
    printed = answer(
        "schedule", "-f", EXAMPLES / "08-shared-cluster", "--config", EXAMPLES / "08-shared-cluster/scheduler.conf"
    )
    assert [e for e in printed["evictions"] if e["podGroup"] == "default/sweep"] == evicted["evictions"]
    assert {"product": 32, "research": 32} == {
        queue["name"]: queue["deserved"][0] for queue in wire["queues"] if queue["name"] != "default"
    }
    assert [0.75, 1.25] == [queue["share"] for queue in wire["queues"] if queue["share"] is not None]


def test_what_the_last_cycle_bound_counts_although_the_cluster_does_not_show_it_yet() -> None:
    """A run that ends with the snapshot of its last cycle: pods are pending there, and stand on the board."""
    run = scheduled(objects_of(WORLD, *GANGS))
    deciding = next((s, r) for s, r in run.reports if any(d.job.key == "default/fits" for d in r.decisions))
    board = Board(Run([deciding], deciding[0], DEFAULT))
    wire = _wire(board)
    job = next(job for job in _jobs(board) if job["path"] == "default/fits")

    assert (2, 2, 0) == (job["pods"], job["new"], job["waiting"])
    assert _used(wire) == _used(_wire(Board(run)))


def test_what_a_cycle_would_decide_takes_up_no_room() -> None:
    """Where nobody carries it out the job waits, with a place that was chosen for it."""
    run = scheduled(objects_of(WORLD, *GANGS))
    deciding = next((s, r) for s, r in run.reports if any(d.job.key == "default/fits" for d in r.decisions))
    board = Board(Run([deciding], deciding[0], DEFAULT), carried_out=False)
    wire = _wire(board)
    job = next(job for job in _jobs(board) if job["path"] == "default/fits")

    assert (0, 2, 0, "") == (job["pods"], job["kept"], job["waiting"], job["reason"])
    assert 1 == _used(wire)
    assert 7 == wire["fabrics"][0]["amounts"][GPU]["kept"][0]


def test_the_order_of_objects_does_not_show() -> None:
    """Same cluster, same bytes."""
    objects = objects_of(WORLD, *GANGS)
    pairs = [(objects.record(key), objects.raw(key)) for key in objects]
    random.Random(3).shuffle(pairs)
    shuffled = Objects.of(pairs)  # type: ignore[arg-type]  # every key has a record

    assert msgspec.json.encode(_board(objects).wire()) == msgspec.json.encode(_board(shuffled).wire())


def test_nodes_of_a_domain_name_their_jobs() -> None:
    """Row by row, with state and amounts in the order of the resources."""
    board = _board(objects_of(WORLD, *GANGS))
    found: Any = board.nodes("r1")

    assert 2 == found["count"]
    assert ["n2", "n3"] == [node["name"] for node in found["nodes"]]
    assert ["", "cordoned"] == [node["state"] for node in found["nodes"]]
    assert 4 == len((board.nodes("cluster") or {})["nodes"])  # type: ignore[arg-type]  # a list
    assert board.nodes("r9") is None


def test_parents_use_what_their_queues_use_and_nobody_deserves_without_a_plugin() -> None:
    """Declared figures stand where no plugin says what a queue deserves."""
    run = scheduled(
        objects_of(draw("n0", node="gpu=4", queues="q"), gang("a", tasks=1, each="gpu=1", queue="q", on="n0"))
    )
    plain = _wire(Board(run))["queues"]
    fair = _wire(Board(replace(run, profile=replace(DEFAULT, tiers=(*DEFAULT.tiers, (PluginChoice("proportion"),))))))

    assert [("default", 0, None), ("q", 1, None)] == [(q["name"], q["used"][0], q["deserved"][0]) for q in plain]
    assert [0, 1] == [queue["deserved"][0] for queue in fair["queues"]]


def test_queues_stand_in_trees_with_what_they_borrow() -> None:
    """Each queue before those below it; a parent uses what they use; what is beyond one's own is borrowed."""
    run = scheduled(
        objects_of(
            draw("n0 n1", node="gpu=8", queues="b a.x a.y"),
            *(
                gang(name, tasks=number, each="gpu=1", queue=queue, on=" ".join(["n0"] * number))
                for name, queue, number in (("j", "a.x", 3), ("k", "a.y", 1))
            ),
        )
    )
    declared = {
        "root": "",
        "b": "root",
        "a": "root",
        "a.x": "a",
        "a.y": "a",
        "lost": "nobody",
        "loop": "pool",
        "pool": "loop",
    }
    plain = run.after.queues["b"]
    queues = {
        name: replace(plain, name=name, order=natural(name), parent=parent, deserved={GPU: 2} if name != "root" else {})
        for name, parent in declared.items()
    }
    elastic = {**queues, "a.x": replace(queues["a.x"], elastic=True, guarantee={GPU: 1})}
    found = _wire(Board(replace(run, after=replace(run.after, queues=elastic))))["queues"]

    assert [("lost", 0), ("root", 0), ("a", 1), ("a.x", 2), ("a.y", 2), ("b", 1), ("loop", 0), ("pool", 1)] == [
        (queue["name"], queue["depth"]) for queue in found
    ]
    borrowed = {queue["name"]: (queue["used"][0], queue["borrowed"][0]) for queue in found}
    assert {"a": (4, 2), "a.x": (3, 2), "a.y": (1, 0), "b": (0, 0)}.items() <= borrowed.items()
    assert (4, None) == borrowed["root"]
    assert {""} == {queue["path"] for queue in found}


@pytest.mark.parametrize("name", sorted(path.parent.name for path in EXAMPLES.glob("*/cluster.yaml")))
def test_every_unit_of_every_example_is_accounted_for(name: str) -> None:
    """Whatever language a cluster speaks, the parts of each resource add up to what its nodes have."""
    objects = load([str(EXAMPLES / name / "cluster.yaml"), *(str(f) for f in (EXAMPLES / name).glob("job*.yaml"))])
    wire = _wire(Board(scheduled(objects, now=moment(objects, None))))

    for resource, account in wire["account"].items():
        parts = sum(number for part, number in account.items() if part not in ("total", "over"))
        assert account["total"] + account["over"] == parts, resource
        assert account["total"] == wire["fabrics"][0]["amounts"][resource]["total"][0]


def test_spares_and_promised_places_have_parts_of_their_own() -> None:
    """What is kept for jobs that may lose nodes, and what a gang which waits has a reservation for."""
    world = draw("s0: r0[n0 n1] r1[n2 n3]", node="gpu=4")
    owner = gang("owner", tasks=1, each="gpu=2", on="n0", within=1, marks={"tierwise.io/spares": "1"})
    waits = gang("waits", tasks=2, each="gpu=4", within=1)
    profile = replace(DEFAULT, action_arguments={"allocate": {"reservations": "easy"}})
    busy = gang("busy", tasks=1, each="gpu=4", on="n3")
    account = _wire(Board(scheduled(objects_of(world, owner, busy, waits), profile)))["account"][GPU]

    assert {"gangs": 6, "spares": 2, "reservations": 4, "fragmented": 0, "free": 4} == {
        part: account[part] for part in ("gangs", "spares", "reservations", "fragmented", "free")
    }


def test_every_unit_is_accounted_for() -> None:
    """Parts add up to the whole; where all that is free is too little for a gang, nothing of it is fragmented."""
    account = _wire(_board(objects_of(WORLD, *GANGS)))["account"][GPU]

    # n0 has a pod of nobody's, n3 is cordoned; 'fits' and 'parts' take 7 of the rest, 'waits' needs four whole nodes
    assert {"total": 16, "gangs": 7, "single": 0, "others": 1, "reserved": 0, "broken": 4, "over": 0} == {
        part: account[part] for part in account if part not in ("spares", "reservations", "fragmented", "free")
    }
    assert (0, 4) == (account["fragmented"], account["free"])


def test_free_amounts_are_of_use_where_a_gang_that_waits_would_fit() -> None:
    """Nothing is fragmented where a domain holds the gang, nor where the sum is too little; else all that is free."""
    racks = "r0[n0 n1] r1[n2 n3] r2[n4 n5]"
    waits = gang("waits", tasks=2, each="gpu=4", within=1, queue="absent")  # kept back by its queue alone

    def told(running: str) -> tuple[Any, dict[str, int]]:
        wire = _wire(_board(objects_of(draw(racks, node="gpu=4", running=running), waits)))
        fabric = wire["fabrics"][0]
        scattered = fabric["amounts"][GPU].get("fragmented") or [0] * len(fabric["name"])
        return wire["account"][GPU], dict(zip(fabric["name"], scattered, strict=True))

    holds, _ = told("n2:gpu=2 n3:gpu=2 n4:gpu=4 n5:gpu=4")
    short, _ = told("n0:gpu=4 n1:gpu=4 n2:gpu=2 n3:gpu=3 n4:gpu=2 n5:gpu=4")
    scattered, where = told("n0:gpu=4 n2:gpu=4 n4:gpu=3 n5:gpu=4")

    assert (0, 12) == (holds["fragmented"], holds["free"])
    assert (0, 5) == (short["fragmented"], short["free"])
    assert (9, 0) == (scattered["fragmented"], scattered["free"])
    assert {"cluster": 9, "r0": 4, "r1": 4, "r2": 1} == where


def test_jobs_are_selected_sorted_and_cut() -> None:
    """By words, state, queue and reason; the count is of all that match."""
    gangs = [gang(f"g{number}", tasks=1, each=f"gpu={number}") for number in range(1, 5)]
    board = _board(objects_of(draw("r0[n0 n1]", node="gpu=8"), *gangs, gang("big", tasks=1, each="gpu=9")))
    name = "default"

    assert ["big"] == [job["name"] for job in _jobs(board, state="waiting")]
    assert ["big", "g4", "g3", "g2", "g1"] == [job["name"] for job in _jobs(board, queue=name, sort="-amount")]
    assert [] == _jobs(board, queue="")
    assert ["g2"] == [job["name"] for job in _jobs(board, text=f"G2 {name}")]
    assert ["g2", "g3"] == [job["name"] for job in _jobs(board, state="running", sort="name", offset=1, limit=2)]
    reasons = board.jobs(JobQuery(state="waiting"))["reasons"]
    assert [{"verdict": "never", "reason": "NoFeasibleNode", "jobs": 1}] == reasons


def test_hundreds_that_wait_are_told_reason_by_reason() -> None:
    """Each with how many wait, since when, and those that wait longest; no job is left out of the counts."""
    late = [gang(f"late{number}", tasks=2, each="gpu=8", within=1) for number in range(30)]
    board = _board(objects_of(draw("r0[n0] r1[n1]", node="gpu=8"), *late, gang("big", tasks=1, each="gpu=9")))
    found: Any = board.jobs(JobQuery(state="waiting", limit=0, first=3))

    assert (31, []) == (found["count"], found["list"])
    told = [(entry["reason"], entry["jobs"], entry["pods"], len(entry["first"])) for entry in found["reasons"]]
    assert [("LargerThanAnyDomain", 30, 60, 3), ("NoFeasibleNode", 1, 1, 1)] == told
    assert (
        "needs 2 whole nodes in one hyperNode of tier 1; no hyperNode of tier 1 has more than 1"
        == (found["reasons"][0]["first"][0]["decisive"])
    )


def test_every_fabric_is_a_tree_of_its_own_over_the_same_nodes() -> None:
    """Sums are those of its own rows; a job has its lights, its place and what it keeps to on each of them."""
    run, wire = _example("14-several-fabrics")
    board = Board(run)
    story: Any = board.job("default/train")
    line = next(line for line in _jobs(board) if line["path"] == "default/train")
    trees = {fabric["title"]: fabric for fabric in wire["fabrics"]}
    names = [fabric["name"] for fabric in wire["fabrics"]]

    assert ["HyperNode", "nvlink", "power"] == list(trees)
    assert {64} == {fabric["amounts"][GPU]["total"][0] for fabric in trees.values()}
    for fabric in trees.values():
        for d, name in enumerate(fabric["name"]):
            nodes: Any = board.nodes(name, fabric["title"])
            assert fabric["amounts"][GPU]["used"][d] == sum(node["amounts"]["used"][0] for node in nodes["nodes"])
    assert ["spine-1", "cluster", "cluster"] == [names[tree][d] for tree, d in enumerate(line["hyperNodes"])]
    assert {"cluster": 8, "feed-a": 4, "feed-b": 4} == {names[2][d]: pods for d, pods in story["hyperNodes"][2]}
    assert {"nvl-3", "nvl-4"} == {names[1][place["hyperNode"]] for place in story["places"][1]}
    assert [(0, "", ["spine-1"]), (2, "", ["feed-a", "feed-b"])] == [
        (entry["fabric"], entry["whose"], [names[entry["fabric"]][d] for d in entry["places"][0][1]])
        for entry in story["constraints"][:2]
    ]
    assert [["worker-0", ["nvl-3"]], ["worker-1", ["nvl-4"]]] == [
        [name, [names[1][d] for d in domains]] for name, domains in story["constraints"][2]["places"]
    ]
    assert [[4, 4, 4], [3, 4], [4, 4]] == [  # 12, 12 and 8 GPUs are free in three NVLink domains
        [s["gangs"] for s in slots["tiers"] if s["size"] == 8] for slots in wire["slots"]
    ]
    waits: Any = board.job("default/three-feeds")
    tried = waits["why"]["tried"][0]
    assert ("feed-a", "3 feeds of fabric power or more: 2 of them take a pod") == (
        names[tried["fabric"]][tried["bestIndex"]],
        waits["line"]["decisive"],
    )
    found: Any = board.search("feed")
    assert [("feed-a", "power"), ("feed-b", "power")] == [
        (hit["name"], hit["fabric"]) for kind in found["kinds"] if kind["kind"] == "domain" for hit in kind["hits"]
    ]
    assert board.nodes("nvl-0") is board.nodes("leaf-0", "nowhere") is None


def test_what_is_free_is_judged_on_the_tree_that_a_gang_is_about() -> None:
    """A gang that must stay in one domain of another fabric can use what is free there."""
    world = draw("r0[n0 n1] r1[n2 n3]", node="gpu=4", running="n0:gpu=4 n3:gpu=4")
    waits = gang("waits", tasks=2, each="gpu=4", within=1, queue="absent")  # kept back by its queue alone
    plain = scheduled(objects_of(world, waits))
    split = AlternateTopology(plain.after.topology, np.array([1, 2, 0, 3]))  # n1 and n2 are neighbours there
    there = Constraint(hard=True, tier=1, kind="fabric x")
    jobs = tuple(replace(job, constraint=there) for job in plain.after.jobs)
    other = replace(plain, after=replace(plain.after, alternate_topologies={"fabric x": split}, jobs=jobs))

    assert (8, 0) == _free(_wire(Board(plain)))
    assert (0, 8) == _free(_wire(Board(other)))


def _free(wire: Any) -> tuple[int, int]:
    return wire["account"][GPU]["fragmented"], wire["account"][GPU]["free"]


def _boutique(folder: Path, **nodes: str) -> Run:
    """The Online Boutique with some of its services on nodes already."""
    loaded = load([str(EXAMPLES / "09-online-boutique")])
    items = [dict(loaded.raw(key) or {}) for key in loaded]
    for item in items:
        name = item["metadata"]["name"]  # type: ignore[index]  # every object has one
        if item["kind"] == "Pod" and name in nodes:
            item["spec"] = {**item["spec"], "nodeName": nodes[name]}  # type: ignore[dict-item]  # a mapping
            item["status"] = {"phase": "Running"}
    file = folder / "boutique.json"
    file.write_bytes(msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": items}))
    return scheduled(load([str(file)]), profile_of(str(EXAMPLES / "09-online-boutique" / "scheduler.conf")))


def test_services_are_told_with_the_cost_of_each_call_as_placed(tmp_path: Path) -> None:
    """Zones, the cost of calls between them, and what they reserve on links; nothing between pods of one node."""
    services = _wire(Board(_boutique(tmp_path)))["services"]
    (group,) = services["groups"]
    zones = [zone["zone"] for zone in services["zones"]]
    cart = next(call for call in group["calls"] if call["callee"] == "P2")
    reserved = {f"{link['origin']} {link['destination']}": link["used"] for link in services["links"]}

    assert (11, 15, 19, 0) == (len(group["workloads"]), group["count"], group["cost"], services["violated"])
    assert ["z1", "z2", 5, "kept"] == [*(zones[cart["ways"][0][end]] for end in ("origin", "destination")), 5, "kept"]
    assert 300_000_000 == reserved["z1 z2"]  # three calls of 100M
    assert 0 == reserved["z3 z4"] == services["overloaded"]


def test_calls_that_go_too_far_and_links_that_are_too_full_come_first(tmp_path: Path) -> None:
    """A cart in the other region is further from the frontend than it may be; a limit on a link may be broken, too."""
    run = _boutique(tmp_path, frontend="n1", cart="n8", checkout="n1")
    services = _wire(Board(run))["services"]
    calls = services["groups"][0]["calls"]

    assert [("P1", "P2", 20), ("P8", "P2", 20)] == sorted((c["caller"], c["callee"], c["cost"]) for c in calls[:2])
    assert all(call["violated"] for call in calls[:2])
    assert not any(call["violated"] for call in calls[3:])
    assert services["violated"] == services["groups"][0]["violated"] >= 2
    assert "default/cart" in services["groups"][0]["workloads"][3]["jobs"]
    story: Any = Board(run).job("default/cart")
    assert ([("default/boutique", "P2")], "default/cart") == (story["services"], story["pod"])
    assert 11000 == _wire(Board(run))["account"]["cpu"]["single"]


def test_what_nodes_say_to_a_job_is_what_explain_says() -> None:
    """Reasons by number of nodes, for the first pod without a place; nothing for a job that has all its places."""
    board = _board(objects_of(WORLD, *GANGS))
    told: Any = board.nodes_for("default/waits")

    assert 4 == told["count"]
    assert sum(reason["count"] for reason in told["reasons"]) + told["taking"] == 4
    assert board.nodes_for("default/fits") is None
