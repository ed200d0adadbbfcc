"""The drawn scenes whose decisions are written down: one generator for each kind, a scene for each number.

A scene is the same on every machine and at every commit: what is random in it comes from its kind and its number (those
of half gangs are made by a loop whose binds fail, so by the scheduler itself). The generators are those of the
properties and the fuzzers, and, where these do not draw what placement tells apart (gathered gangs in every way, unlike
groups on several fabrics, gangs that share a volume, spares, larger clusters), own ones.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr
from functools import partial
from io import StringIO
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec
import yaml
from msgspec.structs import replace
from tests.fuzz import drawn_world, mixed_world
from tests.fuzz.fuzz_everything import configuration
from tests.support import draw, evict_scenes, evict_world, koordinator, languages, nested_oracle, quotas, volumes
from tests.support.affinity import HOST, near, only_for, tied, zoned
from tests.support.affinity import ZONE as ZONE_LABEL
from tests.support.commands import manifests as written
from tests.support.drawn_gang import Gang, Groups, Role
from tests.support.half_gangs import FAULTS, LANGUAGES, ShakyWorld, drawn
from tests.support.oracle import random_instance
from tests.support.shapes_oracle import random_mixture
from tests.support.strategies import PROFILES
from tests.support.two_fabrics import NODES, Question, fabric

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.core import parse_time
from tierwise.cli.inputs import load, moment, profile_of
from tierwise.config.kube import read_kube
from tierwise.config.profile import DEFAULT, PluginChoice, Profile
from tierwise.config.volcano import read_volcano
from tierwise.port import Objects
from tierwise.scheduler import check_profile

__all__ = ["KINDS", "Case", "cases", "conformance"]

_START: Final = 1_767_225_600.0
_EVICTING: Final = replace(DEFAULT, actions=(*DEFAULT.actions, "gangpreempt"))


class Case(msgspec.Struct, frozen=True, eq=False):
    """A cluster, and how cycles are run on it."""

    objects: Objects
    profile: Profile = DEFAULT
    now: float = 0.0
    cycles: int | None = 2  # None: as many as change anything


def _case(raws: Sequence[Raw], profile: Profile = DEFAULT, **more: Any) -> Case:
    return Case(Objects.of((codec.decode(raw), raw) for raw in raws), profile, **more)


# -- one tree: two levels, roles, several shapes, plain pods


def _profile(pick: Random, *names: str) -> Profile:
    return PROFILES[pick.choice(names or ("default", "default", "spreading", "packing"))]


def _oracle(kind: str, pick: Random) -> Case:
    instance = random_instance(pick, kind)
    return Case(instance.objects, _profile(pick))


def _shapes(kind: str, pick: Random) -> Case:
    return Case(random_mixture(pick, kind).objects, _profile(pick))


def _tree(pick: Random, *, spines: int = 3, racks: int = 3, nodes: int = 3) -> tuple[str, list[str]]:
    """A drawing of spines of racks, and its nodes."""
    names: list[str] = []
    text = []
    for s in range(pick.randint(1, spines)):
        inner = []
        for r in range(pick.randint(1, racks)):
            own = [f"n{len(names) + i}" for i in range(pick.randint(1, nodes))]
            names += own
            inner.append(f"s{s}r{r}[{' '.join(own)}]")
        text.append(f"s{s}[{' '.join(inner)}]")
    return " ".join(text), names


_TIERS: Final = (None, 1, 1, 2, 2, 3)


def _rooms(pick: Random, names: Sequence[str], most: int = 6, gpus: bool = False) -> dict[str, str]:
    cards = (0, 1, 2, 4) if gpus else (0,)
    return {name: f"cpu={pick.randint(1, most)} gpu={pick.choice(cards)}" for name in names}


def _unlike(pick: Random, *, policies: int = 4, elastic: bool = False, shapes: bool = False) -> Gang:
    """Sub-groups of several policies that differ in size, limit and perhaps shape; some need not start."""
    made = []
    for i in range(pick.randint(2, policies)):
        count, size = pick.randint(1, 3), pick.randint(1, 4)
        more = pick.choice((0, 0, 1, 2)) if elastic else 0
        least = pick.choice((count, count, pick.randint(0, count)))
        each = pick.choice(("cpu=1", "cpu=2", "cpu=1 gpu=1")) if shapes else ""
        made.append(Groups(count, size, size + more, pick.choice(_TIERS), minimum=least, name=f"p{i}", each=each))
    total = sum(g.count * (g.tasks or g.size) for g in made)
    rest = pick.choice((0, 0, 1, 2))
    minimum = pick.choice((None, None, pick.randint(1, total + rest)))
    return Gang("g", tasks=rest, within=pick.choice(_TIERS), minimum=minimum, groups=tuple(made))


def _busy(pick: Random, rooms: dict[str, str], share: float = 0.3) -> str:
    """Pods of nobody, some of them on their way out."""
    return " ".join(f"{n}{pick.choice(('', '', '!'))}:cpu=1" for n in rooms if pick.random() < share)


def _two_level(kind: str, pick: Random) -> Case:
    tree, names = _tree(pick)
    gang = _unlike(pick, elastic=kind == "elastic", shapes=kind == "shapes")
    rooms = _rooms(pick, names, gpus=kind == "shapes")
    profile = PROFILES["proposing"] if kind == "proposed" else _profile(pick)
    world = draw.draw(tree, nodes=rooms, running=_busy(pick, rooms) if kind != "empty" else "")
    others = [Gang("h", tasks=pick.randint(1, 3), within=pick.choice(_TIERS), created=1)] if kind == "two" else []
    return Case(draw.objects_of(world, gang, *others), profile)


def _roles(pick: Random) -> Case:
    tree, names = _tree(pick)
    roles = []
    for name in ("chief", "worker", "store")[: pick.randint(2, 3)]:
        tasks = pick.randint(1, 4)
        minimum = pick.choice((None, tasks, pick.randint(0, tasks)))
        roles.append(Role(name, tasks, pick.choice(("cpu=1", "cpu=2", "cpu=1 gpu=1")), minimum))
    total = sum(role.tasks for role in roles)
    minimum = pick.choice((None, pick.randint(1, total)))
    gang = Gang("g", within=pick.choice(_TIERS), soft=pick.random() < 0.2, minimum=minimum, roles=tuple(roles))
    rooms = _rooms(pick, names, gpus=True)
    return Case(draw.objects_of(draw.draw(tree, nodes=rooms, running=_busy(pick, rooms)), gang), _profile(pick))


def _plain(pick: Random) -> Case:
    """Pods by themselves of a few classes, some pinned, and elastic gangs among them, in two queues."""
    tree, names = _tree(pick)
    raws = list(draw.draw(tree, nodes=_rooms(pick, names, gpus=True), queues="blue").manifests)
    for i in range(pick.randint(4, 20)):
        asks = {"cpu": pick.choice(("1", "1", "2"))} | ({"nvidia.com/gpu": "1"} if pick.random() < 0.2 else {})
        spec: Raw = {"containers": [{"name": "c", "resources": {"requests": asks}}], "priority": pick.choice((0, 0, 5))}
        if pick.random() < 0.2:
            spec["nodeSelector"] = {HOST: pick.choice(names)}
        meta = {
            "name": f"p{i}",
            "namespace": "default",
            "creationTimestamp": f"1970-01-01T00:00:{pick.randint(0, 59):02}Z",
        }
        raws.append({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": {"phase": "Pending"}})
    for i in range(pick.randint(0, 2)):
        tasks = pick.randint(2, 8)
        raws += Gang(
            f"e{i}", tasks=tasks, minimum=pick.choice((0, 1, tasks)), queue=pick.choice(("", "blue")), created=i
        ).manifests()
    return _case(raws, _profile(pick))


def _crowd(pick: Random) -> Case:
    """Many gangs of all kinds on few nodes: what one is refused tells something about the next."""
    tree, names = _tree(pick)
    rooms = _rooms(pick, names, gpus=True)
    gangs = []
    for i in range(pick.randint(3, 7)):
        kind = pick.choice(("whole", "whole", "alike", "unlike", "elastic"))
        if kind == "whole":
            tasks = pick.randint(1, 6)
            gang = Gang("g", tasks=tasks, within=pick.choice(_TIERS), soft=pick.random() < 0.2)
        elif kind == "alike":
            groups = Groups(pick.randint(1, 4), pick.randint(1, 3), within=pick.choice((1, 2)), minimum=1)
            gang = Gang("g", within=pick.choice(_TIERS), groups=(groups,), minimum=pick.choice((None, 1)))
        else:
            gang = _unlike(pick, policies=3, elastic=kind == "elastic")
        gangs.append(replace(gang, name=f"g{i}", created=pick.randint(0, 9), priority=pick.choice((0, 0, 5))))
    world = draw.draw(tree, nodes=rooms, running=_busy(pick, rooms))
    return Case(draw.objects_of(world, *gangs), pick.choice((DEFAULT, _EVICTING)))


def _proposed(pick: Random) -> Case:
    tree, names = _tree(pick, nodes=4)
    rooms = _rooms(pick, names)
    tasks = pick.randint(2, 16)
    if pick.random() < 0.5:
        gang = Gang("g", tasks=tasks, within=pick.choice((1, 2, 3, 3, None)), minimum=pick.choice((None, tasks - 1)))
    else:
        groups = Groups(pick.randint(1, 5), pick.randint(1, 4), within=pick.choice((1, 2)))
        gang = Gang("g", within=pick.choice((2, 3, None)), groups=(groups,))
    names_ = [name for name in PROFILES if name.startswith("proposing")]
    return Case(
        draw.objects_of(draw.draw(tree, nodes=rooms, running=_busy(pick, rooms)), gang), _profile(pick, *names_)
    )


def _lost(pick: Random) -> Case:
    """Gangs that have lost pods, which are to be replaced near the others; some keep spares, some borrow them."""
    tree, names = _tree(pick, spines=2, nodes=4)
    rooms = dict.fromkeys(names, 4)
    gangs = []
    for i in range(pick.randint(1, 3)):
        tasks, within = pick.randint(2, 6), pick.choice(_TIERS)
        first = pick.choice(names)
        rack = [name for name in names if abs(int(name[1:]) - int(first[1:])) < 3]
        spots = []
        for _ in range(tasks):
            node = pick.choice(rack)
            stands = pick.random() < 0.7 and rooms[node] > 0
            rooms[node] -= stands
            spots.append(node if stands else "-")
        marks = {}
        if pick.random() < 0.5:
            marks["tierwise.io/spares"] = pick.choice(("1", "2", "1@rack"))
        elif pick.random() < 0.3:
            marks["tierwise.io/borrows-spares"] = "true"
        if pick.random() < 0.5:
            marks["tierwise.io/on-node-loss"] = pick.choice(("replace", "restart-all"))
        groups = (Groups(2, tasks // 2, within=pick.choice((None, 1, 2)), minimum=1),) if pick.random() < 0.3 else ()
        rest = tasks if not groups else tasks % 2
        gang = Gang(f"g{i}", tasks=rest, within=within, groups=groups, on=" ".join(spots), marks=marks, owned=True)
        gangs.append(replace(gang, created=i, priority=pick.choice((0, 0, 5)), minimum=pick.choice((None, 1))))
    gangs.append(Gang("new", tasks=pick.randint(1, 4), within=pick.choice(_TIERS), minimum=1, created=9, owned=True))
    world = draw.draw(tree, node="cpu=4", tier_names={1: "rack", 2: "spine"})
    repairing = replace(DEFAULT, tiers=(*DEFAULT.tiers, (PluginChoice("repair", {"maxSpares": pick.choice((1, 3))}),)))
    return Case(draw.objects_of(world, *gangs), pick.choice((DEFAULT, repairing, repairing)))


# -- rules between pods, and shared volumes


def _tied(pick: Random) -> Case:
    tree, names = _tree(pick, spines=2)
    rooms = _rooms(pick, names, most=9)
    world = zoned(draw.draw(tree, nodes=rooms), {n: z for n in names if (z := pick.choice(("", "a", "a", "b", "c")))})
    tasks, each, key = pick.randint(1, 6), f"cpu={pick.randint(1, 3)}", pick.choice((HOST, ZONE_LABEL))
    within = pick.choice((None, None, 1, 2))
    gang = tied("g", tasks, each, key, within=within, minimum=pick.choice((None, None, pick.randint(1, tasks))))
    if pick.random() < 0.3:
        labels = {f"g-lead-{i}": {"app": "lead"} for i in range(2)}
        roles = (Role("lead", 1, "cpu=1", 1), Role("work", tasks, each, pick.randint(1, tasks)))
        gang = only_for("work", Gang("g", roles=roles, within=within, labels=labels), near(key, app="lead"))
    return Case(draw.objects_of(world, gang))


def _confined(pick: Random) -> Case:
    """Gangs all pods of which share a claim that ends up in one zone; zones are no domains of the tree."""
    names = [f"n{i}" for i in range(pick.randint(3, 9))]
    raws: list[Raw] = [
        volumes.node(name, pick.choice(("z1", "z1", "z2", "z3")), cpu=str(pick.randint(1, 5))) for name in names
    ]
    racks: dict[str, list[str]] = {}
    for name in names:
        racks.setdefault(f"r{pick.randint(0, 2)}", []).append(name)
    if pick.random() < 0.7:
        raws += [koordinator.hypernode(rack, 1, [("Node", name) for name in inside]) for rack, inside in racks.items()]
        raws.append(koordinator.hypernode("s", 2, [("HyperNode", rack) for rack in racks]))
    raws += [volumes.storage_class("made", "csi.test"), volumes.storage_class("local", "kubernetes.io/no-provisioner")]
    for i in range(pick.randint(0, 2)):
        place = pick.choice((volumes.within(ZONE_LABEL, pick.choice(("z1", "z2"))), volumes.within(HOST, *names[:2])))
        raws.append(volumes.volume(f"free{i}", size="2Gi", affinity=place, storageClassName="local", local={}))
    modes = (pick.choice(("ReadWriteOnce", "ReadWriteMany", "ReadWriteMany")),)
    raws.append(volumes.claim("shared", modes=modes, storageClassName=pick.choice(("made", "made", "local"))))
    size, within = pick.randint(1, 3), pick.choice((None, 1, 2))
    count = pick.randint(1, 3)
    each = replace(
        Gang("g", within=within, groups=(Groups(count, size, within=pick.choice((None, 1)), minimum=count),))
        if pick.random() < 0.6
        else Gang("g", tasks=count * size, within=within, minimum=pick.choice((None, 1))),
        each=pick.choice(("cpu=1", "cpu=2")),
    )
    mounted: Raw = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "shared"}}]}
    return _case([*raws, *replace(each, spec=mounted).manifests()])


# -- nested groups


def _nested(kind: str, pick: Random) -> Case:
    scene = nested_oracle.random_scene(pick, kind)
    write = nested_oracle.kubernetes if pick.random() < 0.2 else nested_oracle.kai
    leaving = [
        languages.pod(f"old-{name}-{i}", on=name, deletionTimestamp="1970-01-01T00:00:00Z")
        for name, (_, room) in scene.nodes.items()
        for i in range(pick.randint(0, room) if pick.random() < 0.1 else 0)
    ]
    return _case([*scene.manifests(), *write(scene.gang), *leaving], pick.choice((DEFAULT, DEFAULT, _EVICTING)))


# -- gathered gangs


_LAYERS: Final = ("NodeTopologyLayer", "BlockLayer", "SpineLayer")


def _layered(pick: Random, *, most: int = 10) -> tuple[list[Raw], list[str]]:
    """Labelled nodes, shuffled over blocks and spines, some of which are busy."""
    names = [f"n{i}" for i in range(pick.randint(3, most))]
    tree: dict[str, dict[str, str]] = {}
    for name in pick.sample(names, len(names)):
        block = pick.randint(0, 4)
        blocks = tree.setdefault(f"s{block % 2}", {})
        blocks[f"b{block}"] = f"{blocks.get(f'b{block}', '')} {name}".strip()
    found = koordinator.cluster(tree, cpu=pick.randint(2, 5))
    return [*found, *(koordinator.pod(f"busy-{n}", on=n) for n in names if pick.random() < 0.25)], names


def _gathered(kind: str, pick: Random) -> Case:
    """A gang of Koordinator's, of a kind: within, prefer, multiples, pipelines, drawn, sizes, standing, minimum."""
    raws, names = _layered(pick)
    pods = pick.randint(2, 8)
    must = pick.choice(_LAYERS) if kind == "within" else pick.choice(("", "", "BlockLayer", "SpineLayer"))
    multiples: dict[str, int] = {}
    if kind in ("multiples", "sizes") or pick.random() < 0.2:
        multiples = {layer: pick.choice((1, 2, 2, 3)) for layer in pick.sample(_LAYERS, pick.randint(1, 2))}
        pods += pods % 2
    if kind == "prefer":
        multiples = dict.fromkeys(pick.sample(_LAYERS[1:], pick.randint(1, 2)), 1)
    group, *members = koordinator.gang(
        "g",
        pods,
        least=pick.randint(1, pods) if kind == "minimum" else None,
        must=must,
        multiples=multiples,
        pipeline=pick.choice((2, 2, 3, 4)) if kind == "pipelines" else 0,
        running={i: pick.choice(names) for i in range(pick.randint(1, 2))} if kind == "standing" else None,
    )
    if kind == "sizes":
        large = pick.randint(1, pods - 1)
        members = [m if i < large else _asking(m, 2) for i, m in enumerate(members)]
    if kind == "drawn":
        bait = [koordinator.pod(f"bait-{i}", on=pick.choice(names)) for i in range(pick.randint(1, 2))]
        members = [koordinator.annotated(raw, selector="app") for raw in (*bait, *members)]
    beside: list[Raw] = []
    if pick.random() < 0.3:
        racks: dict[str, list[str]] = {}
        for name in names:
            racks.setdefault(f"r{pick.randint(0, 2)}", []).append(name)
        beside = [koordinator.hypernode(rack, 1, [("Node", n) for n in own]) for rack, own in racks.items()]
    return _case([*raws, *beside, group, *members], koordinator.AWARE if beside else DEFAULT)


