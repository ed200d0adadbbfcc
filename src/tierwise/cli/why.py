"""`tierwise why`: in a few lines, why a pod waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tierwise.cli import options

if TYPE_CHECKING:
    from tierwise.config.profile import Profile
    from tierwise.explain.text.why import PodExplanation
    from tierwise.port import Objects

__all__ = ["why"]


@click.command(
    epilog="""\b
Examples:
  tierwise why -f cluster.yaml -f job.yaml default/train-worker-0
  kubectl tierwise why team-a/train-worker-0
  kubectl tierwise why train-worker-0 -n team-a -o json | jq -r .reason
"""
)
@click.argument("pod", metavar="NAMESPACE/POD")
@click.option("-n", "--namespace", default="default", metavar="NAME", help="Of a pod without one.  [default: default]")
@options.source
@options.config
@options.now
@options.everything
@options.output
def why(
    pod: str,
    namespace: str,
    filenames: tuple[str, ...],
    config_file: str | None,
    now: float | None,
    everything: bool,
    output_format: str,
) -> None:
    """Say where POD stands, would go now, or what it waits for.

    Runs one cycle on the state as it is, in memory, and adds what the cluster itself last said. `explain` tells more.
    """
    from tierwise.cli.inputs import introduce, load, moment, profile_of

    profile = profile_of(config_file)
    objects = load(filenames)
    if filenames:
        introduce(objects)
    answer = _answer(objects, profile, pod if "/" in pod else f"{namespace}/{pod}", moment(objects, now))
    if output_format == "json":
        from tierwise.cli.screen import print_json
        from tierwise.explain.text.why import why_wire

        print_json(why_wire(answer))
    else:
        from tierwise.cli.screen import print_page
        from tierwise.explain.text.why import why_lines

        print_page(lambda page: why_lines(page, answer), everything=everything)


def _answer(objects: Objects, profile: Profile, pod: str, now: float) -> PodExplanation:
    from tierwise.api.errors import InputError
    from tierwise.cli.inputs import tell_crashes
    from tierwise.explain.text.why import PodExplanation, already_placed
    from tierwise.explain.unreached import unreached
    from tierwise.sim.cluster.rounds import look

    seen, history = look(objects, profile, pod, now=now)
    tell_crashes(history.guard)
    snapshot, report = history.reports[-1]
    job = next((job for job in snapshot.jobs if any(task.key == pod for task in job.tasks)), None)
    said = already_placed(objects, job)
    if seen is not None or (job is not None and job.key in report.rejections):
        return PodExplanation(pod, job, snapshot, report, said=said)
    text = unreached(history.cluster.read(), history.after(now), history.report, pod)
    if text is None:
        raise InputError("there is no such pod, and no controller makes one", obj=f"Pod {pod}")
    return PodExplanation(pod, job, snapshot, report, text)
