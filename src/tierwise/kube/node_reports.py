"""How a program on a node reports to a cluster: a few small reads, then a write of what has changed.

`report` reads, lets the program inspect its machine, and writes only the difference, so programs that share an object
do not overwrite each other's entries. After a conflict it reads again. It uses no informers: these programs report
rarely, and there is one on every node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, TypeVar
from urllib.parse import quote

import msgspec

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.kube.auth import Access
from tierwise.kube.client import Client, pause
from tierwise.kube.errors import ApiError
from tierwise.kube.once import pages
from tierwise.port import Create, Effect, Key, Objects, PatchStatus, Update, key_of_raw

__all__ = ["NodeView", "report"]

T = TypeVar("T")

_MERGE: Final = "application/merge-patch+json"
_PAGE: Final = 500
_ATTEMPTS: Final = 5


class NodeView(msgspec.Struct, frozen=True):
    """Objects to read: one node, or all nodes if none is named, and optionally a ConfigMap."""

    node: str = ""
    config_map: Key | None = None


async def report(
    access: Access, sight: NodeView, find: Callable[[Objects], T], effects_of: Callable[[Objects, T], Sequence[Effect]]
) -> None:
    """Read, find something out, and write what is wanted then; ApiError and UnreachableError where that fails.

    `find` may take its time, in a thread of its own. `wanted` only judges, and is asked again where another writer has
    written meanwhile.
    """
    async with Client(access) as client:
        objects = await _look(client, sight)
        reports = await asyncio.to_thread(find, objects)
        for attempt in range(_ATTEMPTS):
            try:
                for effect in effects_of(objects, reports):
                    await _write(client, objects, effect)
                return
            except ApiError as error:
                if error.status != 409 or attempt == _ATTEMPTS - 1:
                    raise
            await asyncio.sleep(pause(attempt))
            objects = await _look(client, sight)


async def _look(client: Client, sight: NodeView) -> Objects:
    """Read the ConfigMap before the nodes: the author of each entry is then among the nodes, or deleted."""
    objects_read: list[Raw] = []
    if sight.config_map is not None:
        objects_read += await _one(client, _path(sight.config_map), "ConfigMap")
    if sight.node:
        objects_read += await _one(client, f"/api/v1/nodes/{quote(sight.node)}", "Node")
    else:
        about = {"apiVersion": "v1", "kind": "Node"}
        objects_read += [about | item async for page in pages(client, "/api/v1/nodes", _PAGE) for item in page]
    return Objects.of((codec.decode(raw), raw) for raw in objects_read)


async def _one(client: Client, path: str, kind: str) -> list[Raw]:
    try:
        return [msgspec.json.decode(await client.ask("GET", path, expects=kind), type=Raw)]
    except ApiError as error:
        if error.status == 404:
            return []
        raise


async def _write(client: Client, objects: Objects, effect: Effect) -> None:
    match effect:
        case Create(raw):
            key = key_of_raw(raw)
            await client.send("POST", _path(Key(key.group, key.kind, key.namespace, "")), raw)
        case Update(key, raw):
            before = objects.raw(key) or {}
            # Refused where another has written since we looked: what is gone was judged by that look.
            locked = {"metadata": {"resourceVersion": codec.part(before, "metadata").get("resourceVersion")}}
            await client.ask("PATCH", _path(key), _difference(before, raw) | locked, kind=_MERGE)
        case PatchStatus(key, status):
            body = {"status": _difference(codec.part(objects.raw(key), "status"), status, replaces=False)}
            await client.ask("PATCH", f"{_path(key)}/status", body, kind=_MERGE)
        case _:
            raise AssertionError(f"programs on nodes ask for no {type(effect).__name__}")


def _path(key: Key) -> str:
    if key.kind == "Node":
        return f"/api/v1/nodes/{quote(key.name)}"
    assert key.kind == "ConfigMap"
    return f"/api/v1/namespaces/{quote(key.namespace)}/configmaps" + (f"/{quote(key.name)}" if key.name else "")


def _difference(before: Raw, after: Raw, *, replaces: bool = True) -> Raw:
    """The merge patch from one to the other; where `after` is not whole, fields that it lacks stay."""
    patch: Raw = dict.fromkeys(before.keys() - after.keys()) if replaces else {}
    for name, value in after.items():
        current = before.get(name)
        if isinstance(value, dict) and isinstance(current, dict):
            inner = _difference(current, value)
            if inner:
                patch[name] = inner
        elif value != current:
            patch[name] = value
    return patch
