"""Where the API server is, and who we are: by a kubeconfig as kubectl reads it, or by a service account."""

from __future__ import annotations

import base64
import json
import ssl
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from kubernetes import config as official
from kubernetes.client import Configuration

from tierwise.api.errors import InputError
from tierwise.kube.auth import Access, access, in_cluster
from tierwise.runtime.certificates import issue

ISSUED = issue(["localhost"], datetime(2026, 1, 1, tzinfo=UTC))
AUTHORITY = ISSUED.authority
DATA = base64.b64encode(AUTHORITY).decode()
CERTIFICATE, KEY = (base64.b64encode(part).decode() for part in (ISSUED.certificate, ISSUED.key))
V1 = "client.authentication.k8s.io/v1"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a kubeconfig is, with files beside it."""
    for name in ("HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "ca.crt").write_bytes(AUTHORITY)
    (tmp_path / "client.crt").write_bytes(ISSUED.certificate)
    (tmp_path / "client.key").write_bytes(ISSUED.key)
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


def _program(folder: Path, **status: Any) -> dict[str, Any]:
    """A program that answers so, and counts how often it was asked; it keeps what it was told."""
    script = folder / "give.py"
    answer = json.dumps({"apiVersion": V1, "kind": "ExecCredential", "status": status})
    script.write_text(
        "import os, pathlib\n"
        f"pathlib.Path({str(folder / 'told')!r}).write_text(os.environ['KUBERNETES_EXEC_INFO'])\n"
        f"with open({str(folder / 'asked')!r}, 'a') as asked: asked.write('x')\n"
        f"print({answer!r}.replace('SAID', os.environ.get('SAID', '')))\n"
    )
    return {"exec": {"apiVersion": V1, "command": sys.executable, "args": [str(script)], "interactiveMode": "Never"}}


def _told(found: Access) -> tuple[object, ...]:
    tls = found.tls()
    assert tls is not None
    trusted = [str(entry["subject"]) for entry in tls.get_ca_certs()]
    return found.server, found.token(), found.server_name, found.proxy, tls.verify_mode, trusted


def _official(file: Path) -> tuple[object, ...]:
    """The same file as the official client reads it."""
    found = Configuration()
    official.load_kube_config(str(file), client_configuration=found)
    tls = ssl.create_default_context(cafile=found.ssl_ca_cert)
    verify = ssl.CERT_REQUIRED if found.verify_ssl else ssl.CERT_NONE
    trusted = [str(entry["subject"]) for entry in tls.get_ca_certs()]
    token = found.get_api_key_with_prefix("authorization", "BearerToken")
    return str(found.host).rstrip("/"), token, found.tls_server_name, found.proxy, verify, trusted


@pytest.mark.parametrize(
    ("user", "cluster"),
    [
        ({"token": "secret"}, {"certificate-authority-data": DATA}),
        ({"token": "secret"}, {"certificate-authority": "ca.crt"}),
        ({"tokenFile": "token"}, {"certificate-authority-data": DATA}),
        ({"token": "secret"}, {"insecure-skip-tls-verify": True}),
        ({"token": "secret"}, {"tls-server-name": "other"}),
        ({"token": "secret"}, {"proxy-url": "http://proxy:3128"}),
        ({"client-certificate-data": CERTIFICATE, "client-key-data": KEY}, {}),
        ({"client-certificate": "client.crt", "client-key": "client.key"}, {"certificate-authority-data": DATA}),
        ({}, {}),
        ("program", {"certificate-authority-data": DATA}),
    ],
)
def test_files_are_read_as_the_official_client_does(file: Path, user: Any, cluster: dict[str, Any]) -> None:
    """Same server, same trust, same word."""
    _write(file, _program(file.parent, token="given") if user == "program" else user, **cluster)

    assert _official(file) == _told(access(str(file)))


def test_another_context_may_be_chosen(file: Path) -> None:
    """Each with its own user."""
    assert "Bearer another" == access(_write(file, {"token": "t"}), "there").token()


def test_several_files_are_merged(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first that says something is right, paths belong to their file, and files that are not there do not count."""
    folder = file.parent / "second"
    folder.mkdir()
    (folder / "token").write_text("of the second")
    _write(folder / "config", {"tokenFile": "token"}, **{"tls-server-name": "second"})
    file.write_text(
        yaml.safe_dump(
            {"clusters": [{"name": "c", "cluster": {"server": "https://first", "tls-server-name": "first"}}]}
        )
    )
    monkeypatch.setenv("KUBECONFIG", f"{file.parent / 'nowhere'}:{file}:{folder / 'config'}")
    found = access()

    assert ("https://first", "first", "Bearer of the second") == (found.server, found.server_name, found.token())
    monkeypatch.setenv("KUBECONFIG", str(file.parent / "nowhere"))
    with pytest.raises(InputError, match="nowhere: no such file"):
        access()


