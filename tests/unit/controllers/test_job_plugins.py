"""What job plugins and the controller itself tell the workers of a job."""

import base64
import json
from typing import Any

import pytest
from tests.support.job_life import Simulation, command
from tests.support.manifests import (
    job,
    manifest,
    names,
    part,
    partitions,
    spec,
    task,
)

from tierwise.api.codec import Raw
from tierwise.controllers.job.plugins import PLUGINS
from tierwise.dialects.volcano.job import PROVIDED_PLUGINS
from tierwise.runtime.job_keys import JobKeys


def _environment(life: Simulation, pod: str, kind: str = "containers") -> dict[str, Any]:
    """The variables of a pod's first container: values, or what they refer to."""
    containers = spec(life.world, "Pod", f"default/train-{pod}")[kind]
    assert isinstance(containers, list)
    return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in containers[0]["env"]}


def test_workers_know_their_rank_and_partition() -> None:
    """Ranks count through the tasks; where a worker stands is filled in once it is bound."""
    life = Simulation(job("train", task("ps", 2), task("w", 4, partitionPolicy=partitions(2, 2))))

    assert {
        "TIERWISE_TASK": "w",
        "TIERWISE_RANK": "5",
        "TIERWISE_WORLD_SIZE": "6",
        "TIERWISE_TASK_RANK": "3",
        "TIERWISE_TASK_SIZE": "4",
        "TIERWISE_PARTITION": "1",
        "TIERWISE_PARTITION_RANK": "1",
        "TIERWISE_PARTITION_SIZE": "2",
        "TIERWISE_HYPERNODE": {"fieldRef": {"fieldPath": "metadata.annotations['tierwise.io/hypernode']"}},
        "TIERWISE_TOPOLOGY": {"fieldRef": {"fieldPath": "metadata.annotations['tierwise.io/topology']"}},
    } == _environment(life, "w-3")
    assert "TIERWISE_PARTITION" not in _environment(life, "ps-0")


def test_a_container_that_sets_a_variable_itself_keeps_it() -> None:
    """The template's word counts."""
    own = {"containers": [{"name": "main", "env": [{"name": "TIERWISE_RANK", "value": "mine"}]}]}
    life = Simulation(job("train", task("w", 1, template={"spec": own})))

    assert "mine" == _environment(life, "w-0")["TIERWISE_RANK"]


def test_env_tells_the_index() -> None:
    """Under both names that Volcano uses, in init containers too."""
    template = {"spec": {"initContainers": [{"name": "init"}], "containers": [{"name": "main"}]}}
    life = Simulation(job("train", task("w", 2, template=template), plugins={"env": []}))

    for kind in ("containers", "initContainers"):
        found = _environment(life, "w-1", kind)
        assert ("1", "1") == (found["VK_TASK_INDEX"], found["VC_TASK_INDEX"])


def test_a_plugin_without_a_list_of_arguments_is_asked_for() -> None:
    """`env:` with nothing behind it is null in YAML, and an empty list to the API server."""
    life = Simulation(job("train", task("w", 1), plugins={"env": None}))

    assert "0" == _environment(life, "w-0")["VC_TASK_INDEX"]


def test_svc_lets_pods_find_each_other() -> None:
    """Host names, a headless Service, and the hosts of every task as file and as variables."""
    life = Simulation(job("train", task("ps", 1), task("big-worker", 2), plugins={"svc": []}))
    pod = spec(life.world, "Pod", "default/train-big-worker-1")
    hosts = "train-big-worker-0.train", "train-big-worker-1.train"

    assert ("train-big-worker-1", "train") == (pod["hostname"], pod["subdomain"])
    assert [{"name": "train-svc", "configMap": {"name": "train-svc"}}] == pod["volumes"]
    containers = pod["containers"]
    assert isinstance(containers, list)
    assert [{"name": "train-svc", "mountPath": "/etc/volcano"}] == containers[0]["volumeMounts"]
    reference = {"configMapKeyRef": {"name": "train-svc", "key": "VC_BIG_WORKER_HOSTS"}}
    assert reference == _environment(life, "ps-0")["VC_BIG_WORKER_HOSTS"]
    assert {
        "ps.host": "train-ps-0.train",
        "VC_PS_HOSTS": "train-ps-0.train",
        "VC_PS_NUM": "1",
        "big_worker.host": "\n".join(hosts),
        "VC_BIG_WORKER_HOSTS": ",".join(hosts),
        "VC_BIG_WORKER_NUM": "2",
    } == manifest(life.world, "ConfigMap", "default/train-svc")["data"]
    service = spec(life.world, "Service", "default/train")
    labels = {"volcano.sh/job-name": "train", "volcano.sh/job-namespace": "default"}
    assert ("None", labels) == (service["clusterIP"], service["selector"])
    assert {"matchLabels": labels} == spec(life.world, "NetworkPolicy", "default/train")["podSelector"]


