"""Both programs on two machines: network namespaces with a cable between them, where the system lets us make them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.services import node

IP = shutil.which("ip")
MAIN = "from tierwise.cli.main import main; main()"
ONE, TWO = (f"tierwise-{os.getpid()}-{i}" for i in (1, 2))


def _ip(*words: str) -> None:
    subprocess.run([str(IP), *words], check=True, capture_output=True, timeout=20)


def _inside(namespace: str, *words: str) -> list[str]:
    return [str(IP), "netns", "exec", namespace, sys.executable, "-c", MAIN, *words]


@pytest.fixture(name="cable")
def _cable() -> Iterator[None]:
    """Two namespaces, 10.77.0.1 and 10.77.0.2."""
    if IP is None or os.geteuid() != 0:
        pytest.skip("needs ip and root")
    try:
        _ip("netns", "add", ONE)
        _ip("netns", "add", TWO)
        _ip("link", "add", "veth0", "netns", ONE, "type", "veth", "peer", "name", "veth0", "netns", TWO)
        for namespace, address in ((ONE, "10.77.0.1/24"), (TWO, "10.77.0.2/24")):
            _ip("-n", namespace, "addr", "add", address, "dev", "veth0")
            _ip("-n", namespace, "link", "set", "veth0", "up")
    except (subprocess.CalledProcessError, OSError):
        _clean()
        pytest.skip("the system makes no network namespaces")
    yield
    _clean()


def _clean() -> None:
    for namespace in (ONE, TWO):
        subprocess.run([str(IP), "netns", "del", namespace], check=False, capture_output=True, timeout=20)


@pytest.mark.usefixtures("cable")
def test_two_machines_measure_each_other(tmp_path: Path) -> None:
    """One answers, the other measures; and the cable says its speed."""
    nodes = []
    for i in (1, 2):
        made = node(f"n{i}", f"r/z{i}")
        made["status"]["addresses"] = [{"type": "InternalIP", "address": f"10.77.0.{i}"}]
        nodes.append(made)
    file = tmp_path / "nodes.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes}))
    words = ("probe", "-f", str(file), "--node", "n1", "--count", "20", "--once", "--print")
    with subprocess.Popen(_inside(TWO, "probe", "--answer")) as answering:
        try:
            data: dict[str, str] = {}
            deadline = time.monotonic() + 30
            while not data and time.monotonic() < deadline:  # until the other side is up
                found = subprocess.run(_inside(ONE, *words), capture_output=True, text=True, timeout=60, check=True)
                data = json.loads(found.stdout)["data"]
        finally:
            answering.terminate()
    speed = ("advertise-bandwidth", "--node", "n1", "--interface", "veth0", "--once", "--print")
    told = subprocess.run(_inside(ONE, *speed), capture_output=True, text=True, timeout=60, check=True)

    assert 3 == len(data)
    assert all(key.endswith("origin.n1.destination.n2") for key in data)
    assert "10000000000" == json.loads(told.stdout)["status"]["capacity"]["network.aware.com/bandwidth"]