def test_tokens_and_passwords(file: Path) -> None:
    """A file is read anew each time and counts before the token beside it, which is there for when it is gone."""
    found = access(_write(file, {"tokenFile": "token", "token": "spare"}))
    assert "Bearer rotates" == found.token()
    (file.parent / "token").write_text("new\n")
    assert "Bearer new" == found.token()
    (file.parent / "token").unlink()
    assert "Bearer spare" == found.token()
    pair = base64.b64encode(b"me:secret").decode()
    assert f"Basic {pair}" == access(_write(file, {"username": "me", "password": "secret"})).token()


def test_a_program_is_asked_once_while_its_answer_is_good(file: Path) -> None:
    """It is told what it may know, and asked again when its answer ends or the server does not accept it."""
    user = _program(file.parent, token="given SAID")
    user["exec"] |= {"provideClusterInfo": True, "env": [{"name": "SAID", "value": "by the environment"}]}
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}}
    found = access(_write(file, user, extensions=[extension], **{"certificate-authority": "ca.crt"}))
    asked = file.parent / "asked"

    assert ["Bearer given by the environment"] * 2 == [found.token(), found.token()]
    assert "x" == asked.read_text()
    found.forget()
    assert "Bearer given by the environment" == found.token()
    assert "xx" == asked.read_text()
    told = json.loads((file.parent / "told").read_text())
    assert {"server": "https://api:6443/", "certificate-authority-data": DATA, "config": {"audience": "x"}} == told[
        "spec"
    ]["cluster"]
    assert not told["spec"]["interactive"]


def test_an_answer_that_has_ended_is_asked_for_anew(file: Path) -> None:
    """At its expirationTimestamp, and a little before it."""
    found = access(_write(file, _program(file.parent, token="t", expirationTimestamp="2026-01-01T00:00:00Z")))
    found.token()

    assert "xx" == (file.parent / "asked").read_text()


def test_a_program_may_give_a_certificate(file: Path) -> None:
    """And then need not give a token; one that cannot be used is refused."""
    status = {"clientCertificateData": ISSUED.certificate.decode(), "clientKeyData": ISSUED.key.decode()}
    assert access(_write(file, _program(file.parent, **status))).token() is None
    with pytest.raises(InputError, match=r"users\[u\]\.exec: .*its certificate cannot be used"):
        access(_write(file, _program(file.parent, **status | {"clientKeyData": "none"})))


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ({"command": "no-such-program", "installHint": "get it\nthere"}, "No such file or directory; get it there"),
        ({"args": ["-c", "import sys; sys.exit('not\\nlogged in')"]}, "exit status 1: not logged in"),
        ({"args": ["-c", "print('{}')"]}, "its answer is not an ExecCredential: "),
        ({"args": ["-c", "print('')"]}, "its answer is not an ExecCredential: "),
        ({"apiVersion": f"{V1}beta1"}, "its answer is not an ExecCredential of .*/v1beta1 with a status"),
        ({"interactiveMode": "Always"}, "standard input is no terminal"),
    ],
)
def test_a_program_that_gives_nothing(
    file: Path, monkeypatch: pytest.MonkeyPatch, program: dict[str, Any], said: str
) -> None:
    """One line says which, and why."""
    monkeypatch.setattr(sys, "stdin", None)
    user = _program(file.parent, token="t")
    user["exec"] |= program
    with pytest.raises(InputError, match=said) as refused:
        access(_write(file, user))
    assert str(refused.value).startswith(f"{file}: users[u].exec: ")


