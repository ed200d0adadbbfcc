"""A configured source from the fetch to the hyperNodes: over real HTTP, and from files."""

from pathlib import Path

import pytest
from tests.support.fabric_manager import FabricManager, ports
from tests.support.manifests import (
    NOW,
    discovery_source,
    names,
    node,
    objects,
    settled,
    status,
)

from tierwise.api.codec import Raw
from tierwise.api.core import ConfigMap
from tierwise.dialects.volcano.discovery import OtherSource, other_sources
from tierwise.discovery import fetch_record
from tierwise.discovery.fetch_record import FetchRecord
from tierwise.fetch.refresh import refresh
from tierwise.port import Objects

SECRET = {"username": "admin", "password": "secret"}


def _source(config: Raw) -> OtherSource:
    [source] = other_sources(objects(config).every(ConfigMap).values())
    return source


def _world(config: Raw, found: FetchRecord, kind: str = "ufm") -> Objects:
    cluster = [node(f"n{i}") for i in range(2)]
    return settled(objects(config, *cluster, fetch_record.manifest(found, kind, "volcano-system")))


def test_a_fabric_manager_that_fails_keeps_the_tree_it_gave_before() -> None:
    """And gives a new one once it answers again."""
    with FabricManager({"resources/ports": ports("n0-l0", "n1-l1", "l0=s0", "l1=s0")}) as manager:
        config = discovery_source("ufm", endpoint=manager.address)
        first = refresh(_source(config), SECRET, None, NOW, files=None)
        before = names(_world(config, first), "HyperNode")

        manager.status = 500
        second = refresh(_source(config), SECRET, first, NOW + 3600, files=None)
        failing = _world(config, second)
        conditions = status(failing, "HyperNode", "s0")["conditions"]

        manager.status = 200
        third = refresh(_source(config), SECRET, second, NOW + 3630, files=None)

    assert ["l0", "l1", "s0"] == before == names(failing, "HyperNode")
    assert isinstance(conditions, list)
    assert [("Discovered", "False", "SourceFailed")] == [(c["type"], c["status"], c["reason"]) for c in conditions]
    assert "HTTP 500 Internal Server Error; 1 failure" in conditions[0]["message"]
    assert "secret" not in str(fetch_record.manifest(second, "ufm", "ns"))
    assert (0, first.tree) == (third.failures, third.tree)


def test_a_file_is_read_with_its_settings(tmp_path: Path) -> None:
    """Columns of a host map, for example."""
    file = tmp_path / "hosts.csv"
    file.write_text("box,a,b\nn0,r0,s0\nn1,r1,s0\n")
    config = discovery_source("csv", path=str(file), hostColumn="box", tiers=["a", "b"])
    found = refresh(_source(config), {}, None, NOW, files=tmp_path)

    assert ["s0", "s0-r0", "s0-r1"] == names(_world(config, found, "csv"), "HyperNode")


def test_what_is_wrong_with_a_source_is_a_record(tmp_path: Path) -> None:
    """A missing setting, a missing file and a text that says nonsense alike."""
    missing = refresh(_source(discovery_source("slurm")), {}, None, NOW, files=tmp_path)
    gone = refresh(_source(discovery_source("slurm", path="topology.conf")), {}, missing, NOW, files=tmp_path)

    assert ("config.path: is missing", 1) == (missing.error, missing.failures)
    assert (f"{tmp_path}/topology.conf: cannot be read: No such file or directory", 2) == (gone.error, gone.failures)


def test_a_text_with_an_error_is_a_failure(tmp_path: Path) -> None:
    """Half a tree is worse than the old one."""
    file = tmp_path / "topology.conf"
    file.write_text("SwitchName=a Nodes=n0\nSwitchName=b Switches=c\n")
    found = refresh(_source(discovery_source("slurm", path=str(file))), {}, None, NOW, files=tmp_path)

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


HOSTS = "host,rack\nn0,r0\nn1,r1\n"


@pytest.fixture(name="house")
def _house(tmp_path: Path) -> Path:
    """A folder of files for discovery, `files`, beside one that is none of its business."""
    for folder in ("files", "files/slurm", "files-too", "secret"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "hosts.csv").write_text(HOSTS)
    (tmp_path / "secret/topology.conf").write_text("SwitchName=hunter2 Nodes=n0\n")
    return tmp_path


