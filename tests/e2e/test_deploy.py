"""What deploy/ installs, on a real API server: rights that suffice and go no further, admission, and the plugin."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import yaml
from tests.e2e.accounts import NAMESPACE, NODES
from tests.e2e.api import ApiRefusal, Json, path_of
from tests.e2e.world import World, job, task
from tests.support.ports import free_port

ROOT = Path(__file__).parents[2]
HARD_RACK: Json = {"mode": "hard", "highestTierAllowed": 1}
REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
PLUGIN = [sys.executable, "-c", "from tierwise.cli.kubectl import main; main()"]


def test_two_components_with_their_own_rights_run_a_job(world: World, tmp_path: Path) -> None:
    """Scheduler and controllers apart, each with its lease: a gang comes up, and nothing was forbidden to them."""
    world.racks(racks=2, size=4)
    world.run("--no-controllers", "--lease-namespace", NAMESPACE)
    world.run("--lease-namespace", NAMESPACE, verb="controllers")
    world.api.create(job("train", task("worker", 4), networkTopology=HARD_RACK))
    world.until(lambda: len(world.running("train")) == 4, 60)
    world.until(lambda: bool(world.told(world.group("train")["metadata"]["name"])), 20)

    assert [4] == list(world.racks_of("train", 4).values())
    (event,) = (
        e for e in world.api.list("Event") if e["reason"] == "Scheduled" and "PodGroup" == e["involvedObject"]["kind"]
    )
    decision = event["metadata"]["annotations"]["tierwise.io/decision"]
    # The turn is logged when all of it is done, which is a little later than its events.
    world.until(lambda: any(decision in log.read_text() for log in tmp_path.glob("*.log")))
    logs = [log.read_text() for log in tmp_path.glob("*.log")]
    assert not any("forbidden" in log for log in logs)
    lines = [json.loads(line) for log in logs for line in log.splitlines() if decision in line]
    assert [("bound", 4)] == [(line["message"], line["pods"]) for line in lines]


@pytest.mark.parametrize(
    ("account", "verb", "group", "resource"),
    [
        ("tierwise-scheduler", "create", "", "pods"),
        ("tierwise-scheduler", "delete", "", "pods"),
        ("tierwise-scheduler", "update", "scheduling.volcano.sh", "queues"),
        ("tierwise-controllers", "list", "", "secrets"),
        ("tierwise-controllers", "create", "", "pods/binding"),
        ("tierwise-webhook", "get", "", "secrets"),
        ("tierwise-webhook", "delete", "scheduling.volcano.sh", "queues"),
        ("looker", "patch", "scheduling.volcano.sh", "podgroups"),
    ],
)
def test_rights_go_no_further(world: World, account: str, verb: str, group: str, resource: str) -> None:
    """What a component does not do, it may not do."""
    assert not world.accounts.may(account, verb, resource, group=group)


@pytest.fixture
def reviewed(world: World) -> Iterator[World]:
    """A world in which the webhook answers; the API server reaches it by a name that stands for this machine."""
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "tierwise-webhook"}}
    service["spec"] = {"type": "ExternalName", "externalName": "localhost"}
    services = f"/api/v1/namespaces/{NAMESPACE}/services"
    world.api.ask("POST", services, service)
    port = free_port()
    made = []
    for manifest in yaml.safe_load_all((ROOT / "deploy/kustomize/base/admission.yaml").read_text()):
        manifest["webhooks"][0]["clientConfig"]["service"]["port"] = port
        manifest["webhooks"][0]["failurePolicy"] = "Fail"
        made.append(f"{REGISTRATION}/{manifest['kind'].lower()}s")
        world.api.ask("POST", made[-1], manifest)
    folder = str(world.plane.folder / "tls")
    words = [
        "--self-signed",
        "--tls-folder",
        folder,
        "--namespace",
        NAMESPACE,
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
    ]
    world.webhook = world.run(*words, "--log-level=info", verb="webhook")
    try:
        world.until(lambda: _answers(world), 30)
        yield world
    finally:
        for path in (*(f"{collection}/tierwise" for collection in made), f"{services}/tierwise-webhook"):
            world.api.ask("DELETE", path)


def _queue(name: str, **spec: object) -> Json:
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def _answers(world: World) -> bool:
    """Whether reviews are answered by now: until then the API server refuses what it cannot have reviewed."""
    return _refusal(world, _queue("probe")) == ""


def _refusal(world: World, manifest: Json) -> str:
    """What the API server has against an object, without making it."""
    try:
        world.api.ask("POST", f"{path_of(manifest['kind'])}?dryRun=All", manifest)
    except ApiRefusal as refusal:
        return str(refusal)
    return ""


def test_the_webhook_denies_and_completes(reviewed: World) -> None:
    """With a certificate of its own in a Secret: a wrong object is refused, a short one gets its defaults."""
    api = reviewed.api
    with pytest.raises(ApiRefusal, match=r"spec\.weight: weight is -1, it must be at least 1"):
        api.create(_queue("bad", weight=-1))
    api.create(job("short", task("worker", 3)) | {"spec": {"tasks": [task("worker", 3)]}})

    made = api.get("Job", "short")["spec"]

    assert (3, "default", 3) == (made["minAvailable"], made["queue"], made["tasks"][0]["minAvailable"])
    secret = api.ask("GET", f"/api/v1/namespaces/{NAMESPACE}/secrets/tierwise-webhook")
    assert {"ca.crt", "tls.crt", "tls.key"} == set(secret["data"])


def test_a_queue_in_use_is_not_deleted(reviewed: World) -> None:
    """Only when its last job is gone."""
    reviewed.api.create(_queue("team", weight=1), job("train", task("worker", 1), queue="team"))
    reviewed.until(lambda: "has 1 job in it (default/train)" in _deletion(reviewed, "team"))
    reviewed.api.delete("Job", "train")
    reviewed.until(lambda: _deletion(reviewed, "team") == "")
    reviewed.api.delete("Queue", "team")


def _deletion(world: World, name: str) -> str:
    """What the API server has against deleting a queue; it is not deleted."""
    try:
        world.api.ask("DELETE", f"{path_of('Queue')}/{name}?dryRun=All")
    except ApiRefusal as refusal:
        return str(refusal)
    return ""


def test_a_webhook_that_hangs_stops_no_job(reviewed: World) -> None:
    """With failurePolicy Ignore, as installed, objects pass when the webhook does not answer in time: ours as well."""
    for plural in ("validatingwebhookconfigurations", "mutatingwebhookconfigurations"):
        found = reviewed.api.ask("GET", f"{REGISTRATION}/{plural}/tierwise")
        found["webhooks"][0]["failurePolicy"] = "Ignore"
        reviewed.api.ask("PUT", f"{REGISTRATION}/{plural}/tierwise", found)
    reviewed.racks(racks=1, size=2)
    assert reviewed.webhook is not None
    reviewed.webhook.send_signal(signal.SIGSTOP)
    try:
        reviewed.run()
        reviewed.api.create(job("train", task("worker", 2)))
        reviewed.until(lambda: len(reviewed.running("train")) == 2, 60)
    finally:
        reviewed.webhook.send_signal(signal.SIGCONT)


def test_policies_hold_without_a_webhook(world: World) -> None:
    """What CEL can say is refused by the API server itself."""
    made = []
    for file in sorted((ROOT / "deploy/kustomize/components/policies").glob("*s.yaml")):
        for manifest in yaml.safe_load_all(file.read_text()):
            plural = {"P": "validatingadmissionpolicies", "B": "validatingadmissionpolicybindings"}
            made.append(f"{REGISTRATION}/{plural['B' if manifest['kind'].endswith('Binding') else 'P']}")
            world.api.ask("POST", made[-1], manifest)
            made[-1] += f"/{manifest['metadata']['name']}"
    wrong = _queue("q", deserved={"cpu": 4}, capability={"cpu": "2"})

    try:
        world.until(lambda: _refusal(world, wrong) != "", 20)  # a policy takes a moment to be known
        assert "spec.deserved: more than the capability" in _refusal(world, wrong)
        world.api.create(_queue("q", deserved={"cpu": 1}, capability={"cpu": "2"}))
    finally:
        for path in reversed(made):
            world.api.ask("DELETE", path)


def test_the_plugin_looks_with_the_right_to_read(world: World, tmp_path: Path) -> None:
    """Why, top and a saved state that gives the same answers, from an account that may change nothing."""
    world.racks(racks=2, size=2)
    world.run()
    world.api.create(job("huge", task("worker", 3), networkTopology=HARD_RACK))
    world.until(
        lambda: bool(world.group("huge").get("status", {}).get("conditions")) and len(world.pods("huge")) == 3, 60
    )
    saved = tmp_path / "cluster.jsonl"

    live = _plugin(world, "why", "huge-worker-0", "-o", "json")
    _plugin(world, "snapshot", "-o", str(saved))
    replayed = _plugin(world, "why", "huge-worker-0", "-f", str(saved), "-o", "json")

    assert "waiting" == json.loads(live)["state"]
    assert live == replayed
    assert "0 of 32 nvidia.com/gpu in use on 4 nodes" in _plugin(world, "top")


def _plugin(world: World, *words: str) -> str:
    files = ["--kubeconfig", str(world.accounts.kubeconfig("looker"))]
    done = subprocess.run([*PLUGIN, *words, *files], capture_output=True, text=True)
    assert 0 == done.returncode, done.stderr
    return done.stdout


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on this machine")
@pytest.mark.parametrize(
    ("folder", "namespace", "object_"),
    [
        ("default", NAMESPACE, "deployment.apps/tierwise-scheduler"),
        ("node-programs", NODES, "daemonset.apps/tierwise-probe"),
    ],
)
def test_everything_is_accepted_as_it_is(world: World, folder: str, namespace: str, object_: str) -> None:
    """Server-side apply of the manifests, as users do it; dry, so that nothing stays."""
    world.accounts.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    command = ["kubectl", "--kubeconfig", str(world.plane.kubeconfig), "apply", "--server-side", "--dry-run=server"]
    done = subprocess.run([*command, "-k", str(ROOT / "deploy/kustomize" / folder)], capture_output=True, text=True)

    assert f"{object_} serverside-applied (server dry run)" in done.stdout
    assert 0 == done.returncode, done.stderr


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on this machine")
def test_documented_commands_succeed_every_time(world: World, tmp_path: Path) -> None:
    """Installing what is missing, and looking at it, by a kubectl that knows nothing yet and by one that does."""
    text = (ROOT / "docs/guides/install.md").read_text()
    lines = [line.removeprefix("$ ") for line in text.splitlines() if line.startswith("$ ")]
    wanted = ("get crds", "test ! -s", "api-resources", "get tierwise")
    script = "\n".join(line for line in lines if any(word in line for word in wanted))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    around = {**os.environ, "PATH": path, "HOME": str(tmp_path), "KUBECONFIG": str(world.plane.kubeconfig)}
    run = partial(subprocess.run, ["bash", "-euo", "pipefail", "-c", script], cwd=tmp_path, env=around)
    for _ in range(2):
        done = run(capture_output=True, text=True)
        assert 0 == done.returncode, done.stderr
        assert "hypernodes" in done.stdout
