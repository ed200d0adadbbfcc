"""A server and its client, for the tests of every contract."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.contract.fake_api import FakeApi
from tests.contract.manifests import node
from tests.contract.turns import World

from tierwise.kube.auth import Access
from tierwise.kube.cluster import KubeCluster


@pytest.fixture
def api() -> Iterator[FakeApi]:
    """A server with two nodes; a file whose tests need other objects has a server of its own."""
    with FakeApi() as found:
        found.put(node("n0"), node("n1"))
        yield found


@pytest.fixture
def cluster(api: FakeApi) -> Iterator[KubeCluster]:
    """A client of the server that knows its objects."""
    with KubeCluster(Access(api.url)) as found:
        assert found.synced(timeout=60)
        yield found


@pytest.fixture
def world(api: FakeApi, cluster: KubeCluster) -> World:
    """The server, its client, and a loop."""
    return World(api, cluster)
