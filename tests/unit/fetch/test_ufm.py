"""Asking a UFM, over real HTTP on this machine."""

import base64
import socket
from collections.abc import Iterator

import pytest
from tests.support.fabric_manager import FabricManager, ports

from tierwise.fetch.ufm import FetchError, Ufm, ports_and_systems

PORTS = "resources/ports"


@pytest.fixture
def manager() -> Iterator[FabricManager]:
    """One host on one leaf."""
    with FabricManager({PORTS: ports("n0-leaf0"), "resources/systems": []}) as running:
        yield running


def _refused(ufm: Ufm) -> str:
    with pytest.raises(FetchError) as caught:
        ports_and_systems(ufm)
    return str(caught.value)


def test_ports_and_systems_are_asked_for_with_name_and_password(manager: FabricManager) -> None:
    """Basic authentication, as Volcano does."""
    found = ports_and_systems(Ufm(manager.address, "admin", "secret"))
    proof = f"Basic {base64.b64encode(b'admin:secret').decode()}"

    assert (ports("n0-leaf0"), []) == found
    assert [(f"/ufmRest/{PORTS}", proof), ("/ufmRest/resources/systems", proof)] == manager.asked


def test_a_token_goes_to_version_three(manager: FabricManager) -> None:
    """A slash at the end of the address does no harm."""
    ports_and_systems(Ufm(f"{manager.address}/", token="t0"))

    assert (f"/ufmRestV3/{PORTS}", "Basic t0") == manager.asked[0]


def test_systems_may_be_missing(manager: FabricManager) -> None:
    """Ports say enough."""
    del manager.answers["resources/systems"]

    assert (ports("n0-leaf0"), None) == ports_and_systems(Ufm(manager.address))


@pytest.mark.parametrize(
    ("status", "text"),
    [(401, "HTTP 401 Unauthorized"), (500, "HTTP 500 Internal Server Error"), (503, "HTTP 503 Service Unavailable")],
)
def test_a_refusal_is_told_with_address_and_status(manager: FabricManager, status: int, text: str) -> None:
    """And without the credentials."""
    manager.status = status

    assert f"{manager.address}/ufmRest/{PORTS}: {text}" == _refused(Ufm(manager.address, "admin", "secret"))


def test_redirects_are_not_followed(manager: FabricManager) -> None:
    """They would carry the password to somebody else."""
    manager.status, manager.headers = 302, {"Location": "http://127.0.0.1:1/"}

    assert "HTTP 302" in _refused(Ufm(manager.address, "admin", "secret"))
    assert 1 == len(manager.asked)


@pytest.mark.parametrize("body", [b"<html>", b"[", b"\xff\xfe", b"[" * 100_000])
def test_an_answer_that_is_not_json_is_refused(manager: FabricManager, body: bytes) -> None:
    """A login page, for example."""
    manager.body = body

    assert f"{manager.address}/ufmRest/{PORTS}: the answer is not JSON" == _refused(Ufm(manager.address))


def test_a_server_that_does_not_answer_is_given_up(manager: FabricManager) -> None:
    """After the time that it was given."""
    manager.silent.set()

    assert _refused(Ufm(manager.address, timeout=0.1)).endswith("no answer within 0.1 s")


def test_nobody_there_is_told() -> None:
    """The system's own words."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        address = f"http://127.0.0.1:{held.getsockname()[1]}"

        assert "Connection refused" in _refused(Ufm(address))


def test_a_plain_server_behind_a_secure_address_is_told(manager: FabricManager) -> None:
    """An address without a scheme means https."""
    text = _refused(Ufm(manager.address.removeprefix("http://")))

    assert text.startswith("https://127.0.0.1")


@pytest.mark.parametrize("address", ["file:///etc/passwd", "https://", "ftp://x", "https://x:port", "https://[x"])
def test_other_schemes_are_refused(address: str) -> None:
    """A file is not a fabric manager."""
    assert f"{address}: expected http:// or https:// and a host" == _refused(Ufm(address))


@pytest.mark.parametrize("rest", ["/other?x=", "/other#", "?", "#", "/a?b#c"])
def test_an_address_cannot_cut_off_the_path(manager: FabricManager, rest: str) -> None:
    """Else it could name any page of any server, and what we say of the answer would tell about it."""
    said = _refused(Ufm(f"{manager.address}{rest}"))

    assert f"{manager.address}{rest}: an address of UFM has no ? and no #" == said
    assert [] == manager.asked


def test_credentials_in_an_address_are_refused_and_not_repeated() -> None:
    """They would end up in conditions and logs."""
    for address in ("https://admin:hunter2@127.0.0.1", "https://admin:hunter2@x:port", "admin:hunter2@[x"):
        assert "credentials do not belong into the address" in _refused(Ufm(address))
        assert "hunter2" not in _refused(Ufm(address))
    assert "hunter2" not in repr(Ufm("https://u", password="hunter2"))
