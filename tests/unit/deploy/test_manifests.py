"""The plain manifests and the chart: safe settings, the rights that are needed and no others, and one truth in both."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from tierwise import __version__
from tierwise.api.codec import KINDS
from tierwise.api.definitions import DEFINITIONS
from tierwise.cli.inputs import profile_of
from tierwise.cli.main import cli
from tierwise.config.profile import DEFAULT
from tierwise.kube.client import ON_SERVER, PATIENT

DEPLOY = Path(__file__).parents[3] / "deploy"
BASE = DEPLOY / "kustomize/base"
ON_NODES = DEPLOY / "kustomize/node-programs"
CHART = DEPLOY / "helm/tierwise"
POLICIES = sorted((DEPLOY / "kustomize/components/policies").glob("*s.yaml"))
CONTROLLERS_WRITE = DEPLOY / "kustomize/components/policies/controllers-write.yaml"
KEYS = ("apiGroups", "resources", "verbs")
COMPONENTS = ("scheduler", "controllers", "webhook")
PROGRAMS = ("probe", "advertise-bandwidth")
BUILT_IN = {
    ("", "Node"): "nodes",
    ("", "Pod"): "pods",
    ("", "Namespace"): "namespaces",
    ("", "ConfigMap"): "configmaps",
    ("", "Service"): "services",
    ("", "ResourceQuota"): "resourcequotas",
    ("", "PersistentVolume"): "persistentvolumes",
    ("", "PersistentVolumeClaim"): "persistentvolumeclaims",
    ("storage.k8s.io", "StorageClass"): "storageclasses",
    ("storage.k8s.io", "CSINode"): "csinodes",
    ("storage.k8s.io", "CSIDriver"): "csidrivers",
    ("storage.k8s.io", "CSIStorageCapacity"): "csistoragecapacities",
    ("storage.k8s.io", "VolumeAttachment"): "volumeattachments",
    ("networking.k8s.io", "NetworkPolicy"): "networkpolicies",
    ("policy", "PodDisruptionBudget"): "poddisruptionbudgets",
    ("scheduling.k8s.io", "PriorityClass"): "priorityclasses",
    ("scheduling.k8s.io", "PodGroup"): "podgroups",
    ("scheduling.k8s.io", "CompositePodGroup"): "compositepodgroups",
    ("scheduling.k8s.io", "Workload"): "workloads",
    ("scheduling.run.ai", "PodGroup"): "podgroups",
    ("scheduling.run.ai", "Queue"): "queues",
    ("kai.scheduler", "Topology"): "topologies",
    ("kueue.x-k8s.io", "Topology"): "topologies",
    ("scheduler.grove.io", "PodGang"): "podgangs",
    ("kueue.x-k8s.io", "ResourceFlavor"): "resourceflavors",
    ("kueue.x-k8s.io", "LocalQueue"): "localqueues",
    ("kueue.x-k8s.io", "ClusterQueue"): "clusterqueues",
    ("kueue.x-k8s.io", "Workload"): "workloads",
    ("resource.k8s.io", "ResourceClaim"): "resourceclaims",
    ("resource.k8s.io", "ResourceClaimTemplate"): "resourceclaimtemplates",
    ("resource.k8s.io", "DeviceClass"): "deviceclasses",
    ("resource.k8s.io", "ResourceSlice"): "resourceslices",
    ("resource.nvidia.com", "ComputeDomain"): "computedomains",
}


def _documents(path: Path) -> list[dict[str, Any]]:
    return [found for found in yaml.safe_load_all(path.read_text()) if found]


def _folder(component: str) -> Path:
    return ON_NODES if component in PROGRAMS else BASE


def _rules(component: str, kind: str = "ClusterRole") -> list[dict[str, Any]]:
    found = [d for d in _documents(_folder(component) / f"rbac/{component}.yaml") if d["kind"] == kind]
    return [rule for document in found for rule in document["rules"]]


def _pod(component: str) -> dict[str, Any]:
    (workload,) = _documents(_folder(component) / f"{component}.yaml")
    found: dict[str, Any] = workload["spec"]["template"]["spec"]
    return found


@pytest.mark.parametrize("component", [*COMPONENTS, *PROGRAMS])
def test_containers_may_do_little(component: str) -> None:
    """Not root, nothing to write to, no capabilities, and something set aside for them."""
    pod = _pod(component)
    (container,) = pod["containers"]

    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["runAsUser"] > 0
    assert {"type": "RuntimeDefault"} == pod["securityContext"]["seccompProfile"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert not container["securityContext"]["allowPrivilegeEscalation"]
    assert ["ALL"] == container["securityContext"]["capabilities"]["drop"]
    assert {"cpu", "memory"} == set(container["resources"]["requests"])
    assert f"tierwise-{component}" == pod["serviceAccountName"]


@pytest.mark.parametrize("component", COMPONENTS)
def test_nothing_of_the_node_is_asked_for(component: str) -> None:
    """As the namespace enforces."""
    assert not _asked_of_the_node(component)


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_on_nodes_need_its_network_and_nothing_else(program: str) -> None:
    """And say so by a namespace of their own, which allows it; they run on every node, whatever its taints."""
    (namespace,) = _documents(ON_NODES / "namespace.yaml")
    (workload,) = _documents(ON_NODES / f"{program}.yaml")

    assert {"hostNetwork"} == _asked_of_the_node(program)
    assert workload["metadata"]["namespace"] == namespace["metadata"]["name"]
    assert "privileged" == namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
    assert [{"operator": "Exists"}] == _pod(program)["tolerations"]


def _asked_of_the_node(component: str) -> set[str]:
    """What a pod asks for beyond what pod security calls restricted; a port of the node comes with its network."""
    pod = _pod(component)
    asked = {key for key in pod if key.startswith("host")}
    volumes = {kind for volume in pod.get("volumes", []) for kind in volume if kind != "name"}
    context = {key for key, on in pod["containers"][0]["securityContext"].items() if on and key == "privileged"}
    return asked | (volumes - {"configMap", "secret", "emptyDir"}) | context


@pytest.mark.parametrize("component", [*COMPONENTS, *PROGRAMS])
def test_the_command_line_takes_the_arguments(component: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each container runs a verb that exists, with options that it has."""
    for variable in _pod(component)["containers"][0].get("env", []):
        monkeypatch.setenv(variable["name"], "of-the-node")
    verb, *words = _pod(component)["containers"][0]["args"]
    context = click.Context(cli)
    command = cli.get_command(context, verb)

    assert command is not None
    command.make_context(verb, words)


