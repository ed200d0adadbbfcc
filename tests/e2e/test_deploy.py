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
from tests.e2e.api import Api, ApiRefusal, Json, path_of
from tests.e2e.world import World, job, task
from tests.support.ports import free_port

ROOT = Path(__file__).parents[2]
HARD_RACK: Json = {"mode": "hard", "highestTierAllowed": 1}
REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
MADE_BY_SVC = ("/api/v1/services", "/api/v1/configmaps", "/apis/networking.k8s.io/v1/networkpolicies")
COMPONENTS = ("scheduler", "controllers", "webhook")
POLICIES = ("controllers-write", "hypernodes", "jobs", "podgroups", "queues")
PLUGIN = [sys.executable, "-c", "from tierwise.cli.kubectl import main; main()"]


def _queue(name: str, **spec: object) -> Json:
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


TOO_MUCH = _queue("q", deserved={"cpu": 4}, capability={"cpu": "2"})


def test_two_components_with_their_own_rights_run_a_job(world: World, tmp_path: Path) -> None:
    """Scheduler and controllers apart, each with its lease: a gang comes up, and nothing was forbidden to them."""
    world.racks(racks=2, size=4)
    world.run("--no-controllers", "--lease-namespace", NAMESPACE)
    world.run("--lease-namespace", NAMESPACE, verb="controllers")
    world.api.create(job("train", task("worker", 4), networkTopology=HARD_RACK))
    world.until(lambda: len(world.running("train")) == 4)
    group = world.group("train")["metadata"]["name"]
    world.until(lambda: len(_events(world, group, "Scheduled")) == 1)

    assert [4] == list(world.racks_of("train", 4).values())
    (event,) = _events(world, group, "Scheduled")
    decision = event["metadata"]["annotations"]["tierwise.io/decision"]
    # The turn is logged when all of it is done, which is a little later than its events.
    world.until(lambda: any(decision in log.read_text() for log in tmp_path.glob("*.log")))
    logs = [log.read_text() for log in tmp_path.glob("*.log")]
    assert not any("forbidden" in log for log in logs)
    lines = [json.loads(line) for log in logs for line in log.splitlines() if decision in line]
    assert [("bound", 4)] == [(line["message"], line["pods"]) for line in lines]


def _events(world: World, name: str, reason: str) -> list[Json]:
    """The events about an object that have a reason."""
    return [e for e in world.api.list("Event") if (e["involvedObject"]["name"], e["reason"]) == (name, reason)]


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
        world.until(lambda: _answers(world))
        yield world
    finally:
        for path in (*(f"{collection}/tierwise" for collection in made), f"{services}/tierwise-webhook"):
            world.api.ask("DELETE", path)


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
        reviewed.until(lambda: _answers(reviewed))  # the API server takes a moment to hear of the change
        reviewed.run()
        reviewed.api.create(job("train", task("worker", 2)))
        reviewed.until(lambda: len(reviewed.running("train")) == 2)
    finally:
        reviewed.webhook.send_signal(signal.SIGCONT)


@pytest.fixture
def policed(world: World) -> Iterator[World]:
    """A world with all policies, which take a moment to be known."""
    files = sorted((ROOT / "deploy/kustomize/components/policies").glob("[!k]*.yaml"))
    made = [manifest for file in files for manifest in yaml.safe_load_all(file.read_text())]
    plurals = {"ValidatingAdmissionPolicy": "policies", "ValidatingAdmissionPolicyBinding": "policybindings"}
    paths = [f"{REGISTRATION}/validatingadmission{plurals[manifest['kind']]}" for manifest in made]
    for path, manifest in zip(paths, made, strict=True):
        world.api.ask("POST", path, manifest)
    controllers = Api(world.plane, world.accounts.token("tierwise-controllers"))
    try:
        world.until(lambda: _refusal(world, TOO_MUCH) != "" and _write(controllers, _settings()) != "")
        yield world
    finally:
        controllers.close()
        for path, manifest in zip(paths, made, strict=True):
            world.api.ask("DELETE", f"{path}/{manifest['metadata']['name']}")


def _settings(name: str = "settings", **more: object) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default", **more}}


def _write(api: Api, manifest: Json) -> str:
    """What the API server has against an object that somebody makes, without making it."""
    try:
        api.ask("POST", f"{path_of(manifest['kind'], namespace='default')}?dryRun=All", manifest)
    except ApiRefusal as refusal:
        return str(refusal)
    return ""


def test_policies_hold_without_a_webhook(policed: World) -> None:
    """What CEL can say is refused by the API server itself."""
    assert "spec.deserved: more than the capability" in _refusal(policed, TOO_MUCH)
    policed.api.create(_queue("q", deserved={"cpu": 1}, capability={"cpu": "2"}))


