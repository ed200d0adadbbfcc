"""The answers API over HTTP: who is answered, what they are told, and what they never learn."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Awaitable, Callable
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from aiohttp.test_utils import TestClient, TestServer
from tests.support.draw import draw, gang
from tests.support.tenants import KnownUsers, in_namespace, shared_objects

from tierwise.answers.app import Limits, application
from tierwise.answers.questions import QUESTIONS
from tierwise.answers.schema import schema
from tierwise.answers.service import AnswerService
from tierwise.config.profile import DEFAULT
from tierwise.web.views import Basis

NOW = 1_767_225_600.0
OBJECTS = shared_objects(
    draw("r0[n0 n1] r1[n2 n3]", node="gpu=4", queues="q-blue q-red"),
    {
        "blue": [
            gang("blue-runs", tasks=2, each="gpu=4", within=1, on="n0 n1"),
            gang("blue-waits", tasks=4, each="gpu=4"),
        ],
        "red": [gang("red-runs", tasks=1, each="gpu=4", on="n2"), gang("red-waits", tasks=2, each="gpu=4", within=1)],
    },
)
BASIS = Basis(OBJECTS, DEFAULT, NOW)
BLUE = "/v1/namespaces/blue"

Client = TestClient[Any, Any]


def _users() -> KnownUsers:
    return KnownUsers({"ann": ["blue"], "bob": ["red"], "eve": []}, {"bob": ["default"]})


def _use(
    act: Callable[[Client], Awaitable[None]], *, users: KnownUsers | None = None, limits: Limits | None = None
) -> None:
    async def use() -> None:
        service = AnswerService(lambda: BASIS)
        app = application(service, users or _users(), limits)
        async with TestClient(TestServer(app)) as client:
            await act(client)

    asyncio.run(use())


async def _ask(client: Client, path: str, user: str = "ann", status: int = 200) -> Any:
    headers = {"Authorization": f"Bearer t-{user}"}
    async with client.get(path, headers=headers) as response:
        text = await response.text()
        assert status == response.status, text
        return json.loads(text)


async def _dry_run(
    client: Client, manifests: object, user: str = "ann", status: int = 200, namespace: str = "blue"
) -> Any:
    path = f"/v1/namespaces/{namespace}/dry-run"
    headers = {"Authorization": f"Bearer t-{user}"}
    async with client.post(path, data=json.dumps(manifests), headers=headers) as response:
        text = await response.text()
        assert status == response.status, text
        return json.loads(text)


def _list(*manifests: object) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "List", "items": list(manifests)}


def test_every_answer_is_of_the_published_schema() -> None:
    """Each question is asked once, and its answer fits the schema that the server publishes."""

    async def act(client: Client) -> None:
        async with client.get("/v1/schema") as response:
            published = await response.json()
        assert json.loads(json.dumps(schema())) == published
        asked = set()
        for question in QUESTIONS:
            path = question.path.format(namespace="blue", job="blue-waits", pod="blue-waits-0")
            answer = (
                await _dry_run(client, _list(*in_namespace(gang("new", tasks=1, each="gpu=4").manifests(), "blue")))
                if question.method == "POST"
                else await _ask(client, path)
            )
            operation = published["paths"][question.path][question.method.lower()]
            form = operation["responses"]["200"]["content"]["application/json"]["schema"]
            jsonschema.validate(answer, {**form, "components": published["components"]})
            assert answer["asOf"] == "2026-01-01T00:00:00Z"
            assert answer["staleSeconds"] >= 15
            asked.add(question.name)
        assert {"jobs", "why", "why-pod", "start", "position", "help", "history", "queues", "fits", "dry-run"} == asked

    _use(act)


def test_users_are_told_of_their_own_jobs() -> None:
    """States, reasons, positions and places of the jobs of the namespace, and of no others."""

    async def act(client: Client) -> None:
        jobs = {job["name"]: job for job in (await _ask(client, f"{BLUE}/jobs"))["jobs"]}
        assert {"blue-runs", "blue-waits"} == set(jobs)
        assert ("running", "r0", 2) == tuple(jobs["blue-runs"][key] for key in ("state", "domain", "podsRunning"))
        waits = await _ask(client, f"{BLUE}/jobs/blue-waits")
        assert ("waiting", "not-now", 4) == tuple(waits[key] for key in ("state", "verdict", "podsWaiting"))
        assert waits["message"]
        assert waits["cure"]
        assert "blue-waits" == (await _ask(client, f"{BLUE}/pods/blue-waits-1"))["name"]
        assert {"atLeast": 1, "atMost": 1} == (await _ask(client, f"{BLUE}/jobs/blue-waits/position"))["position"]
        limited = await _ask(client, f"{BLUE}/jobs?limit=1&offset=1")
        assert ["blue-waits"] == [job["name"] for job in limited["jobs"]]

    _use(act)


def test_refusals_of_a_namespace_are_all_alike() -> None:
    """Whether the namespace exists or the job does, whoever may not list pods there hears the same."""

    async def act(client: Client) -> None:
        texts = set()
        for job in ("red-waits", "red-runs", "nothing"):
            answer = await _ask(client, f"/v1/namespaces/red/jobs/{job}", status=403)
            texts.add(answer["message"])
        assert {'user "ann" may not list pods in namespace "red"'} == texts
        nowhere = await _ask(client, "/v1/namespaces/nowhere/jobs/x", status=403)
        assert 'user "ann" may not list pods in namespace "nowhere"' == nowhere["message"]
        await _ask(client, f"{BLUE}/jobs/red-waits", status=404)
        await _dry_run(client, _list(), status=403, namespace="red")

    _use(act)


def test_a_refusal_looks_nothing_up() -> None:
    """Without the right no process is begun: the time of a refusal cannot tell what is there."""
    looked = []

    def basis() -> Basis:
        looked.append(1)
        return BASIS

    async def use() -> None:
        app = application(AnswerService(basis), _users())
        async with TestClient(TestServer(app)) as client:
            await _ask(client, "/v1/namespaces/red/jobs/red-waits", status=403)
            await _ask(client, "/v1/namespaces/red/jobs/red-waits", user="nobody", status=401)

    asyncio.run(use())
    assert [] == looked


@pytest.mark.parametrize("user", ["ann", "bob"])
def test_no_answer_names_objects_of_others(user: str) -> None:
    """All questions about all jobs: no answer holds the name of a job, pod or namespace of the other user."""
    own, other = {"ann": ("blue", "red"), "bob": ("red", "blue")}[user]

    async def act(client: Client) -> None:
        for question in QUESTIONS:
            for job in ("runs", "waits"):
                path = question.path.format(namespace=own, job=f"{own}-{job}", pod=f"{own}-{job}-0")
                headers = {"Authorization": f"Bearer t-{user}"}
                body = json.dumps(_list(*gang("new", tasks=3, each="gpu=4", within=1).manifests()))
                sent = body.replace('"namespace": "default"', f'"namespace": "{own}"')
                data = sent if question.method == "POST" else None
                async with client.request(question.method, path, headers=headers, data=data) as response:
                    said = f"{response.headers} {await response.text()}"
                assert response.status in (200, 400), said
                assert other not in said.replace("required", "").replace("Referrer", "")

    _use(act, limits=Limits(costly_burst=100))


def test_what_all_use_of_a_queue_is_told_to_those_who_may_get_it() -> None:
    """Others are told what their own namespace uses of it."""

    async def act(client: Client) -> None:
        (own,) = (await _ask(client, f"{BLUE}/queues"))["queues"]
        assert ("8", "", 1, 1) == tuple(own[key] for key in ("usedHere", "used", "jobsRunning", "jobsWaiting"))
        (seen,) = (await _ask(client, "/v1/namespaces/red/queues", user="bob"))["queues"]
        assert ("4", "12") == (seen["usedHere"], seen["used"])

    _use(act)


def test_a_dry_run_tells_what_would_start() -> None:
    """Objects without a namespace are of the one that is asked about; nothing is applied."""

    async def act(client: Client) -> None:
        small = gang("small", tasks=1, each="gpu=4").manifests()
        for manifest in small:
            del manifest["metadata"]["namespace"]  # type: ignore[attr-defined]
        (answer,) = (await _dry_run(client, _list(*small)))["jobs"]
        assert ("small", True, 1) == (answer["name"], answer["starts"], answer["podsPlaced"])
        large = in_namespace(gang("large", tasks=9, each="gpu=4").manifests(), "blue")
        (answer,) = (await _dry_run(client, _list(*large)))["jobs"]
        assert ("large", False, "never") == (answer["name"], answer["starts"], answer["verdict"])
        jobs = (await _ask(client, f"{BLUE}/jobs"))["jobs"]
        assert {"blue-runs", "blue-waits"} == {job["name"] for job in jobs}

    _use(act)


def _pod(**spec: object) -> dict[str, object]:
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"gpu": "1"}}}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "blue"},
        "spec": {"schedulerName": "tierwise", "containers": containers, **spec},
    }


def _affinity(**term: object) -> dict[str, object]:
    terms = [{"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}, **term}]
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        (_pod(nodeName="n3"), "Pod blue/p: spec.nodeName: a pod that names its node is not scheduled"),
        (_pod(affinity=_affinity(namespaces=["red"])), "namespaces: a dry run looks at no pods of other namespaces"),
        (_pod(affinity=_affinity(namespaceSelector={})), "a dry run looks at no pods of other namespaces"),
        ({**_pod(), "metadata": {"name": "p", "namespace": "red"}}, "it is not of namespace blue"),
        ({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n9"}}, "this kind is no job"),
        ({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}, "this kind is no job"),
    ],
)
def test_dry_runs_that_would_tell_of_others_are_refused(manifest: object, said: str) -> None:
    """By object and field, before anything is run."""

    async def act(client: Client) -> None:
        answer = await _dry_run(client, manifest, status=400)
        assert said in answer["message"]

    _use(act)


def test_a_queue_that_may_not_be_seen_is_not_dry_run_in() -> None:
    """The refusal is the same whether it exists or not; those who may get it are answered."""

    def in_queue(name: str) -> object:
        manifests = in_namespace(gang("new", tasks=1, each="gpu=4", queue=name).manifests(), "blue")
        return _list(*manifests)

    async def act(client: Client) -> None:
        texts = []
        for name in ("q-red", "q-none"):
            answer = await _dry_run(client, in_queue(name), status=400)
            texts.append(answer["message"].replace(name, "NAME"))
        assert texts[0] == texts[1]
        assert "you may not get that queue" in texts[0]
        await _dry_run(client, in_queue("q-blue"))

    _use(act, users=KnownUsers({"ann": ["blue"]}, {"ann": ["q-blue"]}))


def test_unreadable_manifests_are_one_clear_line() -> None:
    """Of text that is no YAML, of nothing, and of a body that is too large."""

    async def act(client: Client) -> None:
        headers = {"Authorization": "Bearer t-ann"}
        for body, status in ((b"{", 400), (b"", 400), (b"x: [1", 400), (b"#" * (2 << 20), 413)):
            async with client.post(f"{BLUE}/dry-run", data=io.BytesIO(body), headers=headers) as response:
                answer = json.loads(await response.text())
                assert status == response.status
                assert "\n" not in answer["message"]

    _use(act)


def test_nobody_is_answered_without_a_token_that_is_known() -> None:
    """A missing header, another scheme and an unknown token are refused alike, with the way to do it."""

    async def act(client: Client) -> None:
        for headers in ({}, {"Authorization": "Basic YTpi"}, {"Authorization": "Bearer t-mallory"}):
            async with client.get(f"{BLUE}/jobs", headers=headers) as response:
                assert 401 == response.status
                assert "Bearer" == response.headers["WWW-Authenticate"]
        async with client.get("/v1/nonsense", headers={"Authorization": "Bearer t-ann"}) as response:
            assert (404, "there is no such question") == (response.status, (await response.json())["message"])

    _use(act)


def test_each_user_has_an_allowance() -> None:
    """One who asks too much is told when to ask again, and others are answered."""

    async def act(client: Client) -> None:
        for _ in range(3):
            await _ask(client, f"{BLUE}/jobs")
        headers = {"Authorization": "Bearer t-ann"}
        async with client.get(f"{BLUE}/jobs", headers=headers) as response:
            assert (429, "2") == (response.status, response.headers["Retry-After"])
        await _ask(client, "/v1/namespaces/red/jobs", user="bob")

    _use(act, limits=Limits(user_rate=0.0, user_burst=3))


def test_dry_runs_have_an_allowance_of_their_own() -> None:
    """Cheap questions are answered after too many costly ones."""

    async def act(client: Client) -> None:
        await _ask(client, f"{BLUE}/jobs/blue-waits/help")
        await _ask(client, f"{BLUE}/jobs/blue-waits/help", status=429)
        await _ask(client, f"{BLUE}/jobs/blue-waits")

    _use(act, limits=Limits(costly_rate=0.0, costly_burst=1))


def test_unknown_tokens_of_one_address_are_not_all_shown_to_the_api_server() -> None:
    """After so many the answer comes without a review."""
    users = _users()

    async def act(client: Client) -> None:
        for number in range(5):
            await _ask(client, f"{BLUE}/jobs", user=f"mallory{number}", status=401 if number < 2 else 429)
        await _ask(client, f"{BLUE}/jobs")

    _use(act, users=users, limits=Limits(unknown_rate=0.0, unknown_burst=2))
    assert 3 == len(users.tokens)


def test_each_question_is_a_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Who asked what of which namespace, and how it went; no token and no manifests."""

    async def act(client: Client) -> None:
        await _ask(client, f"{BLUE}/jobs/blue-waits")
        await _ask(client, "/v1/namespaces/red/jobs/red-waits/start", status=403)

    with caplog.at_level("INFO", logger="tierwise.answers.audit"):
        _use(act)
    lines = [record.fields for record in caplog.records if record.name == "tierwise.answers.audit"]  # type: ignore[attr-defined]
    assert [("ann", "why", "blue", "blue-waits", 200), ("ann", "start", "red", "red-waits", 403)] == [
        tuple(line[key] for key in ("user", "question", "namespace", "job", "status")) for line in lines
    ]
    assert "t-ann" not in str(lines)


def test_equal_questions_of_a_window_get_the_same_bytes() -> None:
    """However often they are asked, and whatever happens in the cluster meanwhile."""
    moments = iter((BASIS, Basis(OBJECTS.changed({}, list(OBJECTS)), DEFAULT, NOW + 5)))

    async def use() -> None:
        ticks = [100.0]
        service = AnswerService(lambda: next(moments), ticks=lambda: ticks[0])
        async with TestClient(TestServer(application(service, _users()))) as client:
            first = await _ask(client, f"{BLUE}/jobs")
            ticks[0] += 10
            assert first == await _ask(client, f"{BLUE}/jobs")
            ticks[0] += 10
            later = await _ask(client, f"{BLUE}/jobs")
            assert ([], "2026-01-01T00:00:05Z") == (later["jobs"], later["asOf"])

    asyncio.run(use())
