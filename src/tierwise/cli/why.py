"""`tierwise why`: in a few lines, why a pod waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tierwise.api.errors import InputError
from tierwise.cli.ask import AnswersService, ask_for, check_may_ask_instead
from tierwise.cli.inputs import Given, Inputs, tell_crashes
from tierwise.cli.options import ListOutput, argument, option, verb

if TYPE_CHECKING:
    from tierwise.explain.text.why import PodExplanation

__all__ = ["why"]


@verb(
    """
  tierwise why -f cluster.yaml -f job.yaml default/train-worker-0
  kubectl tierwise why team-a/train-worker-0
  kubectl tierwise why train-worker-0 -n team-a -o json | jq -r .reason
  tierwise why NotEnoughResources
""",
    decides=True,
)
def why(
    *,
    pod: str = argument("NAMESPACE/POD|CODE"),
    namespace: str = option("-n --namespace NAME", "Namespace of a pod that is named without one.", default="default"),
    inputs: Inputs,
    service: AnswersService,
    output: ListOutput,
) -> None:
    """Say where POD stands, would go now, or what it waits for; or what the CODE of a reason means.

    Runs one cycle on the state as it is, in memory, and adds what the cluster itself last said. `explain` tells more.
    Users who may not list the cluster are answered by the scheduler (--answers).
    """
    from tierwise.explain.reasons import described, described_lines, described_wire
    from tierwise.explain.text.why import why_lines, why_wire

    if described(pod):  # no pod has a capital letter in its name
        output.show(lambda: described_wire(pod), lambda page: described_lines(page, pod), lambda: [pod])
        return
    path = pod if "/" in pod else f"{namespace}/{pod}"
    try:
        inputs_read = inputs.read()
    except InputError as error:
        check_may_ask_instead(service, error)
        own_namespace, _, name = path.partition("/")
        ask_for(service, inputs.source.cluster, output, own_namespace, "why-pod", name)
        return
    answer = _answer(inputs_read, path)
    output.show(lambda: why_wire(answer), lambda page: why_lines(page, answer), lambda: [f"pod/{answer.pod}"])


def _answer(inputs_read: Given, pod: str) -> PodExplanation:
    from tierwise.cli.explain import no_such_pod
    from tierwise.explain.obstacles import obstacles_of
    from tierwise.explain.sets import sets_of
    from tierwise.explain.text.why import PodExplanation, already_placed
    from tierwise.explain.unreached import unreached
    from tierwise.sim.cluster.rounds import look

    seen, history = look(inputs_read.objects, inputs_read.profile, pod, now=inputs_read.now)
    tell_crashes(history.guard)
    snapshot, report = history.reports[-1]
    job = next((job for job in snapshot.jobs if any(task.key == pod for task in job.tasks)), None)
    placed_text = already_placed(inputs_read.objects, job)
    if seen is not None or (job is not None and job.key in report.rejections):
        obstacles = obstacles_of(snapshot, report, inputs_read.profile, job) if job is not None else ()
        sets = sets_of(snapshot, report, inputs_read.profile, job) if job is not None else ()
        return PodExplanation(pod, job, snapshot, report, said=placed_text, obstacles=obstacles, sets=sets)
    text = unreached(history.cluster.read(), history.after(inputs_read.now), history.report, pod)
    if text is None:
        raise no_such_pod(pod, history.cluster.read(), history.after(inputs_read.now))
    return PodExplanation(pod, job, snapshot, report, text)
