"""The comparisons with other projects' code: what they draw, what their auditor sees, and what they excuse.

The comparisons themselves need Go (`make compare`); what decides there about a difference does not.
"""

from __future__ import annotations

import copy
import importlib
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools" / "compare"


@pytest.fixture(autouse=True)
def _tools_on_the_path(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(TOOLS))
    yield
    for name in set(sys.modules) - before:
        if Path(getattr(sys.modules[name], "__file__", None) or "/").parent == TOOLS:
            del sys.modules[name]


def _tool(name: str) -> Any:
    return importlib.import_module(name)


def _world() -> Any:
    """Two racks of two nodes; a gang of two waits that must stay in a rack, and a gang with a budget runs."""
    drawn = _tool("drawn_gangs")
    world = drawn.World(0, "allocate, preempt", "capacity", frozenset())
    for name in ("n0", "n1", "n2", "n3"):
        world.nodes[name] = drawn.Node({"cpu": 4, "memory": 8, "nvidia.com/gpu": 0, "pods": 10}, {"zone": name})
    world.domains = {"r0": (1, ["n0", "n1"]), "r1": (1, ["n2", "n3"]), "s": (2, ["r0", "r1"])}
    world.queues = {
        "root": drawn.Queue(),
        "team": drawn.Queue(parent="root", capability={"cpu": 6}),
        "q": drawn.Queue(parent="team"),
    }
    world.gangs["ns/wait"] = drawn.Gang("wait", "q", "high", 2, 1, roles={"m": 1}, limit=("hard", 1))
    world.gangs["ns/run"] = drawn.Gang("run", "q", "low", 1, 0, phase="Running")
    rule = {"maxSkew": 1, "topologyKey": "zone", "minDomains": 2}
    for key, role in (("ns/wait-0", "m"), ("ns/wait-1", "w")):
        world.pods[key] = drawn.Pod("ns/wait", role, {"cpu": 2}, spread=[rule])
    for key in ("ns/run-0", "ns/run-1"):
        world.pods[key] = drawn.Pod("ns/run", "w", {"cpu": 1}, node="n3")
    world.budgets["pdb"] = drawn.Budget("ns/run", 1)
    return world


def _taint(world: Any) -> None:
    world.nodes["n1"].taints = [{"key": "a", "value": "", "effect": "NoSchedule"}]


def _lower_team(world: Any) -> None:
    world.queues["team"].capability = {"cpu": 5}


def _fill(world: Any) -> None:
    world.pods["ns/run-0"].node, world.pods["ns/run-0"].ask = "n1", {"cpu": 3}


def _select(world: Any) -> None:
    world.pods["ns/wait-1"].node_selector = {"zone": "n0"}


def test_a_sound_answer_has_no_fault() -> None:
    """An answer that keeps every promise is sound."""
    counting = _tool("counting")
    answer = counting.Answer({"ns/wait-0": "n0", "ns/wait-1": "n1"})

    assert [] == list(counting.audit(_world(), answer))


@pytest.mark.parametrize(
    ("promise", "change", "bound", "evicted"),
    [
        ("taint not tolerated", _taint, {"ns/wait-0": "n0", "ns/wait-1": "n1"}, []),
        ("node affinity not met", _select, {"ns/wait-0": "n0", "ns/wait-1": "n1"}, []),
        ("overcommitted node", _fill, {"ns/wait-0": "n0", "ns/wait-1": "n1"}, ["ns/run-0"]),
        ("capability exceeded", _lower_team, {"ns/wait-0": "n0", "ns/wait-1": "n1"}, []),
        ("part of a gang", None, {"ns/wait-0": "n0"}, []),
        ("part of a role", None, {"ns/wait-1": "n0"}, []),
        ("hard tier exceeded", None, {"ns/wait-0": "n0", "ns/wait-1": "n2"}, []),
        ("topology spread exceeded", None, {"ns/wait-0": "n0", "ns/wait-1": "n0"}, []),
        ("disruption budget exceeded", None, {"ns/wait-0": "n0", "ns/wait-1": "n1"}, ["ns/run-0", "ns/run-1"]),
        ("evicted twice", None, {"ns/wait-0": "n0", "ns/wait-1": "n1"}, ["ns/run-0", "ns/run-0"]),
        ("evicted for nobody", None, {}, ["ns/run-0"]),
    ],
)
def test_the_auditor_sees_every_broken_promise(promise: str, change: Any, bound: Any, evicted: list[str]) -> None:
    """Each promise that an answer breaks is found by counting, with victims still in place."""
    counting, world = _tool("counting"), _world()
    if change is not None:
        change(world)

    assert promise in {fault.promise for fault in counting.audit(world, counting.Answer(bound, {}, evicted))}


@pytest.mark.parametrize(("places", "faults"), [(("n0", "n1"), []), (("n0", "n0"), ["topology spread exceeded"])])
def test_nominated_pods_keep_their_spread_once_all_have_left(places: tuple[str, str], faults: list[str]) -> None:
    """Where pods are nominated, what the victims of the cycle leave is all that may be wrong until then."""
    counting, world = _tool("counting"), _world()
    nominated = dict(zip(("ns/wait-0", "ns/wait-1"), places, strict=True))

    assert faults == [fault.promise for fault in counting.audit(world, counting.Answer({}, nominated, ["ns/run-0"]))]


