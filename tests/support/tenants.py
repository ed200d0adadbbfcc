"""Clusters that several namespaces share, and a reviewer who knows their users, for tests of answers to tenants."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tests.support.draw import Gang, World

from tierwise.answers.reviews import Person, Right
from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.port import Objects

__all__ = ["KnownUsers", "in_namespace", "shared_objects"]


def in_namespace(manifests: Iterable[Raw], namespace: str) -> list[Raw]:
    """The manifests, moved to a namespace."""
    moved = []
    for manifest in manifests:
        metadata = manifest["metadata"]
        assert isinstance(metadata, dict)
        moved.append({**manifest, "metadata": {**metadata, "namespace": namespace}})
    return moved


def shared_objects(world: World, gangs: Mapping[str, Iterable[Gang]]) -> Objects:
    """A cluster with the gangs of each namespace."""
    manifests = [*world.manifests]
    for namespace, gangs_there in gangs.items():
        for gang in gangs_there:
            manifests += in_namespace(gang.manifests(), namespace)
    return Objects.of((codec.decode(manifest), manifest) for manifest in manifests)


class KnownUsers:
    """Knows the token "t-NAME" of each user, who may list the pods of some namespaces and get some queues."""

    def __init__(self, namespaces: Mapping[str, Iterable[str]], queues: Mapping[str, Iterable[str]] | None = None):
        self._namespaces = {user: frozenset(names) for user, names in namespaces.items()}
        self._queues = {user: frozenset(names) for user, names in (queues or {}).items()}
        self.tokens: list[str] = []
        self.rights: list[tuple[str, Right]] = []

    def knows(self, token: str) -> bool:
        return token.removeprefix("t-") in self._namespaces

    async def person(self, token: str) -> Person | None:
        self.tokens.append(token)
        name = token.removeprefix("t-")
        return Person(name) if name in self._namespaces else None

    async def may(self, person: Person, right: Right) -> bool:
        self.rights.append((person.name, right))
        if right.resource == "queues":
            return right.name in self._queues.get(person.name, ())
        return right.namespace in self._namespaces[person.name]
