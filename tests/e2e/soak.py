"""`make soak`: gangs, odd objects and nodes come and go for half an hour, and the scheduler does not grow.

Memory, descriptors and threads are looked at every few seconds. What they were at most in the last third of the time is
compared with the second third: the first fills caches. Exit status 1 where one of them has grown.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
from tests.e2e.api import Api, Json, path_of
from tests.e2e.burst import odd_object, small_gang
from tests.e2e.control_plane import ControlPlane
from tests.e2e.rivals import Race, ready, rivals
from tests.e2e.tight import Tight, big_node
from tests.e2e.world import World

ROOT: Final = Path(__file__).parents[2]
_NODES: Final = 100
_GANGS: Final = 20
_ODD: Final = 50
_SLACK: Final = {"memory": 16.0, "descriptors": 8.0, "threads": 2.0}
"""By how much each may be more than it was: megabytes, and numbers."""


class _Look(msgspec.Struct, frozen=True):
    """What a process uses at some time."""

    memory: float  # megabytes
    descriptors: float
    threads: float


def _look(pid: int) -> _Look:
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in status if ":" in line)
    memory = int(fields["VmRSS"].split()[0]) / 1024
    return _Look(memory, len(list(Path(f"/proc/{pid}/fd").iterdir())), int(fields["Threads"]))


def _grown(looks: Sequence[_Look]) -> list[str]:
    """What is more in the last third than in the one before."""
    third = len(looks) // 3
    found = []
    for what, slack in _SLACK.items():
        before, last = (
            max(getattr(look, what) for look in part) for part in (looks[third : -third or None], looks[-third:])
        )
        print(f"{what:<12} at most {before:8.1f} in the second third, {last:8.1f} in the last", flush=True)
        if last > before * 1.05 + slack:
            found.append(what)
    return found


def soak(plane: ControlPlane, minutes: float) -> list[str]:
    """Churn for that long; what has grown."""
    api, tight = Api(plane), Tight(plane)
    World.install(api)
    tight.send("POST", [("/api/v1/nodes", big_node(i)) for i in range(_NODES)])
    Race(plane, api, tight).racks(_NODES)
    rival, looks, turns = rivals(plane, None)["tierwise"], [], 0
    with (plane.folder / "rival.log").open("wb") as log:
        process = subprocess.Popen(rival.command, stdout=log, stderr=log)
        try:
            ready(rival, process)
            end = time.monotonic() + 60 * minutes
            while time.monotonic() < end:
                _churn(api, tight, turns)
                turns += 1
                assert process.poll() is None, (plane.folder / "rival.log").read_text()[-2000:]
                looks.append(_look(process.pid))
        finally:
            process.terminate()
            process.wait()
            api.close()
    print(f"{turns} rounds of {_GANGS} gangs and {_ODD} odd objects in {minutes:g} minutes", flush=True)
    return _grown(looks)


def _churn(api: Api, tight: Tight, turn: int) -> None:
    """One round: all that comes is bound or told why not, and goes."""
    node = f"n{turn % _NODES}"
    tight.send("PATCH", [(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})], "application/merge-patch+json")
    tight.send("POST", [made for i in range(_GANGS) for made in small_gang("default", f"t{turn}-{i}")])
    tight.send("POST", [odd_object("default", turn * _ODD + i) for i in range(_ODD)])
    wanted = _GANGS * 4
    end = time.monotonic() + 120
    while sum(bool(p["spec"].get("nodeName")) for p in api.list("Pod")) < wanted:
        assert time.monotonic() < end, "gangs were not bound in time"
        time.sleep(0.2)
    tight.send("PATCH", [(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": None}})], "application/merge-patch+json")
    options: Json = {"gracePeriodSeconds": 0}
    for kind in ("Pod", "PodGroup", "Event"):
        api.ask("DELETE", path_of(kind, namespace="default"), options)


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    minutes = parser.parse_args().minutes
    found = subprocess.run([ROOT / "tools" / "control_plane", "--no-build"], capture_output=True, text=True)
    if found.returncode:
        sys.exit(found.stderr.strip())
    with tempfile.TemporaryDirectory() as folder:
        plane = ControlPlane(Path(found.stdout.strip()), Path(folder) / "plane")
        try:
            plane.start()
            grown = soak(plane, minutes)
        finally:
            plane.stop()
    if grown:
        sys.exit(f"grown: {', '.join(grown)}")


if __name__ == "__main__":
    main()