@pytest.mark.parametrize(
    ("arguments", "published", "policies"),
    [
        (["--publish-not-ready-addresses=true"], True, ["default/train"]),
        (["--disable-network-policy"], None, []),
        (["-disable-network-policy=true", "--disable-network-policy=false"], None, ["default/train"]),
    ],
)
def test_svc_takes_arguments(arguments: list[str], published: bool | None, policies: list[str]) -> None:
    """Flags as Go reads them."""
    life = Simulation(job("train", task("w", 1), plugins={"svc": arguments}))

    assert published is spec(life.world, "Service", "default/train").get("publishNotReadyAddresses")
    assert policies == names(life.world, "NetworkPolicy")


def test_hosts_follow_the_replicas() -> None:
    """Scaling a job changes its list of hosts."""
    life = Simulation(job("train", task("w", 1), plugins={"svc": []}))
    life.change(tasks=[task("w", 2)])

    assert "2" == part(manifest(life.world, "ConfigMap", "default/train-svc"), "data")["VC_W_NUM"]


def test_what_plugins_made_goes_with_the_pods_and_comes_back() -> None:
    """A job that wants no pods needs no Service."""
    life = Simulation(job("train", task("w", 1), plugins={"svc": []}))
    life.send(command("stop", "AbortJob"))
    gone = [names(life.world, kind) for kind in ("ConfigMap", "Service", "NetworkPolicy")]
    life.send(command("go", "ResumeJob"))

    assert [[], [], []] == gone
    assert {"plugin-svc": "svc", "pods/w": "0 of 1"} == life.status["controlledResources"]
    assert ["default/train"] == names(life.world, "Service")


def test_an_object_of_somebody_else_is_not_touched() -> None:
    """A Service of that name that was there before stays as it is."""
    metadata = {"name": "train", "namespace": "default"}
    other: Raw = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {}}
    life = Simulation(job("train", task("w", 1), plugins={"svc": []}), other)
    life.send(command("stop", "TerminateJob"))

    assert {} == spec(life.world, "Service", "default/train")


def test_admission_knows_the_plugins_that_are_there() -> None:
    """It tells people of all others that they are ignored."""
    assert set(PROVIDED_PLUGINS) == set(PLUGINS)


def _spec(life: Simulation, kind: str, name: str) -> Any:
    return spec(life.world, kind, f"default/{name}")


def test_pytorch_tells_master_rank_and_size() -> None:
    """As Volcano's plugin: the master has rank 0, workers follow; svc comes with it; other tasks have no rank."""
    life = Simulation(
        job("train", task("master", 1), task("worker", 2), task("log", 1), plugins={"pytorch": ["--port=1234"]})
    )

    told = _environment(life, "worker-1")
    assert ("train-master-0.train", "1234", "3", "2") == tuple(
        told[name] for name in ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")
    )
    assert "0" == _environment(life, "master-0")["RANK"]
    assert "RANK" not in _environment(life, "log-0")
    assert "VC_WORKER_HOSTS" in told
    containers = _spec(life, "Pod", "train-worker-0")["containers"]
    assert [{"name": "pytorchjob-port", "containerPort": 1234}] == containers[0]["ports"]


