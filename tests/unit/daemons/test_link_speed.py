"""The speed of interfaces, from files like those of a node, and what is written to the node."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.commands import run
from tests.support.services import node, objects

from tierwise.daemons.link_speed import RESOURCE, advertise
from tierwise.port import PatchStatus

ROUTES = """Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT
eth1\t00000000\t0102A8C0\t0003\t0\t0\t200\t00000000\t0\t0\t0
eth0\t00000000\t0102A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0
eth0\t0002A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
"""


@pytest.fixture(name="machine")
def _machine(tmp_path: Path) -> Path:
    """A node with two interfaces, one of which does not say its speed."""
    for name, speed in (("eth0", "10000\n"), ("eth1", "-1\n")):
        folder = tmp_path / "sys" / "class" / "net" / name
        folder.mkdir(parents=True)
        (folder / "speed").write_text(speed)
    (tmp_path / "proc" / "net").mkdir(parents=True)
    (tmp_path / "proc" / "net" / "route").write_text(ROUTES)
    return tmp_path


def _run(machine: Path, *words: object) -> tuple[int, str, str]:
    folders = ("--sysfs", machine / "sys", "--procfs", machine / "proc")
    result = run("advertise-bandwidth", "--node", "n1", *folders, "--once", "--print", *words)
    return result.exit_code, result.stdout, result.stderr


def test_the_interface_of_the_default_route_counts(machine: Path) -> None:
    """Of several, the one with the smallest metric; megabits become bits."""
    status, printed, _ = _run(machine)

    assert 0 == status
    assert {"capacity": {RESOURCE: "10000000000"}} == json.loads(printed)["status"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--interface", "eth1"], "does not say its speed"),
        (["--interface", "eth7"], "there is no interface eth7"),
        (["--interface", "../x"], "is not the name of an interface"),
        (["--speed", "fast"], "--speed"),
        (["--speed", "0"], "is not a speed"),
    ],
)
def test_mistakes_are_named(machine: Path, words: list[str], said: str) -> None:
    """One line, exit status 2."""
    status, _, complaint = _run(machine, *words)

    assert (2, True) == (status, said in complaint)


def test_a_node_without_a_default_route(machine: Path) -> None:
    """The interface must be named."""
    (machine / "proc" / "net" / "route").write_text(ROUTES.splitlines()[0])

    assert "there is no default route" in _run(machine)[2]


def test_the_patch_holds_all_amounts_and_comes_once(machine: Path, tmp_path: Path) -> None:
    """A status field is replaced as a whole, so what stood there is in it."""
    (patch,) = advertise(objects(node("n1", cpu=4)), "n1", 10**9)
    assert isinstance(patch, PatchStatus)
    assert {"cpu": "4", "pods": "110", RESOURCE: "1000000000"} == patch.status["allocatable"]

    made = node("n1", cpu=4)
    made["status"].update(patch.status)
    assert [] == advertise(objects(made), "n1", 10**9)

    file = tmp_path / "node.json"
    file.write_text(json.dumps(made))
    assert "" == _run(machine, "-f", file, "--speed", "1G")[1]
    assert "10000000000" in _run(machine, "-f", file)[1]
