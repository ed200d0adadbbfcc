"""Rendered with the real tools where they are on the machine: kustomize through kubectl, and helm.

Set HELM to a helm that is not on the path.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

DEPLOY = Path(__file__).parents[3] / "deploy"
HELM = os.environ.get("HELM") or shutil.which("helm")
KUBECTL = shutil.which("kubectl")

Rendered = dict[tuple[str, str], dict[str, Any]]


def _rendered(*command: str | Path) -> Rendered:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True)
    found = [document for document in yaml.safe_load_all(done.stdout) if document]
    return {(document["kind"], document["metadata"]["name"]): document for document in found}


def _plain(*components: str, folder: Path, resource: str = "default") -> Rendered:
    if KUBECTL is None:
        pytest.skip("kubectl is not on this machine")
    copy = folder / "deploy"
    shutil.copytree(DEPLOY / "kustomize", copy)
    names = [f"components/{name}" for name in components]
    (copy / "kustomization.yaml").write_text(yaml.safe_dump({"resources": [resource], "components": names}))
    return _rendered(KUBECTL, "kustomize", copy)


def _chart(*settings: str) -> Rendered:
    if not HELM:
        pytest.skip("helm is not on this machine")
    words = [word for setting in settings for word in ("--set", setting)]
    return _rendered(
        HELM, "template", "t", DEPLOY / "helm/tierwise", "-n", "tierwise", "--kube-version", "1.30.0", *words
    )


def _policies(found: Rendered) -> set[str]:
    hooks = {
        h["failurePolicy"] for (kind, _), d in found.items() if kind.endswith("Configuration") for h in d["webhooks"]
    }
    return hooks | {d["spec"]["failurePolicy"] for (kind, _), d in found.items() if kind == "ValidatingAdmissionPolicy"}


def test_open_or_closed_as_configured(tmp_path: Path) -> None:
    """By default objects pass while nobody answers; one component turns all of that round."""
    assert {"Ignore"} == _policies(_plain(folder=tmp_path / "open"))
    assert {"Fail"} == _policies(_plain("fail-closed", folder=tmp_path / "closed"))


def test_with_cert_manager_the_webhook_has_fewer_rights(tmp_path: Path) -> None:
    """Whoever gets a certificate from elsewhere need not write secrets and configurations."""
    found = _plain("cert-manager", folder=tmp_path)
    (pod,) = (d["spec"]["template"]["spec"] for key, d in found.items() if key == ("Deployment", "tierwise-webhook"))

    assert not {("Role", "tierwise-webhook"), ("ClusterRole", "tierwise-webhook")} & found.keys()
    assert "--self-signed" not in pod["containers"][0]["args"]
    assert {"secretName": "tierwise-webhook"} == pod["volumes"][0]["secret"]
    hook = found["ValidatingWebhookConfiguration", "tierwise"]
    assert "tierwise/tierwise-webhook" == hook["metadata"]["annotations"]["cert-manager.io/inject-ca-from"]


def test_every_object_stands_in_its_namespace(tmp_path: Path) -> None:
    """Components bring theirs as well."""
    found = _plain("monitoring", "cert-manager", folder=tmp_path)
    cluster = ("Namespace", "Cluster", "Validating", "Mutating")
    inside = {d["metadata"].get("namespace") for (kind, _), d in found.items() if not kind.startswith(cluster)}

    assert {"tierwise"} == inside


ALIKE = {
    (): (),
    ("monitoring",): ("serviceMonitor.enabled=true", "prometheusRule.enabled=true"),
    ("cert-manager",): ("webhook.certificate=cert-manager",),
    ("fail-closed",): ("webhook.failurePolicy=Fail", "policies.failurePolicy=Fail"),
    ("discovery-files",): ("discovery.files=tierwise-discovery-files",),
    ("journal",): ("scheduler.journal.enabled=true",),
    ("job-ssh",): ("controllers.sshKeys=true",),
    ("answers",): ("answers.enabled=true",),
    ("discovery-secret",): ("discovery.secrets[0].namespace=tierwise", "discovery.secrets[0].name=tierwise-discovery"),
}
"""Components, and the values of the chart that stand for them."""


@pytest.mark.parametrize("components", ALIKE, ids=lambda components: "-".join(components) or "default")
def test_chart_and_manifests_install_the_same(tmp_path: Path, components: tuple[str, ...]) -> None:
    """Every object, in every field; each tool adds its labels and its way of noticing a new configuration."""
    plain = _bare(_plain(*components, folder=tmp_path))
    del plain["Namespace", "tierwise"]  # which helm has made

    assert plain == _bare(_chart(*ALIKE[components]))


_ADDED = (*(f"app.kubernetes.io/{name}" for name in ("name", "part-of", "managed-by")), "helm.sh/chart")
"""Labels that every object gets, and which name the tool."""


def _bare(found: Rendered) -> Rendered:
    """Without what a tool adds: labels of its own, the version beside the image, and a hash in a name or annotation."""
    bare = {}
    for (kind, _), document in found.items():
        document = json.loads(
            re.sub(r"\btierwise-scheduler-[a-z0-9]{10}\b", "tierwise-scheduler", json.dumps(document))
        )
        metas = [document["metadata"]]
        if "template" in document.get("spec", {}):
            metas.append(document["spec"]["template"]["metadata"])
        for meta in metas:
            labels = {key: value for key, value in meta.pop("labels", {}).items() if key not in _ADDED}
            notes = {key: value for key, value in meta.pop("annotations", {}).items() if "checksum" not in key}
            meta |= {"labels": labels} if labels else {}
            meta |= {"annotations": notes} if notes else {}
        bare[kind, document["metadata"]["name"]] = document
    return bare


def _controllers(found: Rendered) -> dict[str, Any]:
    pod: dict[str, Any] = found["Deployment", "tierwise-controllers"]["spec"]["template"]["spec"]
    return pod


def test_files_of_discovery_are_mounted_where_they_may_be_read(tmp_path: Path) -> None:
    """Both ways of installing name the folder that they mount, and neither does so unless it is asked."""
    plain = _controllers(_plain("discovery-files", folder=tmp_path / "with"))
    chart = _controllers(_chart("discovery.files=tierwise-discovery-files"))

    for pod in (plain, chart):
        (container,) = pod["containers"]
        (mount,) = container["volumeMounts"]
        assert ["--discovery-files", mount["mountPath"]] == container["args"][-2:]
        assert mount["readOnly"]
        assert [{"name": mount["name"], "configMap": {"name": "tierwise-discovery-files", "optional": True}}] == pod[
            "volumes"
        ]
    for pod in (_controllers(_plain(folder=tmp_path / "without")), _controllers(_chart())):
        assert "--discovery-files" not in pod["containers"][0]["args"]


def test_secrets_of_discovery_are_named_one_by_one(tmp_path: Path) -> None:
    """Each in its namespace, for the controllers, to get; and none where none is named."""
    plain = _plain("discovery-secret", folder=tmp_path)
    alike = _chart(*_secret(0, "tierwise", "tierwise-discovery"))
    several = _chart(*_secret(0, "volcano-system", "a"), *_secret(1, "volcano-system", "b"))
    role, binding = ("Role", "tierwise-discovery"), ("RoleBinding", "tierwise-discovery")

    assert plain[role]["rules"] == alike[role]["rules"] == [_get("tierwise-discovery")]
    assert plain[binding]["subjects"] == alike[binding]["subjects"] == several[binding]["subjects"]
    assert {"tierwise-controllers"} == {subject["name"] for subject in plain[binding]["subjects"]}
    assert [_get("a", "b")] == several[role]["rules"]
    assert {"volcano-system"} == {several[key]["metadata"]["namespace"] for key in (role, binding)}
    assert role not in _chart()


def _on_secrets(found: Rendered) -> list[tuple[str, str, list[str]]]:
    """The roles that name Secrets, or everything, with what they allow."""
    roles = [(*key, rule) for key, one in found.items() if key[0].endswith("Role") for rule in one["rules"]]
    return [
        (kind, name, rule["verbs"]) for kind, name, rule in roles if {"secrets", "*"} & {*rule.get("resources", ())}
    ]


@pytest.mark.parametrize("way", ["kustomize", "chart"])
def test_secrets_for_jobs_may_be_created_and_no_more(tmp_path: Path, way: str) -> None:
    """By a switch alone, with the option that makes use of it; where it is off no role of the cluster names Secrets."""
    if way == "chart":
        off, on = _chart(), _chart("controllers.sshKeys=true")
    else:
        off, on = _plain(folder=tmp_path / "off"), _plain("job-ssh", folder=tmp_path / "on")
    every = _on_secrets(off)

    assert [("ClusterRole", "tierwise-job-ssh", ["create"])] == [one for one in _on_secrets(on) if one not in every]
    assert [""] == on["ClusterRole", "tierwise-job-ssh"]["rules"][0]["apiGroups"]
    assert {"Role"} >= {kind for kind, _, _ in every}
    assert ["--job-ssh"] == [word for word in _args(on) if word not in _args(off)]


def _args(found: Rendered) -> list[str]:
    return list(_controllers(found)["containers"][0]["args"])


def _secret(number: int, namespace: str, name: str) -> list[str]:
    return [f"discovery.secrets[{number}].namespace={namespace}", f"discovery.secrets[{number}].name={name}"]


def _get(*names: str) -> dict[str, Any]:
    return {"apiGroups": [""], "resources": ["secrets"], "resourceNames": list(names), "verbs": ["get"]}


PROGRAMS = ("nodePrograms.probe", "nodePrograms.advertiseBandwidth")


def test_chart_and_manifests_put_the_same_on_nodes(tmp_path: Path) -> None:
    """In every field; and the chart brings none of it unless it is asked."""
    without, plain = _bare(_chart()), _bare(_plain(folder=tmp_path, resource="node-programs"))
    chart = _bare(_chart(*(f"{program}.enabled=true" for program in PROGRAMS)))

    assert plain == {key: document for key, document in chart.items() if key not in without}


def test_one_program_goes_without_the_other() -> None:
    """In a namespace of the user's choice, with what its node's interface carries."""
    chart = _chart(
        "nodePrograms.advertiseBandwidth.enabled=true",
        "nodePrograms.advertiseBandwidth.speed=10G",
        "nodePrograms.namespace=here",
    )
    (pod,) = (d["spec"]["template"]["spec"] for (kind, _), d in chart.items() if kind == "DaemonSet")
    policy = chart["ValidatingAdmissionPolicy", "tierwise-advertise-bandwidth"]

    assert ["--speed", "10G"] == pod["containers"][0]["args"][-2:]
    assert "endsWith(':tierwise-advertise-bandwidth')" in policy["spec"]["matchConditions"][0]["expression"]
    assert ("ConfigMap", "netperf-metrics") not in chart


def test_the_chart_does_as_it_is_told() -> None:
    """Switches leave out what they are named after, and failing closed reaches everything."""
    small = _chart("webhook.enabled=false", "controllers.enabled=false", "policies.enabled=false")
    closed = _chart("webhook.failurePolicy=Fail", "policies.failurePolicy=Fail", "serviceMonitor.enabled=true")

    assert [("Deployment", "tierwise-scheduler")] == [key for key in small if key[0] == "Deployment"]
    assert not any(kind.startswith(("Validating", "Mutating")) for kind, _ in small)
    assert {"Fail"} == _policies(closed)
    assert ("ServiceMonitor", "tierwise") in closed
    assert not any(kind == "NetworkPolicy" for kind, _ in _chart("networkPolicy.enabled=false"))
    digest = "sha256:" + "0" * 64
    pinned = _chart("image.repository=r/tierwise", f"image.digest={digest}")
    images = {
        d["spec"]["template"]["spec"]["containers"][0]["image"] for (k, _), d in pinned.items() if k == "Deployment"
    }
    assert {f"r/tierwise@{digest}"} == images


def test_the_chart_refuses_what_it_does_not_know() -> None:
    """A misspelt value, or one that nobody understands, stops the installation."""
    for wrong in (
        "webhook.failurePolicy=Maybe",
        "webhok.enabled=false",
        "scheduler.replica=3",
        "webhook.resources.request.cpu=1",
        "controllers.nodeSelector.a.b=c",
        "webhook.certificate=none",
        "discovery.secrets[0].name=x",
    ):
        with pytest.raises(subprocess.CalledProcessError):
            _chart(wrong)