def test_every_component_has_a_disruption_budget() -> None:
    """Draining a node takes one replica at a time."""
    budgets = _documents(BASE / "disruption.yaml")
    guarded = {budget["spec"]["selector"]["matchLabels"]["app.kubernetes.io/component"] for budget in budgets}

    assert set(COMPONENTS) == guarded
    assert all(_documents(BASE / f"{component}.yaml")[0]["spec"]["replicas"] > 1 for component in COMPONENTS)


def test_everything_that_is_read_may_be_read() -> None:
    """A kind that the codec knows and nobody may list would keep the caches from filling."""
    plurals = BUILT_IN | {(d.group, d.kind): d.plural for d in DEFINITIONS}
    rules = [*_rules("read"), *_rules("read-config")]
    allowed = {(g, r) for rule in rules for g in rule["apiGroups"] for r in rule["resources"]}

    read = {(group, plurals[group, kind]) for group, kind in KINDS if not group.endswith(".test")}

    assert set() == read - allowed


def test_reading_rights_only_read() -> None:
    """The role for people and tools cannot change anything."""
    for role in ("read", "read-config"):
        assert {"get", "list", "watch"} == {verb for rule in _rules(role) for verb in rule["verbs"]}


@pytest.mark.parametrize("component", ["read", "read-config", *COMPONENTS, *PROGRAMS])
def test_no_right_is_given_wholesale(component: str) -> None:
    """No wildcards, and secrets only by name and in the own namespace."""
    rules = _rules(component) + _rules(component, "Role")

    for rule in rules:
        assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
    assert not any("secrets" in rule["resources"] for rule in _rules(component))


def test_the_scheduler_makes_and_deletes_no_pods() -> None:
    """It binds, nominates and evicts; pods are the controllers' to make."""
    verbs = {(r, v) for rule in _rules("scheduler") for r in rule["resources"] for v in rule["verbs"]}

    assert {("pods/binding", "create"), ("pods/eviction", "create"), ("pods/status", "patch")} <= verbs
    assert not any(resource == "pods" for resource, _ in verbs)


@pytest.mark.parametrize("component", ["read", "read-config", *COMPONENTS, *PROGRAMS])
def test_the_page_lists_every_rule(component: str) -> None:
    """What people read of rights is what is given."""
    page = (DEPLOY.parent / "docs/reference/rbac.md").read_text()
    section = page.partition(f"\n## {component}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \| .+ \|$", section, re.MULTILINE)[1:]

    shown = [tuple(", ".join(part or "core" for part in rule[key]) for key in KEYS) for rule in _rules(component)]

    assert shown == rows


