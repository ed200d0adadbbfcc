"""`tierwise audit --journal`: a second solver looks at every plan of evictions that was recorded."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.support.commands import run
from tests.support.draw import draw, gang, objects_of

from tierwise.config.profile import DEFAULT
from tierwise.port import Create
from tierwise.runtime.journal import JournalWriter
from tierwise.runtime.loop import Loop
from tierwise.runtime.profile_run import SchedulerProfile
from tierwise.sim.cluster.store import EmbeddedCluster

OURS = frozenset({"", "tierwise"})
EVICTING = replace(DEFAULT, actions=("enqueue", "allocate", "gangpreempt"))


def _recorded(folder: Path) -> None:
    """A full node, and a gang for which somebody goes."""
    cluster = EmbeddedCluster(objects_of(draw("r0[n0]", node="cpu=4")))
    writer = JournalWriter(folder, 1 << 20, (SchedulerProfile(OURS, EVICTING),))
    now = [1_000_000.0]
    clock = lambda: now[0]  # noqa: E731 - a name for a function of no arguments
    loop = Loop(cluster, [SchedulerProfile(OURS, EVICTING)], clock=clock, ticks=clock, observers=[writer])
    for name, priority in (("low", 0), ("high", 10)):
        cluster.apply([Create(raw) for raw in gang(name, tasks=4, priority=priority).manifests()])
        for _ in range(2):
            loop.run_once()
            cluster.advance_pods()
            now[0] += 5
    writer.close()


def test_a_plan_that_was_needed_is_looked_at(tmp_path: Path) -> None:
    """As text and as JSON."""
    _recorded(tmp_path)

    told = run("audit", "--journal", str(tmp_path))
    wire = run("audit", "--journal", str(tmp_path), "-o", "json")

    assert (0, "all promises kept, 1 plan of 1 cycle looked at\n") == (told.exit_code, told.stdout)
    assert {"cycles": 1, "plans": 1, "leftOut": 0, "findings": []} == json.loads(wire.stdout)


def test_a_cycle_that_decides_otherwise_is_a_broken_promise(tmp_path: Path) -> None:
    """Its plans are not those that were carried out: here somebody has changed the profile that it had."""
    _recorded(tmp_path)
    (segment,) = tmp_path.iterdir()
    header, *lines = gzip.decompress(segment.read_bytes()).splitlines(keepends=True)
    segment.write_bytes(gzip.compress(b"".join((header.replace(b"gangpreempt", b"backfill"), *lines))))

    told = run("audit", "--journal", str(tmp_path))

    assert 1 == told.exit_code
    assert "not-repeatable: cycle" in told.stdout


def test_without_the_second_solver_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line, and the exit status of what cannot be used."""
    _recorded(tmp_path)
    for name in ("ortools", "ortools.sat", "ortools.sat.python"):
        monkeypatch.setitem(sys.modules, name, None)

    told = run("audit", "--journal", str(tmp_path))

    assert (2, "") == (told.exit_code, told.stdout)
    assert "pip install 'tierwise[audit]'" in told.stderr


def test_one_source_at_a_time(tmp_path: Path) -> None:
    """A journal beside manifests is a mistake."""
    told = run("audit", "--journal", str(tmp_path), "-f", "-")

    assert (2, True) == (told.exit_code, "give a cluster, manifests or a journal" in told.stderr)