def test_pytorch_workers_wait_for_the_master_on_request() -> None:
    """An init container of theirs, and none of the master's."""
    arguments = ["--wait-master-enabled", "--wait-master-timeout=60"]
    life = Simulation(job("train", task("master", 1), task("worker", 1), plugins={"pytorch": arguments}))

    waits = _spec(life, "Pod", "train-worker-0")["initContainers"]
    assert ["wait-for-master"] == [container["name"] for container in waits]
    assert "initContainers" not in _spec(life, "Pod", "train-master-0")


def test_tensorflow_tells_the_cluster() -> None:
    """TF_CONFIG with the hosts of every role under its own name, and the pod's role and index."""
    life = Simulation(job("train", task("ps", 1), task("w", 2), plugins={"tensorflow": ["--worker=w"]}))

    assert {
        "cluster": {"ps": ["train-ps-0.train:2222"], "worker": ["train-w-0.train:2222", "train-w-1.train:2222"]},
        "task": {"type": "worker", "index": 1},
    } == json.loads(_environment(life, "w-1")["TF_CONFIG"])
    alone = Simulation(job("train", task("w", 1), plugins={"tensorflow": []}))
    assert "TF_CONFIG" not in _environment(alone, "w-0")


def test_ray_starts_head_and_workers() -> None:
    """The commands of both, the ports of the head, and a Service that leads to it."""
    head, worker = ({"spec": {"containers": [{"name": name}]}} for name in ("head", "worker"))
    life = Simulation(
        job("train", task("head", 1, template=head), task("worker", 1, template=worker), plugins={"ray": []})
    )

    started, joined = (_spec(life, "Pod", f"train-{pod}-0")["containers"][0] for pod in ("head", "worker"))
    assert "ray start --head" in started["command"][2]
    assert "--address=train-head-0.train:6379" in joined["command"][2]
    service = _spec(life, "Service", "train-head-svc")
    assert "head" == service["selector"]["volcano.sh/task-spec"]


def _key(_now: float) -> tuple[str, str]:
    return "private", "public"


def _secret(life: Simulation, name: str = "train-ssh") -> dict[str, str]:
    data = part(manifest(life.world, "Secret", f"default/{name}"), "data")
    return {entry: base64.b64decode(str(text)).decode() for entry, text in data.items()}


def test_ssh_gives_all_pods_one_key_and_the_hosts() -> None:
    """A Secret of the job's, made once, and mounted in every container; hosts of their own count."""
    template = {"spec": {"hostname": "boss", "subdomain": "net", "initContainers": [{"name": "i"}], "containers": []}}
    life = Simulation(job("train", task("a", 1, template=template), task("w", 2), plugins={"ssh": []}), keys=_key)

    hosts = {"boss": "boss.net", "train-w-0": "train-w-0.train", "train-w-1": "train-w-1.train"}
    config = "".join(f"Host {name}\n  HostName {host}\n  Port 22\n" for name, host in hosts.items())
    assert {
        "id_rsa": "private",
        "id_rsa.pub": "public",
        "authorized_keys": "public",
        "config": "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n" + config,
    } == _secret(life)
    (volume,) = _spec(life, "Pod", "train-w-1")["volumes"]
    assert ("train-ssh", 0o600) == (volume["secret"]["secretName"], volume["secret"]["defaultMode"])
    assert {f".ssh/{name}" for name in _secret(life)} == {item["path"] for item in volume["secret"]["items"]}
    mount = {"name": "train-ssh", "mountPath": "/root/.ssh", "subPath": ".ssh"}
    assert [mount] == _spec(life, "Pod", "train-w-1")["containers"][0]["volumeMounts"]
    assert [mount] == _spec(life, "Pod", "train-a-0")["initContainers"][0]["volumeMounts"]
    made: dict[str, Any] = manifest(life.world, "Secret", "default/train-ssh")
    (owner,) = made["metadata"]["ownerReferences"]
    assert ("Job", "train") == (owner["kind"], owner["name"])
    assert "ssh" == part(life.status, "controlledResources")["plugin-ssh"]


