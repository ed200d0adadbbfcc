"""The API over real HTTP: discovery, documents, tables, watches, and what a stranger is refused."""

from __future__ import annotations

import gzip
import http.client
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from aiohttp import web
from tests.support.playground import START, Json, Playground, deployment, nodes
from tests.support.ports import HOST, free_port

from tierwise.apiserver.app import MOST_BYTES, add_api, refused
from tierwise.runtime.access import Access, guarded
from tierwise.runtime.listener import listening

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


class _Client:
    def __init__(self, port: int) -> None:
        self._port = port
        self._open: list[http.client.HTTPConnection] = []

    def send(
        self, method: str, path: str, body: object = None, kind: str = "application/json", **headers: str
    ) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection(HOST, self._port, timeout=60)
        self._open.append(connection)
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, data, ({"Content-Type": kind} if data is not None else {}) | named)
        return connection.getresponse()

    def ask(self, method: str, path: str, body: object = None, **more: Any) -> tuple[int, Any]:
        response = self.send(method, path, body, **more)
        return response.status, json.loads(response.read())

    def get(self, path: str, **headers: str) -> Any:
        return self.ask("GET", path, **headers)[1]

    def break_off(self, text: str) -> None:
        """Send a part of a request and go away."""
        with socket.create_connection((HOST, self._port)) as connection:
            connection.sendall(text.encode())

    def close(self) -> None:
        for connection in self._open:
            connection.close()


@contextmanager
def _serving(ground: Playground, token: str = "", burst: int = 1000) -> Iterator[_Client]:
    guard = guarded(Access(token=token), refuse=refused, rate=0.0, burst=burst)
    app = web.Application(middlewares=[guard], client_max_size=MOST_BYTES)
    add_api(app, ground.api)
    port = free_port()
    with listening(app, HOST, port):
        client = _Client(port)
        try:
            yield client
        finally:
            client.close()


def _events(response: http.client.HTTPResponse) -> Iterator[Json]:
    while line := response.readline():
        yield json.loads(line)


def _map(name: str, **labels: str) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}}


MAPS = "/api/v1/namespaces/default/configmaps"


def test_discovery_names_every_kind_in_both_forms() -> None:
    """Group by group, and all at once; the sub-resources that kubectl looks for are among them."""
    with _serving(Playground()) as to:
        groups = [group["name"] for group in to.get("/apis")["groups"]]
        core = {entry["name"] for entry in to.get("/api/v1")["resources"]}
        accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
        whole = to.send("GET", "/apis", Accept=accept)
        listed = json.loads(whole.read())
        one = to.get("/apis/apps")

    assert groups.index("apps") < groups.index("batch") < groups.index("batch.volcano.sh")
    assert {"pods", "pods/eviction", "pods/binding", "pods/status", "nodes", "events"} <= core
    assert "APIGroupDiscoveryList" in whole.headers["Content-Type"]
    assert groups == [item["metadata"]["name"] for item in listed["items"]]
    assert "apps/v1" == one["preferredVersion"]["groupVersion"]


def test_every_version_has_a_document_that_stands_by_itself() -> None:
    """All that it refers to is in it, and the server says that it checks fields."""
    with _serving(Playground()) as to:
        index = to.get("/openapi/v3")["paths"]
        documents = {path: to.get(entry["serverRelativeURL"]) for path, entry in index.items()}
        protobuf = to.send("GET", "/openapi/v2", Accept="application/com.github.proto-openapi.spec.v2@v1.0+protobuf")
        old = protobuf.read()

    for path, document in documents.items():
        text = json.dumps(document)
        named = {part.partition('"')[0] for part in text.split('"$ref": "#/components/schemas/')[1:]}
        assert named <= set(document["components"]["schemas"]), path
    patch = documents["api/v1"]["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"]
    assert "fieldValidation" in {parameter["name"] for parameter in patch["parameters"]}
    assert old.startswith(b"\n\x032.0")