def _asking(raw: Raw, cpu: int) -> Raw:
    spec = raw["spec"]
    assert isinstance(spec, dict)
    return {**raw, "spec": {**spec, "containers": [{"name": "c", "resources": {"requests": {"cpu": str(cpu)}}}]}}


# -- several fabrics


def _question(pick: Random) -> Case:
    racks, feeds = ([0, *(pick.choice((0, 0, 1, 1, 2, -1)) for _ in range(NODES - 1))] for _ in range(2))
    asked = pick.choice(("", "rack", "feed")), pick.choice(("", "rack", "feed")), pick.random() < 0.5
    cpus = [pick.randint(0, 3) for _ in range(NODES)]
    question = Question(cpus, racks, feeds, pick.randint(1, 3), pick.randint(1, 2), asked, pick.choice((0, 0, 1, 2)))
    return _case(question.manifests(), pick.choice((DEFAULT, DEFAULT, _EVICTING)))


def _fabrics(kind: str, pick: Random, *, most: int = 9) -> Case:
    """Unlike groups on two or three fabrics; hard, soft and spread; some pods may stand, or be one too many."""
    number = pick.randint(4, most)
    homes = {letter: [pick.choice((0, 0, 1, 1, 2, 3, -1)) for _ in range(number)] for letter in "pc"}
    racks = [i * 4 // number for i in range(number)]
    fabrics = {"p": "power", "c": "cooling"}
    raws: list[Raw] = [languages.nodes({"s": {"r": f"n{i}"}}, cpu=pick.randint(0, 4))[0] for i in range(number)]
    raws += fabric("r", racks, "")
    for letter, name in fabrics.items():
        raws += fabric(letter, homes[letter], name)
    groups = []
    listed: list[Raw] = []
    for i in range(pick.randint(1, 3)):
        count, size = pick.randint(1, 3), pick.randint(1, 3)
        each = pick.choice(("cpu=1", "cpu=2")) if kind == "shapes" else ""
        extra = pick.choice((0, 1)) if kind == "elastic" else 0
        within = pick.choice((None, 1, 2))
        groups.append(
            Groups(count, size, size + extra, within, minimum=pick.randint(1, count), name=f"g{i}", each=each)
        )
        if pick.random() < 0.6:
            listed.append({"fabric": pick.choice(("power", "cooling")), "tier": 1, "subGroup": f"g{i}"})
    if pick.random() < 0.6 or not listed:
        listed.append(
            {"fabric": "power", "tier": 1, **({"spread": pick.choice((2, 3))} if pick.random() < 0.6 else {})}
        )
    if kind == "soft":
        listed = [{**one, "mode": pick.choice(("hard", "soft"))} for one in listed]
    total = sum(g.count * (g.tasks or g.size) for g in groups)
    gang = Gang(
        "g",
        within=pick.choice((None, None, 2)),
        groups=tuple(groups),
        minimum=pick.choice((None, pick.randint(1, total))),
        on=f"n{pick.randrange(number)}" if kind == "running" else "",
        marks={"tierwise.io/topology-constraints": json.dumps(listed)},
    )
    return _case([*raws, *gang.manifests()])


# -- evictions


def _evicting(actions: str, pick: Random) -> Case:
    placing = actions in evict_scenes.CLASSICS
    dials = evict_scenes.Dials(reclaims="reclaim" in actions, loose=placing, plain=pick.random() < 0.3)
    choices = ("capacity", "proportion") if "reclaim" in actions else ("capacity", "proportion", "")
    profile = evict_world.profile_of(actions, quota=pick.choice(choices), budgets=pick.random() < 0.5)
    scene = evict_scenes.random_scene(pick, dials)
    for _ in range(_TRIES):
        if _starves(scene):
            break
        scene = evict_scenes.random_scene(pick, dials)
    return Case(evict_world.objects(scene), profile)


_TRIES: Final = 30


def _starves(scene: evict_world.Scene) -> bool:
    """Whether somebody important waits in a full cluster; told without a cycle: the scene is the same at all times."""
    free = sum((scene.has(node) for node in scene.nodes), Counter[str]())
    for _, pod in scene.pods().values():
        if pod.on:
            free.subtract(pod.need)
    waiting = [gang for gang in scene.gangs if not any(pod.on for pod in gang.pods)]
    low = min((g.priority for g in scene.gangs if any(pod.on for pod in g.pods)), default=9)
    return free["cpu"] <= len(scene.nodes) and any(gang.priority > low for gang in waiting)


def _evicting_tree(kind: str, pick: Random) -> Case:
    """A full cluster, and an important gang of a kind that needs some of it."""
    profile = evict_world.profile_of("gangpreempt")
    if kind == "gathered":
        case = _gathered(pick.choice(("within", "multiples", "pipelines", "sizes")), pick)
        profile = quotas.koordinator(preempts=True, in_quota=False)
    elif kind == "nested":
        case = _nested(pick.choice(("alike", "unlike", "choosing", "shapes")), pick)
    else:
        case = _fabrics(pick.choice(("plain", "shapes", "soft")), pick)
    raws: list[Any] = [case.objects.raw(key) for key in case.objects]
    free = {raw["metadata"]["name"]: int(raw["status"]["allocatable"]["cpu"]) for raw in raws if raw["kind"] == "Node"}
    changed: list[Raw] = []
    for raw in raws:
        if raw["kind"] == "Pod":
            on = raw["spec"].get("nodeName")
            if on:
                free[on] -= 1
            else:
                raw = {**raw, "spec": {**raw["spec"], "priority": 5}}
        changed.append(raw)
    lows = [name for name, room in free.items() for _ in range(room) if pick.random() < 0.6]
    for start in range(0, len(lows), 2):
        own = lows[start : start + 2]
        changed += Gang(f"low{start}", tasks=len(own), minimum=pick.randint(1, len(own)), on=" ".join(own)).manifests()
    return _case(changed, profile)


def _jobpreempt(pick: Random) -> Case:
    names = [f"n{i}" for i in range(pick.randint(1, 4))]
    raws = quotas.nodes(" ".join(names), gpu=8)
    for i, name in enumerate(names):
        left = 8
        for j in range(pick.randint(0, 4)):
            gpu = pick.randint(1, 4)
            if gpu <= left:
                left -= gpu
                priority, firm = pick.randint(0, 6), pick.random() < 0.2
                raws.append(quotas.worker(f"v{i}-{j}", on=name, gpu=gpu, priority=priority, firm=firm, quota="q"))
    pods, each = pick.randint(1, 4), pick.randint(1, 8)
    group: Raw = {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "job", "namespace": "default"},
        "spec": {"minMember": pick.randint(1, pods)},
    }
    job = [quotas.worker(f"w{i}", gpu=each, priority=5, of="job", quota="q") for i in range(pods)]
    rules = [quotas.quota("q", most=pick.choice((8, 16, 99)), least=pick.choice((0, 4)))]
    return _case([*raws, *rules, group, *job], quotas.koordinator(preempts=True, in_quota=pick.random() < 0.5))


