"""The guide on migration, typed command by command on a cluster where another scheduler has placed half of the jobs.

The other scheduler is played: its configuration, Deployments and objects are those that it leaves in a cluster, and its
binds are made here. Nothing that runs may move or restart, whoever waits is placed, and the way back is open.
VOLCANO_CRDS may name a folder with Volcano's own definitions (config/crd/volcano/bases of its repository).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from tests.e2e.accounts import NAMESPACE, Accounts
from tests.e2e.api import Api, Json, path_of
from tests.e2e.control_plane import ControlPlane
from tests.e2e.helm import Helm
from tests.e2e.kubelet import Kubelets
from tests.e2e.rollout import Rollouts
from tests.e2e.world import World, job, node, task

ROOT = Path(__file__).parents[2]
VOLCANO = os.environ.get("VOLCANO_CRDS", "")
GUIDE = ROOT / "docs/guides/migration.md"
SIZE, RACK = 4, 4

VOLCANO_CONF = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
"""

KOORD_CONF = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: true, resourceName: koord-scheduler, resourceNamespace: koordinator-system}
profiles:
- schedulerName: koord-scheduler
  pluginConfig:
  - name: NodeResourcesFit
    args:
      apiVersion: kubescheduler.config.k8s.io/v1
      kind: NodeResourcesFitArgs
      scoringStrategy: {type: LeastAllocated, resources: [{name: cpu, weight: 1}, {name: memory, weight: 1}]}
  - name: ElasticQuota
    args: {apiVersion: kubescheduler.config.k8s.io/v1, kind: ElasticQuotaArgs, quotaGroupNamespace: koordinator-system}
  plugins:
    queueSort: {disabled: [{name: "*"}], enabled: [{name: Coscheduling}]}
    preFilter: {enabled: [{name: Coscheduling}, {name: ElasticQuota}]}
    postFilter: {disabled: [{name: "*"}], enabled: [{name: Coscheduling}, {name: ElasticQuota}]}
    permit: {enabled: [{name: Coscheduling}]}
    reserve: {enabled: [{name: ElasticQuota}]}
    postBind: {enabled: [{name: Coscheduling}]}
"""

PLUGINS_CONF = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
profiles:
- schedulerName: scheduler-plugins-scheduler
  plugins:
    multiPoint: {enabled: [{name: Coscheduling}]}
    queueSort: {enabled: [{name: Coscheduling}], disabled: [{name: "*"}]}
  pluginConfig:
  - name: Coscheduling
    args: {permitWaitingTimeSeconds: 10}
"""