def test_the_chart_gives_the_same_rights() -> None:
    """What the chart's roles say is what the plain manifests say."""
    chart = yaml.safe_load((CHART / "files/roles.yaml").read_text())

    for component, own in chart.items():
        assert _rules(component) == own["cluster"]
        assert _rules(component, "Role") == own.get("namespace", [])
    assert {"read", "read-config", *COMPONENTS, *PROGRAMS} == set(chart)


def test_the_chart_asks_for_the_same_reviews() -> None:
    """Kinds, names and paths of the webhooks are those of the plain manifests."""
    chart = yaml.safe_load((CHART / "files/webhooks.yaml").read_text())
    plain = {document["kind"]: document["webhooks"][0] for document in _documents(BASE / "admission.yaml")}

    for own in chart.values():
        hook = plain.pop(own["kind"])
        assert (hook["name"], hook["rules"]) == (own["name"], own["rules"])
        assert hook["clientConfig"]["service"]["path"] == own["path"]
    assert {} == plain


def test_a_webhook_that_hangs_stops_nobody() -> None:
    """Reviewed twice for defaults and once for errors, a write still ends well before its sender gives up."""
    hooks = [document["webhooks"][0] for document in _documents(BASE / "admission.yaml")]
    chart = yaml.safe_load((CHART / "values.yaml").read_text())["webhook"]["timeoutSeconds"]
    schema = json.loads((CHART / "values.schema.json").read_text())["properties"]["webhook"]["properties"]
    longest = max(chart, schema["timeoutSeconds"]["maximum"], *(hook["timeoutSeconds"] for hook in hooks))

    assert longest <= 2
    assert 3 * longest < ON_SERVER < PATIENT


def test_every_custom_kind_is_reviewed() -> None:
    """Whatever people write in a kind of ours is looked at before it is accepted, commands excepted."""
    (hook,) = (d["webhooks"][0] for d in _documents(BASE / "admission.yaml") if d["kind"].startswith("Validating"))
    reviewed = {(g, r) for rule in hook["rules"] for g in rule["apiGroups"] for r in rule["resources"]}

    assert {(d.group, d.plural) for d in DEFINITIONS if d.kind != "Command"} <= reviewed


@pytest.mark.parametrize("file", [*POLICIES, ON_NODES / "own-node.yaml", CONTROLLERS_WRITE], ids=lambda f: f.stem)
def test_every_policy_is_in_force(file: Path) -> None:
    """A policy without a binding does nothing."""
    policy, binding = _documents(file)

    assert policy["metadata"]["name"] == binding["spec"]["policyName"]
    assert ["Deny"] == binding["spec"]["validationActions"]


@pytest.mark.parametrize("file", POLICIES, ids=lambda f: f.stem)
def test_policies_for_people_name_the_field(file: Path) -> None:
    """Whoever is refused sees where to look."""
    policy, _ = _documents(file)

    assert all(rule["message"].startswith("spec.") for rule in policy["spec"]["validations"])


def test_the_configuration_is_the_default_profile() -> None:
    """Installing tierwise changes nothing against running it without a configuration."""
    assert DEFAULT == profile_of(str(BASE / "scheduler.conf"))


