"""`tierwise up`: a cluster in memory that a stock kubectl works against, with the page beside it."""

from __future__ import annotations

import contextlib
import math
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tierwise.api.duration import spelled
from tierwise.api.errors import InputError
from tierwise.api.manifest import manifest
from tierwise.cli import options
from tierwise.cli.connection import place
from tierwise.cli.options import Journal, option, verb
from tierwise.cli.pages import NAME, PLACE, hosts, opening, until_interrupted
from tierwise.cli.run import scheduler_profile, told, writing

if TYPE_CHECKING:
    from aiohttp import web

    from tierwise.api.codec import Raw
    from tierwise.config.profile import Profile
    from tierwise.port import Objects
    from tierwise.runtime.access import Access
    from tierwise.runtime.profile_run import Observer
    from tierwise.sim.cluster.pod_behaviour import PodSpeed

__all__ = ["up"]

_NODES = 32
"""Nodes of the cluster where no manifests are given."""


def _run_time(text: str) -> float:
    return math.inf if text == "inf" else options.seconds(text)


def _after(lasting: int | None, speed: float) -> str:
    if lasting is None:
        return "when they are deleted"
    return f"after {spelled(math.ceil(lasting / speed))}"


@verb(
    """
  tierwise up
  tierwise up -f examples/01-llm-training --speed 60
  tierwise up -f cluster.yaml --kubeconfig up.kubeconfig
  kubectl --kubeconfig up.kubeconfig apply -f job.yaml
""",
    decides=True,
)
def up(
    *,
    filenames: tuple[str, ...] = options.optional_filenames,
    nodes: int | None = options.nodes,
    config_file: str | None = options.config,
    listen: tuple[str, int] = place("Address of the API and of the page.", PLACE),
    speed: float = option(
        "--speed N", "How many times as fast as they ask for pods start, run and stop.", default=1.0, above=0
    ),
    run_for: float = option(
        "--run-for TIME",
        "How long pods run that are meant to end (restartPolicy Never or OnFailure) and do not say, as in 90s or 2h;"
        " inf for until they are deleted.",
        default="5m",
        read=_run_time,
    ),
    kubeconfig: str | None = option(
        "--kubeconfig FILE", "Write the kubeconfig there.  [default: print it]", kind=click.Path(dir_okay=False)
    ),
    journal: Journal,
    names: tuple[str, ...] = hosts,
) -> None:
    """Run a cluster in memory, with the API of Kubernetes for kubectl and a page for a browser, until Ctrl-C.

    Scheduler, controllers and admission are those of a real cluster; kubelets are simulated, and pods run for as long
    as their annotation tierwise.io/run-for says, or as --run-for says of those that are meant to end. The cluster
    begins with the manifests, or with 32 nodes of 8 GPUs in 8 racks. It is open to this machine alone; where --listen
    or --host says otherwise, to those with the token of the kubeconfig.
    """
    from tierwise.cli.inputs import introduce, load, profile_of, tell_no_nodes, with_nodes
    from tierwise.runtime.listener import listening
    from tierwise.sim.cluster.pod_behaviour import RUN_FOR, PodSpeed
    from tierwise.web.live import LiveRuns

    profile = profile_of(config_file)
    objects = with_nodes(load(filenames), nodes) if filenames else _small_cluster(nodes or _NODES)
    if filenames:
        introduce(objects)
        tell_no_nodes(objects)
    opened = opening(listen, names)
    url = opened.url
    token = opened.access.token
    config = _kubeconfig(url, token, opened.authority)
    words = ["--kubeconfig", kubeconfig or "FILE", *(["--config", config_file] if config_file else [])]
    lasting = None if math.isinf(run_for) else math.ceil(run_for)
    ends = f"pods that are meant to end do so {_after(lasting, speed)}, unless {RUN_FOR} says otherwise"
    runs = LiveRuns(f"a cluster in memory; {ends}", shlex.join(words))
    timing = PodSpeed(speed, lasting)
    with contextlib.ExitStack() as stack:
        observers = [runs, *stack.enter_context(writing(journal, [scheduler_profile(profile)]))]
        app = stack.enter_context(_served(objects, profile, timing, observers, opened.access))
        stack.enter_context(listening(app, *opened.listen, opened.tls))
        if kubeconfig is None:
            click.echo(config, nl=False)
        else:
            _write(kubeconfig, config)
        until_interrupted(
            f"{opened.page} is open: a page for a browser, and the API for kubectl; Ctrl-C ends it",
            ends,
            f"try: kubectl {_how(kubeconfig, url, token)} get nodes,pods -A",
        )


