"""Past moments: a bounded ring of boards, and what became of jobs between two of them."""

from __future__ import annotations

import http.client
import itertools
import json
import threading
from contextlib import closing
from typing import Any

from aiohttp import web
from tests.support.boards import Fixed, scheduled, shown
from tests.support.draw import draw, gang, objects_of
from tests.support.ports import HOST, free_port

from tierwise.explain.board import Board, JobQuery
from tierwise.runtime.listener import listening
from tierwise.web.app import add_pages, pages
from tierwise.web.history import BoardHistory
from tierwise.web.views import CachedBody, RunView

WORLD = draw("r0[n0 n1]", node="gpu=8")


def _view(*names: str) -> RunView:
    return shown(objects_of(WORLD, *(gang(name, tasks=2, each="gpu=2") for name in names)))


def _ids(history: BoardHistory) -> list[Any]:
    found: Any = history.wire()
    return [moment["id"] for moment in found["moments"]]


def test_a_moment_is_kept_once() -> None:
    """The same view, and another view of the same state, make no new moment."""
    history = BoardHistory()
    for view in (first := _view("a"), first, _view("a"), _view("a", "b")):
        history.saw(view)

    assert [1, 2] == _ids(history)


def test_moments_are_left_out_by_number_and_bytes() -> None:
    """The first and the newest stay, and the newest whatever its size; who asks for another gets the one before it."""
    few, small = BoardHistory(most_moments=2), BoardHistory(most_bytes=1)
    for names in ("a", "ab", "abc"):
        few.saw(_view(*names))
        small.saw(_view(*names))
    one, two = few.at(1), few.at(2)

    assert [1, 3] == _ids(few)
    assert [3] == _ids(small)
    assert one is not None
    assert two is not None
    assert one.board() == two.board()
    assert (None, None) == (small.at(2), few.at(4))


class _Told(RunView):
    """A view of a time, with a board of its own and some pods evicted."""

    def __init__(self, now: float, evicted: int = 0) -> None:
        super().__init__(VIEW_BOARD, mode="cluster", title="")
        wire = {**json.loads(VIEW.board().body), "mode": "cluster", "now": now}
        wire["cycles"] = [{"number": 1, "pods": 1, "evicted": evicted, "now": now}]
        self._body = CachedBody.json(wire)

    def board(self) -> CachedBody:
        return self._body


VIEW = _view("a")
VIEW_BOARD = Board(scheduled(objects_of(WORLD, gang("a", tasks=2, each="gpu=2"))))


def test_a_day_is_kept_and_moments_get_rarer_with_age() -> None:
    """The last ones are whole, gaps grow with age, what is a day old is gone, and no eviction is lost to the sums."""
    history = BoardHistory(most_moments=40)
    for number in range(150):
        history.saw(_Told(number * 700.0, evicted=int(number % 7 == 0)))
    found: Any = history.wire()["moments"]
    times = [moment["now"] for moment in found]
    gaps = [after - before for before, after in itertools.pairwise(times)]

    assert 40 == len(found)
    assert times[-1] - 86400 <= times[0] <= times[-1] - 80000
    assert [700.0] * 5 == gaps[-5:]
    assert sum(gaps[:10]) > 3 * sum(gaps[-10:])
    assert sum(number % 7 == 0 and number * 700 > times[0] for number in range(150)) == sum(
        moment["evicted"] for moment in found[1:]
    )


def test_a_page_asks_for_what_is_new() -> None:
    """After a moment that it knows it is told of later ones alone; a clock that is set back does not turn time."""
    history = BoardHistory()
    for now in (10.0, 20.0, 15.0):
        history.saw(_Told(now))
    late: Any = history.wire(since=1)

    assert [2, 3] == [moment["id"] for moment in late["moments"]]
    assert [20.0, 20.0] == [moment["now"] for moment in late["moments"]]
    assert 3 == late["count"]


def test_queues_are_told_over_time() -> None:
    """What each used at every moment; of many moments as many as a small drawing can show, the newest among them."""
    history = BoardHistory()
    for names in ("a", "ab", "a"):
        history.saw(_view(*names))

    assert {"moments": [1, 2, 3], "queues": {"default": [4, 8, 4]}} == history.queues()
    views = [_view("a", "b"), _view("a")]
    for number in range(4, 251):
        history.saw(views[number % 2])
    found: Any = history.queues()
    assert 250 == found["moments"][-1]
    assert 100 >= len(found["moments"]) - 1 == len(found["queues"]["default"]) - 1


