"""The chart by the real helm, on a control plane of its own: every value is accepted, and upgrades lose nothing.

Skipped where there is no helm: `make chart` builds one. HELM names one that is not on the path.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.e2e.accounts import NAMESPACE, NODES, Accounts
from tests.e2e.api import Api, Json
from tests.e2e.control_plane import ControlPlane
from tests.e2e.helm import Helm
from tests.e2e.kubelet import Kubelets
from tests.e2e.rollout import Rollouts
from tests.e2e.world import World, job, task

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy/helm/tierwise"
HARD_RACK: Json = {"mode": "hard", "highestTierAllowed": 1}
KUBECTL = shutil.which("kubectl")

SECRET = [{"namespace": "default", "name": "ufm"}]
TOLERATION = [{"key": "role", "operator": "Exists"}]
RESOURCES = {"requests": {"cpu": "2", "memory": "1Gi"}, "limits": {"memory": "3Gi"}}
ROOMS = ["nvidia.com/gpu=8x16@rack"]
VALUES: dict[str, list[Any]] = {
    "image.repository": ["registry.example.org/tierwise"],
    "image.tag": ["0.1.1"],
    "image.digest": ["sha256:" + "0" * 64],
    "image.pullPolicy": ["Always"],
    "image.pullSecrets": [[{"name": "pull"}]],
    "schedulerNames": [["tierwise", "volcano"]],
    "schedulerConfig": ['actions: "allocate"\ntiers: []\n'],
    "logLevel": ["debug"],
    "priorityClassName": ["", "high"],
    **{f"{part}.replicas": [1, 3] for part in ("scheduler", "controllers", "webhook")},
    **{f"{part}.resources": [RESOURCES] for part in ("scheduler", "controllers", "webhook")},
    **{f"{part}.nodeSelector": [{"role": "system"}] for part in ("scheduler", "controllers", "webhook")},
    **{f"{part}.tolerations": [TOLERATION] for part in ("scheduler", "controllers", "webhook")},
    "scheduler.defrag.rooms": [ROOMS],
    "scheduler.defrag.every": ["1h"],
    "scheduler.defrag.movesPerHour": [1],
    "scheduler.defrag.hoursPerHour": [8],
    "scheduler.journal.enabled": [True],
    "scheduler.journal.sizeMiB": [64],
    "scheduler.journal.volume.emptyDir.sizeLimit": ["1Gi"],
    "answers.enabled": [True],
    "answers.secretName": ["own"],
    "answers.audience": ["tierwise"],
    "controllers.enabled": [False],
    "controllers.sshKeys": [True],
    "webhook.enabled": [False],
    "webhook.failurePolicy": ["Fail"],
    "webhook.timeoutSeconds": [1],
    "webhook.certificate": ["cert-manager"],
    "webhook.secretName": ["own"],
    "webhook.caBundle": [""],
    "discovery.files": ["files"],
    "discovery.secrets": [SECRET],
    "nodePrograms.namespace": ["default"],
    "nodePrograms.nodeSelector": [{"role": "gpu"}],
    "nodePrograms.tolerations": [TOLERATION],
    "nodePrograms.probe.enabled": [True],
    "nodePrograms.probe.configMapNamespace": [NAMESPACE],
    "nodePrograms.probe.interval": [60],
    "nodePrograms.probe.resources": [RESOURCES],
    "nodePrograms.advertiseBandwidth.enabled": [True],
    "nodePrograms.advertiseBandwidth.interface": ["eth1"],
    "nodePrograms.advertiseBandwidth.speed": ["10G"],
    "nodePrograms.advertiseBandwidth.resources": [RESOURCES],
    "policies.enabled": [False],
    "policies.failurePolicy": ["Fail"],
    "networkPolicy.enabled": [False],
    "networkPolicy.metricsFrom": [[{"podSelector": {}}]],
    "networkPolicy.egress": [[{"ports": [{"port": 443, "protocol": "TCP"}]}]],
    "networkPolicy.furtherEgress": [[{"ports": [{"port": 4318, "protocol": "TCP"}], "to": [{"podSelector": {}}]}]],
    "networkPolicy.answersFrom": [[{"ipBlock": {"cidr": "10.0.0.0/28"}}]],
    "networkPolicy.webhookFrom": [[{"ipBlock": {"cidr": "10.0.0.0/28"}}]],
    "serviceMonitor.enabled": [True],
    "serviceMonitor.interval": ["30s"],
    "serviceMonitor.labels": [{"release": "prometheus"}],
    "prometheusRule.enabled": [True],
    "prometheusRule.labels": [{"release": "prometheus"}],
}
"""Every value of the chart, and what else it may be."""

ALWAYS: dict[str, Json] = {
    "scheduler.defrag.": {"scheduler.defrag.rooms": ROOMS},
    "scheduler.journal.": {"scheduler.journal.enabled": True},
    "nodePrograms.": {"nodePrograms.probe.enabled": True, "nodePrograms.advertiseBandwidth.enabled": True},
    "answers.": {"answers.enabled": True},
    "networkPolicy.answersFrom": {"answers.enabled": True},
    "serviceMonitor.": {"serviceMonitor.enabled": True},
    "prometheusRule.": {"prometheusRule.enabled": True},
}
"""The values below a name, and those without which they would have no effect."""


def _rendered(helm: Helm, values: Json, folder: Path) -> list[str]:
    """The objects of the chart with some values, each as text."""
    file = folder / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    text = helm("template", "tierwise", CHART, "-n", NAMESPACE, "--kube-version", "1.30.0", "-f", file)
    return [json.dumps(document, sort_keys=True) for document in yaml.safe_load_all(text) if document]


def _leaves(values: Json, above: str = "") -> Iterator[str]:
    """The names of all values, those below a name that may hold anything as one."""
    for name, value in values.items():
        if isinstance(value, dict) and value and name not in ("resources", "nodeSelector"):
            yield from _leaves(value, f"{above}{name}.")
        else:
            yield f"{above}{name}"


def _setting(path: str, value: Any) -> Json:
    """One value, with those without which it would have no effect."""
    found: Json = {}
    names = {path: value}
    for start, needed in ALWAYS.items():
        if path.startswith(start):
            names = {**needed, **names}
    for name, given in names.items():
        *inner, last = name.split(".")
        at = found
        for part in inner:
            at = at.setdefault(part, {})
        at[last] = given
    return found


def test_every_value_is_tried() -> None:
    """Whoever adds a value says here what else it may be."""
    assert set(VALUES) == set(_leaves(yaml.safe_load((CHART / "values.yaml").read_text())))


@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not on this machine")
def test_the_api_server_accepts_every_value(helm: Helm, cluster: ControlPlane, tmp_path: Path) -> None:
    """Rendered, then held against the server's own schemas, strictly, by a dry run; all that differ at once.

    Each value changes something, or the chart has a value that nobody needs.
    """
    helm("lint", "--strict", CHART)
    api = Api(cluster)
    accounts = Accounts(cluster, api)
    for namespace in (NAMESPACE, NODES):
        accounts.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    standard = _rendered(helm, {}, tmp_path)
    every = dict.fromkeys(standard)
    for path, others in VALUES.items():
        for value in others:
            found = _rendered(helm, _setting(path, value), tmp_path)
            assert found != standard or path in ("webhook.secretName", "webhook.caBundle"), path
            every |= dict.fromkeys(found)
    own = {"webhook": {"certificate": "secret", "secretName": "own", "caBundle": "YQ=="}}
    every |= dict.fromkeys(_rendered(helm, own, tmp_path))
    foreign = ("monitoring.coreos.com", "cert-manager.io")  # tests/e2e/test_deploy.py has their kinds
    known = [text for text in every if not json.loads(text)["apiVersion"].startswith(foreign)]
    (tmp_path / "every.yaml").write_text("".join(f"---\n{text}\n" for text in known))
    assert KUBECTL is not None
    words = ["apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", str(tmp_path / "every.yaml")]
    command = [KUBECTL, "--kubeconfig", str(cluster.kubeconfig), *words]
    done = subprocess.run(command, capture_output=True, text=True)
    api.close()

    assert (0, "") == (done.returncode, done.stderr)
    assert len(known) == len(done.stdout.splitlines()) > 60


@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not on this machine")
def test_the_guide_installs_upgrades_and_removes(helm: Helm, cluster: ControlPlane, tmp_path: Path) -> None:
    """Every command of it that is for a cluster, in order, by kustomize, then by helm; all components come up.

    The webhook puts its authority into configurations that each tool owns, and no later command minds.
    """
    text = (ROOT / "docs/guides/install.md").read_text()
    typed = [line.removeprefix("$ ") for line in text.splitlines() if line.startswith("$ ")]
    plain = [line for line in typed if line.startswith(("kubectl", "test"))]
    charted = [line.replace("REPOSITORY", "example.org") for line in typed if line.startswith("helm")]
    (tmp_path / "deploy").symlink_to(ROOT / "deploy")
    api = Api(cluster)
    rollouts = Rollouts(api, Accounts(cluster, api), tmp_path, NAMESPACE)

    def enter(command: str) -> None:
        around = helm.environment()
        around["PATH"] = f"{Path(sys.executable).parent}:{around['PATH']}"
        removes = command.startswith("kubectl delete")  # nobody here ends namespaces, which kubectl would wait for
        script = ["bash", "-euo", "pipefail", "-c", f"{command} --wait=false" if removes else command]
        done = subprocess.run(script, capture_output=True, text=True, cwd=tmp_path, env=around, timeout=120)
        assert 0 == done.returncode, f"{command}\n{done.stdout}{done.stderr}"
        rollouts.settle()
        if removes:
            body = {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": NAMESPACE},
                "spec": {"finalizers": []},
            }
            api.ask("PUT", f"/api/v1/namespaces/{NAMESPACE}/finalize", body)

    try:
        for command in (*plain, *charted, "helm uninstall tierwise -n tierwise"):
            enter(command)
            if (
                command.startswith(("kubectl apply --server-side -k deploy/kustomize", "helm"))
                and "uninst" not in command
            ):
                assert {f"tierwise-{part}" for part in ("scheduler", "controllers", "webhook")} == set(rollouts.pods)
        assert {} == rollouts.pods
        assert len(charted) == 3
    finally:
        rollouts.close()
        api.close()


@pytest.fixture
def installed(helm: Helm, cluster: ControlPlane, tmp_path: Path) -> Iterator[tuple[World, Rollouts]]:
    """A cluster on which the chart is installed, as the guide says, and runs.

    Without the webhook: the API server could not reach its Service, and tests/e2e/test_deploy.py has another way.
    """
    helm("install", "tierwise", CHART, "-n", NAMESPACE, "--create-namespace", "--set", "webhook.enabled=false")
    api = Api(cluster)
    accounts, kubelets = Accounts(cluster, api), Kubelets(api)
    kubelets.start()
    world = World(cluster, api, kubelets, accounts, tmp_path)
    rollouts = Rollouts(api, accounts, tmp_path, NAMESPACE)
    try:
        rollouts.settle()
        yield world, rollouts
    finally:
        rollouts.close()
        world.close()
        helm("uninstall", "tierwise", "-n", NAMESPACE)
        api.close()


def test_upgrade_and_rollback_lose_nothing(helm: Helm, installed: tuple[World, Rollouts], tmp_path: Path) -> None:
    """Gangs are sent before, between and after every step of both; all run whole where they belong, and none moves.

    The new version comes as a package, as from a repository of charts.
    """
    world, rollouts = installed
    world.racks(racks=8, size=4)
    sent: list[str] = []

    def send() -> None:
        sent.append(f"train{len(sent)}")
        world.api.create(job(sent[-1], task("worker", 4, gpu=1), networkTopology=HARD_RACK))

    send()
    world.until(lambda: len(world.running("train0")) == 4)
    values = ["--set", "image.tag=0.1.1", "--set", "schedulerNames={tierwise,volcano}", "--set", "logLevel=debug"]
    send()
    helm("package", CHART, "-d", tmp_path)
    (package,) = tmp_path.glob("tierwise-*.tgz")
    helm("upgrade", "tierwise", package, "-n", NAMESPACE, "--reuse-values", *values)
    rollouts.settle(send)
    assert {"tierwise:0.1.1"} == _images(rollouts)
    send()
    helm("rollback", "tierwise", "1", "-n", NAMESPACE)
    rollouts.settle(send)
    assert {"tierwise:0.1.0"} == _images(rollouts)
    send()

    assert 12 == rollouts.started  # two replicas of two components, three times over
    for name in sent:
        world.until(partial(_whole, world, name))
        assert [4] == list(world.racks_of(name, 4).values())
    assert [] == world.audit()
    assert "forbidden" not in rollouts.said()
    history = json.loads(helm("history", "tierwise", "-n", NAMESPACE, "-o", "json"))
    assert ["superseded", "superseded", "deployed"] == [entry["status"] for entry in history]


def _whole(world: World, name: str) -> bool:
    return len(world.running(name)) == 4


def _images(rollouts: Rollouts) -> set[str]:
    return {
        container["image"]
        for pods in rollouts.pods.values()
        for pod in pods
        for container in pod.template["spec"]["containers"]
    }
