"""`tierwise up` as a person meets it: the command itself, and a stock kubectl with the kubeconfig that it writes."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import shutil
import signal
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.browser import BROWSER, browser
from tests.support.commands import EXAMPLES, run
from tests.support.playground import Json, deployment
from tests.support.ports import HOST, free_port

KUBECTL = shutil.which("kubectl") or ""
needs_kubectl = pytest.mark.skipif(not KUBECTL, reason="no kubectl is installed")


class _Up:
    """The command in a process of its own, and kubectl with its kubeconfig."""

    def __init__(self, folder: Path, process: subprocess.Popen[str], told: list[str]) -> None:
        self.folder, self.told = folder, told
        self.kubeconfig = folder / "kubeconfig"
        self.process = process

    def kubectl(self, *words: str, stdin: str = "", fails: bool = False) -> str:
        """What kubectl prints, which must succeed; or its error."""
        env = {**os.environ, "KUBECONFIG": str(self.kubeconfig), "HOME": str(self.folder)}
        done = subprocess.run(
            [KUBECTL, *words], input=stdin, capture_output=True, text=True, timeout=120, env=env, check=False
        )
        assert fails == bool(done.returncode), done.stderr + done.stdout
        return done.stderr if fails else done.stdout

    def answer(self, path: str) -> Any:
        """What the page is told, as soon as there is a first look at the cluster."""
        for _ in range(600):
            try:
                with urllib.request.urlopen(self.told[0].split()[0] + path) as asked:
                    return json.load(asked)
            except urllib.error.HTTPError as error:
                if error.code != 503:
                    raise
                time.sleep(0.1)
        raise AssertionError(f"{path} is not answered")

    def until_running(self, pod: str) -> None:
        """Look until a pod that may not be there yet runs."""
        for _ in range(600):
            if "Running" in self.kubectl("get", "pods", "--ignore-not-found", pod):
                return
        raise AssertionError(f"{pod} does not run")


@contextmanager
def _up(folder: Path, *words: str, host: str = HOST) -> Iterator[_Up]:
    command = [sys.executable, "-m", "tierwise", "up", "--kubeconfig", str(folder / "kubeconfig")]
    listen = f"{host}:{free_port()}"
    process = subprocess.Popen([*command, "--listen", listen, *words], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    told = [process.stderr.readline().rstrip("\n")]
    try:
        assert "is open" in told[0], told
        told += [process.stderr.readline().rstrip("\n") for _ in range(2)]
        yield _Up(folder, process, told)
        process.send_signal(signal.SIGINT)
        assert 0 == process.wait(60)
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Up]:
    """One cluster for all: the commands of a session follow each other as those of a person would."""
    with _up(tmp_path_factory.mktemp("up"), "-f", str(EXAMPLES / "01-llm-training"), "--speed", "60") as found:
        yield found


@needs_kubectl
def test_the_cluster_is_there_with_its_gangs(up: _Up) -> None:
    """Nodes, hyperNodes and jobs of the manifests, and the pods that were placed."""
    up.kubectl("wait", "--for=jsonpath={.status.phase}=Running", "pod/llm-train-worker-23", "--timeout=60s")

    assert "llm-train-worker-0" in up.kubectl("get", "pods")
    assert "node-0   Ready" in up.kubectl("get", "nodes", "node-0")
    assert "Running" in up.kubectl("get", "vcjob", "llm-train")


@needs_kubectl
def test_describe_says_why_a_gang_waits(up: _Up) -> None:
    """The condition and the event of the podGroup, with their reasons."""
    group = up.kubectl("get", "podgroup", "-o", "name").split()[-1]

    told = up.kubectl("describe", group)

    assert "podgroup.scheduling.volcano.sh/pretrain" in group
    assert "NotEnoughResources" in told
    assert "Warning  Unschedulable" in told


@needs_kubectl
def test_kubectl_tells_of_conflicts_and_forces_them(up: _Up) -> None:
    """What `kubectl scale` wrote is not applied over unless it is asked for; going over from the client's apply is no
    conflict.
    """
    text = json.dumps(deployment("argued", replicas=2))
    server_side = ("apply", "--server-side", "-f", "-")
    up.kubectl("apply", "-f", "-", stdin=text)
    up.kubectl(*server_side, stdin=json.dumps(deployment("argued", replicas=1)))
    up.kubectl("scale", "deployment/argued", "--replicas=3")

    told = up.kubectl(*server_side, stdin=text, fails=True)
    up.kubectl(*server_side, "--force-conflicts", stdin=text)
    number = up.kubectl("get", "deployment", "argued", "-o", "jsonpath={.spec.replicas}")
    up.kubectl("delete", "deployment", "argued")

    assert 'conflict with "kubectl" with subresource "scale" using apps/v1: .spec.replicas' in told
    assert "--force-conflicts" in told
    assert "2" == number


@needs_kubectl
@pytest.mark.parametrize("words", [("apply",), ("apply", "--server-side")], ids=["client", "server"])
def test_a_manifest_is_applied_changed_and_deleted(up: _Up, words: tuple[str, ...]) -> None:
    """The second apply changes nothing, the third scales; what was made goes when the manifest does."""
    name = f"web-{len(words)}"
    text = json.dumps(deployment(name, replicas=2))

    first = up.kubectl(*words, "-f", "-", stdin=text)
    up.kubectl("rollout", "status", f"deployment/{name}", "--timeout=60s")
    again = up.kubectl(*words, "-f", "-", stdin=text)
    up.kubectl(*words, "-f", "-", stdin=json.dumps(deployment(name, replicas=3)))
    up.kubectl("rollout", "status", f"deployment/{name}", "--timeout=60s")
    scaled = up.kubectl("get", "deployment", name)
    up.kubectl("delete", "-f", "-", stdin=text)

    assert ("created" in first, "unchanged" in again) == ((True, True) if len(words) == 1 else (False, False))
    assert f"{name}   3/3" in scaled
    assert "NotFound" in up.kubectl("get", "deployment", name, fails=True)


@needs_kubectl
def test_a_deployment_is_created_scaled_and_rolled_out_by_commands(up: _Up) -> None:
    """Commands that send protobuf, the scale sub-resource, and patches of kubectl's own making."""
    up.kubectl("create", "deployment", "shop", "--image=nginx", "--replicas=1")
    up.kubectl("scale", "deployment", "shop", "--replicas=2")
    up.kubectl("set", "image", "deployment/shop", "nginx=nginx:2")
    up.kubectl("rollout", "status", "deployment/shop", "--timeout=60s")
    image = "jsonpath={.spec.template.spec.containers[*].image}"
    second = up.kubectl("get", "deployment", "shop", "-o", image)
    up.kubectl("rollout", "undo", "deployment/shop")
    up.kubectl("rollout", "status", "deployment/shop", "--timeout=60s")
    first = up.kubectl("get", "deployment", "shop", "-o", image)
    up.kubectl("delete", "deployment", "shop")

    assert ("nginx:2", "nginx") == (second, first)