@pytest.mark.parametrize(
    ("user", "cluster", "said"),
    [
        ({"token": 7}, {}, r"users\[u\]: Expected `str`, got `int` - at `\$\.token`"),
        ({"token": "t", "username": "u"}, {}, r"users\[u\]\.username: excludes token"),
        ({"auth-provider": {"name": "gcp"}}, {}, r"users\[u\]\.auth-provider: .* use exec"),
        ({"token": "t", "as": "somebody"}, {}, r"users\[u\]\.as: impersonation is not supported"),
        ({"token": "t", "as-groups": ["g"]}, {}, r"users\[u\]\.as-groups: impersonation is not supported"),
        ({"tokn": "t"}, {}, r"users\[u\]\.tokn: not understood \(did you mean token\?\)"),
        ({"tokenFile": "nowhere"}, {}, "nowhere: No such file"),
        ({"client-certificate-data": CERTIFICATE}, {}, "belong together"),
        ({"client-certificate-data": DATA, "client-key-data": KEY}, {}, r"users\[u\]\.client-certificate: "),
        ({"exec": {"command": "x", "apiVersion": "v9"}}, {}, r"exec\.apiVersion: v9 is not supported"),
        ({"exec": {"command": "x"}}, {}, "missing required field `apiVersion`"),
        ({}, {"certificate-authority-data": "no base64"}, r"clusters\[c\]\.certificate-authority-data: not base64"),
        ({}, {"certificate-authority": "nowhere"}, "nowhere: No such file"),
        ({}, {"certificate-authority-data": base64.b64encode(b"x").decode()}, r"clusters\[c\]\.certificate-authority"),
        ({}, {"certificate-authority-data": DATA, "insecure-skip-tls-verify": True}, "excludes certificate-authority"),
        ({}, {"proxy-url": "socks5://proxy"}, "only http and https proxies"),
        ({}, {"server": "api:6443"}, r"clusters\[c\]\.server: 'api:6443' is not an address"),
        ({}, {"server": "https://api:port"}, r"clusters\[c\]\.server: .* is not the address of a host and a port"),
        ({}, {"server": "https://api:99999"}, r"clusters\[c\]\.server: .* is not the address of a host and a port"),
        ({}, {"server": "https://api:0"}, r"clusters\[c\]\.server: .* is not the address of a host and a port"),
        ({}, {"server": "https://:6443"}, r"clusters\[c\]\.server: .* is not the address of a host and a port"),
        ({}, {"server": "https://[api:6443"}, r"clusters\[c\]\.server: .* is not the address of a host and a port"),
        ({}, {"server": "https://a b:6443"}, r"clusters\[c\]\.server: .* is not the address of a host and a port"),
        ({}, {"server": "https://a\nb:6443"}, r"clusters\[c\]\.server: .* is not the address of a host and a port"),
        ({}, {"proxy-url": "http://proxy:x"}, r"clusters\[c\]\.proxy-url: .* is not the address of a host and a port"),
    ],
)
def test_what_cannot_be_used_is_refused(file: Path, user: dict[str, Any], cluster: dict[str, Any], said: str) -> None:
    """In one line, with the file and the field: nothing is left out of account without a word."""
    with pytest.raises(InputError, match=said) as refused:
        access(_write(file, user, **cluster))
    assert str(refused.value).startswith(f"{file}: ")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{a: [", "not YAML"),
        ("[]", "not a kubeconfig"),
        ("", "not a kubeconfig"),
        ("{}", "no context is chosen"),
        ("{current-context: x, contexts: [{name: y, context: {}}]}", "there is no context 'x'"),
        ("{current-context: x, contexts: [{name: x, context: {cluster: c}}]}", "there is no cluster 'c'"),
        ("{current-context: x, contexts: 7}", r"contexts\[0\]: not an entry"),
        ("{current-context: x, contexts: [{name: x, context: 7}]}", r"contexts\[0\]: not an entry"),
        ("{current-context: x, users: [{name: u}, {name: u}]}", r"users\[u\]: this name is given twice"),
    ],
)
def test_files_that_are_none(file: Path, text: str, said: str) -> None:
    """Broken YAML, something else, names that nothing has."""
    file.write_text(text)
    with pytest.raises(InputError, match=said):
        access(str(file))
    with pytest.raises(InputError, match="No such file"):
        access(f"{file}:{file}")


