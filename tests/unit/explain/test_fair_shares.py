"""Shares that remember are shown: in `why`, `queue` and `top`; without them nothing is."""

from __future__ import annotations

import json
from pathlib import Path

import yaml
from tests.support.commands import run
from tests.support.draw import draw, gang
from tests.support.queue_worlds import queue
from tests.support.reservations import NOW

from tierwise.api.core import format_time
from tierwise.model.usage import UsageState
from tierwise.snapshot.usage import spelled_usage

CONFIG = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - {name: priority}
  - {name: gang}
- plugins:
  - {name: predicates}
  - {name: fairshare, arguments: {halfLife: 168h, record: tierwise}}
"""
WEEK = 7 * 24 * 3600.0
USED = UsageState(
    at=NOW,
    half_life=WEEK,
    unit="parts of the cluster",
    used={("team-a", "default"): 62 * 10**25, ("team-b", "default"): 38 * 10**25},
    writes=1,
    since=NOW - WEEK,
)


def _files(folder: Path) -> tuple[str, ...]:
    """Two teams, of weights 2 and 3, whose gangs want a node that is taken."""
    record = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "tierwise-usage", "namespace": "tierwise"},
        "data": {"usage": spelled_usage(USED)},
    }
    world = draw("n0", node="cpu=8 mem=8", running="n0:cpu=8")
    gangs = [
        raw for team in "ab" for raw in gang(f"job-{team}", tasks=1, each="cpu=8", queue=f"team-{team}").manifests()
    ]
    every = [*world.manifests, queue("team-a", weight=2), queue("team-b", weight=3), *gangs, record]
    (folder / "state.yaml").write_text(yaml.safe_dump_all(every))
    (folder / "c.conf").write_text(CONFIG)
    return "-f", str(folder / "state.yaml"), "--config", str(folder / "c.conf"), "--now", format_time(NOW)


def test_why_says_whose_turn_it_is_and_why(tmp_path: Path) -> None:
    """In the words of an administrator: used, share, and what follows."""
    files = _files(tmp_path)
    first = run("why", *files, "default/job-a-0").stdout
    second = json.loads(run("why", *files, "-o", "json", "default/job-b-0").stdout)

    assert "queue team-a used 62 % of what was used of late" in " ".join(first.split())
    assert "its share is 40 %: it goes after queues" in " ".join(first.split())
    assert "used 38 %" in second["share"]
    assert "its share is 60 %: it goes before" in second["share"]


def test_top_and_queue_list_the_shares(tmp_path: Path) -> None:
    """As text and for programs."""
    files = _files(tmp_path)
    for verb in ("top", "queue"):
        shares = json.loads(run(verb, *files, "-o", "json").stdout)["shares"]

        assert [("team-a", 0.62, 0.4), ("team-b", 0.38, 0.6)] == [
            (entry["queue"], entry["used"], entry["share"]) for entry in shares
        ]
        assert "62 %" in run(verb, *files).stdout


def test_queue_names_the_term_that_decides(tmp_path: Path) -> None:
    """What a job's namespace has used of its part."""
    jobs = json.loads(run("queue", *_files(tmp_path), "-o", "json").stdout)["jobs"]

    assert all("of its part" in job["factors"]["fairshare"] for job in jobs)


def test_without_the_plugin_nothing_is_shown(tmp_path: Path) -> None:
    """Nor is a record looked at."""
    files = _files(tmp_path)
    (tmp_path / "c.conf").write_text(CONFIG.replace("- {name: fairshare", "# {name: fairshare"))

    assert "shares" not in json.loads(run("top", *files, "-o", "json").stdout)
    assert "of late" not in run("why", *files, "default/job-a-0").stdout
