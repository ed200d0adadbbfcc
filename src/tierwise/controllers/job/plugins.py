"""Job plugins: what a job asks to be added to its pods, and made beside them (`spec.plugins`).

`env` gives every container the index of its pod within its task, under both names that Volcano uses. With `svc` the
pods of a job find each other by name: a headless Service named as the job, stable host names, a ConfigMap with the
hosts of every task (mounted at /etc/volcano and handed on as variables), and a NetworkPolicy for the job's own pods
only; its arguments are `--publish-not-ready-addresses` and `--disable-network-policy`. Those of frameworks are in
`frameworks`. Others are not known here, and admission says so.

What a job wants beside its pods is created while it wants pods and deleted afterwards. An object of the same name with
another owner is never touched. The Secret of `ssh` is made once, before the first pod, and goes with the job: nothing
here may read or delete Secrets, so the status of the job says that it is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from tierwise.api.codec import Object, Raw
from tierwise.api.volcano import Job, TaskSpec
from tierwise.controllers.job.frameworks import (
    FRAMEWORKS,
    KeyPair,
    Pieces,
    head_service,
    hosts_of,
    owned,
    pieces_of,
    ssh_secret,
)
from tierwise.controllers.job.job_pods import is_owned
from tierwise.dialects.volcano.job import KEY_PLUGINS, OTHER_PLUGINS, pod_name
from tierwise.port import Create, Delete, Effect, Objects, Prepare, Update, key_of, key_of_raw

__all__ = [
    "KEY_MADE",
    "PLUGINS",
    "lacking_plugins",
    "lacks_key",
    "made",
    "make_key",
    "on_pod_create",
    "reconcile_owned_objects",
    "with_environment",
    "with_volume",
]

PLUGINS: Final = ("env", "svc", *FRAMEWORKS)
_MOUNTED_AT: Final = "/etc/volcano"
KEY_MADE: Final = {"plugin-ssh": "ssh"}
"""In `status.controlledResources`, as Volcano has it."""


class OwnedObject(msgspec.Struct, frozen=True):
    """A manifest, and which of its fields follow the job for as long as it lives."""

    raw: Raw
    follows: tuple[str, ...] = ()


def on_pod_create(spec: Raw, job: Job, task: TaskSpec, index: int) -> Raw:
    """A pod's spec with what the plugins of its job add to it."""
    if "env" in job.spec.plugins:
        variables: list[Raw] = [{"name": name, "value": str(index)} for name in ("VK_TASK_INDEX", "VC_TASK_INDEX")]
        spec = with_environment(spec, variables)
    if "svc" in job.spec.plugins:
        spec = _with_hosts(spec, job, task, index)
    for pieces in pieces_of(job, task, index):
        spec = _with_pieces(spec, pieces)
    return spec


def lacking_plugins(job: Job) -> frozenset[str]:
    """The plugins of a job that do not act: those of Volcano alone, and for want of a Secret those that need one."""
    return frozenset(job.spec.plugins) & (OTHER_PLUGINS | (KEY_PLUGINS if lacks_key(job) else frozenset()))


def lacks_key(job: Job) -> bool:
    """Whether the Secret of the plugin ssh is still to be made."""
    return "ssh" in job.spec.plugins and not KEY_MADE.items() <= job.status.controlled_resources.items()


def make_key(job: Job, keys: Callable[[], KeyPair | None]) -> list[Effect]:
    """Make the Secret of the plugin ssh, and then note that it is there; nothing where no key is to be had now."""
    secret = ssh_secret(job, keys)
    if secret is None:
        return []
    key = key_of_raw(secret)
    noted: Raw = {"status": {"controlledResources": {**job.status.controlled_resources, **KEY_MADE}}}
    return [Prepare(key, secret, create=True), Prepare(key_of(job), noted, status=True, after=key)]


def owned_objects(job: Job) -> Iterator[OwnedObject]:
    """The objects that the plugins of a job want beside its pods."""
    if "svc" in job.spec.plugins:
        yield from _of_hosts(job, job.spec.plugins["svc"])
    if "ray" in job.spec.plugins:
        yield OwnedObject(head_service(job))


def reconcile_owned_objects(objects: Objects, job: Job, *, wants_objects: bool) -> Iterator[Effect]:
    """Create, update or delete what the plugins of a job with its defaults filled in want."""
    for prop in owned_objects(job):
        key = key_of_raw(prop.raw)
        record = objects.record(key)
        present = objects.raw(key)
        if record is None or present is None:
            if wants_objects:
                yield Create(prop.raw)
        elif not is_owned(record, job) or record.metadata.deletion_timestamp:
            continue
        elif not wants_objects:
            yield Delete(key)
        elif _differs(prop, present):
            yield Update(key, {**present, **{field: prop.raw[field] for field in prop.follows}})


def made(objects: Objects, job: Job) -> Iterator[Object]:
    """Objects of the plugin that exist for a job."""
    for prop in owned_objects(job):
        record = objects.record(key_of_raw(prop.raw))
        if record is not None and is_owned(record, job):
            yield record


def _differs(prop: OwnedObject, present: Raw) -> bool:
    return any(present.get(field) != prop.raw[field] for field in prop.follows)