@needs_kubectl
def test_a_node_is_labelled_cordoned_and_drained(up: _Up) -> None:
    """Its pods are evicted, and it takes none until it is uncordoned."""
    up.kubectl("label", "node", "node-63", "team=a")
    up.kubectl("taint", "node", "node-63", "reserved=yes:NoSchedule")
    up.kubectl("taint", "node", "node-63", "reserved-")
    node = up.kubectl("get", "pods", "-o", "jsonpath={.items[0].spec.nodeName}")

    up.kubectl("cordon", node)
    told = up.kubectl("drain", node, "--ignore-daemonsets", "--force", "--timeout=60s")
    cordoned = up.kubectl("get", "node", node)
    left = up.kubectl("get", "pods", "--field-selector", f"spec.nodeName={node}", "-o", "name")
    up.kubectl("uncordon", node)

    assert "a" == up.kubectl("get", "node", "node-63", "-o", "jsonpath={.metadata.labels.team}")
    assert "drained" in told
    assert "Ready,SchedulingDisabled" in cordoned
    assert "" == left


@needs_kubectl
def test_a_set_with_claims_rolls_out_on_the_usual_class(up: _Up) -> None:
    """As in tutorials: a StatefulSet gets volumes, a drain waits for a budget, and what cannot be is said."""
    usual = {"storageclass.kubernetes.io/is-default-class": "true"}
    storage: Json = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "simulated"}
    storage["metadata"] = {"name": "standard", "annotations": usual}
    claims = [{"metadata": {"name": "www"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}}]
    stateful = deployment("db", replicas=2)
    stateful["kind"] = "StatefulSet"
    stateful["spec"] |= {"serviceName": "db", "volumeClaimTemplates": claims}
    budget: Json = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "db"}}
    budget["spec"] = {"minAvailable": 2, "selector": {"matchLabels": {"app": "db"}}}
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [storage, stateful, budget]})

    up.kubectl("apply", "-f", "-", stdin=text)
    rolled = up.kubectl("rollout", "status", "statefulset/db", "--timeout=60s")
    bound = up.kubectl("get", "pvc", "www-db-1", "-o", "jsonpath={.status.phase} {.spec.storageClassName}")
    unchanged = up.kubectl("diff", "-f", "-", stdin=text)
    node = up.kubectl("get", "pod", "db-0", "-o", "jsonpath={.spec.nodeName}")
    drained = up.kubectl("drain", node, "--ignore-daemonsets", "--pod-selector=app=db", "--timeout=1s", fails=True)
    up.kubectl("uncordon", node)
    refused = up.kubectl("exec", "db-0", "--", "ls", fails=True)
    up.kubectl("debug", "db-0", "--image=busybox", "--container=look", "--profile=general")
    looking = up.kubectl("get", "pod", "db-0", "-o", "jsonpath={.spec.ephemeralContainers[*].name}")
    up.kubectl("delete", "-f", "-", stdin=text)

    assert "roll out complete" in rolled
    assert "Bound standard" == bound
    assert "" == unchanged
    assert "would violate the pod's disruption budget" in drained
    assert "this pod is simulated" in refused
    assert "look" == looking