# -- half gangs, and worlds with everything in them


def _half(pick: Random) -> Case:
    """A cluster on which binds went wrong, as the next process finds it."""
    language, racks = pick.choice(sorted(LANGUAGES)), pick.random() < 0.5
    _, first, older = drawn(pick.randrange(1000))
    world = ShakyWorld(language if not racks else "volcano", first, racks=racks)
    world.crash_after({pick.randrange(5): pick.choice(FAULTS)}, most=pick.choice((None, 1, 3)))
    world.turn()
    world.join(*older)
    return Case(world.cluster.read(), DEFAULT, now=world.cluster.now)


def _everything(pick: Random) -> Case:
    world = drawn_world.World(pick)
    config = configuration(pick, world.has, world.scene)
    raws = [*world.cluster(), *world.arrivals(pick.randint(4, 9), low=True)]
    world.now += 5
    raws += world.arrivals(pick.randint(1, 4), low=False)
    profile = check_profile(read_kube(config) if "profiles" in config else read_volcano(config))
    return _case(raws, profile, now=_START + 10)


def _mixed(pick: Random) -> Case:
    evicting = pick.choice(("", "preempt", "gangpreempt", "gangpreempt reclaim"))
    quota = pick.choice(("capacity", "proportion")) if "reclaim" in evicting else pick.choice(("", "capacity"))
    names = ["priority", "gang", "conformance", "pdb", *([quota] if quota else ["elasticquota"])]
    plugins = [PluginChoice(name) for name in (*names, "predicates", "nodeorder", "network-topology-aware")]
    plugins.insert(1, PluginChoice("coscheduling", {"awareNetworkTopology": True}))
    profile = Profile(("enqueue", "allocate", *evicting.split(), "backfill"), (tuple(plugins),))
    world = mixed_world.World(pick, giants=False)
    raws = [*world.cluster(), *world.crowd(running=pick.randint(1, 6), waiting=pick.randint(1, 4))]
    return _case(raws, profile)


