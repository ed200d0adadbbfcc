"""`tierwise what-if`: what a change does to which job, and the least that makes a job start."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.commands import EXAMPLES, answer, manifests, run
from tests.support.draw import World, draw, gang, groups
from tests.support.drawn_gang import Gang

from tierwise.api.codec import Raw
from tierwise.cli.inputs import load
from tierwise.config.profile import DEFAULT
from tierwise.explain.comparison import LeastChange, least_change_wire
from tierwise.explain.page import Page
from tierwise.explain.text.what_if import least_change_lines
from tierwise.sim.forecast.in_time import OutOfTime, least_in_time
from tierwise.sim.what_if.least_change import BRIEF
from tierwise.sim.what_if.runs import prepared

WHY_NOT = EXAMPLES / "02-why-not"
RACKS = "s0: r0[n0 n1] r1[n2 n3]"


def _file(folder: Path, world: World, *gangs: Gang, name: str = "cluster.yaml") -> Path:
    return manifests(folder, *world.manifests, *(m for g in gangs for m in g.manifests()), name=name)


def _effects(found: Any) -> dict[str, str]:
    return {change["podGroup"].removeprefix("default/"): change["effect"] for change in found["jobs"]}


def test_an_uncordoned_node_starts_a_gang() -> None:
    """A gang that lacks one node starts where that node is uncordoned, in the rack of that node."""
    found = answer("what-if", "-f", WHY_NOT, "--uncordon", "a3")

    assert {"train": "starts"} == _effects(found)
    assert "rack-a" == found["jobs"][0]["after"]["hyperNode"]
    assert (0, 1) == (found["before"]["running"], found["after"]["running"])


@pytest.mark.parametrize("option", ["--add-nodes=1=a0", "--add-domains=1=rack-a", "--constraint=train=soft"])
def test_nodes_racks_and_limits(option: str) -> None:
    """One node more in the rack, a further rack, or a limit that is only a wish: each lets the gang start."""
    assert {"train": "starts"} == _effects(answer("what-if", "-f", WHY_NOT, option))


def test_a_new_rack_is_whole() -> None:
    """A copy of a rack has as many nodes, none of them cordoned, in a hyperNode of its own below the same parent."""
    found = answer("what-if", "-f", WHY_NOT, "--add-domains", "1=rack-a")

    assert "rack-a-new-1" == found["jobs"][0]["after"]["hyperNode"]
    assert {f"a{i}-new-1" for i in range(4)} == set(found["jobs"][0]["after"]["pods"].values())


def test_a_spine_is_copied_with_its_racks(tmp_path: Path) -> None:
    """What is below a copied domain is copied too: a gang that needs two racks below one spine finds them there."""
    world = draw("top[s0[r0[n0] r1[n1]]]", node="gpu=8", running="n0:gpu=8")
    train = gang("train", tasks=2, each="gpu=8", within=2)
    file = _file(tmp_path, world, train)

    found = answer("what-if", "-f", file, "--add-domains", "1=s0")

    assert {"train": "starts"} == _effects(found)
    assert ("s0-new-1", {"n0-new-1", "n1-new-1"}) == (
        found["jobs"][0]["after"]["hyperNode"],
        set(found["jobs"][0]["after"]["pods"].values()),
    )


def test_domains_of_labels_are_copied_by_their_labels(tmp_path: Path) -> None:
    """Where labels make the tree, a copy of a domain has labels of its own, and keeps those that are no domain's."""
    labels = {"block": "b0", "rack": "b0-r0", "gpu": "h100"}
    allocatable = {"allocatable": {"cpu": "8", "pods": "10"}}
    nodes = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": allocatable}
        for name in ("n0", "n1")
    ]
    full = {"nodeName": "n1", "containers": [{"name": "c", "resources": {"requests": {"cpu": "8"}}}]}
    busy = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "busy"}, "spec": full}
    levels = [{"nodeLabel": "block"}, {"nodeLabel": "rack"}]
    topology = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Topology", "metadata": {"name": "t"}}
    flavor = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "ResourceFlavor", "metadata": {"name": "f"}}
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"p{i}",
                "labels": {"kueue.x-k8s.io/pod-group-name": "train", "kueue.x-k8s.io/queue-name": "q"},
                "annotations": {
                    "kueue.x-k8s.io/pod-group-total-count": "2",
                    "kueue.x-k8s.io/podset-required-topology": "block",
                },
            },
            "spec": {
                "nodeSelector": {"gpu": "h100"},
                "containers": [{"name": "c", "resources": {"requests": {"cpu": "8"}}}],
            },
        }
        for i in range(2)
    ]
    file = manifests(
        tmp_path,
        *nodes,
        busy,
        {**topology, "spec": {"levels": levels}},
        {**flavor, "spec": {"topologyName": "t", "nodeLabels": {"gpu": "h100"}}},
        *pods,
    )

    beside = answer("what-if", "-f", file, "--add-nodes", "1=n0")
    apart = answer("what-if", "-f", file, "--add-domains", "1=b0")

    assert ["starts"] == list(_effects(beside).values())
    assert {"n0", "n0-new-1"} == set(beside["jobs"][0]["after"]["pods"].values())
    assert ["starts"] == list(_effects(apart).values())
    assert {"n0-new-1", "n1-new-1"} == set(apart["jobs"][0]["after"]["pods"].values())


