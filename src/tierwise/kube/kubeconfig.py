"""Kubeconfig files, as kubectl reads them: several are merged, and the first that says something is right.

What is not understood is refused, impersonation and the authentication providers that kubectl has given up included:
to connect as another user than the file means is worse than not to connect.
"""

from __future__ import annotations

import os
from base64 import b64decode
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import msgspec

from tierwise.api.errors import InputError, suggestion

__all__ = ["Server", "User", "is_address", "load"]

_LISTS: Final = ("clusters", "users", "contexts")

T = TypeVar("T", bound="_Entry")


class _Entry(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A cluster or user; `file` and `at` are its place, for messages."""

    file: str = msgspec.field(default="", name="(file)")
    at: str = msgspec.field(default="", name="(at)")

    def wrong(self, field: str, error: object) -> InputError:
        """Error for one of the entry's fields, with its place."""
        cause = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return InputError(cause, file=self.file, field=f"{self.at}.{field}")

    def content(self, field: str, data: str, path: str) -> bytes:
        """The bytes of a kubeconfig field: data decoded from base64 where it is given, else the content of the file at
        path, b"" where both are empty. field is its name for errors, which say that data is not base64 or the file
        cannot be read.
        """
        try:
            if data:
                return b64decode(data, validate=True)
            return Path(path).read_bytes() if path else b""
        except ValueError:
            raise self.wrong(f"{field}-data", "not base64") from None
        except OSError as error:
            raise self.wrong(field, f"{path}: {error.strerror}") from None


class Server(_Entry, frozen=True, rename="kebab"):
    """An entry of `clusters`."""

    server: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    proxy_url: str = ""
    disable_compression: bool = False  # we ask for none
    extensions: list[dict[str, Any]] | None = None

    def authority(self) -> bytes:
        """The certificates to trust; nothing for those of the system."""
        return self.content("certificate-authority", self.certificate_authority_data, self.certificate_authority)


class _Variable(msgspec.Struct, frozen=True):
    name: str
    value: str


class Exec(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A program that gives credentials (client.authentication.k8s.io)."""

    api_version: str
    command: str
    args: list[str] | None = None
    env: list[_Variable] | None = None
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = "IfAvailable"


class User(_Entry, frozen=True, rename="kebab"):
    """An entry of `users`."""

    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    username: str = ""
    password: str = ""
    exec: Exec | None = None
    extensions: object = None

    def certificate(self) -> tuple[bytes, bytes]:
        """The client certificate and its key; nothing where there is none."""
        certificate = self.content("client-certificate", self.client_certificate_data, self.client_certificate)
        key = self.content("client-key", self.client_key_data, self.client_key)
        if bool(certificate) != bool(key):
            raise self.wrong("client-certificate", "a certificate and its key belong together")
        return certificate, key


def _usual_files() -> list[Path]:
    """Existing files of KUBECONFIG, or the one in the home folder. Raises InputError if there is none."""
    named = [name for name in os.environ.get("KUBECONFIG", "").split(os.pathsep) if name]
    paths = [Path(name).expanduser() for name in named or ["~/.kube/config"]]
    files = [path for path in paths if path.exists()]
    if not files:
        raise InputError("no such file", file=os.pathsep.join(named) or "~/.kube/config")
    return files


def load(kubeconfig: str | None, context: str | None) -> tuple[Server, User]:
    """The cluster and the user of a context; InputError where they cannot be used.

    Without a file these are the files of KUBECONFIG, then the one in the home folder, and those that are missing are
    left out; a file that is named must be there.
    """
    files = [Path(kubeconfig).expanduser()] if kubeconfig else _usual_files()
    merged: dict[str, dict[str, tuple[Path, Any]]] = {name: {} for name in _LISTS}
    current = context or ""
    for file in files:
        config = _read(file)
        current = current or str(config.get("current-context") or "")
        for name in _LISTS:
            for entry in _list(file, name, config.get(name)):
                merged[name].setdefault(entry["name"], (file, entry.get(name[:-1]) or {}))
    place = os.pathsep.join(str(file) for file in files)
    if not current:
        raise InputError("no context is chosen: the file names none as current-context", file=place)
    names = _chosen(merged, "contexts", current, place)[1]
    server = _entry(Server, merged, "clusters", str(names.get("cluster") or ""), place)
    user = _entry(User, merged, "users", str(names["user"]), place) if names.get("user") else User()
    _check(server, user)
    return server, user


def _read(file: Path) -> dict[str, Any]:
    import yaml

    try:
        content = yaml.safe_load(file.read_bytes())
    except OSError as error:
        raise InputError(error.strerror or str(error), file=str(file)) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InputError(f"not YAML: {error}", file=str(file)) from None
    if not isinstance(content, dict):
        raise InputError("not a kubeconfig", file=str(file))
    return content


def _list(file: Path, name: str, value: object) -> list[dict[str, Any]]:
    if value is None:
        return []
    entries: list[Any] = value if isinstance(value, list) else [None]
    seen: set[str] = set()
    for number, entry in enumerate(entries):
        named = isinstance(entry, dict) and isinstance(entry.get("name"), str)
        if not named or not isinstance(entry.get(name[:-1]) or {}, dict):
            raise InputError(f"not an entry with a name and a {name[:-1]}", file=str(file), field=f"{name}[{number}]")
        if entry["name"] in seen:
            raise InputError("this name is given twice", file=str(file), field=f"{name}[{entry['name']}]")
        seen.add(entry["name"])
    return entries


def _chosen(
    merged: dict[str, dict[str, tuple[Path, Any]]], kind: str, name: str, place: str
) -> tuple[Path, dict[str, Any]]:
    by_name = merged[kind]
    if name not in by_name:
        raise InputError(f"there is no {kind[:-1]} {name!r}{suggestion(name, by_name)}", file=place)
    return by_name[name]


def _entry(kind: type[T], merged: dict[str, dict[str, tuple[Path, Any]]], part: str, name: str, place: str) -> T:
    """An entry, typed; paths in it are relative to its file."""
    file, entry = _chosen(merged, part, name, place)
    at = f"{part}[{name}]"
    fields = {field.encode_name for field in msgspec.structs.fields(kind)}
    for field in entry:
        if field == "auth-provider":
            raise InputError("no longer done by kubectl either: use exec", file=str(file), field=f"{at}.{field}")
        if field == "as" or str(field).startswith("as-"):
            raise InputError("impersonation is not supported", file=str(file), field=f"{at}.{field}")
        if field not in fields:
            raise InputError(f"not understood{suggestion(str(field), fields)}", file=str(file), field=f"{at}.{field}")
    paths = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
    moved: dict[str, Any] = {
        path: str(file.parent / entry[path]) for path in paths if isinstance(entry.get(path), str) and entry[path]
    }
    if isinstance(program := entry.get("exec"), dict) and os.sep in str(program.get("command", "")):
        moved["exec"] = {**program, "command": str(file.parent / str(program["command"]))}
    try:
        return msgspec.convert({**entry, **moved, "(file)": str(file), "(at)": at}, kind)
    except msgspec.ValidationError as error:
        raise InputError(str(error), file=str(file), field=at) from None


def _check(server: Server, user: User) -> None:
    """Raise for entries that contradict each other or cannot be used."""
    _check_address(server, "server", server.server)
    if server.insecure_skip_tls_verify and (server.certificate_authority or server.certificate_authority_data):
        raise server.wrong("insecure-skip-tls-verify", "excludes certificate-authority")
    if server.proxy_url and not server.proxy_url.startswith(("http://", "https://")):
        raise server.wrong("proxy-url", "only http and https proxies are supported")
    if server.proxy_url:
        _check_address(server, "proxy-url", server.proxy_url)
    if user.username and (user.token or user.token_file):
        raise user.wrong("username", "excludes token and tokenFile")
    if user.exec is not None and not user.exec.api_version.startswith("client.authentication.k8s.io/v1"):
        raise user.wrong("exec.apiVersion", f"{user.exec.api_version} is not supported")


def is_address(text: str) -> bool:
    """Whether a text is an address of HTTP: a host and perhaps a port that is one, without spaces and the like."""
    try:
        parts = urlsplit(text)
        named = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return named and text.isprintable() and " " not in text


def _check_address(server: Server, field: str, address: str) -> None:
    if not address.startswith(("http://", "https://")):
        raise server.wrong(field, f"{address!r} is not an address that begins with http:// or https://")
    if not is_address(address):
        raise server.wrong(field, f"{address!r} is not the address of a host and a port")