# -- larger ones, where bounds of searches and closed forms matter


def _large(kind: str, pick: Random) -> Case:
    tree, names = _tree(pick, spines=4, racks=5, nodes=6)
    rooms = _rooms(pick, names, most=8)
    if kind == "unlike":
        groups = tuple(
            Groups(pick.randint(2, 6), pick.randint(1, 6), within=pick.choice((1, 1, 2)), minimum=0, name=f"p{i}")
            for i in range(pick.randint(3, 6))
        )
        gang = Gang("g", within=pick.choice((2, 3, None)), groups=groups, minimum=pick.choice((None, 8)))
    elif kind == "alike":
        groups = (Groups(pick.randint(8, 24), pick.randint(2, 6), within=pick.choice((1, 2))),)
        gang = Gang("g", within=pick.choice((2, 3, None)), groups=groups, minimum=pick.choice((None, 8)))
    else:
        gang = Gang("g", tasks=pick.randint(16, 96), within=pick.choice((2, 3, None)), minimum=pick.choice((None, 16)))
    world = draw.draw(tree, nodes=rooms, running=_busy(pick, rooms))
    return Case(draw.objects_of(world, gang), _profile(pick))


def _large_gather(pick: Random) -> Case:
    raws, names = _layered(pick, most=40)
    pods = 2 * pick.randint(3, len(names))
    must, pipeline = pick.choice(("", "SpineLayer", "BlockLayer")), pick.choice((0, 0, 2, 4))
    multiples = pick.choice((None, {"NodeTopologyLayer": 2}, {"BlockLayer": 4}, {"BlockLayer": 2, "SpineLayer": 4}))
    group, *members = koordinator.gang("g", pods, must=must, multiples=multiples, pipeline=pipeline)
    if pick.random() < 0.4:
        members = [_asking(m, 2) if i % 2 else m for i, m in enumerate(members)]
    return _case([*raws, group, *members])


