"""Two gangs that are alike but for their names are served alike: whoever comes first, the same is done and said."""

from __future__ import annotations

import json
import random

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support import nested_oracle
from tests.support.depth import examples, seeds
from tests.support.draw import objects_of
from tests.support.sight import saw, schedule, sees
from tests.support.strategies import PROFILES, Scene, scenes

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.config.profile import DEFAULT, Profile
from tierwise.explain.wire import pending_wire
from tierwise.port import Objects

_FIRST, _SECOND = "twin-a", "twin-b"
_TIMES = ("1970-01-01T00:00:01Z", "1970-01-01T00:00:02Z")


def _told(objects: Objects, profile: Profile) -> str:
    """What two cycles do and say: every place, and every sentence of who waits."""
    history = schedule(objects, profile, now=60.0, cycles=2)
    report = history.report
    waiting = pending_wire(history.after(60.0), report, history.nominations) if report is not None else []
    saw(bound=len(history.bindings), waiting=len(waiting))
    rows = [json.dumps(row, sort_keys=True) for row in waiting]
    return json.dumps([sorted(history.bindings.items()), sorted(history.nominations.items()), sorted(rows)])


def _exchanged(text: str) -> str:
    """A text in which each of the two gangs has the other's name, and lists are in order again."""
    swapped = text.replace(_FIRST, "\0").replace(_SECOND, _FIRST).replace("\0", _SECOND)
    bindings, nominations, rows = json.loads(swapped)
    again = [json.dumps(json.loads(row), sort_keys=True) for row in rows]
    return json.dumps([sorted(bindings), sorted(nominations), sorted(again)])


@sees(bound=20, waiting=20)
@given(scenes(gangs=3), st.integers(0, 2), st.sampled_from(tuple(PROFILES)))
@examples(120, least=40)
def test_alike_gangs_may_be_exchanged(scene: Scene, number: int, profile: str) -> None:
    """Gangs of Volcano's in every form, beside others."""
    pattern = replace(scene.gangs[number % len(scene.gangs)], on="")

    def told(*created: int) -> str:
        twins = [replace(pattern, name=n, created=c) for n, c in zip((_FIRST, _SECOND), created, strict=True)]
        return _told(objects_of(scene.world, *scene.gangs, *twins), PROFILES[profile])

    assert told(1, 2) == _exchanged(told(2, 1))


@sees(bound=10, waiting=10)
@given(st.sampled_from(("alike", "unlike", "choosing", "elastic", "shapes")), seeds())
@examples(120, least=30)
def test_alike_nested_gangs_may_be_exchanged(kind: str, seed: random.Random) -> None:
    """Groups of groups, in KAI's words."""
    scene = nested_oracle.random_scene(seed, kind)
    tree = [raw for raw in nested_oracle.kai(scene.gang) if raw["kind"] == "Topology"]
    cluster = [*scene.manifests(), *tree]

    def told(*created: str) -> str:
        gangs = [
            raw for name, time in zip((_FIRST, _SECOND), created, strict=True) for raw in _named(scene, name, time)
        ]
        return _told(Objects.of((codec.decode(raw), raw) for raw in (*cluster, *gangs)), DEFAULT)

    assert told(*_TIMES) == _exchanged(told(*reversed(_TIMES)))


def _named(scene: nested_oracle.Scene, name: str, time: str) -> list[Raw]:
    """The gang of a scene under another name, made at a time; the topology that comes with it is left out."""
    text = json.dumps(nested_oracle.kai(scene.gang)).replace('"g"', f'"{name}"').replace('"g-', f'"{name}-')
    gang = [raw for raw in json.loads(text) if raw["kind"] != "Topology"]
    for raw in gang:
        raw["metadata"]["creationTimestamp"] = time
    return gang