def test_who_loses_a_drained_node_moves_or_waits(tmp_path: Path) -> None:
    """A gang on a drained node restarts where there is room; one that still stands in part comes first."""
    world = draw(RACKS, node="gpu=8")
    whole, part = (
        gang(name, tasks=len(on), each="gpu=8", on=" ".join(on))
        for name, on in (("whole", ["n0"]), ("part", ["n1", "n2"]))
    )
    file = _file(tmp_path, world, whole, part)

    assert {"whole": "moves"} == _effects(answer("what-if", "-f", file, "--drain", "n0"))
    drained = answer("what-if", "-f", file, "--drain", "r0")
    assert {"whole": "stops", "part": "moves"} == _effects(drained)
    assert all(change["runsNow"] for change in drained["jobs"])


def test_pods_on_a_cordoned_rack_stay(tmp_path: Path) -> None:
    """A gang that runs is left alone, and one that waits does not start there."""
    world = draw(RACKS, node="gpu=8")
    stays, waits = gang("stays", tasks=1, each="gpu=8", on="n0"), gang("waits", tasks=3, each="gpu=8")
    file = _file(tmp_path, world, stays, waits)

    assert {"waits": "waits-longer"} == _effects(answer("what-if", "-f", file, "--cordon", "r0"))


def test_a_domain_of_another_fabric_is_drained() -> None:
    """Without one of two power feeds the job that needs both of them stops."""
    files = ("-f", EXAMPLES / "14-several-fabrics" / "cluster.yaml", "-f", EXAMPLES / "14-several-fabrics" / "job.yaml")
    found = answer("what-if", *files, "--drain", "feed-b")

    assert 0 == found["after"]["running"]
    assert 1 == found["before"]["running"]


def test_a_more_important_job_lets_another_wait_longer(tmp_path: Path) -> None:
    """Where only one of two gangs has room, a higher priority swaps them; so does a job that is submitted."""
    world = draw("n0", node="gpu=8")
    first, second = gang("first", tasks=1, each="gpu=8"), gang("second", tasks=1, each="gpu=8", created=10)
    file = _file(tmp_path, world, first, second)
    urgent = _file(tmp_path, World((), ""), gang("urgent", tasks=1, each="gpu=8", priority=9), name="urgent.yaml")

    assert {"second": "starts", "first": "waits-longer"} == _effects(
        answer("what-if", "-f", file, "--priority", "second=100")
    )
    assert {"urgent": "starts", "first": "waits-longer"} == _effects(answer("what-if", "-f", file, "--submit", urgent))
    assert {"second": "starts", "first": "ends"} == _effects(answer("what-if", "-f", file, "--delete", "first"))


