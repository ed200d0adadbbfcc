"""pytorch, tensorflow and ray: pods of a job learn where the others are, as their frameworks want to be told.

What Volcano's plugins of these names do: variables with the address and rank of each pod, ports that are opened, and
for ray the commands that start head and workers, with a Service for the head. All of them need the host names of
`svc`, which a job that names one of them has as well.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

from tierwise.api.codec import Raw
from tierwise.api.volcano import Job, TaskSpec
from tierwise.controllers.job.job_pods import owner_reference
from tierwise.dialects.volcano.job import TASK_SPEC, pod_name

__all__ = ["FRAMEWORKS", "head_service"]

_PYTORCH: Final = {
    "master": "master",
    "worker": "worker",
    "port": "23456",
    "wait-master-enabled": "false",
    "wait-master-timeout": "300",
    "wait-master-image": "busybox:1.36.1",
}
_TENSORFLOW: Final = {"ps": "ps", "worker": "worker", "chief": "chief", "evaluator": "evaluator", "port": "2222"}
_RAY: Final = {
    "head": "head",
    "headContainer": "head",
    "worker": "worker",
    "workerContainer": "worker",
    "port": "6379",
    "dashboardPort": "8265",
    "clientPort": "10001",
}
_RAY_PORTS: Final = {"gcs": "port", "dashboard": "dashboardPort", "client-server": "clientPort"}


class PyTorch:
    """MASTER_ADDR, MASTER_PORT, WORLD_SIZE and RANK; on request workers wait until the master answers."""

    @staticmethod
    def on_pod_create(spec: Raw, job: Job, task: TaskSpec, index: int) -> Raw:
        """The spec of a pod with its rank, and where the master is; as it is where the job has no master."""
        flags = _flags(job.spec.plugins["pytorch"], _PYTORCH)
        master = _task(job, flags["master"])
        if master is None:
            return spec
        address = _address(job, master, 0)
        both = (flags["master"], flags["worker"])
        told = {
            "MASTER_ADDR": address,
            "MASTER_PORT": flags["port"],
            "WORLD_SIZE": str(sum(other.replicas for other in job.spec.tasks if other.name in both)),
        }
        if task.name in both:
            told["RANK"] = "0" if task.name == flags["master"] else str(index + 1)
        spec = _in_containers(spec, told, {"pytorchjob-port": _port(flags["port"])})
        if task.name != flags["worker"] or not _true(flags["wait-master-enabled"]):
            return spec
        return _waiting(spec, address, flags)


class TensorFlow:
    """TF_CONFIG: the hosts of every role, and the role and index of the pod; none for a job of one pod."""

    @staticmethod
    def on_pod_create(spec: Raw, job: Job, task: TaskSpec, index: int) -> Raw:
        """The spec of a pod with the cluster as TensorFlow reads it."""
        if len(job.spec.tasks) == 1 and job.spec.tasks[0].replicas == 1:
            return spec
        flags = _flags(job.spec.plugins["tensorflow"], _TENSORFLOW)
        roles = {flags[role]: role for role in ("ps", "worker", "chief", "evaluator")}
        cluster = {
            roles[other.name]: [f"{_address(job, other, i)}:{flags['port']}" for i in range(other.replicas)]
            for other in job.spec.tasks
            if other.name in roles and other.replicas
        }
        order = {role: cluster[role] for role in ("ps", "worker", "chief", "evaluator") if role in cluster}
        me = {"type": roles.get(task.name, task.name), "index": index}
        told = json.dumps({"cluster": order, "task": me}, separators=(",", ":"))
        return _in_containers(spec, {"TF_CONFIG": told}, {})


class Ray:
    """The commands of head and workers, the ports of the head, and a Service that leads to it."""

    @staticmethod
    def on_pod_create(spec: Raw, job: Job, task: TaskSpec, index: int) -> Raw:
        """The spec of a pod whose container starts its part of the cluster; as it is where the job has no head."""
        flags = _flags(job.spec.plugins["ray"], _RAY)
        head = _task(job, flags["head"])
        if head is None:
            return spec
        if task.name == flags["head"]:
            ports = {name: _port(flags[flag]) for name, flag in _RAY_PORTS.items()}
            command = (
                f"ray start --head --block --dashboard-host=0.0.0.0 --port={flags['port']} "
                f"--dashboard-port={flags['dashboardPort']} --ray-client-server-port={flags['clientPort']}"
            )
            return _in_containers(spec, {}, ports, command, only=flags["headContainer"])
        if task.name != flags["worker"]:
            return spec
        command = f"ray start --block --address={_address(job, head, 0)}:{flags['port']}"
        return _in_containers(spec, {}, {}, command, only=flags["workerContainer"])


def head_service(job: Job) -> Raw:
    """The Service that leads to the head of a job with the plugin ray."""
    flags = _flags(job.spec.plugins["ray"], _RAY)
    namespace = job.metadata.namespace or "default"
    selector = {
        "volcano.sh/job-name": job.metadata.name,
        "volcano.sh/job-namespace": namespace,
        TASK_SPEC: flags["head"],
    }
    ports: list[Raw] = [
        {"name": name, "port": _port(flags[flag]), "targetPort": name, "protocol": "TCP"}
        for name, flag in _RAY_PORTS.items()
    ]
    name = f"{job.metadata.name}-head-svc"
    metadata = {"name": name, "namespace": namespace, "ownerReferences": [owner_reference(job)]}
    spec: Raw = {"selector": selector, "ports": ports}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def _flags(arguments: Sequence[str], known: Mapping[str, str]) -> dict[str, str]:
    """The values of flags, as Go reads them: `--name=value`, `-name value`, and a flag by itself is true."""
    found, words = dict(known), list(arguments)
    while words:
        name, given, value = words.pop(0).lstrip("-").partition("=")
        if name not in known:
            break  # Go stops at the first word that it does not know
        if not given and known[name] not in ("true", "false"):
            value = words.pop(0) if words else known[name]
        found[name] = value if given or value else "true"
    for name, value in known.items():
        if value.isdecimal() and not found[name].isdecimal():
            found[name] = value
    return found


def _true(text: str) -> bool:
    return text.lower() in ("1", "t", "true")


def _port(text: str) -> int:
    return int(text)


def _task(job: Job, name: str) -> TaskSpec | None:
    return next((task for task in job.spec.tasks if task.name == name), None)


def _address(job: Job, task: TaskSpec, index: int) -> str:
    """The host name of a pod: that of its template where this gives one, as `svc` has it."""
    template = task.template.raw.get("spec")
    spec = template if isinstance(template, dict) else {}
    return f"{spec.get('hostname') or pod_name(job, task, index)}.{spec.get('subdomain') or job.metadata.name}"


def _in_containers(
    spec: Raw, variables: Mapping[str, str], ports: Mapping[str, int], command: str = "", *, only: str = ""
) -> Raw:
    """The spec with variables (these count where a container sets them too), ports and a command in its containers."""
    listed = spec.get("containers")
    containers: list[Raw] = []
    for container in listed if isinstance(listed, list) else []:
        if only and container.get("name") != only:
            containers.append(container)
            continue
        env, open_ports = container.get("env") or [], container.get("ports") or []
        changed = dict(container)
        if variables:
            kept = [entry for entry in env if entry.get("name") not in variables]
            changed["env"] = [*kept, *({"name": name, "value": value} for name, value in variables.items())]
        known = {port.get("containerPort") for port in open_ports}
        further = [{"name": name, "containerPort": port} for name, port in ports.items() if port not in known]
        if further:
            changed["ports"] = [*open_ports, *further]
        if command:
            changed["command"] = ["sh", "-c", command]
        containers.append(changed)
    return {**spec, "containers": containers}


def _waiting(spec: Raw, address: str, flags: Mapping[str, str]) -> Raw:
    """The spec with an init container that ends once the master answers at its port, or fails after the time."""
    listed = spec.get("initContainers")
    before = listed if isinstance(listed, list) else []
    if any(container.get("name") == "wait-for-master" for container in before):
        return spec
    test = f"nc -z {address} {flags['port']}"
    script = f"n=0; until {test}; do n=$((n+2)); [ $n -gt {flags['wait-master-timeout']} ] && exit 1; sleep 2; done"
    waits: Raw = {"name": "wait-for-master", "image": flags["wait-master-image"], "command": ["sh", "-c", script]}
    return {**spec, "initContainers": [*before, waits]}


FRAMEWORKS: Final = {
    "pytorch": PyTorch.on_pod_create,
    "tensorflow": TensorFlow.on_pod_create,
    "ray": Ray.on_pod_create,
}
"""By plugin, what it adds to the spec of a pod."""
