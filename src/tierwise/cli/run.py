"""`tierwise run` and `tierwise controllers`: the engine on a real cluster."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

if TYPE_CHECKING:
    from tierwise.kube.auth import Access
    from tierwise.kube.cluster import Options
    from tierwise.runtime.loop import Duty, Observer

__all__ = [
    "access_options",
    "controllers",
    "duties_of",
    "listen_option",
    "log_option",
    "missing",
    "place_option",
    "reach",
    "run",
]

F = TypeVar("F", bound=Callable[..., object])


def access_options(command: F) -> F:
    """How to reach the cluster."""
    for option in (
        click.option("--context", metavar="NAME", help="Context of the kubeconfig.  [default: the current one]"),
        click.option("--in-cluster", is_flag=True, help="Use the service account of the pod that this runs in."),
        click.option(
            "--kubeconfig",
            metavar="FILE",
            type=click.Path(),
            help="Kubeconfig.  [default: as kubectl finds it; the service account where there is none]",
        ),
    ):
        command = option(command)
    return command


def _place(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, int] | None:
    try:
        from tierwise.runtime.listener import place
    except ImportError as error:
        raise missing(error) from None
    try:
        return None if value is None else place(value)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None


def missing(error: ImportError) -> click.UsageError:
    """What to say where the libraries for clusters and servers are not installed."""
    return click.UsageError(f"{error.name} is missing: install tierwise with the extra `kube`")


def place_option(**settings: Any) -> Callable[[F], F]:
    """--listen, as host and port; the settings are those of any option."""
    return click.option("--listen", callback=_place, metavar="HOST:PORT", **settings)


def listen_option(command: F) -> F:
    """--listen: where to tell how we are."""
    return place_option(
        help="Serve /metrics, /healthz and /readyz there, and /debug/cycle where there are cycles.",
    )(command)


def log_option(command: F) -> F:
    """--log-level: how much to write."""
    return click.option(
        "--log-level",
        type=click.Choice(["debug", "info", "warning", "error"]),
        default="info",
        show_default=True,
        help="What to write to standard error, as JSON lines.",
    )(command)


def _service_options(command: F) -> F:
    """What scheduler and controllers have in common."""
    for option in (
        log_option,
        listen_option,
        click.option(
            "--lease-duration",
            type=click.FloatRange(min=1.5),
            default=15.0,
            show_default=True,
            metavar="SECONDS",
            help="How long others wait for a leader that is silent.",
        ),
        click.option(
            "--lease-namespace",
            metavar="NAME",
            help="Where the lease is.  [default: the namespace that this runs in, else kube-system]",
        ),
        click.option("--lease-name", metavar="NAME", help="Which lease the leader holds.  [default: by the command]"),
        click.option("--no-leader-election", is_flag=True, help="Act without holding a lease: there is no other."),
        click.option(
            "--period",
            type=click.FloatRange(min=0.1),
            default=5.0,
            show_default=True,
            metavar="SECONDS",
            help="Look again after so long even where nothing has changed.",
        ),
        click.option(
            "--discovery-files",
            type=click.Path(path_type=Path),
            metavar="DIR",
            help="Topology sources that are files may be below this folder.  [default: they are refused]",
        ),
    ):
        command = option(command)
    return command


@click.command(
    epilog="""\b
Examples:
  tierwise run --kubeconfig ~/.kube/config --no-leader-election
  tierwise run --in-cluster --scheduler-name tierwise --scheduler-name volcano
  tierwise run --config volcano-scheduler.conf --profile batch=batch.conf
"""
)
@access_options
@click.option(
    "--scheduler-name",
    "names",
    multiple=True,
    metavar="NAME",
    help="Schedule pods that ask for this scheduler. May be repeated.  [default: as configured, else tierwise]",
)
@click.option(
    "--config",
    "config_file",
    type=click.Path(),
    metavar="FILE",
    help="Scheduler configuration: Volcano's format, or a KubeSchedulerConfiguration.",
)
@click.option(
    "--profile",
    "profiles",
    multiple=True,
    metavar="NAME=FILE",
    help="Schedule pods that ask for scheduler NAME by a configuration of their own. May be repeated.",
)
@click.option("--no-controllers", is_flag=True, help="Only schedule: `tierwise controllers` runs elsewhere.")
@click.option(
    "--evict-by",
    type=click.Choice(["eviction", "delete"]),
    default="eviction",
    show_default=True,
    help="Evict through the Eviction API, which honours disruption budgets, or delete.",
)
@click.option(
    "--pages",
    "with_pages",
    is_flag=True,
    help="With --listen: serve the pages of `tierwise serve` there (/), with the last cycles, to whoever reaches it.",
)
@_service_options
def run(
    kubeconfig: str | None,
    in_cluster: bool,
    context: str | None,
    names: tuple[str, ...],
    config_file: str | None,
    profiles: tuple[str, ...],
    no_controllers: bool,
    evict_by: str,
    with_pages: bool,
    period: float,
    no_leader_election: bool,
    lease_name: str | None,
    lease_namespace: str | None,
    lease_duration: float,
    listen: tuple[str, int] | None,
    log_level: str,
    discovery_files: Path | None,
) -> None:
    """Schedule the pods of a cluster, and run the controllers, until told to end.

    Pods of other schedulers are left alone, and count as used where they run. Several of these may run at once: one
    holds the lease and acts, the others wait with filled caches. SIGTERM ends after the binds under way.
    """
    if with_pages and listen is None:
        raise click.UsageError("--pages needs --listen: that is where they are served")
    duties = duties_of(names, config_file, profiles)
    access = reach(kubeconfig, context, in_cluster=in_cluster)
    lease = None if no_leader_election else (lease_name or "tierwise", lease_namespace, lease_duration)
    options = _options("tierwise", lease, by_eviction=evict_by == "eviction")
    _set_up(log_level)
    served = _Served(listen, with_pages)
    _serve(
        access,
        options,
        duties,
        with_controllers=not no_controllers,
        period=period,
        served=served,
        files=discovery_files,
    )


@click.command(
    epilog="""\b
