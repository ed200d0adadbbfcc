"""The pages over real HTTP: what is served, with which headers, and what is refused."""

from __future__ import annotations

import http.client
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.boards import HOSTILE, Fixed, shown
from tests.support.commands import answer, manifests, run
from tests.support.draw import draw, gang, objects_of
from tests.support.ports import HOST, free_port

from tierwise.api.errors import InputError
from tierwise.cli.serve import manifest_source
from tierwise.runtime.listener import listening
from tierwise.web.app import pages
from tierwise.web.views import RunSource, RunView, WatchedSource

WORLD = objects_of(
    draw("r0[n0 n1]", node="gpu=4"),
    gang("fits", tasks=1, each="gpu=4", within=1),
    gang("waits", tasks=4, each="gpu=4", within=1),
)


@contextmanager
def _serving(source: RunSource) -> Iterator[http.client.HTTPConnection]:
    port = free_port()
    with listening(pages(source), HOST, port):
        connection = http.client.HTTPConnection(HOST, port, timeout=60)
        yield connection
        connection.close()


def _get(to: http.client.HTTPConnection, path: str, **headers: str) -> tuple[http.client.HTTPResponse, bytes]:
    to.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    response = to.getresponse()
    return response, response.read()


def test_every_file_of_the_page_is_there_and_browsers_may_load_nothing_else() -> None:
    """Page, styles and scripts with their types; no inline script is allowed, no other host, no frame."""
    with _serving(Fixed(shown(WORLD))) as to:
        page, body = _get(to, "/")
        types = {path: _get(to, f"/static/{path}")[0].headers["Content-Type"] for path in ("app.js", "style.css")}

    policy = page.headers["Content-Security-Policy"]
    assert 200 == page.status
    assert b"<title>tierwise</title>" in body
    assert {"app.js": "text/javascript; charset=utf-8", "style.css": "text/css; charset=utf-8"} == types
    assert policy.startswith("default-src 'none'; script-src 'self';")
    assert "unsafe" not in policy
    assert ("nosniff", "no-cache") == (page.headers["X-Content-Type-Options"], page.headers["Cache-Control"])


def test_the_board_is_json_and_is_sent_once() -> None:
    """Whoever has it already is told so with an empty answer."""
    with _serving(Fixed(shown(WORLD))) as to:
        first, body = _get(to, "/api/board")
        again, nothing = _get(to, "/api/board", If_None_Match=first.headers["ETag"])
        other, _ = _get(to, "/api/board", If_None_Match='"else"')

    assert ("application/json; charset=utf-8", "manifests") == (first.headers["Content-Type"], json.loads(body)["mode"])
    assert (304, b"", first.headers["ETag"]) == (again.status, nothing, again.headers["ETag"])
    assert 200 == other.status


def test_large_answers_are_packed() -> None:
    """For whoever understands it."""
    with _serving(Fixed(shown(WORLD))) as to:
        assert "deflate" == _get(to, "/api/board", Accept_Encoding="deflate")[0].headers["Content-Encoding"]
        assert _get(to, "/api/board")[0].headers["Content-Encoding"] is None


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/jobs/default/waits", 200),
        ("/api/jobs/default/nobody", 404),
        ("/api/nodes/r0", 200),
        ("/api/nodes/cluster", 200),
        ("/api/nodes/r%3C9", 404),
        ("/static/nothing.js", 404),
        ("/static/../app.py", 404),
        ("/static/%2e%2e/app.py", 404),
        ("/api", 404),
    ],
)
def test_paths(path: str, status: int) -> None:
    """What exists is shown, and what does not is no defect; no path leads to other files."""
    with _serving(Fixed(shown(WORLD))) as to:
        response, _ = _get(to, path)

    assert status == response.status
    assert "default-src 'none'" in response.headers["Content-Security-Policy"]


def test_nothing_takes_a_body_and_other_hosts_are_refused() -> None:
    """A site that gives its name our address must not read along."""
    with _serving(Fixed(shown(WORLD))) as to:
        to.request("POST", "/api/board", body=b"{}")
        posted = to.getresponse()
        posted.read()
        elsewhere, _ = _get(to, "/api/board", Host="evil.example:8080")
        here, _ = _get(to, "/api/board", Host="[::1]:8080")

    assert (405, 421, 200) == (posted.status, elsewhere.status, here.status)