def test_a_quota_is_raised(tmp_path: Path) -> None:
    """A gang that its queue holds back starts with more quota, and the least of it is found."""
    queue: Raw = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "team"}}
    queue["spec"] = {"capability": {"nvidia.com/gpu": "4"}}
    world = draw("n0 n1", node="gpu=8")
    train = gang("train", tasks=2, each="gpu=8", queue="team")
    file = _file(tmp_path, World((*world.manifests, queue), ""), train)

    assert {} == _effects(answer("what-if", "-f", file, "--quota", "team:nvidia.com/gpu=15"))
    assert {"train": "starts"} == _effects(answer("what-if", "-f", file, "--quota", "team:nvidia.com/gpu=16"))
    ways = answer("what-if", "-f", file, "--start", "train")["ways"]
    assert ["raise the capability of queue team to 20 of nvidia.com/gpu"] == [w["text"] for w in ways]


def _queue(name: str, **spec: str) -> Raw:
    about: Raw = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}}
    return {**about, "spec": {field: {"nvidia.com/gpu": amount} for field, amount in spec.items()}}


def _evicted(file: Path, *words: str) -> Any:
    ways = answer("what-if", "-f", file, "--start", "train", *words)["ways"]
    return next((way for way in ways if way["way"] == "evict"), None)


def test_a_job_that_waits_for_its_quota_takes_of_its_own_queue(tmp_path: Path) -> None:
    """Pods of other queues give it nothing, though they are fewer, or on nodes that it could use."""
    nodes = " ".join(f"n{i}" for i in range(8))
    world = draw(nodes, node="gpu=8")
    own = gang("own", tasks=10, each="gpu=2", queue="team-a", on=" ".join(["n0"] * 4 + ["n1"] * 4 + ["n2"] * 2))
    other = gang("other", tasks=7, each="gpu=4", queue="team-b", on="n2 n3 n3 n4 n4 n5 n5")
    train = gang("train", tasks=2, each="gpu=8", queue="team-a")
    queues = (_queue("team-a", capability="20"), _queue("team-b", capability="64"))
    file = _file(tmp_path, World((*world.manifests, *queues), ""), own, other, train)

    found = _evicted(file)

    assert ({"default/own"}, 8, True) == ({pod.rpartition("-")[0] for pod in found["subjects"]}, *_size(found))
    assert 1 == found["gangsBroken"]


def test_pods_of_another_queue_are_not_tried_for_a_quota(tmp_path: Path) -> None:
    """None of them has to stay for its gang, they are larger, and the fewest are known before any is tried."""
    world = draw(" ".join(f"n{i}" for i in range(8)), node="gpu=8")
    own = [gang(f"own{i}", tasks=1, each="gpu=2", queue="team-a", on=f"n{i // 4}") for i in range(10)]
    other = [gang(f"other{i}", tasks=1, each="gpu=4", queue="team-b", on=f"n{3 + i // 2}") for i in range(6)]
    queues = (_queue("team-a", capability="20"), _queue("team-b", capability="64"))
    train = gang("train", tasks=2, each="gpu=8", queue="team-a")
    found = _evicted(_file(tmp_path, World((*world.manifests, *queues), ""), *own, *other, train))

    assert {"default/own"} == {pod.rpartition("-")[0].rstrip("0123456789") for pod in found["subjects"]}
    assert (8, True) == _size(found)


def test_nodes_that_are_free_need_no_evictions(tmp_path: Path) -> None:
    """One of the two nodes that a gang asks for is free: one pod goes, and not those of two nodes."""
    world = draw("n0 n1 n2", node="gpu=4", running="n1:gpu=1 n2:gpu=2 n2:gpu=2")
    found = _evicted(_file(tmp_path, world, gang("train", tasks=2, each="gpu=4")))

    assert (1, True) == _size(found)


def _size(found: Any) -> tuple[int, bool]:
    return found["number"], found["exact"]


