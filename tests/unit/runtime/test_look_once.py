"""One look at a cluster, against a server that answers as an API server does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from aiohttp import web
from tests.support.ports import free_port

from tierwise.api.codec import Raw
from tierwise.api.errors import InputError
from tierwise.kube.auth import Access
from tierwise.kube.once import list_once
from tierwise.runtime.listener import listening

SERVED = {
    "/api/v1": [("nodes", "Node"), ("pods", "Pod"), ("resourcequotas", "ResourceQuota")],
    "/apis/topology.volcano.sh/v1alpha1": [("hypernodes", "HyperNode")],
}


def _server(forbidden: str = "", size: int = 2) -> web.Application:
    """Two objects of each kind, in pages of a size."""
    app = web.Application()

    async def discovery(request: web.Request) -> web.Response:
        served = SERVED.get(request.path)
        if served is None:
            return web.json_response({"kind": "Status", "code": 404, "reason": "NotFound"}, status=404)
        verbs = ["list", "watch"]
        found = [{"name": n, "kind": k, "verbs": verbs} for n, k in served]
        return web.json_response({"kind": "APIResourceList", "resources": found})

    async def objects(request: web.Request) -> web.Response:
        plural = request.path.rpartition("/")[2]
        if plural == forbidden:
            said = {"kind": "Status", "code": 403, "reason": "Forbidden", "message": f"{plural} is forbidden"}
            return web.json_response(said, status=403)
        start = int(request.query.get("continue", "0"))
        names = [f"{plural}-{number}" for number in range(2)][start : start + size]
        rest = str(start + size) if start + size < 2 else ""
        items = [{"metadata": {"name": name}} for name in names]
        return web.json_response({"kind": "List", "items": items, "metadata": {"continue": rest}})

    for root, served in SERVED.items():
        for plural, _ in served:
            app.router.add_get(f"{root}/{plural}", objects)
    app.router.add_get("/{path:.*}", discovery)
    return app


def _look(app: web.Application, left_out: Callable[[str], None] = lambda plural: None) -> list[Raw]:
    port = free_port()
    with listening(app, "127.0.0.1", port):
        return asyncio.run(list_once(Access(f"http://127.0.0.1:{port}"), left_out))


@pytest.mark.parametrize("size", [1, 2])
def test_every_object_of_every_served_kind_is_seen(size: int) -> None:
    """Page by page, with the kind and version that lists leave out; kinds that are not served do no harm."""
    found = [(raw["apiVersion"], raw["kind"], raw["metadata"]["name"]) for raw in _look(_server(size=size))]  # type: ignore[index]

    assert 8 == len(found)
    assert ("v1", "Node", "nodes-1") in found
    assert ("topology.volcano.sh/v1alpha1", "HyperNode", "hypernodes-0") in found


def test_a_kind_that_may_not_be_listed_is_left_out() -> None:
    """Whoever may see nodes and pods sees what there is to see."""
    missing: list[str] = []

    found = _look(_server(forbidden="hypernodes"), missing.append)

    assert ["hypernodes"] == missing
    assert {"Node", "Pod", "ResourceQuota"} == {raw["kind"] for raw in found}


def test_without_pods_there_is_nothing_to_see() -> None:
    """One line says what is missing, and which role has it."""
    with pytest.raises(InputError, match=r"pods is forbidden .*tierwise-read"):
        _look(_server(forbidden="pods"))


def test_a_server_that_is_not_there_is_bad_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """The address stands in the message."""
    monkeypatch.setattr("tierwise.kube.client.pause", lambda *_, **__: 0.0)
    with pytest.raises(InputError, match=r"http://127\.0\.0\.1:9: the API server cannot be reached"):
        asyncio.run(list_once(Access("http://127.0.0.1:9"), lambda plural: None))