def test_a_table_has_the_columns_that_people_know() -> None:
    """Pods with readiness, status, restarts and age by the cluster's clock; custom resources with their own."""
    ground = Playground(nodes("n0"))
    ground.create("apps/v1/deployments", deployment(replicas=1))
    ground.live()
    with _serving(ground) as to:
        pods = to.get("/api/v1/namespaces/default/pods", Accept=TABLE)
        queues = to.get("/apis/scheduling.volcano.sh/v1beta1/queues", Accept=TABLE)
        web = to.get("/apis/apps/v1/namespaces/default/deployments/web", Accept=TABLE)
        meta = to.get(MAPS, Accept="application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io")

    shown = {
        column["name"]: cell for column, cell in zip(pods["columnDefinitions"], pods["rows"][0]["cells"], strict=True)
    }
    assert ("1/1", "Running", "0", "3s") == (shown["Ready"], shown["Status"], shown["Restarts"], shown["Age"])
    assert "PartialObjectMetadata" == pods["rows"][0]["object"]["kind"]
    assert "Name" == queues["columnDefinitions"][0]["name"]
    assert ["web", "1/1", 1, 1, "3s"] == web["rows"][0]["cells"][:5]
    assert "PartialObjectMetadataList" == meta["kind"]


def test_objects_are_written_in_every_way_and_read_again() -> None:
    """POST, PUT, every kind of PATCH, DELETE; YAML where the client says so."""
    with _serving(Playground(nodes("n0"))) as to:
        made = to.ask("POST", MAPS, _map("cm"))
        twice = to.ask("POST", MAPS, _map("cm"))
        put = to.ask("PUT", f"{MAPS}/cm", _map("cm") | {"data": {"a": "1"}})
        merged = to.ask("PATCH", f"{MAPS}/cm", {"data": {"b": "2"}}, kind="application/merge-patch+json")
        operations = [{"op": "remove", "path": "/data/a"}]
        patched = to.ask("PATCH", f"{MAPS}/cm", operations, kind="application/json-patch+json")
        applied = to.ask(
            "PATCH", f"{MAPS}/other?fieldManager=me", b"data: {c: '3'}", kind="application/apply-patch+yaml"
        )
        gone = to.ask("DELETE", f"{MAPS}/cm")
        after = to.ask("GET", f"{MAPS}/cm")

    assert [201, 409, 200, 200, 200, 201, 200, 404] == [
        code for code, _ in (made, twice, put, merged, patched, applied, gone, after)
    ]
    assert {"a": "1", "b": "2"} == merged[1]["data"]
    assert {"b": "2"} == patched[1]["data"]
    assert {"c": "3"} == applied[1]["data"]
    assert ("NotFound", 'configmaps "cm" not found') == (after[1]["reason"], after[1]["message"])


def test_a_watch_tells_what_happens_to_the_objects_that_it_selects() -> None:
    """From a version on; an object that comes to be selected is added, one that is no longer is deleted."""
    ground = Playground()
    with _serving(ground) as to:
        version = to.get(MAPS)["metadata"]["resourceVersion"]
        watch = to.send("GET", f"{MAPS}?watch=true&labelSelector=app%3Dweb&resourceVersion={version}")
        events = _events(watch)
        ground.create("v1/configmaps", _map("other", app="db"))
        ground.create("v1/configmaps", _map("cm", app="web"))
        first = next(events)
        ground.patch("v1/configmaps", "cm", {"data": {"a": "1"}})
        second = next(events)
        ground.patch("v1/configmaps", "cm", {"metadata": {"labels": {"app": "db"}}})
        third = next(events)
        ground.patch("v1/configmaps", "other", {"metadata": {"labels": {"app": "web"}}})
        fourth = next(events)
        ground.delete("v1/configmaps", "other")
        fifth = next(events)

    told = [(event["type"], event["object"]["metadata"]["name"]) for event in (first, second, third, fourth, fifth)]
    assert [
        ("ADDED", "cm"),
        ("MODIFIED", "cm"),
        ("DELETED", "cm"),
        ("ADDED", "other"),
        ("DELETED", "other"),
    ] == told
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in (first, second, third, fourth, fifth)]
    assert versions == sorted(set(versions))