def test_fewer_gangs_are_broken_before_fewer_pods_go(tmp_path: Path) -> None:
    """Four pods that no gang needs go rather than one of a gang; an elastic gang gives up what it can spare."""
    world = draw("n0 n1 n2", node="gpu=8", running="n0:gpu=2 n0:gpu=2 n0:gpu=2 n0:gpu=2")
    pair = gang("pair", tasks=2, each="gpu=8", on="n1 n2")
    train = gang("train", tasks=1, each="gpu=8")
    spare = gang("pair", tasks=2, minimum=1, each="gpu=8", on="n1 n2")

    alone = _evicted(_file(tmp_path, world, pair, train))
    elastic = _evicted(_file(tmp_path, world, spare, train, name="elastic.yaml"))

    assert (4, 0) == (alone["number"], alone["gangsBroken"])
    assert (1, 0) == (elastic["number"], elastic["gangsBroken"])


def test_the_gang_that_saved_its_work_goes(tmp_path: Path) -> None:
    """Of two gangs that run as long the one with a checkpoint loses less; what is lost is told in accelerator-hours."""
    world = draw("n0 n1", node="gpu=8")
    young, saved = (gang(name, tasks=2, each="gpu=4", on=f"n{i} n{i}") for i, name in enumerate(("young", "saved")))
    file = _file(tmp_path, world, young, saved, gang("train", tasks=1, each="gpu=8"))
    text = file.read_text()
    objects = list(yaml.safe_load_all(text))
    for raw in objects:
        if raw["kind"] == "Pod" and raw["spec"].get("nodeName"):
            raw["status"] = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}
            if raw["metadata"]["name"].startswith("saved"):
                raw["metadata"]["annotations"]["tierwise.io/checkpointed-at"] = "2026-01-01T09:00:00Z"
    file.write_text(yaml.safe_dump_all(objects))

    found = _evicted(file, "--now", "2026-01-01T10:00:00Z")

    assert ({"default/saved-0", "default/saved-1"}, 8.0) == (set(found["subjects"]), found["acceleratorHoursLost"])
    assert "breaks 1 gang and loses 8.0 accelerator-hours" in found["text"]


def _aged(tmp_path: Path, hours: Mapping[str, int], pods: int, mark: str = "") -> Path:
    """Two racks of two nodes, each full with a job of `pods` pods that has run for so long; two nodes are wanted."""
    world = draw(RACKS, node="gpu=8")
    jobs = [gang(f"on-{node}", tasks=pods, each=f"gpu={8 // pods}", on=" ".join([node] * pods)) for node in hours]
    file = _file(tmp_path, world, *jobs, gang("train", tasks=2, each="gpu=8", within=2))
    objects = list(yaml.safe_load_all(file.read_text()))
    for raw in objects:
        node = raw["spec"].get("nodeName") if raw["kind"] == "Pod" else None
        if node:
            raw["status"] = {"phase": "Running", "startTime": f"2026-01-01T{10 - hours[node]:02}:00:00Z"}
            if mark:
                raw["metadata"]["annotations"]["tierwise.io/checkpointed-at"] = mark
    file.write_text(yaml.safe_dump_all(objects))
    return file


@pytest.mark.parametrize("pods", [1, 2])
def test_age_comes_after_the_domain(pods: int, tmp_path: Path) -> None:
    """The two that run shortest are in different racks; two of one rack go, of these racks those that lose least."""
    hours = {"n0": 1, "n1": 5, "n2": 2, "n3": 6}

    found = _evicted(_aged(tmp_path, hours, pods), "--now", "2026-01-01T10:00:00Z")

    assert {"default/on-n0", "default/on-n1"} == {pod.rpartition("-")[0] for pod in found["subjects"]}
    assert 48.0 == found["acceleratorHoursLost"]


def test_who_states_checkpoints_is_weighed_by_them(tmp_path: Path) -> None:
    """Then the least work is lost, wherever it is."""
    hours = {"n0": 1, "n1": 5, "n2": 2, "n3": 6}

    found = _evicted(_aged(tmp_path, hours, 1, "2026-01-01T05:30:00Z"), "--now", "2026-01-01T10:00:00Z")

    assert {"default/on-n0-0", "default/on-n2-0"} == set(found["subjects"])


