"""The state of a real cluster, for verbs that are given no files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from tierwise.cli.options import option

if TYPE_CHECKING:
    from tierwise.api.codec import Raw
    from tierwise.port import Objects

__all__ = ["LiveCluster", "live_objects", "live_state"]


class LiveCluster(msgspec.Struct, frozen=True, kw_only=True):
    """Which cluster a verb reads."""

    kubeconfig: str | None = option("--kubeconfig FILE", "Kubeconfig; as kubectl finds it.")
    context: str | None = option("--context NAME", "Context of the kubeconfig.")


def live_state(cluster: LiveCluster) -> list[Raw]:
    """Every object of a cluster, and the moment of the look, as `snapshot` saves them."""
    import asyncio
    import time

    from tierwise.cli.connection import connect
    from tierwise.cli.progress import show_progress
    from tierwise.manifests.saved import saved

    access = connect(cluster.kubeconfig, cluster.context, in_cluster=False)
    from tierwise.kube.once import list_once

    left_out: list[str] = []
    with show_progress("reading the cluster"):
        now = time.time()
        state = list(saved(asyncio.run(list_once(access, left_out.append)), now))
    for plural in left_out:  # told of a cluster that could be read: else the error says what is missing
        click.echo(f"tierwise: you may not list {plural}: they are left out", err=True)
    return state


def live_objects(cluster: LiveCluster) -> Objects:
    """Objects of a live cluster, decoded."""
    from tierwise.api import codec
    from tierwise.port import Objects

    return Objects.of((codec.decode(raw), raw) for raw in live_state(cluster))
