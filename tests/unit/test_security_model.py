"""The page on security says nothing that no test holds."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.commands import run
from tests.support.services import Raw

from tierwise.api.codec import decode
from tierwise.api.volcano import Command
from tierwise.config.actions import ACTIONS
from tierwise.config.profile import DEFAULT
from tierwise.config.volcano import ARGUMENTS, read_volcano
from tierwise.controllers.job.commands import job_of
from tierwise.dialects.elastic_quota import QUOTA_NAMESPACE, trusted_namespaces

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs/security-model.md").read_text()
ROW = re.compile(r"^\| (\d+) \| (.+?) \| (.+) \|$", re.MULTILINE)


def _known() -> set[str]:
    """The names of all tests and conformance cases."""
    cases = {file.stem for file in (TESTS / "conformance/cases").rglob("*.yaml")}
    texts = (file.read_text() for file in TESTS.rglob("test_*.py"))
    return cases | {name for text in texts for name in re.findall(r"^def (test_\w+)\(", text, re.MULTILINE)}


def test_every_sentence_names_tests_that_exist() -> None:
    """Rows are numbered from 1 on, and each has something to hold it."""
    rows, known = ROW.findall(PAGE), _known()
    held = {number: re.findall(r"`([^`]+)`", names) for number, _, names in rows}

    assert [str(i) for i in range(1, len(rows) + 1)] == [number for number, _, _ in rows]
    assert len(rows) >= 20
    assert [] == [number for number, names in held.items() if not names]
    assert [] == [name for names in held.values() for name in names if name not in known]


def test_whatever_is_shared_has_an_account_a_cap_a_setting_and_tests() -> None:
    """No cell of these tables is empty, and their tests exist."""
    parts = [part for part in re.split(r"^## ", PAGE, flags=re.MULTILINE) if part.startswith("What tenants share")]
    lines = [line for part in parts for line in part.splitlines() if line.startswith("| ")]
    rows = [
        [cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines if not line.startswith("| Shared")
    ]
    named = {name for row in rows for name in re.findall(r"`(test_\w+)`", row[-1])}

    assert {"time of a cycle", "room that is kept idle", "write slots", "memory of pods that wait"} <= {
        row[0] for row in rows
    }
    assert [] == [row[0] for row in rows if len(row) != 5 or not all(row) or "`test_" not in row[-1]]
    assert set() == named - _known()
    assert len(rows) == len({row[0] for row in rows}), "each resource has one row"


def test_settings_of_what_is_shared_can_be_set() -> None:
    """Whatever stands in a cell of settings is an argument of an action, of the profile, or of the command line."""
    lines = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if line.startswith("| ") and "`test_" in line]
    cells = [line[3] for line in lines if len(line) == 5]
    named = {name for cell in cells for name in re.findall(r"`([\w-]+)`", cell)}
    of_actions = {name for action in ACTIONS.values() for name in action.arguments.split()}
    of_profiles, flags = {"maxWaitingPods", "protectionGap"}, re.findall(r"--[a-z-]+", run("run", "--help").stdout)

    assert {"cycleSteps", "idleRoom", "--cycle-limit"} | of_profiles <= named
    assert set() == named - of_actions - of_profiles - {*flags}
    plain: dict[str, object] = {"actions": "enqueue, allocate", "tiers": []}
    assert all(read_volcano(plain | {name: 5}) != read_volcano(plain) for name in of_profiles)


def test_every_case_of_a_tenant_is_on_the_page() -> None:
    """A case that shows what a tenant cannot do belongs to a sentence; variants belong to the same one."""
    cases = {file.stem for file in (TESTS / "conformance/cases/findings").glob("tenant-*.yaml")}
    variants = {
        "tenant-gang-group-of-a-podgroup-elsewhere-is-not-joined",
        "tenant-gang-group-waits-for-a-gang-that-both-name",
        "tenant-gang-group-names-a-gang-elsewhere-that-does-not-exist",
        "tenant-gang-group-claimed-by-one-side-is-warned-of",
    }

    assert set() == cases - variants - set(re.findall(r"`(tenant-[a-z-]+)`", PAGE))


def test_the_switches_are_arguments_of_their_plugins() -> None:
    """What the page calls a switch can be set."""
    assert "crossNamespaceGangGroups" in ARGUMENTS["coscheduling"].split()
    assert {"trustedNamespaces", "quotaGroupNamespace"} <= set(ARGUMENTS["elasticquota"].split())
    assert frozenset({QUOTA_NAMESPACE}) == trusted_namespaces(DEFAULT)


def _command(namespace: str, kind: str, name: str) -> Raw:
    target = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": kind, "name": name, "uid": "u"}
    return {
        "apiVersion": "bus.volcano.sh/v1alpha1",
        "kind": "Command",
        "metadata": {"name": "c", "namespace": namespace},
        "action": "AbortJob",
        "target": target,
    }


def test_commands_reach_jobs_of_their_namespace_alone() -> None:
    """One of another namespace for a job of this name means a job over there, and a Queue obeys no command."""
    given = [decode(_command("evil", "Job", "train")), decode(_command("evil", "Queue", "prod"))]
    commands = [record for record in given if isinstance(record, Command)]

    assert ["evil/train", None] == [job_of(command) for command in commands]