def test_a_queue_within_its_share_is_left_alone(tmp_path: Path) -> None:
    """Pods of the queue that is above what it deserves go first, though more of them; others are told as such."""
    world = draw("n0 n1", node="gpu=8")
    above = gang("above", tasks=4, minimum=1, each="gpu=2", queue="rich", on="n0 n0 n0 n0")
    within = gang("within", tasks=1, each="gpu=8", queue="poor", on="n1")
    train = gang("train", tasks=1, each="gpu=6", queue="poor-too")
    queues = (_queue("rich", deserved="2"), _queue("poor", deserved="8"), _queue("poor-too", deserved="8"))
    scene = World((*world.manifests, *queues), "")

    found = _evicted(_file(tmp_path, scene, above, within, train))
    alone = _evicted(_file(tmp_path, scene, within, gang("train", tasks=2, each="gpu=8", queue="poor-too")))

    assert ("default/above", 3) == (found["subjects"][0].rpartition("-")[0], found["number"])
    assert "the scheduler itself would not evict them" not in found["text"]
    assert "the scheduler itself would not evict them" in alone["text"]


def test_a_plugin_is_switched(tmp_path: Path) -> None:
    """Without binpack and with scores for empty nodes a pod goes elsewhere."""
    world = draw("n0 n1", node="cpu=8", running="n0:cpu=1")
    file = _file(tmp_path, world, gang("web", tasks=1, each="cpu=1"))

    spread = ("--without-plugin", "binpack", "--plugin", "nodeorder:leastrequested.weight=10")
    assert {"web": "moves"} == _effects(answer("what-if", "-f", file, *spread))


def test_the_least_of_each_way(tmp_path: Path) -> None:
    """Each way is told with its number; ways that never help are named."""
    found = answer("what-if", "-f", WHY_NOT, "--start", "train")

    assert {"uncordon": 1, "relax": 1, "evict": 2, "add-nodes": 1} == {w["way"]: w["number"] for w in found["ways"]}
    assert all(way["exact"] for way in found["ways"])
    assert ["evict", "add-nodes", "wait"] == answer("what-if", "-f", WHY_NOT, "--start", "render")["noHelp"][1:]


def test_whole_sub_groups_count(tmp_path: Path) -> None:
    """Where counting does not decide, choices are tried: a gang of two racks lacks one node in each."""
    world = draw(RACKS, node="gpu=8", running="n1:gpu=8 n3:gpu=8")
    train = gang("train", each="gpu=8", groups=(groups(count=2, size=2, within=1),), within=2)
    ways = answer("what-if", "-f", _file(tmp_path, world, train), "--start", "train")["ways"]

    assert {"evict": 2, "add-nodes": 2} == {way["way"]: way["number"] for way in ways if way["way"] != "relax"}


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--drain", "rack-d"], "there is no node or domain rack-d (did you mean rack-c?)"),
        (["--add-nodes", "a0"], '--add-nodes: "a0" is not N=NODE'),
        (["--add-nodes", "0=a0"], "0 is not between 1 and 10000"),
        (["--add-domains", "1=a0"], "there is no domain a0"),
        (["--quota", "x:cpu=1"], "Queue x: there is no such queue"),
        (["--quota", "default:cpu=many"], "many"),
        (["--priority", "train=high"], '--priority: "train=high" is not JOB=NUMBER'),
        (["--priority", "trian=1"], "PodGroup default/trian: there is no such job (did you mean default/train?)"),
        (["--constraint", "train=hard"], "is not JOB[:POLICY]=LIMIT"),
        (["--constraint", "train=hard:9"], "9 is none of its tiers: 1 (rack)"),
        (["--constraint", "train:x=soft"], '"x" is none of its sub-group policies: it has none'),
        (["--plugin", "binpak"], "binpak"),
        (["--without-plugin", "sla"], "the profile has no plugin sla"),
        (["--start", "nobody"], "PodGroup default/nobody: there is no such job"),
    ],
)
def test_what_does_not_exist_is_named(words: list[str], text: str) -> None:
    """A change of something that is not there, or that cannot be read, is one line and exit status 2."""
    result = run("what-if", "-f", WHY_NOT, *words)

    assert (2, 1) == (result.exit_code, len(result.stderr.splitlines()))
    assert text in result.stderr


