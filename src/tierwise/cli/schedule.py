"""`tierwise schedule`: load, run controllers and scheduler until nothing changes, show what came of it."""

from __future__ import annotations

from collections.abc import Mapping

from tierwise.cli.inputs import Manifests
from tierwise.cli.options import Output, option, verb

__all__ = ["schedule"]


@verb(
    """
  tierwise schedule -f examples/01-llm-training
  tierwise schedule -f cluster.yaml -f job.yaml --config volcano-scheduler.conf
  kubectl get nodes,pods,podgroups,hypernodes,queues -A -o json | tierwise schedule -f - -o json
""",
    decides=True,
)
def schedule(
    *,
    inputs: Manifests,
    cycles: int | None = option("--cycles N", "Run so many cycles. Default: until nothing changes any more.", least=1),
    names: tuple[str, ...] = option(
        "--scheduler-name NAME", "Place pods of these schedulers alone. May be repeated.  [default: the usual ones]"
    ),
    output: Output,
) -> None:
    """Place the pending pods of the manifests, and show where they went, why there, and why others wait.

    The manifests are loaded into a cluster in memory. Its controllers make the pods of Volcano jobs, the scheduler
    places them gang by gang, and this repeats until nothing changes any more. Nothing outside is touched.
    """
    from tierwise.cli.progress import show_progress
    from tierwise.explain.text.schedule import Run, schedule_lines
    from tierwise.sim.cluster import rounds
    from tierwise.snapshot.builder import Reader

    names = (*names, "") if "default-scheduler" in names else names  # whose pods need not say so
    objects, profile, time, remarks = inputs.read(names)
    reader = Reader(profile, schedulers=frozenset(names)) if names else None
    with show_progress("scheduling", cycles) as progress:
        history = rounds.schedule(objects, profile, now=time, cycles=cycles, progress=progress, reader=reader)
        after = history.after(time)
    run = Run(history.reports, after, profile, history.evictions, history.complaints())

    def wire() -> Mapping[str, object]:
        from tierwise.explain.wire import schedule_wire

        return schedule_wire(
            bindings=history.bindings,
            nominations=history.nominations,
            evictions=run.evictions,
            report=run.last,
            after=after,
            complaints=(*run.complaints, *remarks),
            decisions=run.decisions(),
        )

    output.show(wire, lambda page: schedule_lines(page, run))
