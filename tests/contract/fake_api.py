"""A small API server on loopback: lists, watches, writes, binds and evictions as far as a client can tell.

It fails on demand: `fail` makes the next requests that match refused, dropped before or after they were carried out,
cut in half, frozen until the test thaws them, or answered with a yes that no API server would give (`LIES`). Objects
are plain manifests; every change has a resource version of its own, as in etcd.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final

from aiohttp import web

__all__ = ["GANGS", "LIES", "FakeApi", "Json"]

Json = dict[str, Any]

_KOORDINATOR: Final = "/apis/scheduling.sigs.k8s.io/v1alpha1"

_SERVED: Final = {
    "/api/v1": [
        ("pods", "Pod", True),
        ("nodes", "Node", False),
        ("configmaps", "ConfigMap", True),
        ("secrets", "Secret", True),
        ("persistentvolumeclaims", "PersistentVolumeClaim", True),
        ("persistentvolumes", "PersistentVolume", False),
    ],
    "/apis/storage.k8s.io/v1": [("storageclasses", "StorageClass", False)],
    "/apis/resource.k8s.io/v1": [("resourceclaims", "ResourceClaim", True)],
    "/apis/policy/v1": [("poddisruptionbudgets", "PodDisruptionBudget", True)],
    "/apis/scheduling.volcano.sh/v1beta1": [("podgroups", "PodGroup", True), ("queues", "Queue", False)],
    _KOORDINATOR: [("podgroups", "PodGroup", True)],
    "/apis/topology.volcano.sh/v1alpha1": [("hypernodes", "HyperNode", False)],
    "/apis/batch.volcano.sh/v1alpha1": [("jobs", "Job", True)],
    "/apis/coordination.k8s.io/v1": [("leases", "Lease", True)],
}


GANGS: Final = "gangs"
"""The table of Koordinator's pod groups, whose plural is that of Volcano's."""

_BUILT_IN: Final = ("pods", "nodes", "persistentvolumeclaims", "resourceclaims")
"""Whose lists the server can merge; those of custom resources it cannot."""

LIES: Final = {
    "html": b"<html><body>Please log in</body></html>",
    "cut": b'{"kind": "PodList", "metadata": {"resourceVersion": "7"}, "ite',
    "other": b'{"kind": "Gateway", "apiVersion": "v1", "metadata": {}, "items": [], "resources": []}',
    "bare": b"{}",
    "list": b"[]",
    "no text": b'{"kind": "\xff\xfe"}',
    "empty": b"",
}
"""What a gateway may say with a 200 in place of the API server."""

_PATH: Final = re.compile(r"(/api/v1|/apis/[^/]+/[^/]+)(?:/namespaces/([^/]+))?/([a-z]+)(?:/([^/]+))?(?:/([a-z]+))?")


@dataclass
class Fault:
    """What happens to requests that match, so many times."""

    method: str
    path: str
    how: int | str  # a status, "drop", "lose" (carry out, then drop), "half" (of the answer), "freeze", or one of LIES
    times: int = 1
    headers: dict[str, str] = field(default_factory=dict)
    said: Json = field(default_factory=dict)
    before: Callable[[], None] = lambda: None  # called when the request comes
    who: str = ""  # whose requests, by their token; "" for everybody's

    def hits(self, request: web.Request) -> bool:
        """Whether a request goes wrong."""
        meant = self.who in ("", request.headers.get("Authorization"))
        matches = self.method == request.method and re.search(self.path, request.path_qs)
        return bool(self.times and meant and matches)


class FakeApi:
    """The server, in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._version = 100
        self._objects: dict[tuple[str, str, str], Json] = {}  # plural, namespace, name
        self._log: list[tuple[int, str, str, Json]] = []  # version, plural, type, object
        self._oldest = 0
        self._news = asyncio.Condition()
        self._watches: set[asyncio.Transport] = set()
        self._mute: set[asyncio.Transport] = set()  # of them, those that are told nothing and are not closed
        self._faults: list[Fault] = []
        self._thawed = asyncio.Event()
        self.frozen = threading.Event()  # set when a request is held
        self.requests: list[str] = []  # "METHOD path"
        self.bodies: list[Json] = []  # of patches
        self.texts: dict[str, str] = {}  # what is sent for a word in a manifest: JSON that Python cannot write
        self.kubelet = True  # terminating pods are gone at once
        self.since: dict[str, int] = {}  # from which version each table was last watched
        self.patient = True  # who watches from a version that is yet to come waits for it; else it has expired
        self.unserved: set[str] = set()  # plurals whose definitions are not installed
        self.plain: set[str] = set()  # plurals whose status has no path of its own
        self.time = "2026-01-01T00:00:00Z"  # what the server stamps bindings with

    def __enter__(self) -> FakeApi:
        self._thread.start()
        self.url = self._run(self._start())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def put(self, *manifests: Json) -> None:
        """Objects as if somebody else had written them."""
        self._run(self._put(manifests))

    def remove(self, plural: str, name: str, namespace: str = "") -> None:
        self._run(self._remove(plural, namespace, name))

    def get(self, plural: str, name: str, namespace: str = "default") -> Json:
        return self._objects[plural, namespace, name]

    def all(self, plural: str) -> list[Json]:
        # A copy, because the server goes on in its thread.
        return [found for (kind, _, _), found in list(self._objects.items()) if kind == plural]

    def fail(self, method: str, path: str, how: int | str, *, times: int = 1, **more: Any) -> None:
        """Let the next requests that match fail."""
        self._faults.append(Fault(method, path, how, times, **more))

    def heal(self) -> None:
        """Nothing fails any more."""
        self._faults.clear()

    def thaw(self) -> None:
        """Drop the requests that are held; none is held from now on."""
        self._loop.call_soon_threadsafe(self._thawed.set)

    def forget_history(self) -> None:
        """No watch can go on from where it was: all versions so far are too old."""
        self._oldest = self._version

    def break_watches(self) -> None:
        """Close every connection that is watched through."""
        for transport in list(self._watches):
            self._loop.call_soon_threadsafe(transport.abort)

    def mute_watches(self) -> None:
        """Tell those who watch now nothing more, and close no connection: as if the network had lost them."""
        self._run(self._muted())

    async def _muted(self) -> None:
        self._mute |= self._watches

    def silently(self, *manifests: Json) -> None:
        """Change objects without telling the watches, as if an event had been lost."""
        for manifest in manifests:
            self._version += 1
            self._store(manifest)

    def backup(self) -> tuple[int, dict[tuple[str, str, str], Json]]:
        """All that the server holds, for `restore`."""
        return self._version, dict(self._objects)

    def restore(self, saved: tuple[int, dict[tuple[str, str, str], Json]]) -> None:
        """Start again from a backup: versions go back, and nobody is told what is no longer there."""
        self._run(self._restored(saved))

    async def _restored(self, saved: tuple[int, dict[tuple[str, str, str], Json]]) -> None:
        self._version, self._objects = saved[0], dict(saved[1])
        self._log.clear()
        self.since.clear()
        for transport in list(self._watches):
            transport.abort()

    def bookmark(self) -> None:
        self._run(self._tell("*", "BOOKMARK", {}))

    def _run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=60)

    async def _start(self) -> str:
        app = web.Application(middlewares=[self._faulty])
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
        await self._runner.setup()
        self._site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await self._site.start()
        host, port = self._runner.addresses[0][:2]
        return f"http://{host}:{port}"

    async def _end(self) -> None:
        for listening in self._site._server.sockets if self._site._server is not None else ():  # type: ignore[attr-defined]
            self._loop.remove_reader(listening.fileno())
        await asyncio.sleep(0.01)  # a connection that is accepted while its server closes would be left half made
        await self._site.stop()
        server = self._runner.server
        self._abort_all(server)
        await self._runner.cleanup()
        quiet_turns = 0
        while quiet_turns < 2:  # a client that gives up may connect once more while this ends
            await asyncio.sleep(0.01)  # transports close one turn of the event loop after they are told to
            left = asyncio.all_tasks() - {asyncio.current_task()}
            quiet_turns = 0 if left or self._abort_all(server) else quiet_turns + 1
            for task in left:
                task.cancel()

    def _abort_all(self, server: web.Server | None) -> int:
        """End every connection at once, and say how many there were: to close would wait for what nobody reads."""
        connections = list(server.connections) if server is not None else []
        transports = [connection.transport for connection in connections if connection.transport is not None]
        for transport in (*transports, *self._watches):
            transport.abort()
        return len(transports)

    @web.middleware
    async def _faulty(self, request: web.Request, handler: Any) -> web.StreamResponse:
        self.requests.append(f"{request.method} {request.path}")
        for fault in self._faults:
            if fault.hits(request):
                fault.times -= 1
                return await self._break(fault, request, handler)
        answer: web.StreamResponse = await handler(request)
        return answer

    async def _break(self, fault: Fault, request: web.Request, handler: Any) -> web.StreamResponse:
        assert request.transport is not None
        fault.before()
        if isinstance(fault.how, int):
            said = {"kind": "Status", "code": fault.how, **fault.said}
            return web.json_response(said, status=fault.how, headers=fault.headers)
        if fault.how in LIES:
            return web.Response(body=LIES[fault.how], content_type="text/html")
        if fault.how == "lose":
            await handler(request)
        if fault.how == "freeze":
            self.frozen.set()
            await self._thawed.wait()
        if fault.how == "half":
            whole: web.Response = await handler(request)
            assert isinstance(whole.body, bytes)
            part = web.StreamResponse(headers={"Content-Length": str(len(whole.body))})
            await part.prepare(request)
            await part.write(whole.body[: len(whole.body) // 2])
        request.transport.abort()
        return web.Response()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        path = "/" + request.match_info["path"]
        if path in _SERVED:
            return self._discovery(path)
        found = _PATH.fullmatch(path)
        if found is None or found[1] not in _SERVED:
            return _refused(404, "NotFound")
        root, namespace, plural, name, sub = found.groups()
        if plural != "events" and plural not in [p for p, _, _ in _SERVED[root]]:
            return _refused(404, "NotFound")
        plural = _table(root, plural)
        if name is None and request.method == "GET":
            return await (self._watch if "watch" in request.query else self._list)(request, plural)
        body = await request.json() if request.can_read_body else {}
        return await self._write(request, (plural, namespace or "", name or ""), sub or "", body)

    def _discovery(self, path: str) -> web.Response:
        served = []
        for plural, kind, namespaced in _SERVED[path]:
            if plural in self.unserved:
                continue
            entry = {"name": plural, "kind": kind, "namespaced": namespaced, "verbs": ["list", "watch"]}
            served += [entry] if plural in self.plain else [entry, {**entry, "name": f"{plural}/status"}]
        return web.json_response({"kind": "APIResourceList", "resources": served})

    async def _list(self, request: web.Request, plural: str) -> web.Response:
        found = [o for (kind, _, _), o in sorted(self._objects.items()) if kind == plural]
        limit, start = int(request.query.get("limit", "0")) or len(found), int(request.query.get("continue", "0"))
        meta = {"resourceVersion": str(self._version)}
        if start + limit < len(found):
            meta["continue"] = str(start + limit)
        text = self._text({"kind": "List", "metadata": meta, "items": found[start : start + limit]})
        return web.Response(text=text, content_type="application/json")

    async def _watch(self, request: web.Request, plural: str) -> web.StreamResponse:
        since = self.since[plural] = int(request.query["resourceVersion"])
        answer = web.StreamResponse()
        async with self._watched(request):
            await answer.prepare(request)
            if since < self._oldest or (since > self._version and not self.patient):
                gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
                await answer.write(json.dumps({"type": "ERROR", "object": gone}).encode() + b"\n")
                return answer
            at = 0
            while True:
                if request.transport in self._mute:
                    await asyncio.Event().wait()
                for version, kind, type_, found in self._log[at:]:
                    if version > since and kind in (plural, "*"):
                        await answer.write(self._text({"type": type_, "object": found}).encode() + b"\n")
                at = len(self._log)
                async with self._news:
                    while len(self._log) == at:
                        await self._news.wait()

    def _text(self, told: Json) -> str:
        text = json.dumps(told)
        for word, meant in self.texts.items():
            text = text.replace(json.dumps(word), meant)
        return text

    @asynccontextmanager
    async def _watched(self, request: web.Request) -> AsyncIterator[None]:
        assert isinstance(request.transport, asyncio.Transport)
        transport = request.transport
        self._watches.add(transport)
        try:
            yield
        finally:
            self._watches.discard(transport)
            self._mute.discard(transport)

    async def _write(self, request: web.Request, at: tuple[str, str, str], sub: str, body: Json) -> web.Response:
        plural, namespace, _ = at
        known = self._objects.get(at)
        if request.method == "POST" and not sub:
            at = (plural, namespace, body["metadata"]["name"])
            if at in self._objects:
                return _refused(409, "AlreadyExists")
            return await self._save(at, body, "ADDED")
        if known is None or (sub == "status" and plural in self.plain):
            return _refused(404, "NotFound")
        if request.method == "PATCH" and not sub and plural not in self.plain:
            body = {field: value for field, value in body.items() if field != "status"}  # dropped without a word
        match request.method, sub:
            case "GET", _:
                return web.json_response(known)
            case "POST", "binding":
                return await self._bind(at, known, body)
            case "POST", "eviction":
                return await self._delete(at, known, body.get("deleteOptions", {}))
            case "PUT", _:
                if body["metadata"].get("resourceVersion") != known["metadata"]["resourceVersion"]:
                    return _refused(409, "Conflict")
                return await self._save(at, body, "MODIFIED")
            case "PATCH", _:
                self.bodies.append(body)
                locked = body.get("metadata", {}).get("resourceVersion")
                if locked not in (None, known["metadata"]["resourceVersion"]):
                    return _refused(409, "Conflict")
                if body.get("metadata", {}).get("uid") not in (None, known["metadata"]["uid"]):
                    return _refused(409, "Conflict")
                if "strategic" not in request.content_type:
                    return await self._save(at, _merged(known, body), "MODIFIED")
                if plural not in _BUILT_IN:
                    return _refused(415, "UnsupportedMediaType")  # as for every custom resource
                return await self._save(at, _merged(known, _with_lists(known, body)), "MODIFIED")
            case _:
                return await self._delete(at, known, body)

    async def _bind(self, at: tuple[str, str, str], pod: Json, body: Json) -> web.Response:
        if body["metadata"].get("uid") not in ("", pod["metadata"]["uid"]):
            return _refused(409, "Conflict")
        if pod["spec"].get("nodeName"):
            return _refused(409, "Conflict")
        scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": self.time}
        status = {"nominatedNodeName": None, "conditions": [scheduled]}
        bound: Json = {"spec": {"nodeName": body["target"]["name"]}, "status": status}
        bound["metadata"] = {"annotations": body["metadata"].get("annotations", {})}
        await self._save(at, _merged(pod, bound), "MODIFIED")
        return web.json_response({"kind": "Status", "status": "Success"}, status=201)

    async def _delete(self, at: tuple[str, str, str], known: Json, options: Json) -> web.Response:
        if options.get("preconditions", {}).get("uid") not in (None, known["metadata"]["uid"]):
            return _refused(409, "Conflict")
        if at[0] == "pods" and known["spec"].get("nodeName") and not self.kubelet:
            stamp = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
            await self._save(at, _merged(known, stamp), "MODIFIED")
            return web.json_response({"kind": "Status", "status": "Success"})
        await self._remove(*at)
        return web.json_response({"kind": "Status", "status": "Success"})

    async def _save(self, at: tuple[str, str, str], manifest: Json, type_: str) -> web.Response:
        self._version += 1
        saved = self._store(manifest, at)
        await self._tell(at[0], type_, saved)
        return web.json_response(saved, status=201 if type_ == "ADDED" else 200)

    async def _put(self, manifests: tuple[Json, ...]) -> None:
        for manifest in manifests:
            self._version += 1
            at = _at(manifest)
            type_ = "MODIFIED" if at in self._objects else "ADDED"
            await self._tell(at[0], type_, self._store(manifest, at))

    async def _remove(self, plural: str, namespace: str, name: str) -> None:
        self._version += 1
        gone = self._objects.pop((plural, namespace, name))
        await self._tell(plural, "DELETED", _merged(gone, {"metadata": {"resourceVersion": str(self._version)}}))

    def _store(self, manifest: Json, at: tuple[str, str, str] | None = None) -> Json:
        at = at or _at(manifest)
        uid = self._objects.get(at, {}).get("metadata", {}).get("uid") or f"uid-{self._version}"
        kept = {field: value for field, value in manifest["metadata"].items() if value != {}}  # as a real one does
        meta = {"uid": uid, **kept, "resourceVersion": str(self._version)}
        self._objects[at] = {**manifest, "metadata": meta}
        return self._objects[at]

    async def _tell(self, plural: str, type_: str, found: Json) -> None:
        async with self._news:
            told = found or {"metadata": {"resourceVersion": str(self._version)}}
            self._log.append((self._version, plural, type_, told))
            self._news.notify_all()


def _table(root: str, plural: str) -> str:
    return GANGS if (root, plural) == (_KOORDINATOR, "podgroups") else plural


def _at(manifest: Json) -> tuple[str, str, str]:
    version = manifest["apiVersion"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    plural, namespaced = next((plural, spaced) for plural, kind, spaced in _SERVED[root] if kind == manifest["kind"])
    plural, meta = _table(root, plural), manifest["metadata"]
    if namespaced:
        meta.setdefault("namespace", "default")
    return plural, meta["namespace"] if namespaced else "", meta["name"]


def _refused(status: int, reason: str) -> web.Response:
    return web.json_response({"kind": "Status", "code": status, "reason": reason, "message": reason}, status=status)


def _with_lists(known: Json, patch: Json) -> Json:
    """A strategic patch as a merge patch: what lists of the status hold and the patch does not name stays."""
    status, before = dict(patch.get("status", {})), known.get("status", {})
    for name, by in (("conditions", "type"), ("reservedFor", "uid")):
        if name in status:
            named = {entry[by]: entry for entry in status[name]}
            status[name] = [*(entry for entry in before.get(name, []) if entry[by] not in named), *named.values()]
    return {**patch, "status": status} if "status" in patch else patch


def _merged(known: Json, patch: Json) -> Json:
    result = dict(known)
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, dict):
            current = result.get(name)
            result[name] = _merged(current if isinstance(current, dict) else {}, value)
        else:
            result[name] = value
    return result