def test_nothing_yet_is_said_in_words() -> None:
    """As of a scheduler before its first cycle."""
    with _serving(Fixed("no cycle has ended yet")) as to:
        response, body = _get(to, "/api/board")

    assert (503, b"no cycle has ended yet\n") == (response.status, body)


def test_hostile_names_stay_data() -> None:
    """They come as JSON that no browser takes for markup, and are found again by the path that the board gives."""
    objects = objects_of(draw("r0[n0]", node="gpu=4"), gang("a", tasks=2, each="gpu=4", queue=HOSTILE))
    with _serving(Fixed(shown(objects))) as to:
        response, body = _get(to, "/api/jobs?state=waiting")
        error, text = _get(to, "/api/jobs/%3Cscript%3E")

    assert response.headers["Content-Type"].startswith("application/json")
    assert HOSTILE == json.loads(body)["list"][0]["queue"]
    assert (404, "text/plain; charset=utf-8") == (error.status, error.headers["Content-Type"])
    assert b"<" not in text


def test_files_are_read_again_when_they_change(tmp_path: Path) -> None:
    """And where they are no use, the old board stays, with the fault beside it."""
    file = manifests(tmp_path, *(WORLD.raw(key) for key in WORLD))
    source = manifest_source([str(tmp_path)], None, None)
    first = source.show()
    same = source.show()
    file.write_text("{")
    broken = _next(source, first)
    manifests(tmp_path, *(WORLD.raw(key) for key in WORLD if key.kind == "Node"))
    mended = _next(source, broken)

    told = [json.loads(show.board().body) for show in (first, broken, mended) if isinstance(show, RunView)]
    assert first is same
    assert ["", "", 2, 2, 0] == [told[0]["fault"], told[2]["fault"], *(board["jobs"]["count"] for board in told)]
    assert str(file) in told[1]["fault"]


def _next(source: RunSource, before: RunView | str) -> RunView | str:
    """The view after another one; a machine that is busy takes more than a moment to make it."""
    while (view := source.show()) is before:
        pass
    return view


def test_the_old_board_is_shown_while_a_new_one_is_made() -> None:
    """However long that takes, whoever asks is answered; what fails unforeseen is told beside the old board."""
    stamp = 0
    go_on = threading.Event()
    views = iter((shown(WORLD), shown(WORLD)))

    def make() -> RunView:
        if stamp == 1:
            go_on.wait(60)
        if stamp == 2:
            raise ZeroDivisionError("of nothing")
        return next(views)

    source = WatchedSource(lambda: stamp, make)
    first = source.show()
    stamp = 1
    meanwhile = [source.show(), source.show()]
    go_on.set()
    later = _next(source, first)
    stamp = 2
    broken = _next(source, later)

    assert [first, first] == meanwhile
    assert isinstance(broken, RunView)
    assert "it could not be read again: ZeroDivisionError: of nothing" in json.loads(broken.board().body)["fault"]


