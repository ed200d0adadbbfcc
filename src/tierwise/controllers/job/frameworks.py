"""ssh, mpi, pytorch, tensorflow and ray: pods of a job learn where the others are, as their frameworks want to be told.

What Volcano's plugins of these names do, each a row of `FRAMEWORKS`: variables with the address and rank of each pod,
ports that are opened, volumes, and for ray the commands that start head and workers. What they want beside the pods is
a Service for ray's head, and for ssh a Secret with a key for all pods of the job and with their hosts.
All but ssh need the host names of `svc`, and mpi needs ssh: a job that names one of them has these as well.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from tierwise.api.codec import Raw, part
from tierwise.api.volcano import Job, TaskSpec
from tierwise.controllers.job.job_pods import owner_reference
from tierwise.dialects.volcano.job import MPI_FLAGS, TASK_SPEC, plugin_flags, pod_name

__all__ = ["FRAMEWORKS", "KeyPair", "Pieces", "head_service", "hosts_of", "owned", "pieces_of", "ssh_secret"]

KeyPair = tuple[str, str]
"""A private key in PEM, and its public key as a line of `authorized_keys`."""

_RAY_PORTS: Final = {"gcs": "port", "dashboard": "dashboardPort", "client-server": "clientPort"}
_SSH_HOME: Final = "/root/.ssh"
_SSH_FOLDER: Final = ".ssh"
_SSH_FILES: Final = ("id_rsa", "id_rsa.pub", "authorized_keys", "config")
_SSH_PORT: Final = "22"


class Pieces(msgspec.Struct, frozen=True, kw_only=True):
    """Parts that a plugin adds to a pod."""

    variables: Mapping[str, str] = {}  # these count where a container sets them too
    ports: Mapping[str, int] = {}
    command: str = ""
    only: str = ""  # the container that gets these; "" for all
    before_too: bool = False  # init containers get them as well
    waits: Raw | None = None  # an init container
    volume: Raw | None = None
    mount: Raw = {}  # of the volume, in all containers


class _Member(msgspec.Struct, frozen=True):
    """A pod that is about to be made, and the flags of the plugin that is asked about it."""

    job: Job
    task: TaskSpec
    index: int
    flags: Mapping[str, str]


def _ssh(pod: _Member) -> Pieces:
    """The key of the job, for root; where it belongs to another user, everyone in the container may read it."""
    name = _secret_name(pod.job)
    home = pod.flags["ssh-key-file-path"]
    items: list[Raw] = [{"key": key, "path": f"{_SSH_FOLDER}/{key}"} for key in _SSH_FILES]
    secret: Raw = {"secretName": name, "items": items, "defaultMode": 0o600 if home == _SSH_HOME else 0o644}
    mount: Raw = {"name": name, "mountPath": home, "subPath": _SSH_FOLDER}
    return Pieces(volume={"name": name, "secret": secret}, mount=mount)


def _mpi(pod: _Member) -> Pieces:
    """MPI_HOST of the master: the hosts of all workers; and the port of ssh."""
    variables: Mapping[str, str] = {}
    if pod.task.name == pod.flags["master"]:
        workers = _task(pod.job, pod.flags["worker"])
        if workers is None:
            return Pieces()
        variables = {"MPI_HOST": ",".join(hosts_of(pod.job, workers))}
    return Pieces(variables=variables, ports={"mpijob-port": int(pod.flags["port"])}, before_too=True)


def _pytorch(pod: _Member) -> Pieces:
    """MASTER_ADDR, MASTER_PORT, WORLD_SIZE and RANK; on request workers wait until the master answers."""
    flags = pod.flags
    master = _task(pod.job, pod.flags["master"])
    if master is None:
        return Pieces()
    address = _address(pod.job, master)
    both = (flags["master"], flags["worker"])
    variables = {
        "MASTER_ADDR": address,
        "MASTER_PORT": flags["port"],
        "WORLD_SIZE": str(sum(task.replicas for task in pod.job.spec.tasks if task.name in both)),
    }
    if pod.task.name in both:
        variables["RANK"] = "0" if pod.task.name == flags["master"] else str(pod.index + 1)
    waits_for_master = pod.task.name == flags["worker"] and flags["wait-master-enabled"].lower() in ("1", "t", "true")
    waits = _waiting(address, flags) if waits_for_master else None
    return Pieces(variables=variables, ports={"pytorchjob-port": int(flags["port"])}, waits=waits)


def _tensorflow(pod: _Member) -> Pieces:
    """TF_CONFIG: the hosts of every role, and the role and index of the pod; none for a job of one pod."""
    tasks = pod.job.spec.tasks
    if len(tasks) == 1 and tasks[0].replicas == 1:
        return Pieces()
    roles = {pod.flags[role]: role for role in ("ps", "worker", "chief", "evaluator")}
    hosts = {}
    for task in tasks:
        if task.name in roles:
            hosts[roles[task.name]] = hosts_of(pod.job, task, task.replicas)
    cluster = {
        role: [f"{host}:{pod.flags['port']}" for host in hosts[role]] for role in roles.values() if hosts.get(role)
    }
    me = {"type": roles.get(pod.task.name, pod.task.name), "index": pod.index}
    return Pieces(variables={"TF_CONFIG": json.dumps({"cluster": cluster, "task": me}, separators=(",", ":"))})


def _ray(pod: _Member) -> Pieces:
    """The commands that start head and workers, and the ports of the head; nothing where the job has no head."""
    flags = pod.flags
    head = _task(pod.job, pod.flags["head"])
    if head is None:
        return Pieces()
    if pod.task.name == flags["head"]:
        command = (
            f"ray start --head --block --dashboard-host=0.0.0.0 --port={flags['port']} "
            f"--dashboard-port={flags['dashboardPort']} --ray-client-server-port={flags['clientPort']}"
        )
        ports = {name: int(flags[flag]) for name, flag in _RAY_PORTS.items()}
        return Pieces(ports=ports, command=command, only=flags["headContainer"])
    if pod.task.name != flags["worker"]:
        return Pieces()
    command = f"ray start --block --address={_address(pod.job, head)}:{flags['port']}"
    return Pieces(command=command, only=flags["workerContainer"])


_Row = tuple[Callable[[_Member], Pieces], Mapping[str, str]]
FRAMEWORKS: Final[Mapping[str, _Row]] = {
    "ssh": (
        _ssh,
        {"ssh-key-file-path": _SSH_HOME, "ssh-private-key": "", "ssh-public-key": "", "ssh-port": _SSH_PORT},
    ),
    "mpi": (_mpi, MPI_FLAGS),
    "pytorch": (
        _pytorch,
        {
            "master": "master",
            "worker": "worker",
            "port": "23456",
            "wait-master-enabled": "false",
            "wait-master-timeout": "300",
            "wait-master-image": "busybox:1.36.1",
        },
    ),
    "tensorflow": (
        _tensorflow,
        {"ps": "ps", "worker": "worker", "chief": "chief", "evaluator": "evaluator", "port": "2222"},
    ),
    "ray": (
        _ray,
        {
            "head": "head",
            "headContainer": "head",
            "worker": "worker",
            "workerContainer": "worker",
            "port": "6379",
            "dashboardPort": "8265",
            "clientPort": "10001",
        },
    ),
}
"""By plugin: what it adds to a pod, and its flags with what they are where a job does not say."""


def pieces_of(job: Job, task: TaskSpec, index: int) -> list[Pieces]:
    """Parts that the frameworks of a job add to a pod."""
    return [
        added(_Member(job, task, index, _flags(job, name)))
        for name, (added, _) in FRAMEWORKS.items()
        if name in job.spec.plugins
    ]


def head_service(job: Job) -> Raw:
    """The Service that leads to the head of a job with the plugin ray."""
    flags = _flags(job, "ray")
    selector = {
        "volcano.sh/job-name": job.metadata.name,
        "volcano.sh/job-namespace": job.metadata.namespace or "default",
        TASK_SPEC: flags["head"],
    }
    ports: list[Raw] = [
        {"name": name, "port": int(flags[flag]), "targetPort": name, "protocol": "TCP"}
        for name, flag in _RAY_PORTS.items()
    ]
    return owned("v1", "Service", job, f"{job.metadata.name}-head-svc") | {
        "spec": {"selector": selector, "ports": ports}
    }


def ssh_secret(job: Job, keys: Callable[[], KeyPair | None]) -> Raw | None:
    """The Secret of a job with the plugin ssh: its own key, else a new one; None where none is to be had now.

    Its config names every host of the job.
    """
    flags = _flags(job, "ssh")
    pair = (flags["ssh-private-key"], flags["ssh-public-key"]) if flags["ssh-private-key"] else keys()
    if pair is None:
        return None
    port = flags["ssh-port"] if 0 < int(flags["ssh-port"]) <= 65535 else _SSH_PORT
    config = "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n" + "".join(
        f"Host {host.partition('.')[0]}\n  HostName {host}\n  Port {port}\n"
        for task in job.spec.tasks
        for host in hosts_of(job, task)
    )
    private, public = pair
    texts = zip(_SSH_FILES, (private, public, public, config), strict=True)
    data = {name: base64.b64encode(text.encode()).decode() for name, text in texts}
    return owned("v1", "Secret", job, _secret_name(job)) | {"data": data}


def _secret_name(job: Job) -> str:
    return f"{job.metadata.name}-ssh"


def owned(api_version: str, kind: str, job: Job, name: str) -> Raw:
    """The beginning of an object that goes with a job."""
    metadata = {
        "name": name,
        "namespace": job.metadata.namespace or "default",
        "ownerReferences": [owner_reference(job)],
    }
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


def _flags(job: Job, plugin: str) -> dict[str, str]:
    return plugin_flags(job.spec.plugins[plugin], FRAMEWORKS[plugin][1])


def _task(job: Job, name: str) -> TaskSpec | None:
    return next((task for task in job.spec.tasks if task.name == name), None)


def hosts_of(job: Job, task: TaskSpec, number: int | None = None) -> list[str]:
    """The host names of a task's pods, or of a `number`; of all of them one, where the template names them alike."""
    spec = part(task.template.raw, "spec")
    hostname = spec.get("hostname")
    subdomain = spec.get("subdomain") or job.metadata.name
    if number is None:
        number = min(task.replicas, 1) if hostname else task.replicas
    return [f"{hostname or pod_name(job, task, index)}.{subdomain}" for index in range(number)]


def _address(job: Job, task: TaskSpec) -> str:
    """The host name of a task's first pod."""
    return hosts_of(job, task, 1)[0]


def _waiting(address: str, flags: Mapping[str, str]) -> Raw:
    """An init container that ends once the master answers at its port, or fails after the time."""
    test = f"nc -z {address} {flags['port']}"
    script = f"n=0; until {test}; do n=$((n+2)); [ $n -gt {flags['wait-master-timeout']} ] && exit 1; sleep 2; done"
    return {"name": "wait-for-master", "image": flags["wait-master-image"], "command": ["sh", "-c", script]}