def test_a_watch_of_one_namespace_tells_nothing_of_the_others() -> None:
    """What happens elsewhere, to objects of the same name too, is not told; a watch of all tells both."""
    team = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
    with _serving(Playground()) as to:
        to.ask("POST", "/api/v1/namespaces", team)
        version = to.get(MAPS)["metadata"]["resourceVersion"]
        one = _events(to.send("GET", f"{MAPS}?watch=true&resourceVersion={version}"))
        every = _events(to.send("GET", f"/api/v1/configmaps?watch=true&resourceVersion={version}"))
        made = [to.ask("POST", path, _map("cm"))[0] for path in (MAPS.replace("default", "team"), MAPS)]
        told = [next(one)["object"]["metadata"]["namespace"]]
        both = [next(every)["object"]["metadata"]["namespace"] for _ in range(2)]

    assert ([201, 201], ["default"], ["team", "default"]) == (made, told, both)


def test_a_watch_without_a_version_begins_with_what_is_there() -> None:
    """And a client that asks for it is told where the beginning ends; a table is one for each object."""
    ground = Playground(nodes("n0", "n1"))
    with _serving(ground) as to:
        plain = _events(to.send("GET", "/api/v1/nodes?watch=1"))
        names = [next(plain)["object"]["metadata"]["name"] for _ in range(2)]
        query = "watch=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"
        marked = _events(to.send("GET", f"/api/v1/nodes?{query}"))
        types = [next(marked) for _ in range(3)]
        tables = _events(to.send("GET", "/api/v1/nodes?watch=1", Accept=TABLE))
        rows = [next(tables)["object"] for _ in range(2)]

    assert ["n0", "n1"] == names
    assert ["ADDED", "ADDED", "BOOKMARK"] == [event["type"] for event in types]
    assert "true" == types[2]["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"]
    assert ["n0", "n1"] == [row["rows"][0]["cells"][0] for row in rows]
    assert [True, False] == [bool(row["columnDefinitions"]) for row in rows]


def test_a_watch_from_a_forgotten_version_is_told_to_list_anew() -> None:
    """The window is bounded; so is a version that never was."""
    ground = Playground(window=4)
    with _serving(ground) as to:
        version = int(to.get(MAPS)["metadata"]["resourceVersion"])
        for number in range(6):
            ground.create("v1/configmaps", _map(f"cm-{number}"))
        old = next(_events(to.send("GET", f"{MAPS}?watch=true&resourceVersion={version}")))
        ahead = next(_events(to.send("GET", f"{MAPS}?watch=true&resourceVersion={version + 1000}")))
        kept = next(_events(to.send("GET", f"{MAPS}?watch=true&resourceVersion={version + 5}")))

    assert [("ERROR", 410)] * 2 == [(event["type"], event["object"]["code"]) for event in (old, ahead)]
    assert ("ADDED", "cm-5") == (kept["type"], kept["object"]["metadata"]["name"])


@pytest.mark.parametrize("version", ["later", "-1", "%C2%B2", "%D9%A1"])
def test_a_watch_from_a_version_that_is_none_is_told_so(version: str) -> None:
    """Whatever stands there, digits of other scripts as well."""
    with _serving(Playground()) as to:
        first = next(_events(to.send("GET", f"{MAPS}?watch=true&resourceVersion={version}")))

    assert ("ERROR", 400) == (first["type"], first["object"]["code"])


def test_a_watch_from_a_version_of_any_length_is_ahead_of_what_there_is() -> None:
    """Nobody counts that far."""
    with _serving(Playground()) as to:
        first = next(_events(to.send("GET", f"{MAPS}?watch=true&resourceVersion={'9' * 5000}")))

    assert ("ERROR", 410) == (first["type"], first["object"]["code"])