@needs_kubectl
def test_fields_are_explained_and_misspelt_ones_refused(up: _Up) -> None:
    """From the OpenAPI documents, and by the server."""
    pod = json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containerz": []}})

    assert "command\t<[]string>" in up.kubectl("explain", "pod.spec.containers")
    assert "How many pods must find a place together." in up.kubectl("explain", "podgroup.spec.minMember")
    assert 'unknown field "spec.containerz"' in up.kubectl("apply", "-f", "-", stdin=pod, fails=True)


@needs_kubectl
def test_a_pod_is_watched_as_it_comes_and_goes(up: _Up) -> None:
    """The first row is what is there, and the next ones are what happens."""
    up.kubectl("run", "seen", "--image=nginx", "--restart=Never")
    env = {**os.environ, "KUBECONFIG": str(up.kubeconfig), "HOME": str(up.folder)}
    words = ("get", "pod", "seen", "-w", "--no-headers", "-o", "custom-columns=MORE:.metadata.labels.more")
    watch = subprocess.Popen([KUBECTL, *words], stdout=subprocess.PIPE, text=True, env=env)
    assert watch.stdout is not None
    try:
        rows = [watch.stdout.readline()]
        up.kubectl("label", "pod", "seen", "more=yes")
        while rows[-1] == "<none>\n":  # as it was, and while it starts
            rows.append(watch.stdout.readline())
    finally:
        watch.kill()
        watch.wait()
        watch.stdout.close()
        up.kubectl("delete", "pod", "seen")

    assert "yes\n" == rows[-1]


@needs_kubectl
def test_a_place_that_others_can_reach_asks_for_the_token(tmp_path: Path) -> None:
    """TLS and a token, both in the kubeconfig; without them nothing is told."""
    with _up(tmp_path, host="0.0.0.0") as up:
        found = up.kubectl("get", "nodes", "-o", "name")
        config = yaml.safe_load(up.kubeconfig.read_text())
        url = config["clusters"][0]["cluster"]["server"].replace("0.0.0.0", HOST)
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{url}/api/v1/nodes", timeout=60, context=context)
        refused.value.close()

    assert 32 == len(found.split())
    assert 401 == refused.value.code
    assert 0o600 == up.kubeconfig.stat().st_mode & 0o777


