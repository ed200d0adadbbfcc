"""`tierwise reconcile`: the controllers without the scheduler."""

from __future__ import annotations

import click

from tierwise.cli import options

__all__ = ["reconcile"]


@click.command(
    epilog="""\b
Examples:
  tierwise reconcile -f job.yaml
  tierwise reconcile -f job.yaml -o json | jq '.objects[] | select(.kind == "PodGroup")'
"""
)
@options.filenames
@options.config
@options.now
@options.everything
@options.output
def reconcile(
    filenames: tuple[str, ...], config_file: str | None, now: float | None, everything: bool, output_format: str
) -> None:
    """Run the controllers until they have nothing more to do, and show what they made and changed.

    JSON holds every changed or created object, whole, events included. Nothing is scheduled.
    """
    from tierwise.cli.inputs import introduce, load, moment, profile_of, tell_crashes
    from tierwise.cli.progress import show_progress
    from tierwise.sim.cluster import driver
    from tierwise.sim.cluster.store import EmbeddedCluster

    profile = profile_of(config_file)
    objects = load(filenames)
    introduce(objects)
    cluster = EmbeddedCluster(objects)
    with show_progress("running the controllers"):
        guard = driver.reconcile(cluster, moment(objects, now), profile)
    tell_crashes(guard)
    if output_format == "json":
        from tierwise.cli.screen import print_json

        print_json({"objects": [*cluster.changed(), *cluster.told()]})
    else:
        from tierwise.cli.screen import print_page
        from tierwise.explain.text.reconcile import change_lines, event_lines

        print_page(
            lambda page: [
                *change_lines(page, objects, cluster.read(), cluster.touched),
                *event_lines(page, cluster.events),
            ],
            everything=everything,
        )