def test_a_watch_ends_when_its_time_is_over() -> None:
    """The stream closes, and nothing is left open."""
    with _serving(Playground()) as to:
        version = to.get(MAPS)["metadata"]["resourceVersion"]
        watch = to.send("GET", f"{MAPS}?watch=true&timeoutSeconds=0.01&resourceVersion={version}")

        assert b"" == watch.read()


def test_clients_that_go_away_in_the_middle_of_a_watch_leave_nothing_behind(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """No word on standard error, and others are told what happens as before."""
    ground = Playground()
    with _serving(ground) as to:
        version = to.get(MAPS)["metadata"]["resourceVersion"]
        for _ in range(5):
            gone = to.send("GET", f"{MAPS}?watch=true&resourceVersion={version}")
            gone.close()
            to.close()
        stays = _events(to.send("GET", f"{MAPS}?watch=true&resourceVersion={version}"))
        for number in range(3):
            ground.create("v1/configmaps", _map(f"cm-{number}"))
        told = [next(stays)["object"]["metadata"]["name"] for _ in range(3)]

    assert ["cm-0", "cm-1", "cm-2"] == told
    assert ([], "") == (caplog.records, capfd.readouterr().err)


def test_protobuf_is_read_as_what_it_stands_for() -> None:
    """As `kubectl create namespace` sends it: zero values are left out, and the answer is JSON."""
    name = b"\x0a\x04team"  # metadata.name
    meta = name + b"\x12\x00\x42\x00"  # generateName "", creationTimestamp without a value
    raw = b"\x0a" + bytes([len(meta)]) + meta + b"\x12\x00\x1a\x02\x0a\x00"
    about = b"\x0a\x02v1\x12\x09Namespace"
    body = b"k8s\x00" + b"\x0a" + bytes([len(about)]) + about + b"\x12" + bytes([len(raw)]) + raw
    with _serving(Playground()) as to:
        made = to.ask("POST", "/api/v1/namespaces", body, kind="application/vnd.kubernetes.protobuf")
        broken = to.ask("POST", "/api/v1/namespaces", body[:-3], kind="application/vnd.kubernetes.protobuf")
        junk = to.ask("POST", "/api/v1/namespaces", b"junk", kind="application/vnd.kubernetes.protobuf")

    assert (201, "team") == (made[0], made[1]["metadata"]["name"])
    assert "generateName" not in made[1]["metadata"]
    assert [400, 400] == [broken[0], junk[0]]


@pytest.mark.parametrize(
    ("method", "path", "body", "kind", "code"),
    [
        ("GET", "/api/v1/spoons", None, "", 404),
        ("GET", "/apis/nobody.io/v1", None, "", 404),
        ("GET", "/api/v1/pods/p", None, "", 404),
        ("GET", "/api/v1/namespaces/default/nodes", None, "", 404),
        ("GET", f"{MAPS}?watch=true&timeoutSeconds=soon", None, "", 400),
        ("GET", f"{MAPS}?watch=true&timeoutSeconds=nan", None, "", 400),
        ("GET", f"{MAPS}?watch=true&timeoutSeconds=1e400", None, "", 400),
        ("DELETE", "/api/v1/configmaps", None, "", 405),
        ("PUT", MAPS, {}, "application/json", 405),
        ("POST", MAPS, b"{", "application/json", 400),
        ("POST", MAPS, [], "application/json", 400),
        ("POST", MAPS, b"[" * 100_000, "application/json", 400),
        ("POST", MAPS, b'{"a":' * 900 + b"1" + b"}" * 900, "application/json", 400),
        ("POST", MAPS, b'{"a\xac": "b"}', "application/json", 400),
        ("POST", MAPS, b'{"a": "\xac"}', "application/json", 400),
        ("POST", MAPS, b"a: \xac", "application/yaml", 400),
        ("POST", MAPS, b"[" * 100_000, "application/yaml", 400),
        ("POST", MAPS, b"k8s\x00\x0a\xff\xff", "application/vnd.kubernetes.protobuf", 400),
        ("PATCH", f"{MAPS}/cm", b"\xac", "application/json-patch+json", 400),
        ("PATCH", f"{MAPS}/cm", b"a: \xac", "application/apply-patch+yaml", 400),
        ("POST", MAPS, b"x" * (MOST_BYTES + 1), "application/json", 413),
        ("POST", MAPS, {}, "text/plain", 415),
        ("PATCH", f"{MAPS}/cm", {}, "application/json", 404),
        ("POST", "/api/v1/nodes/n0/eviction", {}, "application/json", 404),
    ],
)
def test_what_is_not_there_or_cannot_be_read_is_refused(
    method: str, path: str, body: object, kind: str, code: int
) -> None:
    """With a Status that says so, whatever was sent."""
    with _serving(Playground(nodes("n0"))) as to:
        status, answer = to.ask(method, path, body, kind=kind)

    assert (code, "Status") == (status, answer["kind"])


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", json.dumps(_map("cm")).encode()),
        ("gzip", gzip.compress(json.dumps(_map("cm")).encode(), mtime=0)),
        ("gzip", gzip.compress(b" " * (64 << 20), mtime=0)),
        ("deflate", b"\x00\x01\x02"),
        ("br", b"x"),
        ("zstd", b"x"),
        ("gzip, gzip", b"x"),
        ("nonsense", b"{}"),
    ],
)
def test_compressed_bodies_are_refused(encoding: str, body: bytes) -> None:
    """Whatever they hold: nothing is unpacked, and the next request is answered."""
    with _serving(Playground()) as to:
        status, answer = to.ask("POST", MAPS, body, Content_Encoding=encoding)
        plain = to.ask("POST", MAPS, _map("cm"), Content_Encoding="identity")[0]

    assert (415, "Status", 201) == (status, answer["kind"], plain)