def test_the_controllers_write_for_jobs_alone(policed: World) -> None:
    """With every policy in force a job with its plugins comes up and goes again; what belongs to no job is not theirs.

    Others, and the records of topology sources, are not held up.
    """
    policed.accounts.install("base/network.yaml")
    policed.racks(racks=1, size=2)
    policed.run("--no-controllers")
    policed.run(verb="controllers")
    policed.api.create(job("train", task("worker", 2), plugins={"svc": [], "env": []}, ttlSecondsAfterFinished=1))
    policed.until(lambda: len(policed.running("train")) == 2)
    theirs = Api(policed.plane, policed.accounts.token("tierwise-controllers"))
    foreign = "/api/v1/namespaces/default/configmaps/settings"
    try:
        policed.api.create(_settings())
        assert "only what belongs to a Volcano job" in _write(theirs, _settings("other"))
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u"}
        assert "make only what belongs" in _write(theirs, _settings("other", ownerReferences=[owner]))
        owner["apiVersion"] = "batch.volcano.sh/v1alpha1"
        assert "" == _write(theirs, _settings("other", ownerReferences=[owner]))
        assert "" == _write(theirs, _settings("tierwise-discovery-ufm"))
        for method, body in (("PUT", _settings(ownerReferences=[owner])), ("DELETE", None)):
            with pytest.raises(ApiRefusal, match="the controllers change only what belongs to a Volcano job"):
                theirs.ask(method, foreign, body)
    finally:
        theirs.close()
        policed.api.ask("DELETE", foreign)
    assert [1, 1, 1] == [len(_of_train(policed, path)) for path in MADE_BY_SVC]
    for name in policed.running("train"):
        policed.api.patch("Pod", name, {"status": {"phase": "Succeeded"}}, status=True)
    policed.until(lambda: not policed.api.list("Job"))
    assert [0, 0, 0] == [len(_of_train(policed, path)) for path in MADE_BY_SVC]
    assert "belongs to a Volcano job" not in policed.said()
    assert "forbidden" not in policed.said()


def _of_train(world: World, path: str) -> list[str]:
    """The objects of a kind that are named like the job."""
    names = [found["metadata"]["name"] for found in world.api.ask("GET", path)["items"]]
    return [name for name in names if name.startswith("train")]


def test_the_plugin_looks_with_the_right_to_read(world: World, tmp_path: Path) -> None:
    """Why, top and a saved state that gives the same answers, from an account that may change nothing."""
    world.racks(racks=2, size=2)
    world.run()
    world.api.create(job("huge", task("worker", 3), networkTopology=HARD_RACK))
    world.until(lambda: bool(world.group("huge").get("status", {}).get("conditions")) and len(world.pods("huge")) == 3)
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


FOREIGN = {
    "monitoring.coreos.com": ("ServiceMonitor", "PrometheusRule"),
    "cert-manager.io": ("Issuer", "Certificate"),
}
"""Kinds of others that components bring objects of."""


@pytest.fixture
def served(world: World) -> Iterator[World]:
    """A world that serves kinds of the Prometheus operator and of cert-manager, and has both of our namespaces."""
    for namespace in (NAMESPACE, NODES):
        world.accounts.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    made = []
    for group, kind in ((group, kind) for group, kinds in FOREIGN.items() for kind in kinds):
        plural = f"{kind.lower()}s"
        schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        spec = {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        }
        made.append((f"{plural}.{group}", f"/apis/{group}/v1/{plural}"))
        definition = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
        world.api.create({**definition, "metadata": {"name": made[-1][0]}, "spec": spec})
    try:
        world.until(lambda: all(_is_served(world, path) for _, path in made))
        yield world
    finally:
        for name, _ in made:
            world.api.delete("CustomResourceDefinition", name)


def _is_served(world: World, path: str) -> bool:
    try:
        world.api.ask("GET", path)
    except ApiRefusal:
        return False
    return True


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on this machine")
def test_everything_is_accepted_as_it_is(served: World, tmp_path: Path) -> None:
    """Server-side apply of every kustomization, and of every component on the base; dry, so that nothing stays."""
    deploy = ROOT / "deploy"
    components = sorted(file.parent for file in (deploy / "kustomize/components").glob("*/kustomization.yaml"))
    # The folder of definitions is a link, which a search from above does not follow.
    every = {file.parent for top in (deploy, deploy / "crds") for file in top.rglob("kustomization.yaml")}
    for component in components:
        overlay = tmp_path / component.name
        overlay.mkdir()
        lines = [f"resources: [{os.path.relpath(deploy / 'kustomize/base', overlay)}]"]
        lines.append(f"components: [{os.path.relpath(component, overlay)}]")
        (overlay / "kustomization.yaml").write_text("\n".join(lines) + "\n")
    alone = sorted(every - set(components))
    accepted = {folder.name: _dry(served, folder) for folder in [*alone, *(tmp_path / c.name for c in components)]}

    assert {"base", "default", "node-programs", "crds"} <= {folder.name for folder in alone}
    for name in ("base", "default", *(component.name for component in components)):
        assert {f"deployment.apps/tierwise-{part}" for part in COMPONENTS} <= accepted[name], name
        assert {f"networkpolicy.networking.k8s.io/tierwise{end}" for end in ("", "-webhook")} <= accepted[name], name
    policies = {f"validatingadmissionpolicy.admissionregistration.k8s.io/tierwise-{name}" for name in POLICIES}
    assert policies <= accepted["default"] & accepted["policies"]
    assert "daemonset.apps/tierwise-probe" in accepted["node-programs"]
    assert "servicemonitor.monitoring.coreos.com/tierwise" in accepted["monitoring"]
    assert "certificate.cert-manager.io/tierwise-webhook" in accepted["cert-manager"]
    assert "role.rbac.authorization.k8s.io/tierwise-discovery" in accepted["discovery-secret"]


def _dry(world: World, folder: Path) -> set[str]:
    """What the API server would apply of a kustomization, all of it."""
    command = ["kubectl", "--kubeconfig", str(world.plane.kubeconfig), "apply", "--server-side", "--dry-run=server"]
    # Other tests have made some of these objects as somebody else.
    done = subprocess.run([*command, "--force-conflicts", "-k", str(folder)], capture_output=True, text=True)
    assert (0, "") == (done.returncode, done.stderr), folder
    said = " serverside-applied (server dry run)"
    lines = done.stdout.splitlines()
    assert all(line.endswith(said) for line in lines), done.stdout
    return {line.removesuffix(said) for line in lines}


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
