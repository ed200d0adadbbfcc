"""`tierwise queue`: the jobs that wait, by queue and place, and what makes their order."""

from __future__ import annotations

from tierwise.cli.inputs import Inputs
from tierwise.cli.options import ListOutput, argument, verb

__all__ = ["queue"]


@verb(
    """
  kubectl tierwise queue
  tierwise queue -f cluster.yaml -f jobs.yaml team-a
  tierwise queue -f state.json -o jsonpath='{range .jobs[*]}{.position} {.podGroup}{"\\\\n"}{end}'
""",
    decides=True,
)
def queue(*, queues: tuple[str, ...] = argument("[QUEUE]..."), inputs: Inputs, output: ListOutput) -> None:
    """Show the jobs that wait in all QUEUEs, or in some, in the order in which a cycle serves them.

    The columns are the factors of that order, as the plugins of the profile see each job: what squeue and sprio tell.
    When they start is told by `eta`. Schedules nothing.
    """
    from tierwise.api.errors import InputError, suggestion
    from tierwise.explain.fair_shares import fair_shares_wire, share_lines
    from tierwise.explain.text.queue import places, queue_lines, queue_wire
    from tierwise.scheduler.cycle import open_cycle
    from tierwise.sim.forecast.eta import positions, waiting_snapshot
    from tierwise.sim.forecast.forward import waits
    from tierwise.sim.what_if.runs import prepared

    inputs_read = inputs.read()
    _, snapshot = waiting_snapshot(prepared(*inputs_read[:3]))
    for name in queues:
        if name not in snapshot.queues:
            raise InputError(f"there is no such queue{suggestion(name, snapshot.queues)}", obj=f"Queue {name}")
    waiting = [job for job in snapshot.jobs if waits(job)]
    order = positions(snapshot, inputs_read.profile, waiting)
    opened = open_cycle(snapshot, inputs_read.profile)
    queue_places = places(snapshot, opened.pipeline, order, queues)
    shares = fair_shares_wire(opened.view.usage.standings() if opened.view.usage is not None else {})
    output.show(
        lambda: {**queue_wire(queue_places), **({"shares": shares} if shares else {})},
        lambda page: [*queue_lines(page, queue_places, inputs_read.now), *share_lines(page, shares)],
        lambda: [f"podgroup/{place.name}" for place in queue_places],
    )