def test_a_token_is_asked_for_where_there_is_one() -> None:
    """Programs send it; a browser gets a cookie for it, and may read."""
    with _serving(Playground(), token="secret") as to:
        none = to.ask("GET", "/api/v1/nodes")[0]
        wrong = to.ask("GET", "/api/v1/nodes", Authorization="Bearer other")[0]
        right = to.ask("GET", "/api/v1/nodes", Authorization="Bearer secret")[0]
        entered = to.send("GET", "/?token=secret")
        cookie = entered.headers["Set-Cookie"].partition(";")[0]
        read = to.ask("GET", "/api/v1/nodes", Cookie=cookie)[0]
        written = to.ask("POST", MAPS, _map("cm"), Cookie=cookie)[0]

    assert [401, 401, 200, 303, 200, 401] == [none, wrong, right, entered.status, read, written]
    assert "HttpOnly" in entered.headers["Set-Cookie"]


def test_pages_of_other_sites_may_not_ask() -> None:
    """Browsers say where a request comes from."""
    with _serving(Playground()) as to:
        site = to.ask("GET", "/api/v1/nodes", Sec_Fetch_Site="cross-site")[0]
        origin = to.ask("POST", MAPS, _map("cm"), Origin="https://example.com")[0]
        own = to.ask("GET", "/api/v1/nodes", Sec_Fetch_Site="same-origin")[0]

    assert [403, 403, 200] == [site, origin, own]


def test_what_comes_too_fast_is_told_to_come_again() -> None:
    """Beyond the burst; clients of Kubernetes wait and repeat."""
    with _serving(Playground(), burst=2) as to:
        answers = [to.send("GET", "/version") for _ in range(3)]

    assert [200, 200, 429] == [answer.status for answer in answers]
    assert "1" == answers[2].headers["Retry-After"]


