"""`tierwise windows`: what Slurm prints of its reservations becomes Windows."""

from __future__ import annotations

from pathlib import Path

import yaml
from tests.support.commands import run

PRINTED = """\
ReservationName=Rack_3 StartTime=2026-11-21T22:00:00 EndTime=2026-11-22T02:30:00 Duration=04:30:00
   Nodes=n[1-3],m7 NodeCnt=4 CoreCnt=16 Features=(null) PartitionName=(null) Flags=MAINT,WEEKLY,SPEC_NODES
   TRES=cpu=16
   Users=root Groups=(null) Accounts=(null) Licenses=(null) State=INACTIVE BurstBuffer=(null)

ReservationName=once StartTime=2026-12-01T00:00:00 EndTime=2026-12-01T01:00:00 Duration=01:00:00
   Nodes=n1 NodeCnt=1 Flags=MAINT Users=(null) Groups=(null) Accounts=(null) Licenses=(null)
"""


def test_reservations_become_windows() -> None:
    """Names, nodes, times on a clock, weeks; and what is not read is told."""
    done = run("windows", "--from-slurm", "-", "--time-zone", "Europe/Berlin", stdin=PRINTED)
    weekly, once = yaml.safe_load_all(done.stdout)

    assert ("rack-3", "once") == (weekly["metadata"]["name"], once["metadata"]["name"])
    assert {
        "nodes": ["n1", "n2", "n3", "m7"],
        "start": "2026-11-21T22:00",
        "duration": "4h30m0s",
        "everyDays": 7,
        "timeZone": "Europe/Berlin",
        "reason": "Slurm's reservation Rack_3",
    } == weekly["spec"]
    assert "everyDays" not in once["spec"]
    assert ["tierwise: warning: rack-3: Users=root is not read: spec.queues says whose jobs may run in it"] == (
        done.stderr.splitlines()
    )


def test_what_is_printed_is_valid(tmp_path: Path) -> None:
    """`validate` takes it."""
    file = tmp_path / "w.yaml"
    file.write_text(run("windows", "--from-slurm", "-", stdin=PRINTED).stdout)

    assert 0 == run("validate", "-f", str(file)).exit_code


def test_no_reservations_are_no_windows() -> None:
    """Slurm says so in a line."""
    done = run("windows", "--from-slurm", "-", stdin="No reservations in the system\n")

    assert (0, "") == (done.exit_code, done.stdout)


def test_other_text_is_one_line_and_status_2() -> None:
    """Whatever it is."""
    for text in ("JobId=3 Name=x\n", "ReservationName=a StartTime=soon EndTime=later Nodes=n1\n", "", "\0"):
        done = run("windows", "--from-slurm", "-", stdin=text)
        assert (2, "", 1) == (done.exit_code, done.stdout, len(done.stderr.splitlines())), text
