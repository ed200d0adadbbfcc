"""Gangs of several namespaces, for tests of what they take from each other."""

from __future__ import annotations

from collections.abc import Mapping

from tests.support.draw import Gang, World, groups

from tierwise.api import codec
from tierwise.port import Objects

__all__ = ["dear_gang", "in_namespaces"]


def in_namespaces(world: World, gangs: Mapping[str, Gang]) -> Objects:
    """A cluster and one gang for each `namespace/name`; the name in the key is the gang's own."""
    manifests = list(world.manifests)
    for key, each in gangs.items():
        own = key.partition("/")[0]
        for one in each.manifests():
            metadata = one["metadata"]
            assert isinstance(metadata, dict)
            manifests.append({**one, "metadata": {**metadata, "namespace": own}})
    return Objects.of((codec.decode(one), one) for one in manifests)


def dear_gang(name: str, *, created: int = 0) -> Gang:
    """A gang of sub-groups of several sizes and shapes, which takes long to search for and fits no rack of ten
    nodes with eight GPUs.
    """
    parts = (
        groups(2, 9, name="a", each="gpu=3 cpu=6", within=1),
        groups(6, 4, name="b", each="gpu=3 cpu=8", within=1),
        groups(3, 9, name="c", each="gpu=5", within=1),
        groups(7, 8, name="d", each="gpu=5 cpu=20", within=1),
        groups(3, 14, name="e", each="gpu=4 cpu=27 mem=167", within=1),
    )
    return Gang(name, groups=parts, within=2, created=created)