def test_without_the_libraries_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers are part of the default install, certificates are not: other machines are answered with TLS alone."""
    monkeypatch.setitem(sys.modules, "cryptography", None)

    result = run("serve", "-f", "nowhere.yaml", "--listen", "0.0.0.0:0")

    assert 2 == result.exit_code
    assert "--listen: cryptography is missing: install tierwise with the extra `kube`" in result.stderr


def test_there_must_be_something_to_begin_with() -> None:
    """Bad input before anything was shown ends the command."""

    def fail() -> RunView:
        raise InputError("no use")

    with pytest.raises(InputError, match="no use"):
        WatchedSource(lambda: 0, fail)


def test_lists_are_cut_and_searched_by_the_server() -> None:
    """A page asks for some jobs at a time, and finds any other by its name; wrong numbers are refused."""
    gangs = [gang(f"job-{number:03d}", tasks=1, each="gpu=1") for number in range(70)]
    with _serving(Fixed(shown(objects_of(draw("r0[n0 n1]", node="gpu=64"), *gangs)))) as to:
        first = json.loads(_get(to, "/api/jobs?state=running&sort=name")[1])
        last = json.loads(_get(to, "/api/jobs?state=running&sort=-name&limit=1")[1])
        found = json.loads(_get(to, "/api/search?q=JOB-069")[1])
        node = json.loads(_get(to, "/api/node/n1")[1])
        wrong = [_get(to, f"/api/jobs?{query}")[0].status for query in ("limit=-1", "offset=x")]
        absent = [_get(to, path)[0].status for path in ("/api/node/n9", "/api/nodes-for/default/none")]

    assert (70, 60, "job-000") == (first["count"], len(first["list"]), first["list"][0]["name"])
    assert ["job-069"] == [line["name"] for line in last["list"]]
    assert {"job": 1, "pod": 1} == {kind["kind"]: kind["count"] for kind in found["kinds"] if kind["count"]}
    assert "n1" == node["name"]
    assert [400, 400] == wrong
    assert [404, 404] == absent


def test_what_can_be_drained_is_answered_as_in_the_terminal(tmp_path: Path) -> None:
    """Domains of a tier, and which can go together; a number that is none is none, unknown tiers are refused."""
    objects = objects_of(draw("r0[n0 n1] r1[n2 n3]", node="gpu=4"), gang("a", tasks=2, each="gpu=4", on="n0 n1"))
    file = manifests(tmp_path, *(objects.raw(key) for key in objects))
    with _serving(Fixed(shown(objects, questions=True))) as to:
        asked = ("?tier=1&together=1", "?tier=1&together=2x", "")
        found = [json.loads(_get(to, f"/api/drainable{query}")[1]) for query in asked]
        unknown = _get(to, "/api/drainable?tier=nowhere")[0].status

    said = ("--tier 1 --together 1", "--tier 1", "")
    expected = [answer("drainable", "-f", file, *words.split()) for words in said]
    for one, other in zip(expected, found, strict=True):
        assert [drain["names"] for drain in one["drains"]] == [drain["names"] for drain in other["drains"]]
        assert one["togetherAsked"] == other["togetherAsked"]
    assert ["r1"] == found[0]["together"]["names"]
    assert 400 == unknown


def test_questions_are_answered_where_they_may_be_asked() -> None:
    """In memory, for views with a scenario; what makes no sense is refused with one line, and so are other sites."""
    objects = objects_of(draw("r0[n0 n1]", node="gpu=4"), gang("a", tasks=2, each="gpu=4"))
    drained = "/api/what-if?if=drain%3Dn0"
    with _serving(Fixed(shown(objects, questions=True))) as to:
        answer = json.loads(_get(to, drained)[1])
        board = json.loads(_get(to, "/api/board?if=drain%3Dn0")[1])
        wrong = [_get(to, f"/api/what-if?if={text}") for text in ("drain%3Dn9", "nonsense%3D1", "x", "submit%3Dgone")]
        least = json.loads(_get(to, "/api/least/default/a")[1])
        eta, every = (json.loads(_get(to, path)[1]) for path in ("/api/eta/default/a", "/api/eta"))
        nobody = _get(to, "/api/eta/default/b")[0].status
        to.request("POST", "/api/manifests", b"kind: Pod")
        forbidden = to.getresponse()
        forbidden.read()
        to.request("POST", "/api/manifests", b"kind: [", {"X-Tierwise": "1"})
        refused = to.getresponse()
        refused.read()
    with _serving(Fixed(shown(objects))) as to:
        unasked, said = _get(to, drained)

    assert [("default/a", "waits-longer")] == [(job["podGroup"], job["effect"]) for job in answer["jobs"]]
    assert (1, 0) == (board["jobs"]["waiting"], board["jobs"]["running"])
    assert [400] * 4 == [response.status for response, _ in wrong]
    assert all(text.count(b"\n") == 1 for _, text in wrong)
    assert least["startsAnyway"]
    assert [("default/a", "now", 1, 1)] == [(j["podGroup"], j["kind"], j["position"], j["of"]) for j in eta["jobs"]]
    assert eta["jobs"] == every["jobs"]
    assert 400 == nobody
    assert (403, 400) == (forbidden.status, refused.status)
    assert (400, 1) == (unasked.status, said.count(b"\n"))