def test_something_must_be_asked() -> None:
    """Without a change and without a job there is no question."""
    assert "Name a change" in run("what-if", "-f", WHY_NOT).stderr


def test_a_domain_without_nodes_is_not_copied(tmp_path: Path) -> None:
    """There is nothing to copy, and that is said."""
    empty: Raw = {"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": {"name": "r9"}}
    file = manifests(tmp_path, *draw("r0[n0]").manifests, {**empty, "spec": {"tier": 1, "members": []}})

    assert "domain r9 has no nodes" in run("what-if", "-f", file, "--add-domains", "1=r9").stderr


def _lone(name: str) -> Raw:
    containers = [{"name": "main", "resources": {"requests": {"nvidia.com/gpu": "8"}}}]
    spec = {"schedulerName": "default-scheduler", "containers": containers}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def test_pods_by_themselves_are_in_the_table(tmp_path: Path) -> None:
    """One that is submitted starts or waits; one that waits without the change and starts with it is not gone."""
    world = draw("r0[n0] r1[n1]", node="gpu=8", cordoned="n1")
    file = manifests(tmp_path, *world.manifests, _lone("a"), _lone("b"))
    more = manifests(tmp_path, _lone("c"), name="more.yaml")

    uncordoned = answer("what-if", "-f", file, "--uncordon", "n1")
    submitted = answer("what-if", "-f", file, "--submit", more)

    assert {"pod default/b": "starts"} == _effects(uncordoned)
    assert {"default/b": "n1"} == uncordoned["jobs"][0]["after"]["pods"]
    assert {"pod default/c": "waits"} == _effects(submitted)
    assert (1, 1) == (submitted["before"]["running"], submitted["after"]["running"])


def test_a_drain_says_what_stops_and_for_how_long(tmp_path: Path) -> None:
    """How many running pods restart, which gangs fall below their minimum until when, and which merely plan anew."""
    world = draw(RACKS, node="gpu=8")
    rigid, elastic = gang("rigid", tasks=1, each="gpu=8", on="n0"), gang("elastic", tasks=2, minimum=1, each="gpu=8")
    there = gang("elastic", tasks=2, minimum=1, each="gpu=8", on="n1 n2")
    planned = gang("planned", tasks=1, each="gpu=8", created=50)
    drained = answer("what-if", "-f", _file(tmp_path, world, rigid, there), "--drain", "r0")["restarts"]
    planning = answer("what-if", "-f", _file(tmp_path, world, elastic, planned), "--drain", "n0")

    assert (2, 1) == (drained["pods"], drained["gangsBroken"] + sum(j["belowMinimum"] for j in drained["jobs"]))
    assert {"default/rigid": (True, 1, 1), "default/elastic": (False, 1, 2)} == {
        job["podGroup"]: (job["belowMinimum"], job["podsRestarting"], job["podsRunning"]) for job in drained["jobs"]
    }
    assert {0} == {planning["restarts"]["pods"]}
    text = run("what-if", "-f", _file(tmp_path, world, rigid, there), "--drain", "r0").stdout
    assert "Stops 2 running pods of 2 jobs: breaks no gang" in text
    assert "elastic  1 of 2 pods; keeps its minimum of 1" in text


def test_what_the_scheduler_evicts_itself_is_shown(tmp_path: Path) -> None:
    """Where the configuration evicts, the pods that it evicts for the job; else that it does not, and why."""
    world = draw("n0", node="gpu=8")
    file = _file(
        tmp_path,
        world,
        gang("cheap", tasks=2, each="gpu=4", on="n0 n0"),
        gang("train", tasks=1, each="gpu=8", priority=9),
    )
    config = tmp_path / "preempt.conf"
    config.write_text(
        'actions: "enqueue, allocate, gangpreempt"\n'
        "tiers:\n- plugins: [{name: priority}, {name: gang}, {name: predicates}]\n"
    )

    as_is = answer("what-if", "-f", file, "--start", "train")
    evicting = answer("what-if", "-f", file, "--start", "train", "--config", config)

    assert "no action of its configuration evicts" in as_is["scheduler"]["text"]
    assert (True, {"default/cheap-0", "default/cheap-1"}) == (
        evicting["startsAnyway"],
        set(evicting["scheduler"]["pods"]),
    )
    assert 1 == evicting["scheduler"]["gangsBroken"]


