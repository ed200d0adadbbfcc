"""The official client for Python on the embedded cluster's API: it checks every answer against Kubernetes' OpenAPI."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from aiohttp import web
from tests.support.playground import Playground, deployment, nodes
from tests.support.ports import HOST, free_port

from tierwise.apiserver.app import add_api
from tierwise.runtime.listener import listening

client = pytest.importorskip("kubernetes.client", reason="the official client for Python is not installed")


@contextmanager
def _connected(ground: Playground) -> Iterator[Any]:
    app = web.Application()
    add_api(app, ground.api)
    port = free_port()
    with listening(app, HOST, port):
        settings = client.Configuration(host=f"http://{HOST}:{port}")
        with client.ApiClient(settings) as api:
            yield api


def test_it_reads_everything_that_runs() -> None:
    """A field that Kubernetes requires and that is missing makes it refuse a whole list."""
    ground = Playground(nodes("n0", "n1"))
    ground.create("apps/v1/deployments", deployment("web", 2))
    ground.live()

    with _connected(ground) as api:
        core = client.CoreV1Api(api)
        pods = core.list_namespaced_pod("default").items
        assert ["Running", "Running"] == [pod.status.phase for pod in pods]
        assert [True, True] == [bool(pod.status.container_statuses[0].image_id) for pod in pods]
        assert 2 == len(core.list_node().items)
        assert core.list_event_for_all_namespaces().items
        assert 1 == len(client.AppsV1Api(api).list_deployment_for_all_namespaces().items)
        assert 1 == len(client.AppsV1Api(api).list_replica_set_for_all_namespaces().items)
        assert "1" == client.VersionApi(api).get_code().major


def test_it_writes() -> None:
    """Objects are created, patched and deleted."""
    ground = Playground(nodes("n0"))
    spec = {"containers": [{"name": "c", "image": "i"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}

    with _connected(ground) as api:
        core = client.CoreV1Api(api)
        core.create_namespaced_pod("default", pod)
        core.patch_namespaced_pod("p", "default", {"metadata": {"labels": {"a": "b"}}})
        assert {"a": "b"} == core.read_namespaced_pod("p", "default").metadata.labels
        core.delete_namespaced_pod("p", "default")


def test_it_reads_numbers_and_plain_secrets_in_their_normal_form() -> None:
    """It takes quantities as text alone; what a controller makes of a custom resource is of the same form."""
    bare = {"requests": {"cpu": 1, "memory": "1024Mi"}, "limits": {"cpu": 5.0}}
    spec = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i", "resources": bare}]}
    task = {"name": "t", "replicas": 1, "template": {"spec": spec}}
    job = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "j"}}
    ground = Playground([*nodes("n0"), {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "file"}, "spec": spec}])
    ground.create("v1/pods", {"metadata": {"name": "p"}, "spec": spec})
    ground.create("batch.volcano.sh/v1alpha1/jobs", {**job, "spec": {"minAvailable": 1, "tasks": [task]}})
    ground.create("v1/secrets", {"metadata": {"name": "s"}, "data": {"a": "YQ=="}, "stringData": {"token": "abc"}})
    ground.live()

    with _connected(ground) as api:
        core = client.CoreV1Api(api)
        asked = {
            pod.metadata.name: pod.spec.containers[0].resources for pod in core.list_namespaced_pod("default").items
        }
        assert {"p", "file", "j-t-0"} == set(asked)
        assert 3 * [{"cpu": "1", "memory": "1Gi"}] == [one.requests for one in asked.values()]
        assert 3 * [{"cpu": "5"}] == [one.limits for one in asked.values()]
        assert {"a": "YQ==", "token": "YWJj"} == core.read_namespaced_secret("s", "default").data
        assert None is core.read_namespaced_secret("s", "default").string_data


def test_a_body_that_does_not_say_what_it_is_is_json() -> None:
    """As a real server reads it."""
    with _connected(Playground(nodes("n0"))) as api:
        path, text = "/api/v1/namespaces/default/configmaps", b'{"metadata": {"name": "c"}, "data": {"a": "b"}}'
        answer = api.rest_client.pool_manager.request("POST", f"{api.configuration.host}{path}", body=text)

        assert 201 == answer.status
        assert "c" == client.CoreV1Api(api).read_namespaced_config_map("c", "default").metadata.name
