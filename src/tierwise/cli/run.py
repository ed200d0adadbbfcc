"""`tierwise run` and `tierwise controllers`: the engine on a real cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tierwise.cli.reach import access_options, reach
from tierwise.cli.service import Manner, connected, serve, service_options

if TYPE_CHECKING:
    from tierwise.runtime.loop import Duty

__all__ = ["controllers", "duties_of", "run"]


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
@service_options
def run(
    manner: Manner,
    kubeconfig: str | None,
    in_cluster: bool,
    context: str | None,
    names: tuple[str, ...],
    config_file: str | None,
    profiles: tuple[str, ...],
    no_controllers: bool,
    evict_by: str,
    with_pages: bool,
) -> None:
    """Schedule the pods of a cluster, and run the controllers, until told to end.

    Pods of other schedulers are left alone, and count as used where they run. Several of these may run at once: one
    holds the lease and acts, the others wait with filled caches. SIGTERM ends after the binds under way.
    """
    if with_pages and manner.listen is None:
        raise click.UsageError("--pages needs --listen: that is where they are served")
    access = reach(kubeconfig, context, in_cluster=in_cluster)
    with connected(access, manner, component="tierwise", by_eviction=evict_by == "eviction") as cluster:
        duties = duties_of(names, config_file, profiles)
        serve(cluster, manner, duties, with_controllers=not no_controllers, pages=access.server if with_pages else "")


@click.command(
    epilog="""\b
Examples:
  tierwise controllers --in-cluster
  tierwise controllers --kubeconfig ~/.kube/config --no-leader-election
"""
)
@access_options
@service_options
def controllers(manner: Manner, kubeconfig: str | None, in_cluster: bool, context: str | None) -> None:
    """Run the controllers on a cluster without the scheduler, until told to end.

    They make podGroups and pods of Volcano jobs, hyperNodes from node labels, and keep status. `tierwise run` does the
    same unless it is told not to.
    """
    access = reach(kubeconfig, context, in_cluster=in_cluster)
    with connected(access, manner, component="tierwise-controllers") as cluster:
        serve(cluster, manner, [])


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
