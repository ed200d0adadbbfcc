"""Answers for users of one namespace, on a real API server: two service accounts learn nothing of each other."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.accounts import BOTH, NAMESPACE, Accounts
from tests.e2e.api import Json
from tests.e2e.world import World
from tests.support.ports import free_port

from tierwise.answers.questions import QUESTIONS

TENANTS = {"cobalt": "ann", "vermilion": "bob"}
"""The service account that may list pods, by namespace."""


def _object(version: str, kind: str, name: str, namespace: str = "", **rest: object) -> Json:
    metadata: Json = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **rest}


def _pod(name: str, namespace: str, gpus: int) -> Json:
    limits = {"nvidia.com/gpu": str(gpus)}
    containers = [{"name": "c", "image": "x", "resources": {"limits": limits, "requests": limits}}]
    return _object("v1", "Pod", name, namespace, spec={"schedulerName": "tierwise", "containers": containers})


@pytest.fixture
def tenants(world: World, accounts: Accounts) -> Iterator[dict[str, str]]:
    """Two namespaces, each with an account that may list its pods, by their tokens; the scheduler may review."""
    rbac = "rbac.authorization.k8s.io"
    accounts.install("components/answers/role.yaml")
    subject = {"kind": "ServiceAccount", "name": f"tierwise-{BOTH}", "namespace": NAMESPACE}
    role = {"apiGroup": rbac, "kind": "ClusterRole", "name": "tierwise-answers"}
    accounts.put(_object(f"{rbac}/v1", "ClusterRoleBinding", "answers-both", roleRef=role, subjects=[subject]))
    tokens = {}
    for namespace, account in TENANTS.items():
        accounts.put(_object("v1", "Namespace", namespace))
        accounts.put(_object("v1", "ServiceAccount", account, namespace))
        rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]
        accounts.put(_object(f"{rbac}/v1", "Role", "sees-pods", namespace, rules=rules))
        own = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
        role = {"apiGroup": rbac, "kind": "Role", "name": "sees-pods"}
        accounts.put(_object(f"{rbac}/v1", "RoleBinding", "sees-pods", namespace, roleRef=role, subjects=[own]))
        tokens[namespace] = accounts.token(account, namespace)
    yield tokens
    for namespace in TENANTS:
        for pod in world.api.list("Pod", namespace):
            world.api.delete("Pod", pod["metadata"]["name"], namespace, now=True)


def _ask(port: int, path: str, token: str, body: Json | None = None) -> tuple[int, str, Any]:
    """Status, headers, and the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=90)
    try:
        headers = {"Authorization": f"Bearer {token}"}
        data = json.dumps(body) if body is not None else None
        connection.request("POST" if body is not None else "GET", path, data, headers)
        response = connection.getresponse()
        return response.status, str(response.headers), json.loads(response.read())
    except ConnectionError:
        return 0, "", None
    finally:
        connection.close()


def test_two_tenants_learn_nothing_of_each_other(world: World, tenants: dict[str, str]) -> None:
    """Each asks every question about its own pods, and about the other's: no name of the other comes in any answer."""
    port = free_port()
    world.racks(racks=1, size=2)
    world.run("--answers", f"127.0.0.1:{port}")
    for namespace in TENANTS:
        world.api.create(_pod(f"{namespace}-runs", namespace, 8), _pod(f"{namespace}-waits", namespace, 16))
    world.until(lambda: all("nodeName" in world.api.get("Pod", f"{name}-runs", name)["spec"] for name in TENANTS), 60)
    world.until(lambda: _ask(port, "/v1/namespaces/cobalt/jobs", tenants["cobalt"])[0] == 200, 60)
    world.until(lambda: len(_ask(port, "/v1/namespaces/cobalt/jobs", tenants["cobalt"])[2]["jobs"]) == 2, 60)

    for namespace, other in (("cobalt", "vermilion"), ("vermilion", "cobalt")):
        token = tenants[namespace]
        jobs = _ask(port, f"/v1/namespaces/{namespace}/jobs", token)[2]["jobs"]
        assert {f"{namespace}-runs", f"{namespace}-waits"} == {job["name"] for job in jobs}
        refused = set()
        for question in QUESTIONS:
            body = _pod(f"{namespace}-new", namespace, 4) if question.method == "POST" else None
            own = f"{namespace}-waits"
            status, headers, answer = _ask(
                port, question.path.format(namespace=namespace, job=own, pod=own), token, body
            )
            assert status in (200, 429), answer
            assert other not in f"{headers} {json.dumps(answer)}"
            for name in (f"{other}-runs", f"{other}-waits", "nothing"):
                path = question.path.format(namespace=other, job=name, pod=name)
                status, _, answer = _ask(port, path, token, body)
                assert status in (403, 429), answer
                if status == 403:
                    refused.add(answer["message"])
        account = f"system:serviceaccount:{namespace}:{TENANTS[namespace]}"
        assert {f'user "{account}" may not list pods in namespace "{other}"'} == refused
    assert 401 == _ask(port, "/v1/namespaces/cobalt/jobs", f"{tenants['cobalt']}x")[0]


def test_the_command_line_asks_where_its_user_may_not_list(
    world: World, accounts: Accounts, tenants: dict[str, str], tmp_path: Path
) -> None:
    """`why` and `ask` with the kubeconfig of a tenant; without an address the refusal says how to name one."""
    port = free_port()
    world.racks(racks=1, size=1)
    world.run("--answers", f"127.0.0.1:{port}")
    world.api.create(_pod("cobalt-waits", "cobalt", 16))
    world.until(lambda: _ask(port, "/v1/namespaces/cobalt/jobs/cobalt-waits", tenants["cobalt"])[0] == 200, 60)
    config = accounts.write("ann", tenants["cobalt"])

    def tierwise(*words: str, address: str = f"http://127.0.0.1:{port}") -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "TIERWISE_ANSWERS": address}
        command = [sys.executable, "-m", "tierwise", *words, "--kubeconfig", str(config)]
        return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=120)

    told = tierwise("why", "cobalt/cobalt-waits")
    assert (0, "") == (told.returncode, told.stderr)
    assert "cobalt-waits is waiting: 0 pods running, 1 waiting" in told.stdout
    listed = tierwise("ask", "jobs", "-n", "cobalt", "-o", "json")
    assert ["cobalt-waits"] == [job["name"] for job in json.loads(listed.stdout)["jobs"]]
    refused = tierwise("ask", "jobs", "-n", "vermilion")
    assert (2, "") == (refused.returncode, refused.stdout)
    assert 'may not list pods in namespace "vermilion"' in refused.stderr
    nowhere = tierwise("why", "cobalt/cobalt-waits", address="")
    assert 2 == nowhere.returncode
    assert "--answers URL" in nowhere.stderr