def test_a_past_moment_has_its_board_and_its_jobs() -> None:
    """The bytes are those that were served then."""
    history, view = BoardHistory(), _view("a")
    history.saw(view)
    history.saw(_view("b"))
    past = history.at(1)

    assert past is not None
    assert view.board().body == past.board().body
    assert view.answer(Board.jobs, JobQuery()) == past.jobs(JobQuery())


def test_a_past_moment_has_its_nodes() -> None:
    """As they were then, with the pods on each, also where moments before it were left out; one that left is gone."""
    history, views = BoardHistory(most_moments=3), [_view(*names) for names in ("a", "ab", "abc", "abcd")]
    for view in views:
        history.saw(view)
    smaller = objects_of(draw("r0[n0]", node="gpu=8"), gang("a", tasks=2, each="gpu=2"))
    history.saw(shown(smaller))
    assert 3 == len(_ids(history))
    for number in _ids(history)[:-1]:
        past, view = history.at(number), views[number - 1]
        assert past is not None
        for name in ("n0", "n1"):
            then, kept = view.answer(Board.node, name), past.node(name)
            assert then is not None
            assert kept is not None
            one, other = json.loads(then.body), json.loads(kept.body)
            assert (one["amounts"]["used"], one["pods"]) == (other["amounts"]["used"], other["pods"])
        listed, rack = view.answer(Board.nodes, "r0", ""), past.nodes("r0", "")
        assert listed is not None
        assert rack is not None
        assert [node["jobs"] for node in json.loads(listed.body)["nodes"]] == [
            node["jobs"] for node in json.loads(rack.body)["nodes"]
        ]
    last = history.at(5)
    assert last is not None
    assert last.node("n1") is None
    assert last.nodes("nowhere", "") is None


def test_what_became_of_jobs() -> None:
    """Who started, who waits since, and who is gone."""
    history = BoardHistory()
    history.saw(_view("a", "b"))
    history.saw(_view("b", "c", "d", "e", "f"))  # four fit, and one waits
    found: Any = history.log.during(1, 2)

    assert ["a"] == [job["name"] for job in found["ended"]["entries"]]
    assert 3 == found["started"]["count"]
    assert 1 == found["waits"]["count"]


def test_who_waits_still_has_not_begun_to() -> None:
    """Of two gangs that wait in the end, one is new; and one that waited in both moments is not."""
    history = BoardHistory()
    history.saw(_view(*"abcde"))  # four fit, and one waits
    history.saw(_view(*"abcdef"))
    found: Any = history.log.during(1, 2)

    assert ["f"] == [job["name"] for job in found["waits"]["entries"]]


def test_an_open_page_hears_of_news() -> None:
    """The stream speaks when it is opened and when the source has something else; it ends with the server."""
    boards = [_view("a"), _view("a", "b")]
    source = Fixed(boards[0])
    port = free_port()
    stream, asked = (closing(http.client.HTTPConnection(HOST, port, timeout=60)) for _ in range(2))
    with stream as events, asked as other:
        with listening(pages(source), HOST, port):
            events.request("GET", "/api/events")
            answer = events.getresponse()
            heard = [answer.readline() for _ in range(3)]
            source._show = boards[1]
            heard += [answer.readline() for _ in range(3)]
            other.request("GET", "/api/history")
            moments = json.loads(other.getresponse().read())["moments"]
            ended = threading.Thread(target=answer.read)
            ended.start()
        ended.join(60)

    assert "text/event-stream" == answer.headers["Content-Type"]
    assert [b"event: board\n", b"data:\n", b"\n"] * 2 == heard
    assert [1, 2] == [moment["id"] for moment in moments]
    assert not ended.is_alive()


def test_moments_are_kept_though_nobody_looks() -> None:
    """Where the past is recorded, a state that no page has asked for is there later."""
    kept = threading.Event()

    class Noted(RunView):
        def board(self) -> CachedBody:
            kept.set()  # the ring is locked by whoever asks for this, until the moment is in it
            return super().board()

    objects = objects_of(WORLD, gang("a", tasks=2, each="gpu=2"))
    source = Fixed(Noted(Board(scheduled(objects)), mode="scheduler", title="drawn"))
    port = free_port()
    app = web.Application()
    add_pages(app, source, record=True)
    with listening(app, HOST, port), closing(http.client.HTTPConnection(HOST, port, timeout=60)) as asked:
        assert kept.wait(60)
        both = objects_of(WORLD, *(gang(name, tasks=2, each="gpu=2") for name in "ab"))
        source._show = RunView(Board(scheduled(both)), mode="scheduler", title="drawn")
        asked.request("GET", "/api/history")
        moments = json.loads(asked.getresponse().read())["moments"]

    assert [1, 2] == [moment["id"] for moment in moments]
    assert [4, 8] == [moment["used"] for moment in moments]