def test_versions_agree() -> None:
    """Chart, manifests and package are of one version."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    images = [yaml.safe_load((folder / "kustomization.yaml").read_text())["images"] for folder in (BASE, ON_NODES)]

    assert {__version__} == {chart["version"], chart["appVersion"], *(image["newTag"] for [image] in images)}


def test_monitors_find_the_metrics() -> None:
    """The ServiceMonitor selects the Service, and the Service the pods."""
    (monitor,) = _documents(DEPLOY / "kustomize/components/monitoring/monitors.yaml")
    (service,) = (d for d in _documents(BASE / "services.yaml") if d["metadata"]["name"] == "tierwise-metrics")
    shared = {"app.kubernetes.io/name": "tierwise"}  # which kustomize adds to everything

    assert monitor["spec"]["selector"]["matchLabels"].items() <= (service["metadata"]["labels"] | shared).items()
    assert service["spec"]["selector"] == shared
    assert monitor["spec"]["endpoints"][0]["port"] == service["spec"]["ports"][0]["name"]


def test_the_image_is_built_by_hash_and_does_not_run_as_root() -> None:
    """Libraries come from a lock file with hashes, and the last user is a number that is not 0."""
    lines = (DEPLOY / "Containerfile").read_text().splitlines()
    (user,) = (line.split()[1] for line in lines if line.startswith("USER"))

    assert any("--require-hashes" in line and "requirements-kube.lock" in line for line in lines)
    assert int(user.partition(":")[0]) == _pod("scheduler")["securityContext"]["runAsUser"]
    assert "aiohttp==" in (DEPLOY.parent / "locks" / "requirements-kube.lock").read_text()


def test_what_the_controllers_write_everywhere_is_watched_by_a_policy() -> None:
    """RBAC cannot say whose a ConfigMap is: the policy covers each such kind, and every verb that changes it."""
    policy, _ = _documents(CONTROLLERS_WRITE)
    covered = {r for rule in policy["spec"]["matchConstraints"]["resourceRules"] for r in rule["resources"]}
    written = {r for rule in _rules("controllers") for r in rule["resources"] if "create" in rule["verbs"]}
    asks = policy["spec"]["matchConditions"][0]["expression"]

    assert {"configmaps", "services", "networkpolicies", "secrets"} == covered
    assert covered - {"secrets"} == covered & written
    assert "endsWith(':tierwise-controllers')" in asks
    assert "serviceaccount:tierwise:" not in asks  # it may be installed elsewhere
    assert all("batch.volcano.sh/" in rule["expression"] for rule in policy["spec"]["validations"])
    listed = yaml.safe_load((CONTROLLERS_WRITE.parent / "kustomization.yaml").read_text())["resources"]
    assert CONTROLLERS_WRITE.name in listed
    assert CONTROLLERS_WRITE.name in (CHART / "templates/admission.yaml").read_text()


def test_only_the_ports_that_are_served_are_open() -> None:
    """Metrics for this namespace, reviews for the API server, and nothing else."""
    everybody, webhook = _documents(BASE / "network.yaml")
    ports = {entry["name"]: entry["containerPort"] for entry in _pod("webhook")["containers"][0]["ports"]}
    labels = _documents(BASE / "webhook.yaml")[0]["spec"]["template"]["metadata"]["labels"]

    assert [["Ingress", "Egress"], ["Ingress"]] == [policy["spec"]["policyTypes"] for policy in (everybody, webhook)]
    (metrics,) = everybody["spec"]["ingress"]
    assert [ports["metrics"]] == [port["port"] for port in metrics["ports"]]
    assert [{"podSelector": {}}] == metrics["from"]  # a namespace's name is chosen by whoever may make one
    (reviews,) = webhook["spec"]["ingress"]
    assert [ports["webhook"]] == [port["port"] for port in reviews["ports"]]
    assert everybody["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
    assert webhook["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
    assert "network.yaml" in yaml.safe_load((BASE / "kustomization.yaml").read_text())["resources"]
    values = yaml.safe_load((CHART / "values.yaml").read_text())["networkPolicy"]
    assert metrics["from"] == values["metricsFrom"]


def test_the_pods_reach_names_and_the_api_server() -> None:
    """And sources of topologies over TLS; the chart says the same, and takes more."""
    everybody, _ = _documents(BASE / "network.yaml")
    values = yaml.safe_load((CHART / "values.yaml").read_text())["networkPolicy"]
    ports = {(port["protocol"], port["port"]) for rule in everybody["spec"]["egress"] for port in rule["ports"]}

    assert {("UDP", 53), ("TCP", 53), ("TCP", 443), ("TCP", 6443)} == ports
    assert everybody["spec"]["egress"] == values["egress"]
    assert [] == values["furtherEgress"]


def test_config_maps_are_read_by_components_alone() -> None:
    """Anything may be in them: the role for people and tools has none, and theirs is bound to nobody else."""
    assert not any("configmaps" in rule["resources"] for rule in _rules("read"))
    (binding,) = (d for d in _documents(BASE / "rbac/read-config.yaml") if d["kind"] == "ClusterRoleBinding")

    assert [f"tierwise-{component}" for component in COMPONENTS] == [who["name"] for who in binding["subjects"]]
    assert binding["roleRef"]["name"] == "tierwise-read-config"
    assert "rbac/read-config.yaml" in yaml.safe_load((BASE / "kustomization.yaml").read_text())["resources"]


def test_nothing_that_looks_into_cycles_is_switched_on() -> None:
    """No component is installed with the pages or the debug port."""
    for component in COMPONENTS:
        assert not {"--pages", "--debug-port"} & set(_pod(component)["containers"][0]["args"])
    assert "--debug-port" not in (CHART / "templates/_names.tpl").read_text()


def test_the_image_can_be_pinned_by_its_digest() -> None:
    """A digest counts before a tag, and must look like one."""
    schema = json.loads((CHART / "values.schema.json").read_text())["properties"]["image"]["properties"]
    pattern = schema["digest"]["pattern"]

    assert re.fullmatch(pattern, "sha256:" + "0" * 64)
    assert not re.fullmatch(pattern, "latest")
    assert "@{{ .Values.image.digest }}" in (CHART / "templates/_names.tpl").read_text()
