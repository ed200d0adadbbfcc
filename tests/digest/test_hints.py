"""Hints save time and decide nothing: scenes with and without each of them, and how often it was asked.

A method of which a scene ends otherwise without it is an answer, and no hint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from itertools import islice
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace
from tests.digest.scenes import KINDS, Case, cases, conformance
from tests.support import volumes
from tests.support.draw import draw, gang
from tests.support.drawn_gang import manifest
from tests.support.queue_worlds import queue
from tests.support.strategies import profile

from tierwise.api.codec import Raw
from tierwise.api.errors import InputError
from tierwise.config.profile import PluginChoice, Profile
from tierwise.dialects.pod_marks import PREEMPTABLE
from tierwise.framework.declaration import MARKS, chooses, declared, takes_part
from tierwise.framework.extension import Arguments, CycleView, Factory, Part
from tierwise.framework.report import CycleReport
from tierwise.plugins import PLUGINS
from tierwise.plugins.kubernetes.predicates import DevicePredicates, Predicates, predicates
from tierwise.scheduler import cycle
from tierwise.snapshot.builder import build

HINTS = [name for name, mark in MARKS.items() if mark.part is Part.HINT]
LEAST = 3
"""In how many scenes a hint must be asked."""


def _local_disks(number: int) -> Case:
    """A gang of pods that each want a disk of their node, on nodes that have several, among pods that want none."""
    pick = Random(f"disks/{number}")
    found = [volumes.node(f"n{i}", "z1", cpu=pick.choice(("2", "4", "8"))) for i in range(4)]
    found.append(volumes.storage_class("local", "kubernetes.io/no-provisioner"))
    for i in range(pick.randint(4, 12)):
        affinity = volumes.within("kubernetes.io/hostname", f"n{pick.randint(0, 3)}")
        found.append(volumes.volume(f"free{i}", size="1Gi", affinity=affinity, storageClassName="local"))
    pods = pick.randint(2, 6)
    for i in range(pods):
        found.append(volumes.claim(f"c{i}", size="1Gi", storageClassName="local"))
        found.append(volumes.pod(f"p{i}", f"c{i}", group="g"))
    found += (volumes.pod(f"q{i}") for i in range(pick.randint(0, 3)))
    meta: Raw = {"name": "g", "namespace": "default"}
    least, status = {"minMember": pick.randint(2, pods)}, {"phase": "Inqueue"}
    found.append(manifest("scheduling.volcano.sh/v1beta1", "PodGroup", meta, spec=least, status=status))
    scorer = pick.choice(("binpack", "network-topology-aware", "nodeorder"))
    return Case(
        volumes.objects(*found), profile("priority", "gang", "predicates", "volumes", scorer), now=1_790_000_000.0
    )


def _scenes() -> Iterator[Callable[[], Case]]:
    yield from (make for _, make in cases(90))
    yield from (make for _, make in islice(conformance(), 0, None, 9))
    yield from ((lambda i=i: _local_disks(i)) for i in range(24))


@cache
def _made() -> list[Case]:
    found = []
    for make in _scenes():
        with suppress(InputError):  # some cases are about input that is refused
            found.append(make())
    return found


def _told(report: CycleReport) -> str:
    """All that a cycle says, as text."""
    decisions = [
        (d.job.key, d.action, d.domain, d.bound, d.score, [([t.key for t in p.tasks], list(p.rows)) for p in d.placed])
        for d in report.decisions
    ]
    evictions = [(e.task.key, e.by.key if e.by else "", e.action, e.reason) for e in report.evictions]
    reserved = [(r.job.key, str(r)) for r in report.reservations]
    others = report.rejections, report.phases, report.delays, report.writes, report.undone, report.failures
    return repr((decisions, evictions, len(reserved), others))


def _changed(factory: Any, **methods: object) -> Factory:
    """A plugin with some methods in place of its own, and all that it declares."""
    said = declared(factory)
    assert said is not None
    promised = ("ignores_names", "rises_with_use", "scores_by_shape", "by_priority", "by_amounts")
    made = type(factory.__name__, (factory,), {"__module__": factory.__module__, **methods})
    kept: Any = {name: getattr(said, name) for name in promised}
    again: Factory = takes_part(*said.points, arguments=said.arguments, **kept)(made)
    return again


def _having(method: str) -> list[str]:
    return [name for name in PLUGINS.built_in if isinstance(PLUGINS[name], type) and _has(PLUGINS[name], method)]


def _has(factory: object, method: str) -> bool:
    said = declared(factory)
    return said is not None and method in said.methods


def _run(case: Case, plugins: Mapping[str, Factory]) -> str:
    return _told(cycle(build(case.objects, case.now, case.profile), case.profile, plugins=plugins))


@cache
def _asking() -> Mapping[str, list[tuple[int, str]]]:
    """By hint, the scenes in which it is asked, by number, and how they end with it."""
    asked: set[str] = set()

    def noting(hint: str, own: Any) -> Callable[..., object]:
        def act(self: object, *args: object) -> object:
            asked.add(hint)
            return own(self, *args)

        return act

    watched = dict(PLUGINS)
    for hint in HINTS:
        for name in _having(hint):
            own: Any = watched[name]
            watched[name] = _changed(own, **_answer(own, hint), **{hint: noting(hint, getattr(own, hint))})
    found: dict[str, list[tuple[int, str]]] = {hint: [] for hint in HINTS}
    for number, case in enumerate(_made()):
        asked.clear()
        told = _run(case, watched)
        for hint in asked:
            found[hint].append((number, told))
    return found


def _answer(own: Any, hint: str) -> dict[str, object]:
    """The answer that a hint describes: a class that has it, and not the hint, has promised nothing."""
    return {MARKS[hint].beside: getattr(own, MARKS[hint].beside)}


@pytest.mark.parametrize("hint", HINTS)
def test_everything_is_decided_alike_without_a_hint(hint: str) -> None:
    """Not a byte of what a cycle says differs in any scene that asks it, and enough of them do."""
    silent = {name: _changed(PLUGINS[name], **_answer(PLUGINS[name], hint)) for name in _having(hint)}
    asked = _asking()[hint]

    assert [] == [name for name, plugin in silent.items() if _has(plugin, hint)]
    assert len(asked) >= LEAST
    assert [] == [number for number, told in asked if told != _run(_made()[number], {**PLUGINS, **silent})]


def _drawn(name: str) -> Case:
    """A scene of the digest, with the plugin of volumes by name, so that another can take its place."""
    kind, _, _ = name.partition("/")
    case = KINDS[kind][1](Random(name))
    tiers = (*case.profile.tiers, (PluginChoice("volumes"),))
    return Case(case.objects, replace(case.profile, tiers=tiers), case.now)


def _in_few_steps(name: str) -> Case:
    """A scene of the digest without the integer program, which would decide it anyway."""
    case = _drawn(name)
    profile = replace(case.profile, action_arguments={"allocate": {"searchSteps": 10}})
    return Case(case.objects, profile, case.now)


def _one_budget() -> Case:
    """A budget for one more disruption covers a pod that its gang cannot spare, and behind it one that can go."""
    names = ("priority", "gang", "pdb", "conformance", "predicates")
    labels = {pod: {"app": "a"} for pod in ("one-0", "two-0", "two-1")}
    gangs = (
        gang("one", tasks=1, each="cpu=4", on="n0", priority=1, labels=labels),
        gang("two", tasks=2, minimum=1, each="cpu=4", on="n0 n1", priority=2, labels=labels),
        gang("fill", tasks=1, each="cpu=4", on="n1", priority=9),
        gang("new", tasks=1, each="cpu=4", priority=5),
    )
    meta: Raw = {"name": "keep", "namespace": "default"}
    spec, status = {"selector": {"matchLabels": {"app": "a"}}}, {"disruptionsAllowed": 1}
    budget = manifest("policy/v1", "PodDisruptionBudget", meta, spec=spec, status=status)
    found = (*draw("r0[n0 n1]").manifests, budget, *(made for own in gangs for made in own.manifests()))
    profile = Profile(("enqueue", "allocate", "preempt"), (tuple(PluginChoice(name) for name in names),))
    return Case(volumes.objects(*found), profile)


def _borrowed() -> Case:
    """Marked pods of a queue that holds more than it deserves, and a gang of a queue that has nothing."""
    names = ("priority", "gang", "capacity", "predicates")
    kept = {name: {PREEMPTABLE: "false"} for name in ("one-0", "one-1")}
    gangs = (
        gang("one", tasks=2, minimum=1, each="cpu=4", on="n0 n1", queue="q", labels=kept),
        gang("new", tasks=1, each="cpu=4", queue="r"),
    )
    queues = (queue("q", deserved="cpu=4"), queue("r", deserved="cpu=4"))
    found = (*draw("r0[n0 n1]", node="cpu=4").manifests, *queues, *(made for own in gangs for made in own.manifests()))
    profile = Profile(("enqueue", "allocate", "reclaim"), (tuple(PluginChoice(name) for name in names),))
    return Case(volumes.objects(*found), profile)


def _without(method: str) -> dict[str, Factory]:
    """All plugins without a method, predicates included, which is a function."""
    made = {kind: _changed(kind, **{method: None}) for kind in (Predicates, DevicePredicates) if _has(kind, method)}

    def choose(arguments: Arguments, view: CycleView) -> object:
        found: Any = predicates(arguments, view)
        if type(found) in made:
            found.__class__ = made[type(found)]
        return found

    choose.__module__ = predicates.__module__
    chosen = chooses(Predicates, DevicePredicates)(choose)
    return {**PLUGINS, "predicates": chosen, **{n: _changed(PLUGINS[n], **{method: None}) for n in _having(method)}}


ANSWERS: Mapping[str, Callable[[], Case]] = {
    "ties": lambda: _drawn("tied/2"),
    "order_free": lambda: _in_few_steps("tied/8"),
    "pod_rules": lambda: _drawn("tied/23"),
    "own_row": lambda: _drawn("confined/56"),
    "shared_places": lambda: _drawn("confined/2"),
    "protect_alone": _one_budget,
    "protects_up_to": _borrowed,
}


@pytest.mark.parametrize("method", ANSWERS)
def test_an_optional_answer_is_no_hint(method: str) -> None:
    """A scene ends otherwise without it."""
    assert method not in HINTS
    assert _run(ANSWERS[method](), PLUGINS) != _run(ANSWERS[method](), _without(method))


def test_every_optional_method_is_a_hint_or_shown_to_be_an_answer() -> None:
    """Those that two methods need of each other are neither."""
    optional = {name for name, mark in MARKS.items() if mark.part is Part.OPTIONAL}
    paired = {name for name in optional if MARKS[MARKS[name].beside].beside == name}

    assert set(ANSWERS) - {"shared_places"} == optional - paired
