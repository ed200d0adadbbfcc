"""A scheduler as a process of its own, with a plugin that never comes back: it ends, and the third one goes on."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.contract.fake_api import FakeApi
from tests.contract.manifests import node, pod, pod_group
from tests.contract.waiting import eventually
from tests.support.commands import ROOT

from tierwise.api.core import Pod
from tierwise.kube.auth import Access
from tierwise.kube.cluster import KubeCluster

PLUGIN = """
import numpy as np
from tierwise.framework.declaration import takes_part
from tierwise.framework.extension import (Scorer, ScoreEffect)

@takes_part(Scorer)
class Endless:
    def __init__(self, arguments, view):
        pass

    def effect(self, ask):
        return ScoreEffect.FIXED

    def stale(self, ask, row):
        return slice(row, row + 1)

    def score(self, ask, span, fits):
        while ask.job.key.endswith("train"):
            pass
        return np.zeros(span.stop - span.start)
"""
CONFIG = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: endless}]
"""


@pytest.fixture
def words(tmp_path: Path) -> Iterator[tuple[FakeApi, list[str], dict[str, str]]]:
    """A server with a gang that waits, and how a scheduler with the plugin is started on it."""
    info = tmp_path / "site" / "endless-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: endless\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[tierwise.plugins]\nendless = endless_plugin:Endless\n")
    (tmp_path / "site" / "endless_plugin.py").write_text(PLUGIN)
    (tmp_path / "endless.conf").write_text(CONFIG)
    path = os.pathsep.join(map(str, (tmp_path / "site", ROOT / "src")))
    with FakeApi() as api:
        api.put(node("n0"), node("n1"), pod_group("train", 1), pod("train-0", group="train"))
        (tmp_path / "config").write_text(
            f"{{current-context: c, clusters: [{{name: c, cluster: {{server: '{api.url}'}}}}], "
            "users: [{name: u, user: {token: t}}], contexts: [{name: c, context: {cluster: c, user: u}}]}"
        )
        command = ["-m", "tierwise", "run", "--kubeconfig", str(tmp_path / "config"), "--period", "0.2"]
        command += ["--config", str(tmp_path / "endless.conf"), "--cycle-limit", "1", "--lease-duration", "3"]
        yield api, [sys.executable, *command], {**os.environ, "PYTHONPATH": path}


def test_a_plugin_that_never_comes_back_is_left_out_in_the_end(
    words: tuple[FakeApi, list[str], dict[str, str]],
) -> None:
    """Two processes end with a message that names plugin, action and job; the third binds without the plugin."""
    api, command, environment = words
    ends = [
        subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
        for _ in range(2)
    ]
    with (
        subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as third,
        KubeCluster(Access(api.url)) as cluster,
    ):
        bound = eventually(cluster, lambda: _bound(cluster))
        third.terminate()
        _, told = third.communicate()

    assert [75, 75] == [end.returncode for end in ends], [end.stderr for end in ends]
    for end in ends:
        assert "plugin endless in score, action allocate, about job default/train" in end.stderr
    assert bound
    assert "plugin endless is left out" in told


def _bound(cluster: KubeCluster) -> bool:
    found = cluster.read().every(Pod).get("default/train-0")
    return found is not None and bool(found.spec.node_name)