def test_the_page_stands_beside_the_api(tmp_path: Path) -> None:
    """One address for both, where tierwise's own commands look as well; other hosts are not answered."""
    with _up(tmp_path) as up:
        url = yaml.safe_load(up.kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
        with (
            urllib.request.urlopen(f"{url}/", timeout=60) as page,
            urllib.request.urlopen(f"{url}/apis", timeout=60) as apis,
        ):
            title, groups = page.read(), json.load(apis)
        audited = run("audit", "--kubeconfig", up.kubeconfig)
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(urllib.request.Request(f"{url}/apis", headers={"Host": "evil.example"}), timeout=60)
        refused.value.close()

    assert b"<title>tierwise</title>" in title
    assert "APIGroupList" == groups["kind"]
    assert audited.stdout.startswith("all promises kept")
    assert 421 == refused.value.code


@pytest.mark.skipif(not BROWSER, reason="no chromium or google-chrome is installed")
def test_the_page_follows_what_clients_do(tmp_path: Path) -> None:
    """A gang that is created while somebody looks appears, is placed, and lights up without a reload."""
    container = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": "8"}}}
    task = {"name": "worker", "replicas": 4, "template": {"spec": {"containers": [container]}}}
    job = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {"minAvailable": 4, "networkTopology": {"mode": "hard", "highestTierAllowed": 1}, "tasks": [task]},
    }

    async def look(url: str) -> list[str]:
        async with browser(tmp_path / "profile") as page:
            await page.go(f"{url}/")
            await page.until("document.body.innerText.includes('0 of 256')")
            path = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
            asked = urllib.request.Request(
                f"{url}{path}", json.dumps(job).encode(), headers={"Content-Type": "application/json"}
            )
            urllib.request.urlopen(asked, timeout=60).close()
            await page.until("document.body.innerText.includes('32 of 256')")
            await page.until("document.body.innerText.includes('4 pods, 32 gpu')")
            return page.faults

    with _up(tmp_path) as up:
        url = yaml.safe_load(up.kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
        faults = asyncio.run(look(url))

    assert [] == faults


def _two_tenants(folder: Path) -> Path:
    """The example of reservations at its noon, which is now, with `notebook` in a namespace of its own.

    What runs has the deadline that it states, so that others wait for the reservation, too.
    """
    noon, now = datetime(2026, 1, 1, 12, tzinfo=UTC), datetime.now(UTC)

    def later(found: re.Match[str]) -> str:
        return f"{datetime.fromisoformat(found[0]) - noon + now:%Y-%m-%dT%H:%M:%SZ}"

    text = (EXAMPLES / "16-reservations/cluster.yaml").read_text()
    documents = list(yaml.safe_load_all(re.sub(r"2026-01-01T\d\d:\d\d:\d\dZ", later, text)))
    for raw in documents:
        if raw["metadata"]["name"].startswith("notebook"):
            raw["metadata"]["namespace"] = "rival"
        elif raw["kind"] == "Pod" and "nodeName" in raw["spec"]:
            raw["spec"]["activeDeadlineSeconds"] = 4 * 3600  # its word counts for others where something enforces it
    written = folder / "cluster.json"
    written.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": documents}, default=str))
    return written


@needs_kubectl
def test_a_namespace_is_not_told_who_else_has_reserved(tmp_path: Path) -> None:
    """Its conditions and events say that somebody has; those of the other one say where and from when."""
    profile = EXAMPLES / "16-reservations/reservations.conf"
    with _up(tmp_path, "-f", str(_two_tenants(tmp_path)), "--config", str(profile)) as up:
        for namespace, name in (("rival", "notebook"), ("ml", "train")):
            up.kubectl("-n", namespace, "wait", "--for=condition=Unschedulable", f"podgroup/{name}", "--timeout=60s")
        rival, own = (
            up.kubectl("-n", namespace, "get", "events,podgroups,pods", "-o", "json") for namespace in ("rival", "ml")
        )
    for item in (kept := json.loads(rival))["items"]:
        item.pop("spec", None)  # as it was given

    assert "would delay a reservation of another namespace" in rival
    assert "Event" in {item["kind"] for item in kept["items"]}
    assert [] == re.findall(r"ml/|train|tune|rack-\w", json.dumps(kept))
    assert "rack-b" in own


def test_its_page_answers_questions(up: _Up) -> None:
    """What if a rack is drained, and when each job starts: of the cluster as it is."""
    drained, starts = up.answer("api/what-if?if=drain%3Drack-0"), up.answer("api/eta")

    assert ["drain rack-0"] == drained["changes"]
    assert 512 == drained["before"]["capacity"]
    assert {"now", "jobs"} <= set(starts)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--speed", "0"), "--speed"),
        (("--listen", "nowhere"), "HOST:PORT"),
        (("--kubeconfig", "/nowhere/kubeconfig"), "/nowhere/kubeconfig"),
        (("-f", "/nowhere.yaml"), "/nowhere.yaml"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(words: tuple[str, ...], text: str) -> None:
    """With one line, and exit status 2."""
    result = run("up", "--listen", f"{HOST}:{free_port()}", *words)

    assert 2 == result.exit_code
    assert text in result.stderr


def _guided(page: Path) -> Iterator[tuple[list[str], list[str]]]:
    """Every command that a guide shows, with the lines that it shows below it."""
    for body in re.findall(r"^```console\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
            command, *lines = part.splitlines()
            yield shlex.split(command), [line for line in lines if line != "[...]"]


@needs_kubectl
def test_the_first_guide_is_true_from_its_first_command_to_its_last(tmp_path: Path) -> None:
    """`docs/guides/try-it.md` in its order on a new cluster: no command fails, and what is shown is printed."""
    page = EXAMPLES.parent / "docs/guides/try-it.md"
    job = tmp_path / "job.yaml"
    job.write_text(re.findall(r"^```yaml\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)[0])
    wrong = []
    with _up(tmp_path) as up:
        for words, shown in _guided(page):
            if words[:2] == ["tierwise", "up"]:
                told = [re.sub(r"127.0.0.1:\d+", "127.0.0.1:8080", line) for line in up.told]
                printed = [line.replace(str(up.kubeconfig), words[-1]) for line in told]
            elif words[0] == "tierwise":
                done = run(*(up.kubeconfig if word == "up.kubeconfig" else word for word in words[1:]), width=100)
                assert 0 == done.exit_code, done.stderr
                printed = done.stdout.splitlines()
            elif words[-1] == "-w":  # watched until the last of them runs
                up.until_running("train-worker-3")
                continue
            elif words[0] == "kubectl":
                printed = up.kubectl(*(str(job) if word == job.name else word for word in words[1:])).splitlines()
            else:
                continue
            wrong += [line for line in shown if line not in printed]

    assert [] == wrong