@pytest.mark.parametrize(("port", "used"), [("2222", "2222"), ("0", "22"), ("70000", "22"), ("x", "22")])
def test_ssh_takes_a_key_a_place_and_a_port(port: str, used: str) -> None:
    """The job's own key counts, in a place that another user than root reads; a port that is none is that of ssh."""
    arguments = ["--ssh-private-key=mine", "--ssh-public-key=yours", "--ssh-key-file-path=/home/a/.ssh"]
    life = Simulation(job("train", task("w", 1), plugins={"ssh": [*arguments, f"--ssh-port={port}"]}), keys=_key)

    found, pod = _secret(life), _spec(life, "Pod", "train-w-0")
    assert ("mine", "yours") == (found["id_rsa"], found["authorized_keys"])
    assert f"Port {used}\n" in found["config"]
    assert 0o644 == pod["volumes"][0]["secret"]["defaultMode"]
    assert "/home/a/.ssh" == pod["containers"][0]["volumeMounts"][0]["mountPath"]


def test_the_key_of_a_job_stays_while_it_restarts_and_scales() -> None:
    """As in Volcano: pods that run have it."""
    keys = iter([("first", "first"), ("second", "second")])
    life = Simulation(job("train", task("w", 1), plugins={"ssh": []}), keys=lambda _: next(keys))
    life.send(command("stop", "AbortJob"))
    life.send(command("go", "ResumeJob"))
    life.change(tasks=[task("w", 2)])

    assert "first" == _secret(life)["id_rsa"]
    assert 2 == len(names(life.world, "Pod"))


def test_mpi_tells_the_master_the_hosts_of_the_workers() -> None:
    """With ssh and svc beside it, as Volcano's webhook has it; the port is open in every container."""
    template = {"spec": {"initContainers": [{"name": "i"}], "containers": [{"name": "c"}]}}
    tasks = task("boss", 1, template=template), task("worker", 2)
    life = Simulation(job("train", *tasks, plugins={"mpi": ["--master=boss", "--port=2022"]}), keys=_key)

    hosts = "train-worker-0.train,train-worker-1.train"
    for kind in ("containers", "initContainers"):
        assert hosts == _environment(life, "boss-0", kind)["MPI_HOST"]
    assert "MPI_HOST" not in _environment(life, "worker-0")
    for pod in ("boss-0", "worker-1"):
        opened = _spec(life, "Pod", f"train-{pod}")["containers"][0]["ports"]
        assert [{"name": "mpijob-port", "containerPort": 2022}] == opened
    assert {"plugin-mpi", "plugin-ssh", "plugin-svc"} <= set(part(life.status, "controlledResources"))


@pytest.mark.parametrize("plugin", ["ssh", "mpi"])
def test_ssh_waits_where_no_keys_are_made(plugin: str) -> None:
    """No Secret, and pods that wait and say which plugins they lack."""
    life = Simulation(job("train", task("master", 1), plugins={plugin: []}))

    pod = manifest(life.world, "Pod", "default/train-master-0")
    assert [] == names(life.world, "Secret")
    assert plugin in str(part(part(pod, "metadata"), "annotations")["tierwise.io/job-plugins"]).split(",")
    assert not {"plugin-ssh", "plugin-mpi"} & set(part(life.status, "controlledResources"))


def test_a_job_waits_for_its_key_and_its_pods_with_it() -> None:
    """Where no key is to be had now, nothing is made, and the job comes back."""
    keys = iter([None, ("late", "late")])
    life = Simulation(job("train", task("w", 1), plugins={"ssh": []}), keys=lambda _: next(keys))
    before = names(life.world, "Pod")
    life.settle()

    assert ([], ["default/train-w-0"]) == (before, names(life.world, "Pod"))
    assert "late" == _secret(life)["id_rsa"]


def test_keys_are_made_a_few_at_a_time() -> None:
    """Each is another one, and so many in a second; the next second has its own."""
    keys = JobKeys()
    made = [keys(now) for now in (1.0, 1.2, 1.4, 1.8, 1.9, 2.0)]
    found = {pair for pair in made if pair is not None}

    assert (None, 5) == (made[4], len(found))
    assert all(private.startswith("-----BEGIN RSA PRIVATE KEY-----") for private, _ in found)
    assert all(public.startswith("ssh-rsa ") for _, public in found)
