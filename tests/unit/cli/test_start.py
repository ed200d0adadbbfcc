"""How a service starts: what it does not need at once it does not wait for."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import sys
import tierwise.cli.run, tierwise.cli.run
from tierwise.kube.auth import Access, access, in_cluster
from tierwise.kube.cluster import KubeCluster
from tierwise.runtime import service, telemetry
print(sorted({name.partition(".")[0] for name in sys.modules} & {"kubernetes", "requests", "urllib3"}))
late = ("tierwise.web", "tierwise.fetch.", "tierwise.kube.exec_plugin", "tierwise.sim")
print(sorted(name for name in sys.modules if name.startswith(late)))
"""


def test_start_imports_little() -> None:
    """Neither credentials from programs, nor pages, nor readers of topology sources stand before the first bind."""
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)

    assert "[]\n[]\n" == done.stdout