def _how(kubeconfig: str | None, url: str, token: str) -> str:
    if kubeconfig is not None:
        return f"--kubeconfig {kubeconfig}"
    return "--kubeconfig FILE" if token else f"-s {url}"


@contextlib.contextmanager
def _served(
    objects: Objects, profile: Profile, timing: PodSpeed, observers: Sequence[Observer], access: Access
) -> Iterator[web.Application]:
    """A cluster that lives, as an application; the first observer is what the page shows."""
    import time

    from aiohttp import web
    from msgspec.structs import replace

    from tierwise.apiserver.app import MOST_BYTES, add_api, refused
    from tierwise.apiserver.life import alive, life_of
    from tierwise.apiserver.objects import ObjectApi
    from tierwise.apiserver.store import ServedCluster
    from tierwise.cli.main import report_error
    from tierwise.runtime.access import guarded
    from tierwise.web.app import MANIFESTS, add_pages
    from tierwise.web.live import LiveRuns

    access = replace(access, cookie_writes=(MANIFESTS,))
    cluster = ServedCluster(objects, time.time)
    simulation = life_of(cluster, profile, float(math.floor(time.time())), timing, told(observers, profile))
    app = web.Application(middlewares=[guarded(access, refuse=refused)], client_max_size=MOST_BYTES)
    runs = observers[0]
    assert isinstance(runs, LiveRuns)
    add_pages(app, runs, record=True)
    add_api(app, ObjectApi(cluster))
    with alive(cluster, simulation, tell=report_error, looked=runs.looked):
        yield app


def _kubeconfig(url: str, token: str, authority: bytes) -> str:
    import base64

    import yaml

    cluster: Raw = {"server": url}
    if authority:
        cluster |= {"certificate-authority-data": base64.b64encode(authority).decode(), "tls-server-name": NAME}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": NAME, "cluster": cluster}],
        "users": [{"name": NAME, "user": {"token": token} if token else {}}],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME, "namespace": "default"}}],
        "current-context": NAME,
    }
    text: str = yaml.safe_dump(config, sort_keys=False)
    return text


def _write(file: str, text: str) -> None:
    """A file that only its owner may read."""
    from tierwise.runtime.private_file import private_file

    try:
        with private_file(Path(file)) as target:
            target.write(text.encode())
    except OSError as error:
        raise InputError(error.strerror or str(error), file=file) from None


def _small_cluster(nodes: int) -> Objects:
    """Sample nodes below racks and spines, a storage class and a queue."""
    from tierwise.cli.inputs import with_nodes
    from tierwise.port import Objects, key_of_raw

    usual = {"storageclass.kubernetes.io/is-default-class": "true"}
    how = {"provisioner": "simulated", "reclaimPolicy": "Delete", "volumeBindingMode": "WaitForFirstConsumer"}
    queue = {"weight": 1, "reclaimable": True}
    raws = (
        manifest("storage.k8s.io/v1", "StorageClass", "standard", marks=usual, **how),
        manifest("scheduling.volcano.sh/v1beta1", "Queue", "default", spec=queue),
    )
    return with_nodes(Objects().changed({key_of_raw(raw): raw for raw in raws}), nodes)