def _failure(kind: str, path: str, files: Path | None) -> str:
    found = refresh(_source(discovery_source(kind, path=path)), {}, None, NOW, files=files)
    assert None is found.tree
    return found.error


def test_files_are_not_read_unless_somebody_says_where(house: Path) -> None:
    """Whoever may write the configuration could read the files of our pod otherwise."""
    assert "config.path: files are not read: --discovery-files DIR says below which folder they may be" == _failure(
        "csv", str(house / "files/hosts.csv"), None
    )


@pytest.mark.parametrize("path", ["hosts.csv", "{}/files/hosts.csv", "slurm/../hosts.csv", "..data/hosts.csv", "link"])
def test_files_below_the_folder_are_read(house: Path, path: str) -> None:
    """By a path from there, by a whole one, and by links that stay inside, as those of a mounted ConfigMap do."""
    (house / "files/..data").symlink_to("slurm")
    (house / "files/link").symlink_to("..data/hosts.csv")
    source = _source(discovery_source("csv", path=path.format(house)))

    assert "" == refresh(source, {}, None, NOW, files=house / "files").error


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("csv", "../secret/hosts.csv"),
        ("csv", "{}/secret/hosts.csv"),
        ("csv", "{}/secret/nothing.csv"),
        ("csv", "{}/files-too/hosts.csv"),
        ("csv", "slurm/../../secret/hosts.csv"),
        ("csv", "file-link"),
        ("json", "folder-link/hosts.csv"),
        ("csv", "hosts.csv\0"),
        ("slurm", "folder-link"),
        ("slurm", "{}/secret"),
    ],
)
def test_a_path_that_leads_elsewhere_is_refused(house: Path, kind: str, path: str) -> None:
    """Whether or not there is anything: nobody learns what stands where."""
    (house / "files/file-link").symlink_to(house / "secret/hosts.csv")
    (house / "files/folder-link").symlink_to(house / "secret")
    path = path.format(house)

    assert f"config.path: {path} is not below {house}/files, and files elsewhere are not read" == _failure(
        kind, path, house / "files"
    )


def test_a_folder_of_slurm_is_left_by_no_link(house: Path) -> None:
    """The file in it is judged as well as the folder."""
    (house / "files/slurm/topology.conf").symlink_to(house / "secret/topology.conf")
    said = _failure("slurm", "slurm", house / "files")

    assert "is not below" in said
    assert "hunter2" not in said


@pytest.mark.parametrize("path", ["circle", "circle/../../secret/hosts.csv"])
def test_links_in_a_circle_lead_nowhere(house: Path, path: str) -> None:
    """Nor out of the folder by what follows them."""
    (house / "files/circle").symlink_to("circle")

    assert path in _failure("csv", path, house / "files")


def test_standard_input_is_no_file(house: Path) -> None:
    """The sign for it is a name like any other here."""
    assert f"{house}/files/-: cannot be read: No such file or directory" == _failure("csv", "-", house / "files")


def test_the_folder_may_be_a_link_itself(house: Path) -> None:
    """It is whoever starts us who names it."""
    (house / "mounted").symlink_to("files")
    source = _source(discovery_source("csv", path=str(house / "mounted/hosts.csv")))

    assert "" == refresh(source, {}, None, NOW, files=house / "mounted").error


@pytest.mark.parametrize("meant", ["{}", "{}/", "127.0.0.1:1"])
def test_a_secret_may_say_whom_it_is_for(meant: str) -> None:
    """Then its credentials go nowhere else, whatever the configuration says."""
    with FabricManager({"resources/ports": ports("n0-l0")}) as manager:
        source = _source(discovery_source("ufm", endpoint=manager.address))
        found = refresh(source, SECRET | {"endpoint": meant.format(manager.address)}, None, NOW, files=None)

    if meant.startswith("{}"):
        assert ("", 2) == (found.error, len(manager.asked))
    else:
        assert ("config.endpoint: is not the server that the Secret is for", 0) == (found.error, len(manager.asked))