def test_the_clock_of_the_cluster_is_the_one_that_ages_go_by() -> None:
    """An object that was made an hour before is an hour old, and grows older while nothing happens."""
    old = nodes("n0")[0]
    old["metadata"]["creationTimestamp"] = "2027-01-15T07:00:00Z"
    ground = Playground([old])
    with _serving(ground) as to:
        row = to.get("/api/v1/nodes", Accept=TABLE)["rows"][0]["cells"]
        ground.now += 600  # nothing happens for a while
        made = ground.create("v1/configmaps", _map("cm"))["metadata"]["creationTimestamp"]
        later = to.get("/api/v1/nodes", Accept=TABLE)["rows"][0]["cells"]

    assert 1_800_000_000.0 == START
    assert ("60m", "70m", "2027-01-15T08:10:00Z") == (row[3], later[3], made)


def test_pods_that_run_use_what_they_ask_for() -> None:
    """For `kubectl top`: by pod and container, and in sum by node; what does not run uses nothing."""
    ground = Playground(nodes("n0", "n1"))
    made = deployment(replicas=2)
    made["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "250m", "memory": "1Mi"}}
    ground.create("apps/v1/deployments", made)
    at = "/apis/metrics.k8s.io/v1beta1"
    with _serving(ground) as to:
        before = to.get(f"{at}/nodes")["items"]
        ground.live(10)
        used = {item["metadata"]["name"]: item["usage"] for item in to.get(f"{at}/nodes")["items"]}
        listed = to.get(f"{at}/namespaces/default/pods?labelSelector=app%3Dweb")["items"]
        others = to.get(f"{at}/pods?labelSelector=app%3Dnone")["items"]
        one = to.get(f"{at}/namespaces/default/pods/{listed[0]['metadata']['name']}")
        missing = to.ask("GET", f"{at}/nodes/n9")
        known = to.get("/apis/metrics.k8s.io/v1beta1")

    assert {"0m"} == {item["usage"]["cpu"] for item in before}
    assert 500 == sum(int(usage["cpu"].removesuffix("m")) for usage in used.values())
    assert [[{"name": "main", "usage": {"cpu": "250m", "memory": "1024Ki"}}]] * 2 == [
        pod["containers"] for pod in listed
    ]
    assert listed[0]["containers"] == one["containers"]
    assert [] == others
    assert (404, "NotFound") == (missing[0], missing[1]["reason"])
    assert [] == known["resources"]


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("authorization.k8s.io/v1/selfsubjectaccessreviews", {"allowed": True}),
        ("authorization.k8s.io/v1/selfsubjectrulesreviews", {"incomplete": False}),
        (
            "authentication.k8s.io/v1/selfsubjectreviews",
            {"userInfo": {"username": "tierwise", "groups": ["system:masters"]}},
        ),
    ],
)
def test_clients_may_ask_about_themselves(path: str, told: Json) -> None:
    """Who has come so far may do everything, and has a name."""
    with _serving(Playground()) as to:
        status, answer = to.ask("POST", f"/apis/{path}", {"spec": {}})

    assert 201 == status
    assert told.items() <= answer["status"].items()


def test_a_client_that_hangs_up_amid_its_request_leaves_no_trace(caplog: pytest.LogCaptureFixture) -> None:
    """Half of a body comes, and then nothing: nobody is there to be answered, and nothing went wrong here."""
    ground = Playground()
    with _serving(ground) as client:
        for kind in ("application/json", "application/yaml"):
            head = f"POST /api/v1/namespaces/default/pods HTTP/1.1\r\nHost: x\r\nContent-Type: {kind}\r\n"
            client.break_off(f'{head}Content-Length: 1000\r\n\r\n{{"kind"')
            client.break_off(f"{head}Transfer-Encoding: chunked\r\n\r\n5\r\n{{")
        assert 200 == client.ask("GET", "/api/v1/namespaces/default/pods")[0]

    assert [] == [record.getMessage() for record in caplog.records if record.levelname in ("WARNING", "ERROR")]
