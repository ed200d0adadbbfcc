"""`tierwise audit` as scripts see it: its exit status says whether the cluster is in order."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.contract.manifests import node, pod, pod_group
from tests.support.commands import manifests, run


@pytest.mark.parametrize(
    ("cpu", "output", "expected"),
    [("4", "text", 0), ("40", "text", 1), ("4", "json", 0), ("40", "json", 1)],
)
def test_the_exit_status_says_whether_something_is_wrong(cpu: str, output: str, expected: int, tmp_path: Path) -> None:
    """One node, and a pod on it that has room or has not."""
    file = manifests(tmp_path, node("n0", cpu="8"), pod_group("g", 1), pod("p", cpu=cpu, group="g", on="n0"))

    told = run("audit", "-f", file, "-o", output)

    assert (expected, bool(expected)) == (told.exit_code, "oversubscribed" in told.stdout)
