"""Topology sources of a live cluster: what the controllers may open with the rights and options of deploy/."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.accounts import NAMESPACE
from tests.e2e.api import ApiRefusal, Json, path_of
from tests.e2e.world import World, node
from tests.support.fabric_manager import FabricManager, ports

CONFIGURATION = "tierwise-controller-configmap"
SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets"
OURS = ("tierwise-discovery", "other")


@pytest.fixture(name="sourced")
def _sourced(world: World) -> Iterator[World]:
    """Four nodes, two Secrets alike, and the right to read one of them."""
    world.api.create(*(node(f"n{i}") for i in range(4)))
    world.accounts.install("components/discovery-secret/role.yaml")
    for name in OURS:
        meta = {"name": name}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": {"token": "t0"}}
        world.api.ask("POST", SECRETS, secret)
    yield world
    for name in OURS:
        world.api.ask("DELETE", f"{SECRETS}/{name}")
    for found in world.api.list("ConfigMap", NAMESPACE):
        if found["metadata"]["name"].startswith("tierwise-"):
            world.api.delete("ConfigMap", found["metadata"]["name"], NAMESPACE)


def _configure(world: World, *sources: Json) -> None:
    text = json.dumps({"networkTopologyDiscovery": [{"enabled": True, **source} for source in sources]})
    meta = {"name": CONFIGURATION, "namespace": NAMESPACE}
    world.api.apply(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"volcano-controller.conf": text}}
    )


def _ufm(manager: FabricManager, secret: str) -> Json:
    reference = {"secretRef": {"name": secret, "namespace": NAMESPACE}}
    return {"source": "ufm", "config": {"endpoint": manager.address}, "credentials": reference}


def _error(world: World, kind: str) -> str:
    """What the record of a source says is wrong; "none yet" before there is a record."""
    try:
        record = world.api.ask("GET", path_of("ConfigMap", f"tierwise-discovery-{kind}", NAMESPACE))
    except ApiRefusal:
        return "none yet"
    return str(record["data"].get("error", ""))


def test_controllers_read_the_secret_and_the_folder_that_they_are_given(sourced: World, tmp_path: Path) -> None:
    """And neither another Secret of the same namespace nor a file elsewhere, whatever the configuration says."""
    files = tmp_path / "files"
    files.mkdir()
    (files / "hosts.csv").write_text("host,rack\nn2,r2\nn3,r3\n")
    (tmp_path / "hosts.csv").write_text("host,rack\nn2,hidden\nn3,hidden\n")
    with FabricManager({"resources/ports": ports("n0-l0", "n1-l1", "l0=s0", "l1=s0")}) as manager:
        _configure(sourced, _ufm(manager, "other"), {"source": "csv", "config": {"path": "../hosts.csv"}})
        sourced.run("--discovery-files", str(files), "--discovery-namespace", NAMESPACE, verb="controllers")
        sourced.until(lambda: "none yet" not in (_error(sourced, "ufm"), _error(sourced, "csv")))
        refused = (_error(sourced, "ufm"), _error(sourced, "csv"))
        asked = list(manager.asked)
        _configure(sourced, _ufm(manager, "tierwise-discovery"), {"source": "csv", "config": {"path": "hosts.csv"}})
        names = {"l0", "l1", "s0", "r2", "r3"}
        sourced.until(lambda: names == {h["metadata"]["name"] for h in sourced.api.list("HyperNode")})

    assert 'secrets "other" is forbidden' in refused[0]
    assert f"config.path: ../hosts.csv is not below {files}, and files elsewhere are not read" == refused[1]
    assert [] == asked
    assert {"Basic t0"} == {header for _, header in manager.asked}


def test_no_other_secret_may_be_read(sourced: World) -> None:
    """By name, and one by one."""
    for verb, name, allowed in (("get", OURS[0], True), ("get", OURS[1], False), ("list", "", False)):
        may = sourced.accounts.may("tierwise-controllers", verb, "secrets", name=name, where=NAMESPACE)
        assert allowed == may, (verb, name)
