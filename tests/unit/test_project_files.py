"""Files that a project has for those who join it or judge it: they can be read, and say what is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
HOSTED = ROOT / ".github"


def test_the_hosted_runner_runs_what_everybody_runs() -> None:
    """The workflow decides nothing by itself: its only command is the script."""
    workflow = yaml.safe_load((HOSTED / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    steps = workflow["jobs"]["ci"]["steps"]

    assert [".ci/run"] == [step["run"] for step in steps if "run" in step]
    assert {"contents": "read"} == workflow["permissions"]


@pytest.mark.parametrize("name", ["defect", "wish"])
def test_templates_of_issues_are_forms(name: str) -> None:
    """Each has a name, a line that says when to use it, and at least one question that must be answered."""
    form = yaml.safe_load((HOSTED / "ISSUE_TEMPLATE" / f"{name}.yml").read_text(encoding="utf-8"))

    assert {"name", "description", "labels", "body"} == set(form)
    assert [] == [part for part in form["body"] if part["type"] not in ("input", "textarea")]
    assert any(part.get("validations", {}).get("required") for part in form["body"])


def test_every_room_has_somebody_who_looks_after_it() -> None:
    """The table of maintainers names each package of the scheduler, and the laboratory, once."""
    named = re.findall(r"`(\w+)`", (ROOT / "MAINTAINERS.md").read_text(encoding="utf-8"))
    rooms = [path.parent.name for path in (ROOT / "src" / "tierwise").glob("*/__init__.py")]
    rooms.append("tierwise_lab")

    assert sorted(rooms) == sorted(named)


def test_what_programs_read_about_security_names_files_that_exist() -> None:
    """Policies and guides are paths in the repository."""
    insights = yaml.safe_load((ROOT / "SECURITY-INSIGHTS.yml").read_text(encoding="utf-8"))
    paths = [
        insights["project"]["vulnerability-reporting"]["policy"],
        *insights["repository"]["documentation"].values(),
    ]

    assert [] == [path for path in paths if not (ROOT / path).is_file()]
