"""What was applied from 200 files is read by each client with types: none refuses a list for a field that it finds.

The files are drawn: pods and workloads with each field that Kubernetes has rules for, in spellings that people use.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.support.drawn_workloads import drawn
from tests.support.playground import Json, Playground, nodes
from tests.support.served_playground import kubeconfig_of, served

FILES = 200
_PLURALS = {
    "Pod": "v1/pods",
    "ReplicationController": "v1/replicationcontrollers",
    "Job": "batch/v1/jobs",
    "CronJob": "batch/v1/cronjobs",
}


def _plural(kind: str) -> str:
    return _PLURALS.get(kind, f"apps/v1/{kind.lower()}s")


def _files() -> list[Json]:
    """The first so many of every kind in turn."""
    by_kind: dict[str, list[Json]] = {}
    for _, raw in drawn(good=True):
        by_kind.setdefault(raw["kind"], []).append(raw)
    found: list[Json] = []
    for index in range(max(map(len, by_kind.values()))):
        found += [raws[index] for raws in by_kind.values() if index < len(raws)]
    return [
        {**raw, "metadata": {**raw["metadata"], "name": f"drawn-{number}"}} for number, raw in enumerate(found[:FILES])
    ]


@pytest.fixture(scope="module")
def applied() -> Iterator[tuple[str, Counter[str]]]:
    """The address of a cluster that holds them all, and how many there are of each kind."""
    ground, files = Playground(nodes("n0", "n1", cpu="256")), _files()
    assert FILES == len(files)
    for raw in files:
        ground.create(_plural(raw["kind"]), raw, fieldManager="kubectl-client-side-apply")
    ground.live(2)
    kinds = {raw["kind"] for raw in files}
    with served(ground) as url:
        yield url, Counter({kind: len(ground.list(_plural(kind))) for kind in kinds})


def _needs(module: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(importlib.util.find_spec(module) is None, reason=f"{module} is not installed")


@_needs("kubernetes")
def test_the_official_client_for_python_reads_them(applied: tuple[str, Counter[str]]) -> None:
    """It checks every answer against Kubernetes' OpenAPI."""
    from kubernetes import client

    url, there = applied
    with client.ApiClient(client.Configuration(host=url)) as api:
        core, apps, batch = client.CoreV1Api(api), client.AppsV1Api(api), client.BatchV1Api(api)
        listed = {
            "Pod": core.list_namespaced_pod,
            "ReplicationController": core.list_namespaced_replication_controller,
            "Deployment": apps.list_namespaced_deployment,
            "ReplicaSet": apps.list_namespaced_replica_set,
            "StatefulSet": apps.list_namespaced_stateful_set,
            "DaemonSet": apps.list_namespaced_daemon_set,
            "Job": batch.list_namespaced_job,
            "CronJob": batch.list_namespaced_cron_job,
        }
        assert there == Counter({kind: len(listed[kind]("default").items) for kind in there})


@_needs("lightkube")
def test_lightkube_reads_them(applied: tuple[str, Counter[str]], tmp_path: Path) -> None:
    """Each as a dataclass of its kind, which goes back as it came."""
    from lightkube import Client, KubeConfig
    from lightkube.resources import apps_v1, batch_v1, core_v1

    url, there = applied
    config = KubeConfig.from_file(kubeconfig_of(tmp_path, url)).get()
    modules = (apps_v1, batch_v1, core_v1)
    kinds = {kind: getattr(module, kind) for kind in there for module in modules if hasattr(module, kind)}
    with closing(Client(config, namespace="default", trust_env=False)) as client:
        for kind, number in there.items():
            found = list(client.list(kinds[kind]))
            assert number == len(found)
            for one in found:
                assert one == kinds[kind].from_dict(one.to_dict())


@_needs("kr8s")
def test_kr8s_reads_them(applied: tuple[str, Counter[str]], tmp_path: Path) -> None:
    """By what discovery says of their kinds."""
    import kr8s

    url, there = applied
    api = kr8s.api(kubeconfig=str(kubeconfig_of(tmp_path, url)), namespace="default")
    found = {kind: list(api.get(f"{kind.lower()}s", namespace="default")) for kind in there}

    assert there == Counter({kind: len(ones) for kind, ones in found.items()})
    assert all(one.raw["spec"] for ones in found.values() for one in ones)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl is installed")
def test_go_reads_them(applied: tuple[str, Counter[str]], tmp_path: Path) -> None:
    """`kubectl describe` has client-go decode every object into its type."""
    url, there = applied
    kubeconfig = kubeconfig_of(tmp_path, url)
    names = ",".join(f"{kind.lower()}s" for kind in there)
    command = ["kubectl", "--kubeconfig", str(kubeconfig), "describe", names, "--show-events=false"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)

    assert 0 == done.returncode, done.stderr
    assert there.total() == sum(line.startswith("Name:") for line in done.stdout.splitlines())