def _large_nest(pick: Random) -> Case:
    nodes: dict[str, tuple[tuple[str, str, str], int]] = {}
    for z in range(2):
        for s in range(pick.randint(2, 3)):
            for r in range(pick.randint(2, 4)):
                for _ in range(pick.randint(2, 4)):
                    nodes[f"n{len(nodes)}"] = ((f"z{z}", f"z{z}s{s}", f"z{z}s{s}r{r}"), pick.randint(1, 6))
    alike = pick.random() < 0.4
    kinds = [(pick.randint(1, 4), pick.choice(("", languages.SPINE, languages.RACK))) for _ in range(3)]
    groups = []
    for i in range(pick.randint(3, 6)):
        parts = tuple(
            nested_oracle.Leaf(f"m{i}p{j}", *(kinds[0] if alike else pick.choice(kinds)))
            for j in range(pick.randint(2, 5))
        )
        least = len(parts) if pick.random() < 0.7 else pick.randint(1, len(parts))
        groups.append(nested_oracle.Nest(f"m{i}", parts, least, pick.choice((languages.SPINE, nested_oracle.ZONE))))
    least = len(groups) if pick.random() < 0.7 else pick.randint(1, len(groups))
    gang = nested_oracle.Nest("g", tuple(groups), least, pick.choice(("", nested_oracle.ZONE)))
    scene = nested_oracle.Scene(nodes, gang)
    return _case([*scene.manifests(), *nested_oracle.kai(gang)])


