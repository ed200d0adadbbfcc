"""`tierwise eta`: the place of waiting jobs in their queues, and when they are expected to start."""

from __future__ import annotations

from tierwise.api.errors import InputError
from tierwise.cli.ask import AnswersService, ask_for, check_may_ask_instead
from tierwise.cli.inputs import Inputs
from tierwise.cli.options import ListOutput, argument, option, verb

__all__ = ["eta"]


@verb(
    """
  tierwise eta -f cluster.yaml -f jobs.yaml
  tierwise eta -f state.json team-a/train team-a/eval
  kubectl tierwise eta team-a/train
  kubectl tierwise eta -o jsonpath='{range .jobs[*]}{.podGroup} {.start}{"\\n"}{end}'
""",
    decides=True,
)
def eta(
    *,
    jobs: tuple[str, ...] = argument("[JOB]..."),
    inputs: Inputs,
    runs: int | None = option(
        "--runs", "Number of simulated futures if the ends of jobs are uncertain.  [default: 21]", least=1, most=1001
    ),
    seed: int = option("--seed", "Seed of the random ends of jobs.", default=1, least=0),
    service: AnswersService,
    output: ListOutput,
) -> None:
    """Say when the JOBs that wait, or all of them, are expected to start, and what that depends on.

    Runs the scheduler's cycle ahead on a virtual clock, with the expected ends of jobs: as stated
    (tierwise.io/expected-duration), by their queue, by the history of like jobs, or by their deadline. With a JOB it
    also says what would start it now. The same inputs and seed print the same bytes. Users who may not list the cluster
    are answered by the scheduler (--answers).
    """
    from tierwise.cli.progress import show_progress
    from tierwise.explain.eta import etas_wire
    from tierwise.explain.text.eta import eta_lines
    from tierwise.sim.forecast.eta import RUNS, etas
    from tierwise.sim.what_if.runs import prepared

    try:
        inputs_read = inputs.read()
    except InputError as error:
        check_may_ask_instead(service, error)
        if not jobs:
            raise InputError("name the jobs, which the scheduler is asked about one by one") from None
        for job in jobs:
            namespace, _, name = job.rpartition("/")
            ask_for(service, inputs.source.cluster, output, namespace or "default", "start", name)
        return
    with show_progress("running ahead"):
        number = RUNS if runs is None else runs
        report = etas(prepared(*inputs_read[:3]), names=jobs, runs=number, seed=seed, alternatives=bool(jobs))
    output.show(
        lambda: etas_wire(report),
        lambda page: eta_lines(page, report, each=bool(jobs)),
        lambda: [f"podgroup/{report_shown.name}" for report_shown in report.jobs],
    )