def test_waiting_is_one_of_the_ways() -> None:
    """Until when, and whose end that is; where no end is known, it is no help."""
    words = ("what-if", "-f", EXAMPLES / "18-expected-start", "--now", "2026-01-01T12:00:00Z")
    found = answer(*words, "--start", "ml/train-b")

    assert ("wait", ["ml/sweep-11"]) == (found["ways"][-1]["way"], found["ways"][-1]["subjects"])
    assert "wait" in answer("what-if", "-f", WHY_NOT, "--start", "train")["noHelp"]


def test_what_was_found_is_told_when_time_is_over() -> None:
    """A search that used up its processor time says which ways it has found, and what it was trying."""
    scenario = prepared(load([str(WHY_NOT)]), DEFAULT, 0.0)

    def told(way: str, runs: int, known: Callable[[], LeastChange]) -> None:
        if any(not answer.counted for answer in known().answers):
            raise OutOfTime

    whole = least_in_time(scenario, "train", BRIEF, lambda *_: None)
    found = least_in_time(scenario, "train", BRIEF, told)
    lines = "\n".join(line.plain for line in least_change_lines(Page(width=200), found))

    assert "" == whole.stopped
    assert whole.answers[:1] == tuple(answer for answer in found.answers if not answer.counted)
    assert not any(answer.counted for answer in whole.answers)
    assert "relax its limit from rack to no limit; by counting alone, not tried" in lines
    assert "stopped after 60 s of a processor, while trying to relax: more ways may do" == found.stopped
    assert found.stopped in lines
    assert found.stopped == least_change_wire(found)["stopped"]


def test_the_first_answer_comes_before_any_run() -> None:
    """What was counted is known before the scheduler runs for the first time, and is marked for programs."""
    scenario = prepared(load([str(WHY_NOT)]), DEFAULT, 0.0)
    first: list[LeastChange] = []

    def told(way: str, runs: int, known: Callable[[], LeastChange]) -> None:
        if not runs:
            first.append(known())

    least_in_time(scenario, "train", BRIEF, told)
    ways: Any = least_change_wire(first[0])["ways"]

    assert ["uncordon", "relax", "evict", "add-nodes"] == [way["way"] for way in ways]
    assert all(way["counted"] and not way["exact"] for way in ways)


def test_people_are_told_the_first_answer_on_a_large_cluster(tmp_path: Path) -> None:
    """It goes to standard error, as the answer replaces it; small clusters get the answer alone."""
    names = [f"n{i}" for i in range(320)]
    racks = " ".join(f"r{i}[{' '.join(names[i * 8 : i * 8 + 8])}]" for i in range(40))
    world = draw(f"s0[{racks}]", node="gpu=8", running=" ".join(f"{name}:gpu=8" for name in names))
    file = _file(tmp_path, world, gang("big", tasks=2, each="gpu=8", within=1))

    people = run("what-if", "-f", file, "--start", "big")
    assert "big: by counting alone, any one of these should make it start now" in people.stderr
    assert "evict 2 pods" in people.stderr
    assert "by counting" not in people.stdout
    assert "" == run("what-if", "-f", WHY_NOT, "--start", "train").stderr


FOURS = "s0: r0[a0 a1 a2 a3] r1[b0 b1 b2 b3]"


def _start_big(
    folder: Path, world: World, *running: Gang, tasks: int = 4, words: tuple[str | Path, ...] = ()
) -> dict[str, Any]:
    """The ways to start a gang of so many whole nodes of one rack, by their names, in their order."""
    big = gang("big", tasks=tasks, each="gpu=8", within=1)
    ways = answer("what-if", "-f", _file(folder, world, *running, big), "--start", "big", *words)["ways"]
    return {way["way"]: way for way in ways}


