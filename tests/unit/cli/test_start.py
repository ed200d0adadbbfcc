"""How a service and the core start: what they do not need at once they do not wait for."""

from __future__ import annotations

import os
import subprocess
import sys

CODE = """
import sys
import tierwise.cli.run, tierwise.cli.run
from tierwise.kube.auth import Access, access, in_cluster
from tierwise.kube.cluster import KubeCluster
from tierwise.runtime import service, telemetry
print(sorted({name.partition(".")[0] for name in sys.modules} & {"kubernetes", "requests", "urllib3"}))
late = ("tierwise.web", "tierwise.fetch.", "tierwise.sim")
print(sorted(name for name in sys.modules if name.startswith(late)))
"""


def test_start_imports_little() -> None:
    """Neither another client, nor pages, nor readers of topology sources stand before the first bind."""
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)

    assert "[]\n[]\n" == done.stdout


CORE = """
import sys
import tierwise.scheduler
late = ("fractions", "json", "tierwise.api.core", "tierwise.api.quantity", "tierwise.actions.reservations",
        "tierwise.actions.eviction", "tierwise.actions.diagnosis.diagnose", "tierwise.scheduler.prebind",
        "tierwise.plugins.kubernetes.claim_writes", "tierwise.plugins.kubernetes.device_allocation")
print(sorted(name for name in sys.modules if name in late))
"""


def test_the_core_imports_little() -> None:
    """What only some cycles need, to evict, reserve, explain or write claims, is imported by the first that does."""
    done = subprocess.run([sys.executable, "-c", CORE], capture_output=True, text=True, check=True)

    assert "[]\n" == done.stdout


VERB = """
import sys
from pathlib import Path
from tierwise.cli.main import main
try: main(["schedule", "-f", "-"])
except SystemExit: pass
threads = Path("/proc/self/task")
assert not threads.is_dir() or 1 == len(list(threads.iterdir()))
late = ("numpy.ma", "rich.console", "tierwise.config.kube", "tierwise.explain.wire", "tierwise.controllers.app_group",
        "tierwise.controllers.discovery", "tierwise.controllers.elastic_quota", "tierwise.controllers.network_topology",
        "tierwise.sim.cluster.claims", "tierwise.sim.cluster.workloads", "rich.text", "numpy.typing",
        "tierwise.actions.diagnosis.gathering", "tierwise.actions.placement.quanta", "tierwise.discovery.tree",
        "tierwise.dialects.workloads.kubernetes", "tierwise.plugins.kubernetes.claim_writes", "fractions",
        "tierwise.actions.diagnosis.fabrics", "tierwise.api.defrag_record", "tierwise.framework.bundle",
        "tierwise.plugins.elastic_quota.tree")
print(sorted(name for name in sys.modules if name in late))
"""
POD = """
{apiVersion: v1, kind: Node, metadata: {name: n0}, status: {allocatable: {cpu: 4, memory: 8Gi, pods: 10}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: p0}, spec: {schedulerName: tierwise, containers: [{name: a}]}}
"""


def test_a_verb_imports_what_its_objects_ask_for() -> None:
    """Controllers of kinds that are not there, other formats, colours for a pipe, threads of BLAS cost nothing."""
    plain = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    command = [sys.executable, "-c", VERB]
    done = subprocess.run(command, input=POD, capture_output=True, text=True, check=True, env=plain)

    assert "[]" == done.stdout.splitlines()[-1]