# -- the table


Maker = Callable[[Random], Case]


def _several(make: Callable[[str, Random], Case], kinds: str) -> dict[str, Maker]:
    return {kind: partial(make, kind) for kind in kinds.split()}


_ROOMS: Final[dict[str, tuple[int, dict[str, Maker]]]] = {
    "one-tree": (34, _several(_oracle, "one-level alike unlike running elastic")),
    "shapes": (24, _several(_shapes, "one-level alike bundles unlike running elastic")),
    "two-level": (30, _several(_two_level, "unlike empty elastic shapes proposed two")),
    "roles": (50, {"roles": _roles}),
    "plain": (40, {"plain": _plain}),
    "crowd": (50, {"crowd": _crowd}),
    "proposed": (70, {"proposed": _proposed}),
    "lost": (60, {"lost": _lost}),
    "tied": (50, {"tied": _tied}),
    "confined": (50, {"confined": _confined}),
    "nested": (34, _several(_nested, "alike unlike choosing elastic running shapes")),
    "gathered": (24, _several(_gathered, "within prefer multiples pipelines drawn sizes standing minimum")),
    "fabrics": (26, _several(_fabrics, "plain shapes elastic soft running") | {"question": _question}),
    "evicting": (
        20,
        {a.replace(" ", "+"): partial(_evicting, a) for a in (*evict_scenes.GANGS, *evict_scenes.CLASSICS)},
    ),
    "evicting-for": (20, _several(_evicting_tree, "gathered nested fabrics")),
    "jobpreempt": (30, {"jobpreempt": _jobpreempt}),
    "half": (30, {"half": _half}),
    "everything": (60, {"everything": _everything}),
    "mixed": (40, {"mixed": _mixed}),
    "large": (6, _several(_large, "unlike alike whole") | {"gathered": _large_gather, "nested": _large_nest}),
}
"""How many scenes of each kind a digest of usual size has."""

