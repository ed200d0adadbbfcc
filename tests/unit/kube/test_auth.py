"""Where the API server is, and who we are: plain ways are read here, all others by the official client."""

from __future__ import annotations

import base64
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from tierwise.api.errors import InputError
from tierwise.kube import auth
from tierwise.kube.auth import access, in_cluster
from tierwise.runtime.certificates import issue

AUTHORITY = issue(["localhost"], datetime(2026, 1, 1, tzinfo=UTC)).authority
DATA = base64.b64encode(AUTHORITY).decode()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where a kubeconfig is."""
    (tmp_path / "ca.crt").write_bytes(AUTHORITY)
    (tmp_path / "token").write_text("rotates")
    return tmp_path / "config"


def _write(file: Path, user: dict[str, Any], **cluster: Any) -> str:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": "https://api:6443/", **cluster}}],
        "users": [{"name": "u", "user": user}, {"name": "other", "user": {"token": "another"}}],
        "contexts": [
            {"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "team"}},
            {"name": "there", "context": {"cluster": "c", "user": "other"}},
        ],
    }
    file.write_text(yaml.safe_dump(config))
    return str(file)


def _official(file: Path, monkeypatch: pytest.MonkeyPatch) -> auth.Access:
    """The same file as the official client reads it."""
    monkeypatch.setattr(auth, "plain", lambda *_: None)
    return access(str(file))


def _told(found: auth.Access) -> tuple[object, ...]:
    assert found.tls is not None
    trusted = [str(entry["subject"]) for entry in found.tls.get_ca_certs()]
    return found.server, found.token(), found.server_name, found.proxy, found.tls.verify_mode, trusted


@pytest.mark.parametrize(
    ("user", "cluster"),
    [
        ({"token": "secret"}, {"certificate-authority-data": DATA}),
        ({"token": "secret"}, {"certificate-authority": "ca.crt"}),
        ({"tokenFile": "token"}, {"certificate-authority-data": DATA}),
        ({"token": "secret"}, {"insecure-skip-tls-verify": True}),
    ],
)
def test_plain_files_are_read_as_the_official_client_does(
    file: Path, monkeypatch: pytest.MonkeyPatch, user: dict[str, Any], cluster: dict[str, Any]
) -> None:
    """Same server, same trust, same word."""
    monkeypatch.chdir(file.parent)
    _write(file, user, **cluster)
    assert auth.plain(file, None) is not None
    plain = access(str(file))

    assert _told(_official(file, monkeypatch)) == _told(plain)


def test_another_context_may_be_chosen(file: Path) -> None:
    """Each with its own user."""
    assert "Bearer another" == access(_write(file, {"token": "t"}), "there").token()


@pytest.mark.parametrize(
    ("user", "cluster"),
    [
        ({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "aws"}}, {}),
        ({"client-certificate-data": DATA, "client-key-data": DATA}, {}),
        ({"token": "t", "tokenFile": "token"}, {}),
        ({"token": 7}, {}),
        ({}, {}),
        ({"token": "t"}, {"proxy-url": "http://proxy:3128"}),
        ({"token": "t"}, {"certificate-authority-data": "no base64"}),
        ({"token": "t"}, {"tls-server-name": "other"}),
    ],
)
def test_anything_special_is_left_to_the_official_client(
    file: Path, user: dict[str, Any], cluster: dict[str, Any]
) -> None:
    """Also what is wrong: it knows best how to say so."""
    _write(file, user, **cluster)

    assert auth.plain(file, None) is None


def test_files_that_are_none_are_left_to_it_as_well(file: Path) -> None:
    """Broken YAML, a list of files, nothing at all."""
    assert auth.plain(file, None) is None
    file.write_text("{a: [")
    assert auth.plain(file, None) is None
    assert auth.plain(Path(f"{file}:{file}"), None) is None


def test_service_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Address from the environment, trust and token from files; the token is the present one."""
    (tmp_path / "ca.crt").write_bytes(AUTHORITY)
    (tmp_path / "token").write_text("first")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    found = in_cluster(tmp_path)
    (tmp_path / "token").write_text("second\n")

    assert ("https://[fd00::1]:443", "Bearer second") == (found.server, found.token())
    assert found.tls is not None
    assert ssl.CERT_REQUIRED == found.tls.verify_mode


def test_outside_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line says what is missing."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(InputError, match="not in a cluster: KUBERNETES_SERVICE_HOST"):
        in_cluster(tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    with pytest.raises(InputError, match="No such file"):
        in_cluster(tmp_path)
