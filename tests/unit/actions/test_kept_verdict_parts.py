"""A verdict that is kept is found anew as soon as anything that it was read from is another: part by part."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from msgspec.structs import replace
from tests.support import devices
from tests.support.draw import draw, gang, objects_of
from tests.support.koordinator import hypernode

from tierwise.api.codec import Raw
from tierwise.api.merge_patch import merged
from tierwise.config.profile import DEFAULT, PluginChoice, Profile
from tierwise.model.snapshot import KeptVerdicts, Snapshot
from tierwise.port import Objects, key_of_raw
from tierwise.scheduler import cycle
from tierwise.snapshot.builder import Reader

WORLD = draw("s0: r0[n0 n1] r1[n2 n3]")
TRAIN = gang("train", tasks=4, each="cpu=6", within=1)
NOT_READY: Raw = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
SICK: Raw = {"status": {"conditions": [{"type": "GPUUnhealthy", "status": "True"}]}}
WATCHING = replace(DEFAULT, tiers=(*DEFAULT.tiers, (PluginChoice("repair", {"conditions": ["GPUUnhealthy"]}),)))
PLAIN = replace(DEFAULT, actions=("allocate",))
DEVICES = (devices.device_class(), devices.resource_slice("n0", [devices.device("d0")]))


def _tainted(value: str = "a") -> Raw:
    return {"spec": {"taints": [{"key": "pool", "value": value, "effect": "NoSchedule"}]}}


def _changed(objects: Objects, **nodes: Raw) -> Objects:
    """Objects with fields of some nodes merged in."""
    puts = [merged(raw, nodes[name]) for name, raw in _nodes().items() if name in nodes]
    return objects.changed({key_of_raw(raw): raw for raw in puts}, [])


def _nodes() -> dict[str, Raw]:
    return {key_of_raw(raw).name: raw for raw in WORLD.manifests if raw["kind"] == "Node"}


def _with(objects: Objects, raws: Iterable[Raw]) -> Objects:
    return objects.changed({key_of_raw(raw): raw for raw in raws}, [])


def _fabric(*nodes: str) -> list[Raw]:
    raw = hypernode("v0", 1, [("Node", name) for name in nodes])
    return [merged(raw, {"metadata": {"labels": {"tierwise.io/fabric": "nvlink"}}})]


def _kept(snapshot: Snapshot) -> list[object]:
    assert snapshot.kept_verdicts is not None
    return list(snapshot.kept_verdicts.last[0].values())


def _keeps(first: Objects, second: Objects, by: Profile = DEFAULT) -> bool:
    """Whether the second cycle has what the first one found out; what it tells is what a new reader would."""
    reader = Reader(by)
    before = reader.read(first, 0.0)
    cycle(before, by)
    kept = _kept(before)
    after = reader.read(second, 1.0)
    told = cycle(after, by)
    anew = cycle(Reader(by).read(second, 1.0), by)
    assert anew.rejections == told.rejections
    return bool(kept) and list(map(id, kept)) == list(map(id, _kept(after)))


START = objects_of(WORLD, TRAIN)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(START, _changed(START, n0={"metadata": {"labels": {"disk": "ssd"}}}), id="a label"),
        pytest.param(START, _changed(START, n0=_tainted()), id="a taint"),
        pytest.param(_changed(START, n1=_tainted()), _changed(START, n2=_tainted()), id="the node of a taint"),
        pytest.param(_changed(START, n0=_tainted()), _changed(START, n0=_tainted("b")), id="the value of a taint"),
        pytest.param(START, _changed(START, n0=NOT_READY), id="a node is not ready"),
        pytest.param(START, _with(START, DEVICES), id="devices"),
        pytest.param(START, _with(START, _fabric("n0", "n1")), id="another tree"),
        pytest.param(
            *(_with(START, _fabric("n0", other)) for other in ("n1", "n2")),
            id="a domain of another tree",
        ),
    ],
)
def test_nothing_is_kept_when_one_part_is_another(first: Objects, second: Objects) -> None:
    """What of nodes, devices and trees is read is compared each by itself."""
    assert (True, False) == (_keeps(first, first), _keeps(first, second))


def test_nothing_is_kept_when_a_node_becomes_unhealthy() -> None:
    """Conditions count where the profile lists them."""
    second = _changed(START, n0=SICK)

    assert (True, False) == (_keeps(START, second), _keeps(START, second, WATCHING))


def test_nothing_is_kept_for_another_profile() -> None:
    """What one profile found out is no answer to another."""
    snapshot = Reader(DEFAULT).read(START, 0.0)
    cycle(snapshot, DEFAULT)
    kept = _kept(snapshot)

    assert cycle(Reader(PLAIN).read(START, 0.0), PLAIN).rejections == cycle(snapshot, PLAIN).rejections
    assert kept == _kept(snapshot)
    assert snapshot.kept_verdicts is not None
    assert (True, False) == tuple(snapshot.kept_verdicts.about(snapshot, by) for by in (DEFAULT, PLAIN))


@pytest.mark.parametrize("what", sorted({*KeptVerdicts.__struct_fields__} - {"by", "last"}))
def test_a_snapshot_made_from_another_has_none_of_its_verdicts(what: str) -> None:
    """Questions are answered on snapshots with other nodes or queues, which no reading has declared."""
    snapshot = Reader(DEFAULT).read(START, 0.0)
    assert snapshot.kept_verdicts is not None

    assert snapshot.kept_verdicts.about(replace(snapshot, now=9.0), DEFAULT)
    assert not snapshot.kept_verdicts.about(replace(snapshot, **{what: object()}), DEFAULT)


def test_nothing_is_kept_for_another_resource_of_the_same_amounts() -> None:
    """Where resources are called otherwise, whoever lacks them is told their names of now."""
    old, new = (
        objects_of(draw("s0: r0[n0 n1]", node=f"cpu=8 {name}=1"), gang("train", tasks=2, each=f"{name}=4"))
        for name in ("example.com/a", "example.com/b")
    )

    assert not _keeps(old, new)
