"""kubectl of the versions 1.29 to 1.37 on the embedded cluster's API, as far as they are built.

`tools/control_plane --with kubectl-1.29` builds one, from its module.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml
from tests.support.playground import deployment
from tests.support.served_playground import living, program_of


@pytest.mark.parametrize("version", [f"1.{minor}" for minor in range(29, 38)])
def test_kubectl_of_every_version_reads_and_writes(tmp_path: Path, version: str) -> None:
    """Apply in both ways, get, wait, scale, describe, patch and delete, as scripts use them."""
    program = program_of(f"kubectl-{version}")
    manifest = tmp_path / "web.yaml"
    manifest.write_text(yaml.safe_dump(deployment("web", 2)))
    with living(tmp_path) as config:

        def kubectl(*words: str | Path) -> str:
            own = ("--kubeconfig", str(config), "--cache-dir", str(tmp_path / "cache"))
            done = subprocess.run(
                [program, *own, *map(str, words)], capture_output=True, text=True, timeout=120, check=False
            )
            assert 0 == done.returncode, done.stderr
            return done.stdout

        assert "created" in kubectl("apply", "-f", manifest)
        kubectl("rollout", "status", "deployment/web", "--timeout=60s")
        assert "unchanged" in kubectl("apply", "-f", manifest)
        assert "serverside-applied" in kubectl("apply", "--server-side", "--force-conflicts", "-f", manifest)
        kubectl("scale", "deployment/web", "--replicas=3")
        kubectl("wait", "--for=jsonpath={.status.readyReplicas}=3", "deployment/web", "--timeout=60s")
        assert "web    3/3" in kubectl("get", "deployments")
        assert "n0" in kubectl("get", "pods", "-o", "wide") + kubectl("get", "nodes")
        assert "Replicas:" in kubectl("describe", "deployment/web")
        kubectl("patch", "deployment/web", "--type=merge", "-p", '{"metadata":{"labels":{"a":"b"}}}')
        assert "b" == kubectl("get", "deployment/web", "-o", "jsonpath={.metadata.labels.a}")
        kubectl("delete", "-f", manifest)
