"""A cluster in memory whose API programs of others use: its address, its kubeconfig, and where these programs are."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from tests.support.playground import Json, Playground, nodes
from tests.support.ports import HOST, free_port

from tierwise.apiserver.app import add_api
from tierwise.apiserver.life import alive
from tierwise.runtime.listener import listening

ROOT = Path(__file__).parents[2]


@contextmanager
def served(ground: Playground) -> Iterator[str]:
    """The address of the API of a cluster, in which nothing happens by itself."""
    app = web.Application()
    add_api(app, ground.api)
    port = free_port()
    with listening(app, HOST, port):
        yield f"http://{HOST}:{port}"


def kubeconfig_of(folder: Path, url: str) -> Path:
    """A kubeconfig in a folder, for whoever asks."""
    file = folder / "kubeconfig"
    named: dict[str, Any] = {"cluster": {"server": url}, "user": {}, "context": {"cluster": "up", "user": "up"}}
    listed = {f"{kind}s": [{"name": "up", kind: body}] for kind, body in named.items()}
    file.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", "current-context": "up", **listed}))
    return file


def program_of(name: str) -> str:
    """One on the path, or the one that was built beside the control plane; skipped where there is none."""
    found = os.environ.get(name.upper()) or shutil.which(name)
    if found:
        return found
    built = subprocess.run(
        [ROOT / "tools/control_plane", "--no-build", "--with", name], capture_output=True, text=True, check=False
    )
    if built.returncode:
        pytest.skip(built.stderr.strip())
    return f"{built.stdout.strip()}/{name}"


@contextmanager
def living(folder: Path, *objects: Json) -> Iterator[Path]:
    """The kubeconfig of a cluster that lives by the machine's clock."""
    ground = Playground([*nodes("n0", "n1", cpu="16"), *objects], real_time=True)
    told: list[str] = []
    with served(ground) as url, alive(ground.cluster, ground.simulation, tell=told.append):
        yield kubeconfig_of(folder, url)
    assert [] == told