def _guarantee(world: Any) -> None:
    world.queues["other"] = _tool("drawn_gangs").Queue(parent="root", guarantee={"cpu": 12})


@pytest.mark.parametrize(
    ("promise", "change", "places"),
    [
        ("nominated: hard tier exceeded", None, ("n0", "n2")),
        ("nominated beyond capability", _lower_team, ("n0", "n1")),
        ("nominated for what another queue is guaranteed", _guarantee, ("n0", "n1")),
    ],
)
def test_nominated_pods_keep_tiers_and_quotas(promise: str, change: Any, places: tuple[str, str]) -> None:
    """A nomination that nobody could keep once all have left is no answer."""
    counting, world = _tool("counting"), _world()
    if change is not None:
        change(world)
    nominated = dict(zip(("ns/wait-0", "ns/wait-1"), places, strict=True))

    assert promise in {fault.promise for fault in counting.audit(world, counting.Answer({}, nominated))}


@pytest.mark.parametrize(("nominated", "waits"), [(("ns/wait-0",), False), (("ns/wait-0", "ns/wait-1"), True)])
def test_a_part_of_a_sub_group_is_less_than_a_minimum(nominated: tuple[str, ...], waits: bool) -> None:
    """A gang that Volcano nominates a part of a sub-group of does not wait where that cause is taken away."""
    counting, world = _tool("counting"), _world()
    world.gangs["ns/wait"].minimum = 1
    world.gangs["ns/wait"].parts = _tool("drawn_gangs").SubGroups(2, 0, None)
    cause = next(c for c in _tool("volcano_causes").CAUSES if c.name == "Volcano nominates less than a minimum")
    left = cause.without(world, counting.Answer({}, dict.fromkeys(nominated, "n0")), counting.Answer())

    assert waits == (left is None)


def test_a_feature_is_taken_away_alone() -> None:
    """A cluster that is drawn without a feature stays the same otherwise."""
    drawn_gangs = _tool("drawn_gangs")
    whole, bare = drawn_gangs.draw(7), drawn_gangs.draw(7, ("taints", "budgets"))
    for node in whole.nodes.values():
        node.taints, node.cordoned = [], False
    for pod in whole.pods.values():
        pod.tolerations = []
    whole.budgets = {}

    assert (bare.nodes, bare.gangs, bare.pods, bare.budgets) == (whole.nodes, whole.gangs, whole.pods, whole.budgets)


def test_every_feature_is_drawn() -> None:
    """Within the fixed sample each feature is on often, and gangs of which a part stands exist."""
    drawn_gangs = _tool("drawn_gangs")
    worlds = [drawn_gangs.draw(seed) for seed in range(1, 61)]
    half = sum(
        any({bool(w.pods[k].node) for k in w.members(gang)} == {True, False} for gang in w.gangs) for w in worlds
    )

    assert [] == [name for name in drawn_gangs.CHANCES if sum(name in w.features for w in worlds) < 5]
    assert half > 10


def test_a_difference_is_excused_only_where_its_cause_removes_it() -> None:
    """A cause that is there and changes nothing excuses nothing; two causes may be needed."""
    excuses = _tool("excuses")

    def without(name: str) -> Any:
        return lambda case, theirs, ours: case - {name} if name in case else None

    def ask(case: frozenset[str]) -> tuple[None, None, bool]:
        return None, None, not case & {"a", "b"}

    causes = [excuses.Cause(name, without(name)) for name in ("idle", "a", "b")]
    alone = excuses.explain(frozenset({"idle", "a"}), (None, None), causes, ask, steps=9)
    both = excuses.explain(frozenset({"a", "b"}), (None, None), causes, ask, steps=9)
    other = excuses.explain(
        frozenset({"a", "unknown"}), (None, None), causes, lambda case: (None, None, not case), steps=9
    )

    assert (("a",), {"a", "b"}, None) == (alone, set(both or ()), other)


@pytest.mark.parametrize("name", ["volcano", "kube"])
def test_every_cause_has_a_reason(name: str) -> None:
    """The file of reasons and the causes in code name the same."""
    if name == "volcano":
        reasons = set(tomllib.loads((TOOLS / "volcano_differences.toml").read_text())["differences"])
        causes = {cause.name for cause in _tool("volcano_causes").CAUSES}
    else:
        listed = tomllib.loads((TOOLS / "kube_scheduler_differences.toml").read_text())["differences"]
        reasons = {one["class"] for one in listed}
        causes = {cause.name for cause in _tool("kube_causes").causes(lambda _objects, _config: [])}

    assert reasons == causes


def test_a_world_goes_on_after_a_cycle() -> None:
    """What was bound runs, what was evicted leaves or is replaced, and the old world is left alone."""
    drawn_gangs, world = _tool("drawn_gangs"), _world()
    before = copy.deepcopy(world)
    after = drawn_gangs.advance(world, {"ns/wait-0": "n0", "ns/wait-1": "n1"}, {}, ["ns/run-0"])

    assert before == world
    assert after.pods.get("ns/run-0") is None or after.pods["ns/run-0"].leaving
    assert 1 == after.cycle
