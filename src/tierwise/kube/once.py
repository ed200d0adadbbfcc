"""Read a cluster once: every object of every known kind that the server serves, as manifests.

For commands that read once and end; long-running processes use `KubeCluster`. It needs only the right to list. Kinds
that may not be listed are named and left out, except for nodes and pods, which are required.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Final

import msgspec

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.core import ObjectMeta
from tierwise.api.errors import InputError, MayNotListError
from tierwise.kube.auth import Access
from tierwise.kube.client import Client
from tierwise.kube.decoding import decoded
from tierwise.kube.errors import ApiError, UnreachableError, understood
from tierwise.kube.kinds import Resource, discover, of_interest
from tierwise.port import Key

__all__ = ["list_once", "pages", "patch_once"]

_PAGE: Final = 5000
_NEEDED: Final = (("", "Node"), ("", "Pod"))


class _Meta(msgspec.Struct, rename={"rest": "continue"}):
    rest: str = ""


class _Page(msgspec.Struct):
    items: list[Raw] | None = None
    metadata: _Meta = msgspec.field(default_factory=_Meta)


_PAGES: Final = msgspec.json.Decoder(_Page)


async def pages(client: Client, path: str, size: int) -> AsyncIterator[list[Raw]]:
    """The items of a list, page by page; an API server leaves out their kind and version."""
    query = {"limit": str(size)}
    while True:
        page = understood(partial(decoded, _PAGES), await client.ask("GET", path, query=query, expects="List"))
        yield page.items or []
        if not page.metadata.rest:
            return
        query["continue"] = page.metadata.rest


async def list_once(access: Access, left_out: Callable[[str], None]) -> list[Raw]:
    """All objects, kind by kind; `left_out` hears of kinds that may not be listed. InputError where it is no use."""
    try:
        async with Client(access) as client:
            served = await discover(client, codec.KINDS)
            lists = [_every(client, resource, left_out) for _, resource in sorted(served.items())]
            return [raw for items in await asyncio.gather(*lists) for raw in items]
    except ApiError as error:
        if error.status == 403:
            hint = "the ClusterRole tierwise-read has all that is needed"
            raise MayNotListError(f"{error} ({hint})", file=access.server) from None
        raise InputError(str(error), file=access.server) from None
    except UnreachableError as error:
        raise InputError(f"the API server cannot be reached: {error}", file=access.server) from None


async def patch_once(access: Access, patches: Sequence[tuple[Key, Raw]]) -> None:
    """Write merge patches, one after the other; InputError where one is refused."""
    try:
        async with Client(access) as client:
            served = await discover(client, codec.KINDS)
            for key, patch in patches:
                resource = served.get((key.group, key.kind))
                if resource is None:
                    raise InputError("the API server does not serve this kind", obj=str(key))
                await client.ask("PATCH", resource.at(key), patch, kind="application/merge-patch+json")
    except ApiError as error:
        raise InputError(str(error), file=access.server) from None
    except UnreachableError as error:
        raise InputError(f"the API server cannot be reached: {error}", file=access.server) from None


async def _every(client: Client, resource: Resource, left_out: Callable[[str], None]) -> list[Raw]:
    """The objects of one kind; the API server leaves kind and version out of the items of a list."""
    about = {"apiVersion": resource.api_version, "kind": resource.kind}
    try:
        every = pages(client, resource.collection, _PAGE)
        return [about | item async for page in every for item in page if _counts(resource, item)]
    except ApiError as error:
        if error.status != 403 or (resource.group, resource.kind) in _NEEDED:
            raise
        left_out(resource.plural)
        return []


def _counts(resource: Resource, item: Raw) -> bool:
    meta = msgspec.convert(item.get("metadata"), ObjectMeta)
    data = item.get("data")
    return of_interest(resource.group, resource.kind, meta, data if isinstance(data, dict) else ())
