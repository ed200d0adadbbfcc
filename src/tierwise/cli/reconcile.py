"""`tierwise reconcile`: the controllers without the scheduler."""

from __future__ import annotations

from tierwise.cli.inputs import Manifests, tell_crashes
from tierwise.cli.options import Output, verb

__all__ = ["reconcile"]


@verb("""
  tierwise reconcile -f job.yaml
  tierwise reconcile -f job.yaml -o json | jq '.objects[] | select(.kind == "PodGroup")'
""")
def reconcile(*, inputs: Manifests, output: Output) -> None:
    """Run the controllers until they have nothing more to do, and show what they made and changed.

    JSON holds every changed or created object, whole, events included. Nothing is scheduled.
    """
    from tierwise.cli.progress import show_progress
    from tierwise.explain.text.reconcile import change_lines, event_lines
    from tierwise.sim.cluster import driver
    from tierwise.sim.cluster.store import EmbeddedCluster

    objects, profile, time, _ = inputs.read(places=False)
    cluster = EmbeddedCluster(objects)
    with show_progress("running the controllers"):
        guard = driver.reconcile(cluster, time, profile)
    tell_crashes(guard)
    output.show(
        lambda: {"objects": [*cluster.changed(), *cluster.told()]},
        lambda page: [
            *change_lines(page, objects, cluster.read(), cluster.touched),
            *event_lines(page, cluster.events),
        ],
    )
