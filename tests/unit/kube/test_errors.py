"""What an answer other than a yes means: whether it passes, when to come back, and who said it."""

from __future__ import annotations

import json

import pytest

from tierwise.kube.errors import refusal


def test_server_says_when_to_come_back() -> None:
    """The header counts, then what the body says; a date is none that Kubernetes sends."""
    body = json.dumps({"code": 429, "details": {"retryAfterSeconds": 3}}).encode()

    assert (4.0, 3.0, 3.0) == (
        refusal(429, body, "4").retry_after,
        refusal(429, body).retry_after,
        refusal(429, body, "Sun, 15 Nov 2026 18:00:00 GMT").retry_after,
    )
    assert refusal(429, b"{}").retry_after is None


@pytest.mark.parametrize(("said", "wait"), [("20", 5.0), ("1e9", 5.0), ("inf", 5.0), ("nan", None), ("-3", None)])
def test_no_server_lets_us_wait_for_long(said: str, wait: float | None) -> None:
    """A webhook of one tenant may be behind it: there is a longest wait, and what is no time is not waited for."""
    assert wait == refusal(429, b"{}", said).retry_after


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_refusal_passes(status: int) -> None:
    """A server or gateway that is overloaded or restarts says yes a little later."""
    assert refusal(status, b"{}").passing


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 410, 422, 501])
def test_refusal_stays(status: int) -> None:
    """The same request would be refused again."""
    assert not refusal(status, b"{}").passing


def test_no_of_a_budget_stays_for_this_cycle() -> None:
    """It is a 429 as well, but asking again at once would only hold everybody up."""
    body = json.dumps({"code": 429, "details": {"causes": [{"reason": "DisruptionBudget"}]}}).encode()

    assert (True, False) == (refusal(429, body).over_budget, refusal(429, body).passing)


def test_plain_text_of_a_gateway_is_shown() -> None:
    """Whatever stands before the API server may answer as it likes."""
    found = refusal(502, b"<html>bad gateway</html>\n")

    assert (502, "<html>bad gateway</html>") == (found.status, str(found))