def test_a_gang_that_starts_elsewhere_at_once_is_moved(tmp_path: Path) -> None:
    """Two gangs keep a rack each from a third one: one of them goes to the other's rack, and nothing stays broken."""
    world = draw(FOURS, node="gpu=8")
    small = [gang(f"small{i}", tasks=2, each="gpu=8", on=on) for i, on in enumerate(("a0 a1", "b0 b1"))]

    ways = _start_big(tmp_path, world, *small)
    move, order = ways["move"], list(ways)

    assert (2, 0, ways["evict"]["subjects"]) == (move["number"], 0, move["subjects"])
    assert "move default/small0 (2 pods) from r0 to r1" in move["text"]
    assert order.index("move") + 1 == order.index("evict")


def test_a_gang_that_has_no_place_elsewhere_is_not_moved(tmp_path: Path) -> None:
    """The other rack has one node to spare where two are needed, or the gang may not go there."""
    world = draw(FOURS, node="gpu=8")
    here, there = gang("small", tasks=2, each="gpu=8", on="a0 a1"), gang("there", tasks=3, each="gpu=8", on="b0 b1 b2")

    ways = _start_big(tmp_path, world, here, there)

    assert 2 == ways["evict"]["number"]
    assert "move" not in ways


def test_pods_that_nothing_starts_again_are_not_moved(tmp_path: Path) -> None:
    """A pod without an owner or a group is lost where it is evicted, though there is room for it elsewhere."""
    ways = _start_big(tmp_path, draw(FOURS, node="gpu=8", running="a0:gpu=8 b0:gpu=8"))

    assert 1 == ways["evict"]["number"]
    assert "move" not in ways


def test_another_gang_is_moved_where_the_cheapest_cannot_be(tmp_path: Path) -> None:
    """The eviction that costs least is that of a gang which can run nowhere else; the other one can be moved."""
    fast = dict.fromkeys(("a0", "a1"), "gpu=8 example.com/disk=1")
    world = draw(FOURS, node="gpu=8", nodes=fast)
    bound = gang("bound", tasks=2, each="gpu=8 example.com/disk=1", on="a0 a1")
    wide, narrow = (gang("other", tasks=n, each="gpu=8", on=" ".join(f"b{i}" for i in range(n))) for n in (3, 2))

    stuck = _start_big(tmp_path, world, bound, wide)
    ways = _start_big(tmp_path, world, bound, narrow)

    assert ("move" in stuck, "bound" in stuck["evict"]["text"]) == (False, True)
    assert "bound" in ways["evict"]["text"]
    assert "move default/other (2 pods) from r1 to r0" in ways["move"]["text"]
    assert not ways["move"]["exact"]


def test_a_gang_is_moved_whole_where_a_part_of_it_has_no_place(tmp_path: Path) -> None:
    """One pod of a gang that must stay within a rack is in the way: all of it goes to the other rack."""
    world = draw(FOURS, node="gpu=8", running="b0:gpu=8 b1:gpu=8")
    rigid = gang("rigid", tasks=2, each="gpu=8", within=1, on="a0 a1")

    ways = _start_big(tmp_path, world, rigid, tasks=3)

    assert (1, 2) == (ways["evict"]["number"], ways["move"]["number"])
    assert {"default/rigid-0": "b2", "default/rigid-1": "b3"} == ways["move"]["nodes"]


def test_a_move_evicts_nobody(tmp_path: Path) -> None:
    """Where a gang starts elsewhere only because it evicts others there, it is no move."""
    world = draw(FOURS, node="gpu=8", running="b0:gpu=8 b1:gpu=8")
    urgent = gang("urgent", tasks=2, each="gpu=8", on="a0 a1", priority=5)
    low = gang("low", tasks=2, each="gpu=8", on="b2 b3")
    config = tmp_path / "evicting.conf"
    config.write_text(
        'actions: "enqueue, allocate, gangpreempt"\n'
        "tiers:\n- plugins: [{name: priority}, {name: gang}, {name: predicates}]\n"
    )

    ways = _start_big(tmp_path, world, urgent, low, words=("--config", config))

    assert "evict" in ways
    assert "move" not in ways