KINDS: Final = {
    (room if room == kind else f"{room}-{kind}"): (share, make)
    for room, (share, kinds) in _ROOMS.items()
    for kind, make in kinds.items()
}
_USUAL: Final = sum(share for share, _ in KINDS.values())


def cases(number: int) -> Iterator[tuple[str, Callable[[], Case]]]:
    """So many drawn scenes, by name; a larger number adds scenes to each kind and changes none."""
    for kind, (share, make) in KINDS.items():
        for i in range(max(1, round(share * number / _USUAL))):
            name = f"{kind}/{i}"
            yield name, partial(_made, make, name)


def _made(make: Maker, name: str) -> Case:
    return make(Random(name))


_CASES: Final = Path(__file__).parent.parent / "conformance" / "cases"


def conformance() -> Iterator[tuple[str, Callable[[], Case]]]:
    """The conformance cases that schedule something, by name."""
    for file in sorted(_CASES.rglob("*.yaml")):
        text = file.read_text()
        if "\nverb: schedule" in f"\n{text}":
            yield f"case/{file.relative_to(_CASES).with_suffix('')}", partial(_conforming, text)


def _conforming(text: str) -> Case:
    """A case as the command line reads it."""
    case: dict[str, Any] = yaml.load(text, Loader=yaml.CSafeLoader)
    with TemporaryDirectory() as folder, redirect_stderr(StringIO()):
        file = written(Path(folder), *case["objects"])
        config = None
        if "config" in case:
            config = Path(folder) / "scheduler.yaml"
            config.write_text(case["config"] if isinstance(case["config"], str) else yaml.safe_dump(case["config"]))
        objects = load((str(file),))
        profile = profile_of(str(config) if config is not None else None)
    words = [str(word) for word in case.get("args", ())]
    told = parse_time(words[words.index("--now") + 1]) if "--now" in words else None
    return Case(objects, profile, now=moment(objects, told), cycles=case.get("cycles"))
