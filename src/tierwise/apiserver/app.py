"""The API on HTTP: paths, media types, watches, and limits on what a client may ask for.

Added to the caller's application, which decides who may ask (`runtime.access`).
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler

from tierwise.api.codec import Raw
from tierwise.api.errors import InputError
from tierwise.api.yaml_text import documents
from tierwise.apiserver import discovery, openapi, protobuf
from tierwise.apiserver.failures import MOST_BYTES, ApiFailure, bad_request, check_bounds, expired, too_large
from tierwise.apiserver.kinds import find
from tierwise.apiserver.metrics import node_metrics, pod_metrics
from tierwise.apiserver.objects import USER_AGENT, Answer, ObjectApi, Place, number
from tierwise.apiserver.patches import merge_patch
from tierwise.apiserver.store import Change, meta_of
from tierwise.apiserver.tables import table

__all__ = ["MOST_BYTES", "add_api", "refused"]

_BOOKMARK: Final = 60.0
"""Seconds after which a watch is told how far it is."""

_LOOK: Final = 10.0
"""Seconds after which a quiet watch looks whether its client is still there."""

_LONGEST_WATCH: Final = 3600.0
"""Seconds after which a watch ends, and is begun again by whoever needs it."""

_PATH: Final = re.compile(
    r"/(?:api/(?P<core>v1)|apis/(?P<group>[^/]+)/(?P<version>[^/]+))"
    r"(?:/namespaces/(?P<namespace>[^/]+))?/(?P<plural>[a-z]+)(?:/(?P<name>[^/]+))?(?:/(?P<sub>[a-z]+))?"
)
_OF_NAMESPACE: Final = re.compile(r"/api/v1/namespaces/(?P<name>[^/]+)/(?P<sub>status|finalize)")
_AGGREGATED: Final = re.compile(r"g=apidiscovery\.k8s\.io;v=(v2|v2beta1);as=APIGroupDiscoveryList")
_SECONDS: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")
_JSON: Final = "application/json"
_PROTOBUF: Final = "application/vnd.kubernetes.protobuf"


def add_api(app: web.Application, api: ObjectApi) -> None:
    """Let an application serve the objects of a cluster below /api and /apis."""
    server = _Server(api)
    routes: dict[str, Callable[[web.Request], Awaitable[web.StreamResponse]]] = {
        "/api": server.core,
        "/apis": server.groups,
        "/version": _fixed(discovery.version()),
        "/openapi/v2": _old_openapi,
        "/openapi/v3": _fixed(openapi.index()),
        "/openapi/v3/{path:.+}": _openapi,
        "/healthz": _well,
        "/livez": _well,
        "/readyz": _well,
    }
    _add_reviews(app)
    for path, handler in routes.items():
        app.router.add_get(path, handler)
        app.router.add_get(f"{path}/", handler)  # as clients for Python ask
    for path in ("{kind:nodes}", "{kind:pods}", "namespaces/{namespace}/{kind:pods}"):
        app.router.add_get(f"/apis/metrics.k8s.io/v1beta1/{path}", server.metrics)
        app.router.add_get(f"/apis/metrics.k8s.io/v1beta1/{path}/{{name}}", server.metrics)
    app.router.add_route("*", "/api/v1{rest:.*}", server.serve)
    app.router.add_route("*", "/apis/{rest:.*}", server.serve)
    app.on_startup.append(server.start)
    app.on_shutdown.append(server.stop)


def refused(code: int, reason: str, text: str) -> web.Response:
    """A refusal as clients of Kubernetes read it."""
    return _refusal(ApiFailure(code, reason, text))


def _fixed(body: Raw, code: int = 200) -> Handler:
    data = msgspec.json.encode(body)

    async def serve(_: web.Request) -> web.Response:
        return web.Response(body=data, status=code, content_type=_JSON)

    return serve


async def _well(_: web.Request) -> web.Response:
    return web.Response(text="ok")


_ALL: Final = ["*"]
_REVIEWS: Final[Mapping[str, Raw]] = {
    "authorization.k8s.io/v1/SelfSubjectAccessReview": {"allowed": True},
    "authorization.k8s.io/v1/SelfSubjectRulesReview": {
        "resourceRules": [{"verbs": _ALL, "apiGroups": _ALL, "resources": _ALL}],
        "nonResourceRules": [{"verbs": _ALL, "nonResourceURLs": _ALL}],
        "incomplete": False,
    },
    "authentication.k8s.io/v1/SelfSubjectReview": {"userInfo": {"username": "tierwise", "groups": ["system:masters"]}},
}
"""Who has come so far may do everything: the answers to what a client may ask about itself, by kind."""


def _add_reviews(app: web.Application) -> None:
    for kind, status in _REVIEWS.items():
        version, _, name = kind.rpartition("/")
        answer: Raw = {"kind": name, "apiVersion": version, "metadata": {}, "spec": {}, "status": status}
        app.router.add_post(f"/apis/{version}/{name.lower()}s", _fixed(answer, 201))


async def _old_openapi(request: web.Request) -> web.Response:
    if "protobuf" in request.headers.get("Accept", ""):
        kind = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
        return web.Response(body=openapi.V2_PROTOBUF, headers={"Content-Type": kind})
    return _body(openapi.V2_JSON)


def _fits_scope(place: Place) -> bool:
    """Whether a place names a namespace where its kind is in one, and none elsewhere."""
    if place.served.namespaced:
        return bool(place.namespace or not place.name)
    return not place.namespace


async def _openapi(request: web.Request) -> web.Response:
    parts = request.match_info["path"].split("/")
    place = ("", "")
    if len(parts) == 3:
        place = (parts[1], parts[2])
    elif len(parts) == 2 and parts[0] == "api":
        place = ("", parts[1])
    document_bytes = await asyncio.to_thread(openapi.document, *place)
    if document_bytes is None:
        return _refusal(ApiFailure(404, "NotFound", "the server could not find the requested resource"))
    return web.Response(body=document_bytes, content_type=_JSON)


def _accepted(request: web.Request) -> str:
    return str(request.headers.get("Accept", "")).replace(" ", "")


def _wants_table(request: web.Request) -> bool:
    """Whether the answer is for people, as `kubectl get` asks for it."""
    accept = _accepted(request)
    return "as=Table" in accept and "g=meta.k8s.io" in accept


def _body(body: object, code: int = 200, warnings: Iterable[str] = ()) -> web.Response:
    response = web.Response(body=msgspec.json.encode(body), status=code, content_type=_JSON)
    for text in warnings:
        quoted = "".join(letter if letter.isprintable() else " " for letter in text)
        quoted = quoted.encode("ascii", "replace").decode().replace("\\", "\\\\").replace('"', '\\"')
        response.headers.add("Warning", f'299 - "{quoted}"')
    return response


def _refusal(failure: ApiFailure) -> web.Response:
    return _body(failure.wire(), failure.code)


class _Server:
    """Requests for objects."""

    def __init__(self, api: ObjectApi) -> None:
        self._api = api
        self._news = asyncio.Event()
        self._ended = False
        self._loop: asyncio.AbstractEventLoop | None = None

    async def start(self, _: web.Application) -> None:
        self._loop = asyncio.get_running_loop()
        self._api.cluster.listeners.append(self._changed)

    async def stop(self, _: web.Application) -> None:
        """Let every watch end."""
        self._api.cluster.listeners.remove(self._changed)
        self._ended = True
        self._wake()

    def _changed(self) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        news = self._news
        self._news = asyncio.Event()
        news.set()

    async def core(self, request: web.Request) -> web.Response:
        return self._discovered(request, discovery.core_versions(request.host), core=True)

    async def groups(self, request: web.Request) -> web.Response:
        return self._discovered(request, discovery.groups(), core=False)

    def _discovered(self, request: web.Request, plain: Raw, *, core: bool) -> web.Response:
        aggregated = _AGGREGATED.search(request.headers.get("Accept", "").replace(" ", ""))
        if aggregated is None:
            return _body(plain)
        response = _body(discovery.aggregated(core=core, form=aggregated[1]))
        response.headers["Content-Type"] = f"{_JSON};g=apidiscovery.k8s.io;v={aggregated[1]};as=APIGroupDiscoveryList"
        return response

    async def metrics(self, request: web.Request) -> web.Response:
        """Usage of nodes or pods, as the metrics API answers."""
        match = request.match_info
        cluster = self._api.cluster
        name = match.get("name", "")
        namespace = match.get("namespace", "")
        query = request.query
        try:
            if match["kind"] == "nodes":
                return _body(await asyncio.to_thread(node_metrics, cluster, name, query))
            return _body(await asyncio.to_thread(pod_metrics, cluster, namespace, name, query))
        except ApiFailure as failure:
            return _refusal(failure)

    async def serve(self, request: web.Request) -> web.StreamResponse:
        try:
            return await self._serve(request)
        except ApiFailure as failure:
            return _refusal(failure)
        except InputError as error:
            return _refusal(bad_request(str(error)))

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        path = request.path.rstrip("/")
        namespace_match = _OF_NAMESPACE.fullmatch(path)
        if namespace_match is not None:
            namespaces = find("", "v1", "namespaces")
            assert namespaces is not None
            return await self._sub_resource(
                request, Place(namespaces, "v1", "", namespace_match["name"]), namespace_match["sub"]
            )
        match = _PATH.fullmatch(path)
        if match is None:
            return self._resources(request, path)
        served = find(match["group"] or "", match["core"] or match["version"], match["plural"])
        if served is None:
            raise ApiFailure(404, "NotFound", "the server could not find the requested resource")
        place = Place(served, match["core"] or match["version"], match["namespace"] or "", match["name"] or "")
        if not _fits_scope(place):
            raise ApiFailure(404, "NotFound", "the server could not find the requested resource")
        if match["sub"]:
            return await self._sub_resource(request, place, match["sub"])
        if place.name:
            return await self._one(request, place)
        return await self._many(request, place)

    def _resources(self, request: web.Request, path: str) -> web.Response:
        parts = path.strip("/").split("/")
        listed = None
        if parts == ["api", "v1"]:
            listed = discovery.resources("", "v1")
        elif len(parts) == 3 and parts[0] == "apis":
            listed = discovery.resources(parts[1], parts[2])
        elif len(parts) == 2 and parts[0] == "apis":
            groups = discovery.groups()["groups"]
            assert isinstance(groups, list)
            api_group = next((group for group in groups if group["name"] == parts[1]), None)
            listed = {"kind": "APIGroup", "apiVersion": "v1", **api_group} if api_group is not None else None
        if listed is None or request.method != "GET":
            raise ApiFailure(404, "NotFound", "the server could not find the requested resource")
        return _body(listed)

    async def _many(self, request: web.Request, place: Place) -> web.StreamResponse:
        query = _parameters(request)
        match request.method:
            case "GET" if query.get("watch") in ("true", "1"):
                response = web.StreamResponse(headers={"Content-Type": _JSON, "Cache-Control": "no-cache"})
                response.enable_chunked_encoding()
                with contextlib.suppress(ConnectionResetError):  # clients end a watch by going away
                    await self._watch(request, place, response)
                return response
            case "GET":
                people = _wants_table(request)
                objects = await asyncio.to_thread(lambda: self._api.list(place, query, every_form=people))
                return await asyncio.to_thread(self._shown, request, place, objects)  # of many objects it takes a while
            case "POST":
                raw = await _object(request)
                spaced = place.served.namespaced and not place.namespace
                if spaced:
                    named = meta_of(raw).get("namespace") or "default"
                    place = Place(place.served, place.version, str(named))
                return self._answer(request, place, await asyncio.to_thread(self._api.create, place, raw, query))
            case "DELETE" if place.namespace or not place.served.namespaced:  # not of all namespaces at once
                options = await _object(request, empty=True)
                return self._answer(
                    request, place, await asyncio.to_thread(self._api.delete_all, place, options, query)
                )
            case _:
                raise _not_allowed(request)

    async def _one(self, request: web.Request, place: Place, sub: str = "") -> web.StreamResponse:
        api = self._api
        query = _parameters(request)
        match request.method:
            case "GET":
                return self._shown(request, place, await asyncio.to_thread(api.get, place))
            case "PUT":
                raw = await _object(request)
                return self._answer(request, place, await asyncio.to_thread(api.update, place, raw, query, sub))
            case "PATCH":
                patch = await _decoded(request)
                kind = request.content_type
                return self._answer(request, place, await asyncio.to_thread(api.patch, place, patch, kind, query, sub))
            case "DELETE" if not sub:
                options = await _object(request, empty=True)
                return self._answer(request, place, await asyncio.to_thread(api.delete, place, options, query))
            case _:
                raise _not_allowed(request)

    async def _sub_resource(self, request: web.Request, place: Place, sub: str) -> web.StreamResponse:
        api = self._api
        query = _parameters(request)
        pod = (place.served.group, place.served.kind) == ("", "Pod")
        match request.method, sub:
            case _, "status" if place.served.status:
                return await self._one(request, place, sub)
            case "POST", "binding" if pod:
                answer = await asyncio.to_thread(api.bind, place, await _object(request))
            case "POST", "eviction" if pod:
                answer = await asyncio.to_thread(api.evict, place, await _object(request), query)
            case "GET", "log" if pod:
                await asyncio.to_thread(api.get, place)
                return web.Response(text="this pod is simulated: its containers run for a time, and write nothing\n")
            case "GET", "ephemeralcontainers" if pod:
                answer = Answer(await asyncio.to_thread(api.get, place))
            case "PUT", "ephemeralcontainers" if pod:
                wanted = await _object(request)
                answer = await asyncio.to_thread(api.debug, place, lambda _: wanted, query)
            case "PATCH", "ephemeralcontainers" if pod:
                patch = await _decoded(request)
                kind = request.content_type
                answer = await asyncio.to_thread(api.debug_patch, place, patch, kind, query)
            case _, "exec" | "attach" | "portforward" | "proxy" if pod:
                raise bad_request("this pod is simulated: nothing runs in it that one could talk to")
            case _, "proxy":
                raise bad_request("nothing answers here: nodes and pods are simulated")
            case "POST", "token":
                raise bad_request("there are no log-ins here, and no tokens of service accounts")
            case "GET", "scale" if place.served.scale:
                answer = Answer(await asyncio.to_thread(api.scale, place))
            case "PUT", "scale" if place.served.scale:
                body = await _object(request)
                answer = await asyncio.to_thread(api.rescale, place, lambda _: body, query)
            case "PATCH", "scale" if place.served.scale:
                patch = await _object(request)
                answer = await asyncio.to_thread(api.rescale, place, lambda scale: merge_patch(scale, patch), query)
            case _:
                raise ApiFailure(404, "NotFound", "the server could not find the requested resource")
        return _body(answer.body, answer.code, answer.warnings)

    def _answer(self, request: web.Request, place: Place, answer: Answer) -> web.Response:
        shown = self._form(request, place, answer.body)
        return _body(shown, answer.code, answer.warnings)

    def _shown(self, request: web.Request, place: Place, content: Raw) -> web.Response:
        return _body(self._form(request, place, content))

    def _form(self, request: web.Request, place: Place, content: Raw, *, heads: bool = True) -> Raw:
        """An object or a list as the client wants it: as it is, as a table, or its metadata alone."""
        accept = _accepted(request)
        listed = content.get("kind") == f"{place.served.kind}List"
        if content.get("kind") == "Status":
            return content
        items = content["items"] if listed else [content]
        assert isinstance(items, list)
        if _wants_table(request):
            meta = content["metadata"] if listed else {"resourceVersion": meta_of(content).get("resourceVersion", "")}
            assert isinstance(meta, dict)
            include = request.query.get("includeObject", "Metadata")
            now = self._api.cluster.now
            return table(place.served, items, meta, now=now, include=include, heads=heads)
        if "as=PartialObjectMetadata" in accept:
            about = {"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata"}
            partial = [{**about, "metadata": meta_of(item)} for item in items]
            if not listed:
                return dict(partial[0])
            return {**about, "kind": "PartialObjectMetadataList", "metadata": content["metadata"], "items": partial}
        return content

    async def _watch(self, request: web.Request, place: Place, response: web.StreamResponse) -> None:
        """Changes as they come, from a version on; all objects first where none is given."""
        query = request.query
        is_selected = self._api.selected(place, query)
        from_version = query.get("resourceVersion", "")
        initial = query.get("sendInitialEvents") == "true" or from_version in ("", "0")
        bookmarks = query.get("allowWatchBookmarks") == "true"
        deadline = asyncio.get_running_loop().time() + _watch_limit(query)
        await response.prepare(request)
        heads = True
        told_at = asyncio.get_running_loop().time()

        async def send(type_: str, raw: Raw) -> None:
            nonlocal heads
            body = raw if type_ in ("BOOKMARK", "ERROR") else self._form(request, place, raw, heads=heads)
            heads = heads and type_ in ("BOOKMARK", "ERROR")
            await response.write(msgspec.json.encode({"type": type_, "object": body}) + b"\n")

        if initial:
            listed = await asyncio.to_thread(self._api.list, place, {k: v for k, v in query.items() if "elector" in k})
            items = listed["items"]
            meta = listed["metadata"]
            assert isinstance(items, list)
            assert isinstance(meta, dict)
            for raw in items:
                await send("ADDED", raw)
            at = int(str(meta["resourceVersion"]))
            if query.get("sendInitialEvents") == "true":
                await send("BOOKMARK", _mark(place, at, {"k8s.io/initial-events-end": "true"}))
        else:
            try:
                at = number(query, "resourceVersion")
            except ApiFailure as failure:
                await send("ERROR", failure.wire())
                return
        while not self._ended and request.transport is not None and not request.transport.is_closing():
            news = self._news  # before looking, so that nothing is missed
            changes = self._api.cluster.since(at)
            if changes is None:
                await send("ERROR", expired(f"too old resource version: {at} ({self._api.cluster.version})").wire())
                return
            for change in changes:
                event = _told(change, place, is_selected)
                if event is not None:
                    await send(event, self._api.shown(place, change.new))
                at = change.version
            now = asyncio.get_running_loop().time()
            if now >= deadline:
                return
            if bookmarks and now - told_at >= _BOOKMARK:
                await send("BOOKMARK", _mark(place, at))
                told_at = now
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(news.wait(), min(deadline - now, _LOOK))


def _parameters(request: web.Request) -> Mapping[str, str]:
    """The parameters of a request, with the program that asks."""
    return {**request.query, USER_AGENT: str(request.headers.get("User-Agent", "")).partition("/")[0][:128]}


def _watch_limit(query: Mapping[str, str]) -> float:
    """Seconds after which a watch ends; 400 where what is asked for is no number of seconds."""
    text = query.get("timeoutSeconds") or "0"
    if _SECONDS.fullmatch(text) is None:
        raise bad_request(f'timeoutSeconds: "{text[:300]}" is not a number of seconds')
    return min(float(text) or _LONGEST_WATCH, _LONGEST_WATCH)


def _told(change: Change, place: Place, is_selected: Callable[[Raw], bool]) -> str | None:
    """Event type that a watch gets for a change; None if the change concerns none of the watched objects."""
    key = change.key
    if (key.group, key.kind) != (place.served.group, place.served.kind):
        return None
    if (place.namespace and key.namespace != place.namespace) or place.name not in ("", key.name):
        return None
    was = change.old is not None and is_selected(change.old)
    now = change.type != "DELETED" and is_selected(change.new)
    if now:
        return "MODIFIED" if was else "ADDED"
    return "DELETED" if was else None


def _mark(place: Place, version: int, notes: Mapping[str, str] | None = None) -> Raw:
    meta: Raw = {"resourceVersion": str(version)} | ({"annotations": dict(notes)} if notes else {})
    return {"kind": place.served.kind, "apiVersion": place.api_version, "metadata": meta}


def _not_allowed(request: web.Request) -> ApiFailure:
    text = f"the server does not allow this method ({request.method}) on the requested resource"
    return ApiFailure(405, "MethodNotAllowed", text)


async def _decoded(request: web.Request) -> object:
    """The body of a request: JSON, also where the client does not say so, or YAML where it does."""
    kind = request.content_type if "Content-Type" in request.headers else _JSON
    if kind not in _READ:
        raise ApiFailure(415, "UnsupportedMediaType", f"{kind} is not a media type of this API")
    encoding = request.headers.get("Content-Encoding", "identity")
    if encoding.strip().lower() not in ("identity", ""):
        raise ApiFailure(415, "UnsupportedMediaType", f"Content-Encoding {encoding[:40]}: send the body as it is")
    try:
        data = await request.read()
    except web.HTTPRequestEntityTooLarge:
        raise too_large(f"the request is larger than {MOST_BYTES} bytes") from None
    return await asyncio.to_thread(_parsed, data, kind)  # YAML takes seconds for a megabyte


def _parsed(data: bytes, kind: str) -> object:
    """Parsed content of a request body; refused if it is deeper or larger than an object may be."""
    if kind == _PROTOBUF:
        content: object = protobuf.decode(data)
    else:
        try:
            content = msgspec.json.decode(data)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            if "yaml" not in kind:
                raise bad_request(f"the body cannot be read: {error}") from None
            listed = [document for document, _ in documents(data, file="body") if document is not None]
            if len(listed) != 1:
                raise bad_request("the body is not one object") from None
            content = listed[0]
    check_bounds(content)
    return content


_READ: Final = frozenset(
    {
        _JSON,
        _PROTOBUF,
        "application/yaml",
        ObjectApi.JSON_PATCH,
        ObjectApi.MERGE_PATCH,
        ObjectApi.STRATEGIC_PATCH,
        ObjectApi.APPLY,
    }
)


async def _object(request: web.Request, *, empty: bool = False) -> Raw:
    if empty and not request.can_read_body:
        return {}
    content = await _decoded(request)
    if not isinstance(content, dict):
        raise bad_request("the body is not an object")
    return content
