"""A control plane for the session, a fresh set of objects for each test, and processes of tierwise.

Skipped as a whole, with the reason, where there is no control plane: `make e2e` builds one.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.e2e.accounts import Accounts
from tests.e2e.api import Api
from tests.e2e.control_plane import ControlPlane
from tests.e2e.helm import Helm
from tests.e2e.kubelet import Kubelets
from tests.e2e.world import World

ROOT = Path(__file__).parents[2]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here needs a control plane: only who asks for it by name gets it."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.e2e)
            # Python's own: a TLS socket whose server is killed between the connect and the handshake is not closed.
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <ssl.SSLSocket:ResourceWarning"))


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A real API server and etcd."""
    with _running(tmp_path_factory.mktemp("plane")) as plane:
        yield plane


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane on which nobody has installed anything, for tests that do."""
    with _running(tmp_path_factory.mktemp("cluster")) as plane:
        yield plane


@pytest.fixture
def helm(cluster: ControlPlane) -> Helm:
    """The real helm on that cluster; `make chart` builds it."""
    try:
        return Helm(cluster)
    except LookupError as error:
        pytest.skip(f"no helm: {error}")


@contextmanager
def _running(folder: Path) -> Iterator[ControlPlane]:
    found = subprocess.run([ROOT / "tools" / "control_plane", "--no-build"], capture_output=True, text=True)
    if found.returncode:
        pytest.skip(found.stderr.strip())
    plane = ControlPlane(Path(found.stdout.strip()), folder / "data")
    try:
        plane.start()
        yield plane
    finally:
        plane.stop()


@pytest.fixture(scope="session")
def api(plane: ControlPlane) -> Iterator[Api]:
    """A client that is not ours, with our definitions installed."""
    api = Api(plane)
    World.install(api)
    yield api
    api.close()


@pytest.fixture(scope="session")
def accounts(plane: ControlPlane, api: Api) -> Accounts:
    """Who processes of tierwise run as: with the rights that deploy/ gives, and no others."""
    accounts = Accounts(plane, api)
    accounts.make()
    return accounts


@pytest.fixture
def world(plane: ControlPlane, api: Api, accounts: Accounts, tmp_path: Path) -> Iterator[World]:
    """An empty cluster with kubelets; whatever a test leaves is removed."""
    kubelets = Kubelets(api)
    kubelets.start()
    world = World(plane, api, kubelets, accounts, tmp_path)
    try:
        yield world
    finally:
        world.close()
        if os.environ.get("TIERWISE_E2E_LOGS"):
            for log in sorted(tmp_path.glob("*.log")):
                print(f"\n== {log.name}\n{log.read_text()}")
