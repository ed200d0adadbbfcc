"""svc: the pods of a job find each other by name.

A headless Service named as the job, stable host names, a ConfigMap with the hosts of every task (mounted at
/etc/volcano and handed on as variables), and a NetworkPolicy that lets in the job's own pods only.
Arguments: `--publish-not-ready-addresses`, `--disable-network-policy`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from tierwise.api.codec import Raw
from tierwise.api.volcano import Job, TaskSpec
from tierwise.controllers.job.job_pods import owner_reference
from tierwise.controllers.job.plugins.additions import OwnedObject, with_environment, with_volume
from tierwise.dialects.volcano.job import pod_name

__all__ = ["on_pod_create", "owned_objects"]

_MOUNTED_AT: Final = "/etc/volcano"


def on_pod_create(spec: Raw, job: Job, task: TaskSpec, index: int) -> Raw:
    """Give a pod its host name, and the hosts of every task."""
    name = _config_name(job)
    named: Raw = {
        **spec,
        "hostname": spec.get("hostname") or pod_name(job, task, index),
        "subdomain": spec.get("subdomain") or job.metadata.name,
    }
    variables = [variable for other in job.spec.tasks for variable in _variables(other)]
    references: list[Raw] = [
        {"name": variable, "valueFrom": {"configMapKeyRef": {"name": name, "key": variable}}} for variable in variables
    ]
    return with_volume(with_environment(named, references), {"name": name, "configMap": {"name": name}}, _MOUNTED_AT)


def owned_objects(job: Job, arguments: Sequence[str]) -> Iterator[OwnedObject]:
    """The Service, the hosts, and unless it is switched off the NetworkPolicy."""
    hosts: Raw = {}
    for task in job.spec.tasks:
        listed = _hosts(job, task)
        of_hosts, number = _variables(task)
        hosts |= {f"{_plain(task)}.host": "\n".join(listed), of_hosts: ",".join(listed), number: str(len(listed))}
    pods = {"volcano.sh/job-name": job.metadata.name, "volcano.sh/job-namespace": job.metadata.namespace or "default"}
    yield OwnedObject(_object("v1", "ConfigMap", job, _config_name(job)) | {"data": hosts}, follows=("data",))
    service: Raw = {
        "clusterIP": "None",
        "selector": pods,
        # The API asks for a port; nothing uses it.
        "ports": [{"name": "placeholder-volcano", "port": 1, "protocol": "TCP", "targetPort": 1}],
    }
    if _switched_on(arguments, "publish-not-ready-addresses"):
        service["publishNotReadyAddresses"] = True
    yield OwnedObject(_object("v1", "Service", job, job.metadata.name) | {"spec": service})
    if not _switched_on(arguments, "disable-network-policy"):
        policy: Raw = {
            "podSelector": {"matchLabels": pods},
            "ingress": [{"from": [{"podSelector": {"matchLabels": pods}}]}],
            "policyTypes": ["Ingress"],
        }
        yield OwnedObject(_object("networking.k8s.io/v1", "NetworkPolicy", job, job.metadata.name) | {"spec": policy})


def _object(api_version: str, kind: str, job: Job, name: str) -> Raw:
    metadata = {
        "name": name,
        "namespace": job.metadata.namespace or "default",
        "ownerReferences": [owner_reference(job)],
    }
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


def _hosts(job: Job, task: TaskSpec) -> list[str]:
    """The address of every pod of a task; of one, where the template gives all of them the same name."""
    template = task.template.raw.get("spec")
    spec = template if isinstance(template, dict) else {}
    subdomain = spec.get("subdomain") or job.metadata.name
    if spec.get("hostname"):
        return [f"{spec['hostname']}.{subdomain}"] if task.replicas > 0 else []
    return [f"{pod_name(job, task, index)}.{subdomain}" for index in range(task.replicas)]


def _variables(task: TaskSpec) -> tuple[str, str]:
    shown = _plain(task).upper()
    return f"VC_{shown}_HOSTS", f"VC_{shown}_NUM"


def _plain(task: TaskSpec) -> str:
    """A task's name as the shell can use it."""
    return task.name.replace("-", "_")


def _config_name(job: Job) -> str:
    return f"{job.metadata.name}-svc"


def _switched_on(arguments: Sequence[str], flag: str) -> bool:
    """Whether a flag is set, as Go reads flags: the last word on it counts."""
    on = False
    for argument in arguments:
        name, given, value = argument.lstrip("-").partition("=")
        if name == flag:
            on = not given or value.lower() in ("1", "t", "true")
    return on
