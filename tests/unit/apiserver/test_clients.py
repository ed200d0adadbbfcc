"""Clients that people write operators and tools with, on the embedded cluster's API: kr8s, lightkube, kopf, helm, Go.

The official client for Python has tests of its own, and so has kubectl. Helm and a client in Go are used where they are
built: `tools/control_plane --with helm --with informer --with kubectl-1.29`.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.playground import Playground, deployment, nodes
from tests.support.served_playground import kubeconfig_of, living, program_of, served

from tierwise.apiserver.kinds import KINDS
from tierwise.apiserver.protobuf import message_of

ROOT = Path(__file__).parents[3]
CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "b"}}


def needs(module: str) -> pytest.MarkDecorator:
    """Skipped where a package is not installed."""
    return pytest.mark.skipif(importlib.util.find_spec(module) is None, reason=f"{module} is not installed")


@needs("lightkube")
def test_lightkube_reads_writes_and_watches(tmp_path: Path) -> None:
    """Typed objects, server-side apply, patches, scale, and a watch that begins with what is there."""
    from lightkube import Client, KubeConfig
    from lightkube.models.autoscaling_v1 import ScaleSpec
    from lightkube.models.meta_v1 import ObjectMeta
    from lightkube.resources.apps_v1 import Deployment
    from lightkube.resources.core_v1 import ConfigMap, Node, Pod
    from lightkube.types import PatchType

    ground = Playground(nodes("n0", "n1"))
    ground.create("apps/v1/deployments", deployment("web", 2))
    ground.live()
    with served(ground) as url:
        config = KubeConfig.from_file(kubeconfig_of(tmp_path, url)).get()
        client = Client(config, namespace="default", field_manager="test", trust_env=False)
        assert ["n0", "n1"] == [node.metadata.name for node in client.list(Node)]
        client.apply(ConfigMap(metadata=ObjectMeta(name="c"), data={"a": "b"}))
        client.patch(ConfigMap, "c", {"data": {"c": "d"}}, patch_type=PatchType.MERGE)
        assert {"a": "b", "c": "d"} == client.get(ConfigMap, "c").data
        client.delete(ConfigMap, "c")
        scale = Deployment.Scale(metadata=ObjectMeta(name="web", namespace="default"), spec=ScaleSpec(replicas=3))
        client.replace(scale, "web")
        ground.live()
        assert 3 == client.get(Deployment, "web").status.replicas
        operation, first = next(iter(client.watch(Pod)))
        assert ("ADDED", "Running") == (operation, first.status.phase)


_WITH_KR8S = """
import sys, kr8s
from kr8s.objects import Deployment, Pod
api = kr8s.api(kubeconfig=sys.argv[1])
print([node.name for node in api.get("nodes")])
web = Deployment.get("web", namespace="default", api=api)
web.scale(2)
web.wait("jsonpath='{.status.readyReplicas}'=2", timeout=60)
print(len(list(web.pods())))
spec = {"containers": [{"name": "c", "image": "i"}]}
pod = Pod({"metadata": {"name": "p", "namespace": "default"}, "spec": spec}, api=api)
pod.create()
pod.label(a="b")
pod.wait("condition=Ready", timeout=60)
print(dict(pod.labels), pod.ready())
pod.delete()
pod.wait("delete", timeout=60)
print(pod.exists())
"""


@needs("kr8s")
def test_kr8s_reads_writes_and_waits(tmp_path: Path) -> None:
    """Kinds by what discovery says of them, pods of a Deployment, labels and conditions; without a warning."""
    with living(tmp_path, deployment("web", 1)) as kubeconfig:
        command = [sys.executable, "-W", "error::UserWarning", "-c", _WITH_KR8S, str(kubeconfig)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    assert ["['n0', 'n1']", "2", "{'a': 'b'} True", "False"] == done.stdout.splitlines(), done.stderr


@needs("kopf")
def test_an_operator_of_kopf_follows_objects() -> None:
    """It sees what is made, keeps it until it has seen that it goes, and lets it go."""
    import kopf

    ground, made, gone, ended = Playground(nodes("n0")), threading.Event(), threading.Event(), threading.Event()
    registry = kopf.OperatorRegistry()

    with served(ground) as url:

        def login(**_: Any) -> Any:
            return kopf.ConnectionInfo(server=url)

        def create(patch: Any, **_: Any) -> None:
            patch.setdefault("data", {})["seen"] = "yes"

        def seen(**_: Any) -> None:
            made.set()

        def delete(**_: Any) -> None:
            gone.set()

        kopf.on.login(registry=registry)(login)
        kopf.on.create("configmaps", registry=registry)(create)
        kopf.on.field("configmaps", field="data.seen", registry=registry)(seen)
        kopf.on.delete("configmaps", registry=registry)(delete)

        # Its own thread has a loop of its own, and ends when it is told.
        options: dict[str, Any] = {"registry": registry, "namespaces": ["default"], "standalone": True}
        operator = threading.Thread(target=kopf.run, kwargs={**options, "stop_flag": ended})
        operator.start()
        try:
            ground.create("v1/configmaps", CONFIG_MAP)
            assert made.wait(60)
            assert {"a": "b", "seen": "yes"} == ground.get("v1/configmaps", "c")["data"]
            ground.delete("v1/configmaps", "c")
            assert gone.wait(60)
        finally:
            ended.set()
            operator.join(60)
    assert not operator.is_alive()


def test_a_shared_informer_in_go_follows_pods(tmp_path: Path) -> None:
    """Its index has each pod on its node, while a Deployment is made, scaled and deleted."""
    program = program_of("informer")
    with living(tmp_path) as kubeconfig:
        done = subprocess.run([program, kubeconfig], capture_output=True, text=True, timeout=120, check=False)

    assert ("", ["created: 2 pods", "scaled: 5 pods", "deleted: 0 pods"]) == (done.stderr, done.stdout.splitlines())


CHART = {
    "Chart.yaml": "{apiVersion: v2, name: web, version: 0.1.0}",
    "values.yaml": "{replicas: 1}",
    "templates/web.yaml": """
apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ .Release.Name }}-web}
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: nginx}]}
---
apiVersion: v1
kind: Service
metadata: {name: {{ .Release.Name }}-web}
spec: {selector: {app: web}, ports: [{port: 80}]}
""",
}


def test_helm_installs_upgrades_rolls_back_and_uninstalls(tmp_path: Path) -> None:
    """A small chart, waiting each time until what it made is ready."""
    program = program_of("helm")
    chart = tmp_path / "chart"
    for name, text in CHART.items():
        (chart / name).parent.mkdir(parents=True, exist_ok=True)
        (chart / name).write_text(text)
    with living(tmp_path) as kubeconfig:
        own = {**os.environ, "KUBECONFIG": str(kubeconfig), "HOME": str(tmp_path)}

        def helm(*words: str | Path) -> str:
            done = subprocess.run([program, *words], capture_output=True, text=True, timeout=120, env=own, check=False)
            assert 0 == done.returncode, done.stderr
            return done.stdout

        helm("install", "r", chart, "--wait", "--timeout", "60s")
        helm("upgrade", "r", chart, "--set", "replicas=3", "--wait", "--timeout", "60s")
        helm("rollback", "r", "1", "--wait", "--timeout", "60s")
        history = helm("history", "r", "-o", "yaml")
        helm("uninstall", "r", "--wait", "--timeout", "60s")
        assert [] == yaml.safe_load(helm("list", "-o", "yaml"))

    assert ["superseded", "superseded", "deployed"] == [entry["status"] for entry in yaml.safe_load(history)]


def test_what_clients_in_go_send_is_read() -> None:
    """Protobuf, which they send of all kinds that have been stable for long, and of sub-resources."""
    new = {"PodGroup", "CompositePodGroup", "Workload", "CustomResourceDefinition"}
    groups = ("", "apps", "batch", "policy", "autoscaling", "storage.k8s.io", "networking.k8s.io", "resource.k8s.io")
    more = ("scheduling.k8s.io", "coordination.k8s.io", "events.k8s.io", "discovery.k8s.io")
    served = {(kind.group, kind.kind) for kind in KINDS if kind.group in (*groups, *more) and kind.kind not in new}
    sent = [*served, ("autoscaling", "Scale"), ("policy", "Eviction"), ("", "Binding"), ("meta", "DeleteOptions")]

    assert [] == [kind for kind in sent if message_of(*kind) is None]