def _with_hosts(spec: Raw, job: Job, task: TaskSpec, index: int) -> Raw:
    """Give a pod its host name, and the hosts of every task."""
    name = _config_name(job)
    named: Raw = {
        **spec,
        "hostname": spec.get("hostname") or pod_name(job, task, index),
        "subdomain": spec.get("subdomain") or job.metadata.name,
    }
    variables = [variable for task in job.spec.tasks for variable in _variables(task)]
    references: list[Raw] = [
        {"name": variable, "valueFrom": {"configMapKeyRef": {"name": name, "key": variable}}} for variable in variables
    ]
    return with_volume(with_environment(named, references), {"name": name, "configMap": {"name": name}}, _MOUNTED_AT)


def _of_hosts(job: Job, arguments: Sequence[str]) -> Iterator[OwnedObject]:
    """The Service, the hosts, and unless it is switched off the NetworkPolicy."""
    hosts: Raw = {}
    for task in job.spec.tasks:
        listed = hosts_of(job, task)
        of_hosts, number = _variables(task)
        hosts |= {f"{_plain(task)}.host": "\n".join(listed), of_hosts: ",".join(listed), number: str(len(listed))}
    pods = {"volcano.sh/job-name": job.metadata.name, "volcano.sh/job-namespace": job.metadata.namespace or "default"}
    yield OwnedObject(owned("v1", "ConfigMap", job, _config_name(job)) | {"data": hosts}, follows=("data",))
    service: Raw = {
        "clusterIP": "None",
        "selector": pods,
        # The API asks for a port; nothing uses it.
        "ports": [{"name": "placeholder-volcano", "port": 1, "protocol": "TCP", "targetPort": 1}],
    }
    if _switched_on(arguments, "publish-not-ready-addresses"):
        service["publishNotReadyAddresses"] = True
    yield OwnedObject(owned("v1", "Service", job, job.metadata.name) | {"spec": service})
    if not _switched_on(arguments, "disable-network-policy"):
        policy: Raw = {
            "podSelector": {"matchLabels": pods},
            "ingress": [{"from": [{"podSelector": {"matchLabels": pods}}]}],
            "policyTypes": ["Ingress"],
        }
        yield OwnedObject(owned("networking.k8s.io/v1", "NetworkPolicy", job, job.metadata.name) | {"spec": policy})


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
        name, has_value, value = argument.lstrip("-").partition("=")
        if name == flag:
            on = not has_value or value.lower() in ("1", "t", "true")
    return on


# Additions to the containers of a pod that is about to be made; init containers get the same.


def with_environment(spec: Raw, variables: Sequence[Raw]) -> Raw:
    """A pod's spec with further variables; one that a container sets itself is left as it is."""

    def extended(container: Raw) -> Raw:
        present = _listed(container, "env")
        names = {entry.get("name") for entry in present}
        return {**container, "env": [*present, *(entry for entry in variables if entry["name"] not in names)]}

    return _each(spec, extended)


def with_volume(spec: Raw, volume: Raw, path: str) -> Raw:
    """A pod's spec with a further volume, mounted at a path."""
    return _mounted(spec, volume, {"name": volume["name"], "mountPath": path})


def _mounted(spec: Raw, volume: Raw, mount: Raw) -> Raw:
    def extended(container: Raw) -> Raw:
        return {**container, "volumeMounts": [*_listed(container, "volumeMounts"), mount]}

    return _each({**spec, "volumes": [*_listed(spec, "volumes"), volume]}, extended)


def _extended(container: Raw, pieces: Pieces) -> Raw:
    """A container with the variables, ports and command that a plugin adds; unchanged if they are for another one."""
    if pieces.only not in ("", container.get("name")):
        return container
    changed = dict(container)
    ports = _listed(container, "ports")
    if pieces.variables:
        present = [entry for entry in _listed(container, "env") if entry.get("name") not in pieces.variables]
        changed["env"] = [*present, *({"name": name, "value": value} for name, value in pieces.variables.items())]
    used_ports = {port.get("containerPort") for port in ports}
    further = [{"name": name, "containerPort": port} for name, port in pieces.ports.items() if port not in used_ports]
    if further:
        changed["ports"] = [*ports, *further]
    if pieces.command:
        changed["command"] = ["sh", "-c", pieces.command]
    return changed


def _with_pieces(spec: Raw, pieces: Pieces) -> Raw:
    """A pod's spec with what a plugin adds to it."""
    spec = _each(spec, lambda container: _extended(container, pieces), _BOTH if pieces.before_too else _BOTH[1:])
    init_containers = _listed(spec, "initContainers")
    if pieces.waits is not None and not any(
        container.get("name") == pieces.waits["name"] for container in init_containers
    ):
        spec = {**spec, "initContainers": [*init_containers, pieces.waits]}
    if pieces.volume is None:
        return spec
    return _mounted(spec, pieces.volume, pieces.mount)


_BOTH: Final = ("initContainers", "containers")


def _each(spec: Raw, change: Callable[[Raw], Raw], fields: Sequence[str] = _BOTH) -> Raw:
    kinds = {field: [change(c) for c in _listed(spec, field)] for field in fields}
    return {**spec, **{field: changed for field, changed in kinds.items() if changed}}


def _listed(raw: Raw, field: str) -> list[Raw]:
    entries = raw.get(field)
    return entries if isinstance(entries, list) else []
