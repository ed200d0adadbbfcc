"""What stands in the way of a gang that waits: the wishes without which it would have a place."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from tests.support.commands import ROOT, answer, manifests, run
from tests.support.ruled_gangs import HOST, ZONE, Instance, Kind, Node, Rule

from tierwise.api.codec import Raw
from tierwise.port import key_of_raw

CASES = ROOT / "tests/conformance/cases/findings-3"
FAR = Rule("away", "x", HOST)
EVEN = Rule("even", "x", ZONE)


def _file(folder: Path, instance: Instance) -> Path:
    return manifests(folder, *instance.world().manifests, *instance.asked().manifests())


def _racks(*cpus: int) -> tuple[Node, ...]:
    return tuple(Node(cpu, "ab"[i % 2], i // 2) for i, cpu in enumerate(cpus))


MASTER, WORKER = Kind("x", 1, (FAR,)), Kind("x", 2, (FAR,))
SCENES: dict[str, tuple[Instance, list[Raw]]] = {
    "hosts of their own": (
        Instance(_racks(3, 2, 2), (), ((MASTER, 1), (WORKER, 3)), 4, (1, 0), packed=False),
        [{"without": ["the anti-affinity of k0 and k1 over hosts"], "fitsNow": False}],
    ),
    "a pod in the way": (
        Instance(_racks(3, 3), ((Kind("y", 1, (FAR,)), 0),), ((Kind("x", 2), 2),), 2, (0,), packed=False),
        [{"without": ["the anti-affinity of other pods over hosts"], "fitsNow": True}],
    ),
    "zones that are not even": (
        Instance(_racks(4, 1), (), ((Kind("x", 1), 1), (Kind("x", 1, (EVEN,)), 4)), 5, (0, 0), packed=False),
        [{"without": ["the spread of k1 over zones"], "fitsNow": False}],
    ),
    "a rack for each": (
        Instance(_racks(1, 1, 1, 1), (), ((Kind("x", 1, (FAR,)), 3), (Kind("x", 1), 1)), 4, (0, 0), packed=True),
        [{"without": ["the limit of k0 to one domain of tier 1"], "fitsNow": False}],
    ),
    "two together": (
        Instance(_racks(1, 1, 2), (), ((Kind("x", 1, (EVEN, FAR)), 4),), 4, (0,), packed=False),
        [{"without": ["the anti-affinity of k0 over hosts", "the spread of k0 over zones"], "fitsNow": False}],
    ),
    "the only leader is too large": (
        Instance(_racks(2, 2), (), ((Kind("x", 3), 1), (Kind("x", 1), 3)), 3, (1, 0), packed=False),
        [{"without": ["the minimum of 1 pod of k0"], "fitsNow": False}],
    ),
    "room": (Instance(_racks(1, 1), (), ((Kind("x", 1, (FAR,)), 3),), 3, (0,), packed=False), []),
}


@pytest.mark.parametrize("name", SCENES)
def test_a_wish_is_named(name: str, tmp_path: Path) -> None:
    """Of all that is asked for, what is enough by itself; nothing where room is short without all of it, too."""
    instance, expected = SCENES[name]
    file = _file(tmp_path, instance)

    told = answer("explain", "-f", file, "--job", "g").get("obstacles", [])
    assert expected == [{key: obstacle[key] for key in ("without", "fitsNow")} for obstacle in told]
    assert told == answer("explain", "-f", file, "g-0-0").get("obstacles", [])
    assert told == answer("why", "-f", file, "g-0-0").get("obstacles", [])


@pytest.mark.parametrize("verb", [("explain", "--job", "g"), ("explain", "g-0-0"), ("why", "g-0-0")])
def test_people_read_it(verb: tuple[str, ...], tmp_path: Path) -> None:
    """In a line by itself."""
    file = _file(tmp_path, SCENES["zones that are not even"][0])

    said = " ".join(run(*verb, "-f", file).stdout.split())
    assert "without the spread of k1 over zones it would fit if the cluster were empty" in said


@pytest.mark.parametrize(
    ("case", "lost", "gang", "without"),
    [
        (
            "b4-master-and-gpu-workers-on-hosts-of-their-own-start",
            {"cpu-0"},
            "team/g",
            ["the anti-affinity of master and worker over hosts"],
        ),
        (
            "b5-two-feeds-and-anti-affinity-to-nobody",
            {"n2", "n3"},
            "team/g",
            ["the limit to 2 feeds of fabric power or more"],
        ),
        ("b7-two-groups-too-large-for-the-only-node-are-never", set(), "g", []),
    ],
)
def test_what_stands_in_the_way_of_the_cases(
    case: str, lost: set[str], gang: str, without: list[str], tmp_path: Path
) -> None:
    """Gangs of the conformance cases, without some nodes that they start on; nothing is named where room is short."""
    raws: list[Raw] = yaml.safe_load((CASES / f"{case}.yaml").read_text())["objects"]
    left = [raw for raw in raws if key_of_raw(raw).kind != "Node" or key_of_raw(raw).name not in lost]
    told = answer("explain", "-f", manifests(tmp_path, *left), "--job", gang).get("obstacles", [])

    assert without == [name for obstacle in told for name in obstacle["without"]]
