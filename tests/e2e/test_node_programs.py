"""The programs on nodes with the rights that deploy/ gives them, on a real API server."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.e2e.accounts import NODES
from tests.e2e.api import Api, ApiRefusal, Json, path_of
from tests.e2e.world import PATIENCE, World, node
from tests.support.ports import free_port

PROGRAMS = Path(__file__).parents[2] / "deploy/kustomize/node-programs"
COMMAND = str(Path(sys.executable).parent / "tierwise")
BANDWIDTH = "network.aware.com/bandwidth"
POLICY = "tierwise-advertise-bandwidth"


@pytest.fixture(name="nodes")
def _nodes(world: World) -> Iterator[World]:
    """Two nodes in two zones, at two addresses of this machine; and everything that the programs are installed with."""
    world.accounts.install("node-programs/namespace.yaml", "node-programs/rbac/probe.yaml")
    world.accounts.install("node-programs/rbac/advertise-bandwidth.yaml", "node-programs/own-node.yaml")
    for number, zone in enumerate("ab"):
        labels = {"topology.kubernetes.io/region": "r", "topology.kubernetes.io/zone": zone}
        machine = node(f"n{number}", labels=labels)
        machine["status"]["addresses"] = [{"type": "InternalIP", "address": f"127.0.0.{number + 1}"}]
        world.api.create(machine)
    stranger = Api(world.plane, world.accounts.token("tierwise-advertise-bandwidth", NODES))  # of no node
    world.until(lambda: "from that node alone" in _refusal(stranger, "n0", {"status": {"phase": "Running"}}))
    yield world
    stranger.close()
    world.api.ask("DELETE", path_of("Pod", namespace=NODES), {"gracePeriodSeconds": 0})
    for kind in ("policies", "policybindings"):
        world.api.ask("DELETE", f"/apis/admissionregistration.k8s.io/v1/validatingadmission{kind}/{POLICY}")
    world.api.delete("ConfigMap", "netperf-metrics")


def _refusal(api: Api, name: str, change: Json) -> str:
    """What the API server has against a patch of a node's status, without making it."""
    try:
        api.ask("PATCH", f"{path_of('Node', name)}/status?dryRun=All", change, "application/merge-patch+json")
    except ApiRefusal as refusal:
        return str(refusal)
    return ""


def _pod(world: World, program: str, number: int) -> Json:
    """The pod of a DaemonSet on a node."""
    (daemons,) = yaml.safe_load_all((PROGRAMS / f"{program}.yaml").read_text())
    name, spec = f"{program}-n{number}", daemons["spec"]["template"]["spec"]
    meta = {"name": name, "namespace": NODES}
    world.api.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec | {"nodeName": f"n{number}"}})
    return world.api.get("Pod", name, NODES)


def _token(world: World, pod: Json) -> str:
    """The token that a kubelet gives the pod."""
    return world.accounts.token(pod["spec"]["serviceAccountName"], NODES, pod["metadata"]["name"])


def _started(world: World, program: str, number: int, *more: str) -> subprocess.Popen[str]:
    """What the pod's container runs, with its own token, and with words of ours behind its own."""
    pod = _pod(world, program, number)
    words = [word.replace("$(HOST_IP)", f"127.0.0.{number + 1}") for word in pod["spec"]["containers"][0]["args"]]
    words.remove("--in-cluster")
    kubeconfig = world.accounts.write(pod["metadata"]["name"], _token(world, pod))
    command = [COMMAND, *words, "--kubeconfig", str(kubeconfig), "--node", f"n{number}", *more]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def test_probes_measure_each_other(nodes: World) -> None:
    """Each node answers at its own address and writes what it measured, and nothing is forbidden to it."""
    port = str(free_port())
    running = [_started(nodes, "probe", number, "--port", port, "--interval", "10") for number in range(2)]

    def measured() -> set[str]:
        data: Json = nodes.api.get("ConfigMap", "netperf-metrics").get("data", {})
        return {key.partition(".origin.")[2] for key in data if key.startswith("netperf.p90.")}

    try:
        nodes.until(lambda: {"n0.destination.n1", "n1.destination.n0"} == measured())
    finally:
        for process in running:
            process.terminate()
        said = [process.communicate(timeout=PATIENCE)[1] for process in running]
    assert not any("forbidden" in text for text in said), said


