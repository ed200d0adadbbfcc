"""A configured source from the fetch to the hyperNodes: over real HTTP, and from files."""

from pathlib import Path

from tests.fabric_manager import FabricManager, ports
from tests.manifests import NOW, discovery_source, names, node, objects, settled, status

from tierwise.api.codec import Raw
from tierwise.api.core import ConfigMap
from tierwise.dialects.discovery import OtherSource, other_sources
from tierwise.discovery import record
from tierwise.discovery.record import Record
from tierwise.fetch.refresh import refresh
from tierwise.port import Objects

SECRET = {"username": "admin", "password": "secret"}


def _source(config: Raw) -> OtherSource:
    [source] = other_sources(objects(config).every(ConfigMap).values())
    return source


def _world(config: Raw, found: Record, kind: str = "ufm") -> Objects:
    cluster = [node(f"n{i}") for i in range(2)]
    return settled(objects(config, *cluster, record.manifest(found, kind, "volcano-system")))


def test_a_fabric_manager_that_fails_keeps_the_tree_it_gave_before() -> None:
    """And gives a new one once it answers again."""
    with FabricManager({"resources/ports": ports("n0-l0", "n1-l1", "l0=s0", "l1=s0")}) as manager:
        config = discovery_source("ufm", endpoint=manager.address)
        first = refresh(_source(config), SECRET, None, NOW)
        before = names(_world(config, first), "HyperNode")

        manager.status = 500
        second = refresh(_source(config), SECRET, first, NOW + 3600)
        failing = _world(config, second)
        conditions = status(failing, "HyperNode", "s0")["conditions"]

        manager.status = 200
        third = refresh(_source(config), SECRET, second, NOW + 3630)

    assert ["l0", "l1", "s0"] == before == names(failing, "HyperNode")
    assert isinstance(conditions, list)
    assert [("Discovered", "False", "SourceFailed")] == [(c["type"], c["status"], c["reason"]) for c in conditions]
    assert "HTTP 500 Internal Server Error; 1 failure" in conditions[0]["message"]
    assert "secret" not in str(record.manifest(second, "ufm", "ns"))
    assert (0, first.tree) == (third.failures, third.tree)


def test_a_file_is_read_with_its_settings(tmp_path: Path) -> None:
    """Columns of a host map, for example."""
    file = tmp_path / "hosts.csv"
    file.write_text("box,a,b\nn0,r0,s0\nn1,r1,s0\n")
    config = discovery_source("csv", path=str(file), hostColumn="box", tiers=["a", "b"])
    found = refresh(_source(config), {}, None, NOW)

    assert ["s0", "s0-r0", "s0-r1"] == names(_world(config, found, "csv"), "HyperNode")


def test_what_is_wrong_with_a_source_is_a_record() -> None:
    """A missing setting, a missing file and a text that says nonsense alike."""
    missing = refresh(_source(discovery_source("slurm")), {}, None, NOW)
    gone = refresh(_source(discovery_source("slurm", path="/nowhere/topology.conf")), {}, missing, NOW)

    assert ("config.path: is missing", 1) == (missing.error, missing.failures)
    assert ("/nowhere/topology.conf: cannot be read: No such file or directory", 2) == (gone.error, gone.failures)


def test_a_text_with_an_error_is_a_failure(tmp_path: Path) -> None:
    """Half a tree is worse than the old one."""
    file = tmp_path / "topology.conf"
    file.write_text("SwitchName=a Nodes=n0\nSwitchName=b Switches=c\n")
    found = refresh(_source(discovery_source("slurm", path=str(file))), {}, None, NOW)

    assert None is found.tree
    assert found.error.endswith(":2: switch b names switch c, which does not exist")


def test_credentials_and_intervals_are_those_of_the_configuration() -> None:
    """Volcano's spelling; without an interval it is an hour."""
    config = discovery_source("ufm", "10m", endpoint="https://ufm.example")
    raw = config["data"]
    assert isinstance(raw, dict)
    text = raw["volcano-controller.conf"].replace(
        '"enabled": true', '"enabled": true, "credentials": {"secretRef": {"name": "creds", "namespace": "ops"}}'
    )
    source = _source(config | {"data": {"volcano-controller.conf": text}})

    assert (600.0, ("ops", "creds")) == (source.interval, source.secret)
    assert 3600.0 == _source(discovery_source("ufm", "")).interval