Examples:
  tierwise controllers --in-cluster
  tierwise controllers --kubeconfig ~/.kube/config --no-leader-election
"""
)
@access_options
@_service_options
def controllers(
    kubeconfig: str | None,
    in_cluster: bool,
    context: str | None,
    period: float,
    no_leader_election: bool,
    lease_name: str | None,
    lease_namespace: str | None,
    lease_duration: float,
    listen: tuple[str, int] | None,
    log_level: str,
    discovery_files: Path | None,
) -> None:
    """Run the controllers on a cluster without the scheduler, until told to end.

    They make podGroups and pods of Volcano jobs, hyperNodes from node labels, and keep status. `tierwise run` does the
    same unless it is told not to.
    """
    access = reach(kubeconfig, context, in_cluster=in_cluster)
    lease = None if no_leader_election else (lease_name or "tierwise-controllers", lease_namespace, lease_duration)
    options = _options("tierwise-controllers", lease, by_eviction=True)
    _set_up(log_level)
    _serve(access, options, [], with_controllers=True, period=period, served=_Served(listen), files=discovery_files)


def reach(kubeconfig: str | None, context: str | None, *, in_cluster: bool) -> Access:
    """The access to a cluster that the options ask for."""
    try:
        from tierwise.kube import auth
    except ImportError as error:
        raise missing(error) from None
    if in_cluster and (kubeconfig or context):
        raise click.UsageError("--in-cluster stands alone: a kubeconfig is not read then")
    from_pod = not kubeconfig and not context and "KUBERNETES_SERVICE_HOST" in os.environ
    if in_cluster or (from_pod and not Path("~/.kube/config").expanduser().exists()):
        return auth.in_cluster()
    return auth.access(kubeconfig, context)


def duties_of(names: tuple[str, ...], config_file: str | None, profiles: tuple[str, ...]) -> list[Duty]:
    """Scheduler names and their profiles, as the options say."""
    from tierwise.cli.inputs import profile_of
    from tierwise.runtime.loop import Duty

    own: dict[str, str] = {}
    for given in profiles:
        name, equals, file = given.partition("=")
        if not (name and equals and file):
            raise click.UsageError(f"--profile takes NAME=FILE, not {given}")
        own[name] = file
    profile = profile_of(config_file)
    # A KubeSchedulerConfiguration names its schedulers itself.
    usual = () if own and config_file is None else profile.schedulers or ("tierwise",)
    rest = frozenset(names or usual).difference(own)
    duties = [Duty(rest, profile)] if rest else []
    return duties + [Duty(frozenset({name}), profile_of(file)) for name, file in own.items()]


def _options(component: str, lease: tuple[str, str | None, float] | None, *, by_eviction: bool) -> Options:
    from tierwise.kube.auth import own_namespace
    from tierwise.kube.cluster import Options
    from tierwise.kube.lease import LeaseOptions, LeaseTimes

    if lease is None:
        return Options(component, by_eviction=by_eviction)
    name, namespace, duration = lease
    identity = f"{socket.gethostname()}_{os.getpid()}"
    times = LeaseTimes(duration, deadline=duration * 2 / 3, retry=duration * 2 / 15)
    found = LeaseOptions(name, namespace or own_namespace("kube-system"), identity, times)
    return Options(component, by_eviction=by_eviction, lease=found)


def _set_up(log_level: str) -> None:
    from tierwise.runtime.logs import set_up

    set_up(sys.stderr, log_level)


class _Served(msgspec.Struct, frozen=True):
    """What is told over HTTP: nothing without a place; metrics and probes, and perhaps the pages."""

    place: tuple[str, int] | None
    pages: bool = False


def _serve(
    access: Access,
    options: Options,
    duties: list[Duty],
    *,
    with_controllers: bool,
    period: float,
    served: _Served,
    files: Path | None,
) -> None:
    from tierwise.kube.cluster import KubeCluster
    from tierwise.runtime.listener import listening
    from tierwise.runtime.metrics import registry
    from tierwise.runtime.probes import probes
    from tierwise.runtime.service import Pace, Service
    from tierwise.runtime.telemetry import Telemetry
    from tierwise.web.app import add_pages
    from tierwise.web.turns import Turns

    cluster, found = KubeCluster(access, options), registry()
    told, turns = Telemetry(found, cluster), Turns(access.server)
    observers: list[Observer] = [told, turns] if served.pages else [told]
    service = Service(
        cluster, duties, with_controllers=with_controllers, pace=Pace(period), observers=observers, files=files
    )
    if served.place is None:
        service.run()
        return
    app = probes(found, live=service.live, ready=service.ready, refresh=told.refresh, last=told.last)
    if served.pages:
        add_pages(app, turns)
    with listening(app, *served.place):
        service.run()
