"""`tierwise explain`: the story of one pod, or of one job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from tierwise.api.errors import InputError
from tierwise.cli.inputs import Given, Inputs, tell_crashes
from tierwise.cli.options import Output, argument, option, verb
from tierwise.cli.progress import show_progress

if TYPE_CHECKING:
    from tierwise.actions.diagnosis.inspection import PodInspection
    from tierwise.api.codec import Raw
    from tierwise.config.profile import Profile
    from tierwise.explain.text.schedule import Run
    from tierwise.framework.report import CycleReport
    from tierwise.model.job import Job
    from tierwise.model.snapshot import Fault, Snapshot
    from tierwise.port import Objects

__all__ = ["explain", "no_such_pod", "show_job", "show_pod"]


@verb(
    """
  tierwise explain -f cluster.yaml -f job.yaml default/train-worker-0
  tierwise explain -f cluster.yaml -f job.yaml --job default/train
  tierwise explain -f snapshot.json --pod default/p1 -o json | jq '.nodes[] | select(.feasible and .withinReach)'
""",
    decides=True,
)
def explain(
    *,
    name: str | None = argument("[POD]"),
    pod: str | None = option("--pod NAMESPACE/NAME", "The pod, as an option."),
    job: str | None = option("--job NAMESPACE/NAME", "Explain a podGroup, or the podGroup of a Volcano job."),
    inputs: Inputs,
    output: Output,
) -> None:
    """Tell why POD goes where it goes, or why it waits.

    Shows the first cycle that reaches it: the limits of its job and sub-group, the hyperNodes that were candidates
    and their scores, and for every node its scores or what keeps the pod off it.
    A name without a namespace is in "default".
    """
    words_given = [word for word in (name, pod, job) if word is not None]
    if len(words_given) != 1:
        raise click.UsageError("Name one pod, or one job with --job.")
    path = words_given[0] if "/" in words_given[0] else f"default/{words_given[0]}"
    tell = _tell_pod if job is None else _tell_job
    tell(inputs.read(), path, output)


def _tell_pod(inputs_read: Given, pod: str, output: Output) -> None:
    from tierwise.sim.cluster.rounds import look

    with show_progress("looking"):
        seen, history = look(inputs_read.objects, inputs_read.profile, pod, now=inputs_read.now)
    tell_crashes(history.guard)
    if seen is not None:
        show_pod(seen, *history.reports[-1], inputs_read.profile, history.cycles, output, inputs_read.told)
        return
    from tierwise.explain.page import Text, wrapped
    from tierwise.explain.rejection_wire import FORMAT
    from tierwise.explain.unreached import unreached
    from tierwise.explain.wire import problems_wire

    after = history.after(inputs_read.now)
    text = unreached(history.cluster.read(), after, history.report, pod)
    if text is None:
        raise no_such_pod(pod, history.cluster.read(), after)
    problems = problems_wire(after, inputs_read.told)
    output.show(
        lambda: {
            "formatVersion": FORMAT,
            "pod": pod,
            "gradients": [],
            "hyperNodeScores": {},
            "nodes": {},
            "message": text,
            "problems": problems,
        },
        lambda page: wrapped(Text(f"Pod {pod}: {text}"), page.width),
    )


def no_such_pod(pod: str, objects: Objects, snapshot: Snapshot) -> InputError:
    """Error for a pod that does not exist, with a similar name, or the hint that a job has this name."""
    from tierwise.api.core import Pod
    from tierwise.api.errors import suggestion
    from tierwise.explain.naming import full_name
    from tierwise.explain.reasons import codes
    from tierwise.port import gang_path

    jobs = {gang_path(job.key) for job in snapshot.jobs} | {full_name(job) for job in snapshot.jobs}
    if pod in jobs:
        near = f" ({pod} is a job: tierwise explain --job {pod}, or tierwise eta {pod})"
    else:
        near = suggestion(pod, objects.every(Pod)) or suggestion(pod, set(map(full_name, snapshot.jobs)))
    if not near and not pod.islower():  # no pod has a capital letter in its name
        near = suggestion(pod.rpartition("/")[2], codes())
    return InputError(f"there is no such pod, and no controller makes one{near}", obj=f"Pod {pod}")


def show_pod(
    seen: PodInspection,
    snapshot: Snapshot,
    report: CycleReport,
    profile: Profile,
    cycle: int,
    output: Output,
    problems_told: Sequence[Fault] = (),
) -> None:
    """Print how a pod fared in a cycle; `problems_told` were reported while reading the input."""
    seen = seen.after(snapshot, report)
    from tierwise.explain.obstacles import obstacle_lines, obstacles_of, obstacles_wire
    from tierwise.explain.page import section
    from tierwise.explain.sets import set_lines, sets_of, sets_wire
    from tierwise.explain.text.explain_pod import pod_lines
    from tierwise.explain.wire import explain_wire, problems_wire

    obstacles = obstacles_of(snapshot, report, profile, seen.job)
    sets = sets_of(snapshot, report, profile, seen.job)
    problems: Raw = {"problems": problems_wire(snapshot, problems_told)}
    output.show(
        lambda: explain_wire(seen, report) | obstacles_wire(obstacles) | sets_wire(sets) | problems,
        lambda page: [
            *pod_lines(page, seen, snapshot, report, cycle),
            *obstacle_lines(page, obstacles),
            *section("Sets", set_lines(page, sets)),
        ],
    )


def _tell_job(inputs_read: Given, name: str, output: Output) -> None:
    from tierwise.explain.text.schedule import Run
    from tierwise.sim.cluster.rounds import schedule

    with show_progress("scheduling") as progress:
        history = schedule(inputs_read.objects, inputs_read.profile, now=inputs_read.now, progress=progress)
        after = history.after(inputs_read.now)
    tell_crashes(history.guard)
    run = Run(history.reports, after, inputs_read.profile, history.evictions)
    show_job(run, _job_named(history.cluster.read(), after, name), history.bindings, output, inputs_read.told)


def show_job(run: Run, job: Job, bindings: Mapping[str, str], output: Output, faults: Sequence[Fault] = ()) -> None:
    """Print how a job fared in a run; `faults` were reported while reading the input."""
    from tierwise.explain.text.explain_job import job_lines, job_wire
    from tierwise.explain.wire import problems_wire

    problems: Raw = {"problems": problems_wire(run.after, (*run.complaints, *faults))}
    output.show(lambda: job_wire(run, job, bindings) | problems, lambda page: job_lines(page, run, job))


def _job_named(objects: Objects, snapshot: Snapshot, name: str) -> Job:
    """The job of a podGroup, or of the Volcano job whose podGroup it is; InputError where there is none."""
    from tierwise.explain.naming import belongs_to

    exact = [job for job in snapshot.jobs if job.declared and job.key == name]
    matching = exact or [job for job in snapshot.jobs if job.declared and belongs_to(job, name)]
    if not matching:
        raise _no_such_job(objects, snapshot, name)
    return matching[0]


def _no_such_job(objects: Objects, snapshot: Snapshot, name: str) -> InputError:
    """Why no job has a name: its workload makes no pods here, only its pods exist, or the name is wrong."""
    from tierwise.api.errors import suggestion
    from tierwise.dialects.workloads import notes
    from tierwise.explain.naming import full_name

    for key, why in notes(objects):
        if key.path == name:
            return InputError(why, obj=f"{key.kind} {name}")
    for unknown_group in snapshot.orphans.values():
        if unknown_group.group == name:
            return InputError(unknown_group.text)
    near = suggestion(name, {full_name(job) for job in snapshot.jobs if job.declared})
    return InputError(f"there is no such podGroup, and no job that has one{near}", obj=f"PodGroup {name}")
