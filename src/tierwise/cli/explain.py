"""`tierwise explain`: the story of one pod, or of one job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tierwise.api.errors import InputError
from tierwise.cli import options

if TYPE_CHECKING:
    from tierwise.config.profile import Profile
    from tierwise.model.job import Job
    from tierwise.model.snapshot import Snapshot
    from tierwise.port import Objects

__all__ = ["explain"]


@click.command(
    epilog="""\b
Examples:
  tierwise explain -f cluster.yaml -f job.yaml default/train-worker-0
  tierwise explain -f cluster.yaml -f job.yaml --job default/train
  tierwise explain -f snapshot.json --pod default/p1 -o json | jq '.nodes[] | select(.feasible)'
"""
)
@click.argument("name", metavar="[POD]", required=False)
@click.option("--pod", metavar="NAMESPACE/NAME", help="The pod, as an option.")
@click.option("--job", metavar="NAMESPACE/NAME", help="Explain a podGroup, or the podGroup of a Volcano job.")
@options.source
@options.config
@options.now
@options.everything
@options.output
def explain(
    name: str | None,
    pod: str | None,
    job: str | None,
    filenames: tuple[str, ...],
    config_file: str | None,
    now: float | None,
    everything: bool,
    output_format: str,
) -> None:
    """Tell why POD goes where it goes, or why it waits.

    Shows the first cycle that reaches it: the limits of its job and sub-group, the hyperNodes that were candidates
    and their scores, and for every node its scores or what keeps the pod off it.
    A name without a namespace is in "default".
    """
    from tierwise.cli.inputs import introduce, load, moment, profile_of

    wanted = [word for word in (name, pod, job) if word is not None]
    if len(wanted) != 1:
        raise click.UsageError("Name one pod, or one job with --job.")
    path = wanted[0] if "/" in wanted[0] else f"default/{wanted[0]}"
    profile = profile_of(config_file)
    objects = load(filenames)
    if filenames:
        introduce(objects)
    tell = _tell_pod if job is None else _tell_job
    tell(objects, profile, path, moment(objects, now), everything=everything, json=output_format == "json")


def _tell_pod(objects: Objects, profile: Profile, pod: str, now: float, *, everything: bool, json: bool) -> None:
    from tierwise.cli.inputs import tell_crashes
    from tierwise.cli.progress import show_progress
    from tierwise.cli.screen import print_json, print_page
    from tierwise.sim.cluster.rounds import look

    with show_progress("looking"):
        seen, history = look(objects, profile, pod, now=now)
    tell_crashes(history.guard)
    if seen is None:
        from tierwise.explain.unreached import unreached

        text = unreached(history.cluster.read(), history.after(now), history.report, pod)
        if text is None:
            raise InputError("there is no such pod, and no controller makes one", obj=f"Pod {pod}")
        _tell_unreached(pod, text, json=json)
        return
    snapshot, report = history.reports[-1]
    if json:
        from tierwise.explain.wire import explain_wire

        print_json(explain_wire(seen, report))
    else:
        from tierwise.explain.text.explain_pod import pod_lines

        print_page(lambda page: pod_lines(page, seen, snapshot, report, history.cycles), everything=everything)


def _tell_unreached(pod: str, text: str, *, json: bool) -> None:
    from tierwise.cli.screen import print_json, print_page

    if json:
        print_json({"pod": pod, "gradients": [], "hyperNodeScores": {}, "nodes": {}, "message": text})
    else:
        from rich.text import Text

        from tierwise.explain.page import wrapped

        print_page(lambda page: wrapped(Text(f"Pod {pod}: {text}"), page.width))


def _tell_job(objects: Objects, profile: Profile, name: str, now: float, *, everything: bool, json: bool) -> None:
    from tierwise.cli.inputs import tell_crashes
    from tierwise.cli.progress import show_progress
    from tierwise.cli.screen import print_json, print_page
    from tierwise.explain.text.schedule import Run
    from tierwise.sim.cluster.rounds import schedule

    with show_progress("scheduling") as progress:
        history = schedule(objects, profile, now=now, progress=progress)
        after = history.after(now)
    tell_crashes(history.guard)
    job = _job_named(after, name)
    if json:
        from tierwise.explain.job_wire import job_wire

        print_json(job_wire(job, after, history.reports, history.bindings))
    else:
        from tierwise.explain.text.explain_job import job_lines

        run = Run(history.reports, after, profile, history.evictions)
        print_page(lambda page: job_lines(page, run, job), everything=everything)


def _job_named(snapshot: Snapshot, name: str) -> Job:
    """The job of a podGroup, or of the Volcano job whose podGroup it is; InputError where there is none."""
    from tierwise.explain.naming import belongs_to

    exact = [job for job in snapshot.jobs if job.declared and job.key == name]
    found = exact or [job for job in snapshot.jobs if job.declared and belongs_to(job, name)]
    if not found:
        raise InputError("there is no such podGroup, and no job that has one", obj=f"PodGroup {name}")
    return found[0]