@pytest.fixture(name="machine")
def _machine(tmp_path: Path) -> list[str]:
    """/sys and /proc of a node with 25 Gbit/s."""
    interface = tmp_path / "sys/class/net/eth0"
    interface.mkdir(parents=True)
    (interface / "speed").write_text("25000\n")
    (tmp_path / "proc/net").mkdir(parents=True)
    (tmp_path / "proc/net/route").write_text("Iface Destination\neth0 00000000 0 0 0 0 0 00000000\n")
    return ["--sysfs", str(tmp_path / "sys"), "--procfs", str(tmp_path / "proc"), "--once"]


def test_a_node_advertises_its_own_bandwidth(nodes: World, machine: list[str]) -> None:
    """From a pod on that node it is written, and from a pod on another one refused by the API server."""
    own = _started(nodes, "advertise-bandwidth", 0, *machine)
    assert ("", 0) == (own.communicate(timeout=PATIENCE)[1], own.returncode)
    foreign = _started(nodes, "advertise-bandwidth", 1, *machine, "--node", "n0", "--speed", "1G")
    said = foreign.communicate(timeout=PATIENCE)[1]

    assert "a node's bandwidth is advertised from that node alone" in said
    assert 1 == foreign.returncode
    for part in ("capacity", "allocatable"):
        assert "25G" == nodes.api.get("Node", "n0")["status"][part][BANDWIDTH]


def test_nothing_else_of_a_node_is_its_to_change(nodes: World) -> None:
    """Not other resources, more or fewer, nor conditions, addresses and labels; not even on its own node."""
    api = Api(nodes.plane, _token(nodes, _pod(nodes, "advertise-bandwidth", 0)))

    assert "" == _refusal(api, "n0", {"status": {"capacity": {BANDWIDTH: "1"}}})
    for amounts in ({"cpu": "1000"}, {"nvidia.com/gpu": None}, {"example.com/other": "1"}):
        for part in ("capacity", "allocatable"):
            assert "only network.aware.com/bandwidth is advertised" in _refusal(api, "n0", {"status": {part: amounts}})
    for change in (
        {"status": {"conditions": [{"type": "Ready", "status": "False"}]}},
        {"status": {"addresses": None}},
        {"status": {"phase": "Running"}},
        {"metadata": {"labels": {"topology.kubernetes.io/zone": "b"}}},
        {"metadata": {"annotations": {"a": "b"}}},
    ):
        assert "nothing but the resources of a node" in _refusal(api, "n0", change)
    api.close()


def test_rights_go_no_further(nodes: World) -> None:
    """What a program does not do, it may not do."""
    probe, advertise = "tierwise-probe", "tierwise-advertise-bandwidth"
    for account, verb, resource, name, allowed in (
        (probe, "patch", "configmaps", "netperf-metrics", True),
        (probe, "patch", "configmaps", "x-controller-configmap", False),
        (probe, "create", "configmaps", "", False),
        (probe, "list", "configmaps", "", False),
        (probe, "patch", "nodes/status", "n0", False),
        (probe, "list", "pods", "", False),
        (advertise, "patch", "nodes/status", "n0", True),
        (advertise, "patch", "nodes", "n0", False),
        (advertise, "list", "nodes", "", False),
        (advertise, "get", "configmaps", "netperf-metrics", False),
    ):
        may = nodes.accounts.may(account, verb, resource, of=NODES, name=name)
        assert allowed == may, (account, verb, resource)