@pytest.mark.parametrize(
    ("server", "excepted", "proxy"),
    [
        ("https://api:6443", "", "http://proxy:3128"),
        ("https://api:6443", "api", None),
        ("https://api.example.org", ".example.org,other", None),
        ("https://api.example.org", "ple.org", "http://proxy:3128"),
        ("https://10.1.2.3", "10.0.0.0/8", None),
        ("https://10.1.2.3", "192.168.0.0/16,nonsense/9", "http://proxy:3128"),
        ("https://api:6443", "*", None),
        ("https://127.0.0.1:6443", "", None),
        ("https://localhost:6443", "", None),
        ("http://api:8080", "", None),
    ],
)
def test_the_environment_names_a_proxy(
    file: Path, monkeypatch: pytest.MonkeyPatch, server: str, excepted: str, proxy: str | None
) -> None:
    """For other machines, with the exceptions that it names."""
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("NO_PROXY", excepted)
    monkeypatch.delenv("http_proxy", raising=False)
    monkeypatch.delenv("HTTP_PROXY", raising=False)

    assert proxy == access(_write(file, {"token": "t"}, server=server)).proxy


def test_a_proxy_that_is_no_address_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the environment names it."""
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:none")
    with pytest.raises(InputError, match="HTTPS_PROXY: 'http://proxy:none' is not the address of a proxy"):
        access(_write(file, {"token": "t"}, server="https://api:6443"))


def test_a_token_that_is_no_text_is_refused(file: Path) -> None:
    """One line names the file."""
    (file.parent / "token").write_bytes(b"\xac")
    with pytest.raises(InputError, match="token: the text is not UTF-8"):
        access(_write(file, {"tokenFile": "token"}))


def test_service_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Address from the environment, trust and token from files; the token is the present one."""
    (tmp_path / "ca.crt").write_bytes(AUTHORITY)
    (tmp_path / "token").write_text("first")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    found = in_cluster(tmp_path)
    (tmp_path / "token").write_text("second\n")

    assert ("https://[fd00::1]:443", "Bearer second") == (found.server, found.token())
    tls = found.tls()
    assert tls is not None
    assert ssl.CERT_REQUIRED == tls.verify_mode


def test_outside_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line says what is missing."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(InputError, match="not in a cluster: KUBERNETES_SERVICE_HOST"):
        in_cluster(tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    with pytest.raises(InputError, match="No such file"):
        in_cluster(tmp_path)


def _trusted(found: Access) -> set[int]:
    """The serial numbers of the authorities that are trusted now."""
    tls = found.tls()
    assert tls is not None
    return {int(str(entry["serialNumber"]), 16) for entry in tls.get_ca_certs()}


def _serial(authority: bytes) -> int:
    return x509.load_pem_x509_certificate(authority).serial_number


@pytest.mark.parametrize("way", ["kubeconfig", "account"])
def test_an_authority_that_is_replaced_is_read_again(file: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """Only the new one counts then; a file that is half-written, empty or gone leaves everything as it was."""
    folder, other = file.parent, issue(["localhost"], datetime(2026, 2, 1, tzinfo=UTC)).authority
    if way == "kubeconfig":
        found = access(_write(file, {"token": "t"}, **{"certificate-authority": "ca.crt"}))
    else:
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
        found = in_cluster(folder)
    assert {_serial(AUTHORITY)} == _trusted(found)
    first = found.tls()

    assert found.tls() is first  # nothing is built where nothing has changed
    for broken in (other[:200], b"\xff\xfe"):
        (folder / "ca.crt").write_bytes(broken)
        assert {_serial(AUTHORITY)} == _trusted(found)
    (folder / "ca.crt").unlink()
    assert {_serial(AUTHORITY)} == _trusted(found)
    (folder / "ca.crt").write_bytes(other)
    assert {_serial(other)} == _trusted(found)


def test_a_client_certificate_that_is_replaced_is_shown(file: Path) -> None:
    """With its key, once both are there: a pair that does not match leaves the last in use."""
    folder, other = file.parent, issue(["localhost"], datetime(2026, 2, 1, tzinfo=UTC))
    user = {"client-certificate": "client.crt", "client-key": "client.key"}
    found = access(_write(file, user, **{"certificate-authority": "ca.crt"}))
    first = found.tls()

    (folder / "client.crt").write_bytes(other.certificate)
    assert found.tls() is first
    (folder / "client.key").write_bytes(other.key)
    assert found.tls() is not first