class Predecessor(msgspec.Struct, frozen=True):
    """A scheduler, and what it leaves in a cluster."""

    title: str  # as the guide calls it
    scheduler: str  # the name that pods ask for
    namespace: str
    deployments: tuple[str, ...]
    config_map: str
    key: str
    configuration: str
    group: str  # apiVersion of its PodGroups

    def install(self, api: Api) -> None:
        """Namespace, Deployments and configuration, as its installer makes them."""
        api.ask("POST", "/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        inside = f"namespaces/{self.namespace}"
        body = {"metadata": {"name": self.config_map}, "data": {self.key: self.configuration}}
        api.ask("POST", f"/api/v1/{inside}/configmaps", body)
        for name in self.deployments:
            labels = {"app": name}
            pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": name}]}}
            spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": pod}
            api.ask("POST", f"/apis/apps/v1/{inside}/deployments", {"metadata": {"name": name}, "spec": spec})

    def gang(self, api: Api, name: str) -> None:
        """A gang that waits: its group, and pods that name it."""
        if self.scheduler == "volcano":
            self._volcano_job(api, name)
            return
        body = {"apiVersion": self.group, "kind": "PodGroup", "metadata": {"name": name}, "spec": {"minMember": SIZE}}
        api.ask("POST", f"/apis/{self.group}/namespaces/default/podgroups", body)
        label = "scheduling.x-k8s.io/pod-group" if "x-k8s" in self.group else "pod-group.scheduling.sigs.k8s.io"
        api.create(*(_pod(f"{name}-worker-{i}", self.scheduler, {"labels": {label: name}}) for i in range(SIZE)))

    def _volcano_job(self, api: Api, name: str) -> None:
        """A Job with the podGroup and the pods that Volcano's controllers make of it, and its status."""
        manifest = job(name, task("worker", SIZE, gpu=1), queue="team")
        manifest["spec"]["schedulerName"] = self.scheduler
        api.create(manifest)
        uid = api.get("Job", name)["metadata"]["uid"]
        group = f"{name}-{uid}"
        owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": name, "uid": uid, "controller": True}
        spec = {"minMember": SIZE, "queue": "team", "minTaskMember": {"worker": SIZE}}
        meta = {"name": group, "namespace": "default", "ownerReferences": [owner]}
        api.create({"apiVersion": self.group, "kind": "PodGroup", "metadata": meta, "spec": spec})
        for i in range(SIZE):
            shared = {"volcano.sh/job-name": name, "volcano.sh/queue-name": "team", "volcano.sh/task-spec": "worker"}
            notes = {
                "scheduling.k8s.io/group-name": group,
                "volcano.sh/job-version": "0",
                "volcano.sh/task-index": str(i),
            }
            labels = {**shared, "volcano.sh/job-namespace": "default", "volcano.sh/task-index": str(i)}
            more = {"labels": labels, "annotations": {**shared, **notes}, "ownerReferences": [owner]}
            api.create(_pod(f"{name}-worker-{i}", self.scheduler, more))
        state = {"state": {"phase": "Pending"}, "minAvailable": SIZE, "pending": SIZE, "version": 0}
        api.patch("Job", name, {"status": state}, status=True)

    def place(self, api: Api, name: str, rack: int) -> None:
        """Its binds, and what it writes on the group."""
        for i in range(SIZE):
            body = {
                "metadata": {"name": f"{name}-worker-{i}"},
                "target": {"kind": "Node", "name": f"n{rack * RACK + i}"},
            }
            api.ask("POST", f"{path_of('Pod', f'{name}-worker-{i}', 'default')}/binding", body)
        if self.scheduler == "volcano":
            (group,) = (g["metadata"]["name"] for g in api.list("PodGroup") if g["metadata"]["name"].startswith(name))
            condition = {"type": "Scheduled", "status": "True", "reason": "tasks in gang are ready to be scheduled"}
            status = {"phase": "Running", "running": SIZE, "conditions": [condition]}
            api.patch("PodGroup", group, {"status": status})  # which is no subresource in Volcano's definition


def _pod(name: str, scheduler: str, more: Json) -> Json:
    resources = {"requests": {"cpu": "1", "nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "1"}}
    containers = [{"name": "c", "image": "image", "resources": resources}]
    meta = {"name": name, "namespace": "default", **more}
    spec = {"schedulerName": scheduler, "terminationGracePeriodSeconds": 1, "containers": containers}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


PREDECESSORS = (
    Predecessor(
        title="Volcano",
        scheduler="volcano",
        namespace="volcano-system",
        deployments=("volcano-scheduler", "volcano-controllers"),
        config_map="volcano-scheduler-configmap",
        key="volcano-scheduler.conf",
        configuration=VOLCANO_CONF,
        group="scheduling.volcano.sh/v1beta1",
    ),
    Predecessor(
        title="koord-scheduler",
        scheduler="koord-scheduler",
        namespace="koordinator-system",
        deployments=("koord-scheduler",),
        config_map="koord-scheduler-config",
        key="koord-scheduler-config",
        configuration=KOORD_CONF,
        group="scheduling.sigs.k8s.io/v1alpha1",
    ),
    Predecessor(
        title="scheduler-plugins",
        scheduler="scheduler-plugins-scheduler",
        namespace="scheduler-plugins",
        deployments=("scheduler-plugins-scheduler",),
        config_map="scheduler-config",
        key="scheduler-config.yaml",
        configuration=PLUGINS_CONF,
        group="scheduling.x-k8s.io/v1alpha1",
    ),
)


@pytest.fixture
def migrating(helm: Helm, cluster: ControlPlane, tmp_path: Path) -> Iterator[tuple[World, Rollouts]]:
    """A cluster with the definitions of others, or ours where they are missing, on which nothing of ours runs."""
    api = Api(cluster)
    _define(api)
    _type(_commands("# Migration"), helm, Rollouts(api, Accounts(cluster, api), tmp_path, NAMESPACE), tmp_path)
    World.wait(api)
    accounts, kubelets = Accounts(cluster, api), Kubelets(api)
    kubelets.start()
    world = World(cluster, api, kubelets, accounts, tmp_path)
    rollouts = Rollouts(api, accounts, tmp_path, NAMESPACE)
    try:
        yield world, rollouts
    finally:
        rollouts.close()
        world.close()
        api.close()


def _define(api: Api) -> None:
    """Definitions of another hand, with which ours must not meddle: Volcano's own where somebody has them."""
    if VOLCANO:
        others = [yaml.safe_load(file.read_text()) for file in sorted(Path(VOLCANO).glob("*.yaml"))]
    else:
        others = [yaml.safe_load(file.read_text()) for file in sorted((ROOT / "deploy/crds/volcano").glob("*_*.yaml"))]
        for definition in others:
            for version in definition["spec"]["versions"]:
                version["schema"]["openAPIV3Schema"]["description"] = "by somebody else"
                if definition["spec"]["names"]["kind"] == "PodGroup":
                    version.pop("subresources")  # as Volcano has it
    for definition in others:
        api.apply(definition)


def _commands(heading: str) -> list[str]:
    """The commands of a section of the guide, in order."""
    (section,) = re.findall(rf"^{heading}\n(.*?)(?=^##|\Z)", GUIDE.read_text(), re.DOTALL | re.MULTILINE)
    return [line.removeprefix("$ ") for line in section.splitlines() if line.startswith("$ ")]


@pytest.mark.parametrize("before", PREDECESSORS, ids=lambda before: before.title)
def test_the_guide_takes_over_and_gives_back(
    migrating: tuple[World, Rollouts], helm: Helm, before: Predecessor, tmp_path: Path
) -> None:
    """Of six gangs three run: none of them moves or restarts, the others start, and so it is after the return."""
    world, rollouts = migrating
    api = world.api
    api.create(*(node(f"n{i}", labels={"rack": f"r{i // RACK}"}) for i in range(6 * RACK)))
    if before.scheduler == "volcano":
        queue = {"apiVersion": before.group, "kind": "Queue", "metadata": {"name": "team"}, "spec": {"weight": 1}}
        api.create(queue)
    before.install(api)
    for i in range(6):
        before.gang(api, f"train{i}")
    for i in range(3):
        before.place(api, f"train{i}", rack=i)
    world.until(lambda: len(world.running()) == 3 * SIZE)
    running = _identities(world)

    described = _definitions(api)
    _type(_commands(f"## From {before.title}"), helm, rollouts, tmp_path)
    world.until(lambda: len(world.running()) == 6 * SIZE)
    assert running.items() <= _identities(world).items()
    assert [] == world.audit()
    everybody = _identities(world)
    _type(_commands(f"### Back to {before.title}"), helm, rollouts, tmp_path)
    before.gang(api, "later")

    assert everybody == _identities(world)
    assert described == _definitions(api)
    assert {} == rollouts.pods
    assert not world.running("later")
    for name in before.deployments:
        found = api.ask("GET", f"/apis/apps/v1/namespaces/{before.namespace}/deployments/{name}")
        assert 1 == found["spec"]["replicas"]
    before.place(api, "later", rack=5)  # which packing has left free
    world.until(lambda: len(world.running("later")) == SIZE)
    assert [] == world.audit()


def _type(commands: list[str], helm: Helm, rollouts: Rollouts, folder: Path) -> None:
    """Command by command, as a person does; the cluster follows each of them."""
    assert commands
    if not (folder / "deploy").exists():
        (folder / "deploy").symlink_to(ROOT / "deploy")
    around: dict[str, Any] = helm.environment()
    around["PATH"] = f"{Path(sys.executable).parent}:{around['PATH']}"
    for command in commands:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command], capture_output=True, text=True, cwd=folder, env=around
        )
        assert 0 == done.returncode, f"{command}\n{done.stdout}{done.stderr}"
        rollouts.settle()


def _definitions(api: Api) -> dict[str, Json]:
    return {found["metadata"]["name"]: found["spec"] for found in api.list("CustomResourceDefinition")}


def _identities(world: World) -> dict[str, tuple[str, str]]:
    """Every running pod: which one it is, and where."""
    running = world.running()
    return {
        pod["metadata"]["name"]: (pod["metadata"]["uid"], pod["spec"]["nodeName"])
        for pod in world.pods()
        if pod["metadata"]["name"] in running
    }
