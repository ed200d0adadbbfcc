"""`tierwise what-if`: what other nodes, quotas, jobs or plugins would change, and the least that starts a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from tierwise.cli.inputs import Inputs, load, profile_of, tell_crashes
from tierwise.cli.options import Output, option, verb
from tierwise.cli.progress import show_progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tierwise.explain.comparison import LeastChange
    from tierwise.sim.what_if.changes import Change, Scenario

__all__ = ["what_if"]


class _Changes(msgspec.Struct, frozen=True, kw_only=True):
    """The changes; those of `CHANGES` are called as there."""

    submit: tuple[str, ...] = option("--submit FILE", "Create these objects, or replace those of the same names.")
    delete: tuple[str, ...] = option("--delete JOB", "Delete a job with its pods.")
    add_nodes: tuple[str, ...] = option("--add-nodes N=NODE", "Add N nodes like NODE, in the same domains.")
    add_domains: tuple[str, ...] = option(
        "--add-domains N=DOMAIN", "Add N domains like DOMAIN (a rack, a spine), with nodes."
    )
    remove: tuple[str, ...] = option("--remove NAME", "Remove a node, or a domain with all its nodes.")
    drain: tuple[str, ...] = option("--drain NAME", "Drain a node, or all nodes of a domain.")
    cordon: tuple[str, ...] = option("--cordon NAME", "Cordon a node, or all nodes of a domain: pods stay.")
    uncordon: tuple[str, ...] = option("--uncordon NAME", "Uncordon a node, or all nodes of a domain.")
    quota: tuple[str, ...] = option(
        "--quota QUEUE[.FIELD]:RESOURCE=AMOUNT", "Set the capability (or deserved, guarantee) of a queue."
    )
    priority: tuple[str, ...] = option("--priority JOB=NUMBER", "Set the priority of a job and its pods.")
    constraint: tuple[str, ...] = option(
        "--constraint JOB[:POLICY]=LIMIT",
        "Set a topology constraint: hard:TIER, soft or none; TIER is a number or a name.",
    )
    loosen: tuple[str, ...] = option("--loosen JOB[=SET]", "Make the rules of a job about its sets, or one, soft.")
    add_parts: tuple[str, ...] = option("--add-parts N=JOB", "Add N gangs like JOB to its sets; their pods wait.")
    plugin: tuple[str, ...] = option("--plugin NAME[:KEY=VALUE,...]", "Switch a plugin on, after all others.")
    without_plugin: tuple[str, ...] = option("--without-plugin NAME", "Switch a plugin off.")
    then_config: str | None = option("--then-config FILE", "Schedule with this configuration instead.")

    def asked(self) -> Iterator[Change]:
        """The changes that the options ask for, in their order."""
        from tierwise.sim.what_if.change_texts import CHANGES, read_change
        from tierwise.sim.what_if.changes import use_profile

        for file in self.submit:
            yield _submitted(file)
        for change in CHANGES:
            if change == "plugin" and self.then_config is not None:
                yield use_profile(profile_of(self.then_config), self.then_config)
            for text in getattr(self, change.replace("-", "_")):
                yield read_change(change, text)


@verb(
    """
  tierwise what-if -f cluster.yaml -f jobs.yaml --add-nodes 2=node-7 --drain rack-3
  tierwise what-if -f state.json --quota team-a:nvidia.com/gpu=64 --priority team-a/train=1000
  tierwise what-if -f state.json --submit job.yaml -o json
  tierwise what-if -f state.json --start team-a/train
  kubectl tierwise what-if --remove spine-1
""",
    decides=True,
)
def what_if(
    *,
    inputs: Inputs,
    changes_asked: _Changes,
    start: str | None = option("--start JOB", "Ask the inverse: what is the least that makes JOB start now?"),
    output: Output,
) -> None:
    """Show what would happen to which job if something were different; or the least that makes a job start.

    The cluster is scheduled in memory until nothing changes, as it is and with the changes, and the two are compared.
    Changes are made in the order of the options above. Nothing outside is touched.
    """
    from tierwise.explain.text.what_if import Restarts, what_if_lines
    from tierwise.sim.forecast.eta import back_again
    from tierwise.sim.what_if.runs import prepared, what_if, what_if_wire

    changes = list(changes_asked.asked())
    if not changes and start is None:
        raise click.UsageError("Name a change (such as --drain NODE), or a job with --start.")
    state = inputs.read()
    with show_progress("scheduling"):
        scenario = prepared(*state[:3])
        answer = what_if(scenario, changes) if start is None else None
    if answer is None:
        _least(scenario, changes, str(start), output)
        return
    for guard in answer.guards[-1:]:
        tell_crashes(guard)
    with show_progress("running ahead"):
        back = back_again(answer.changed, answer.restarts, answer.started)
    restarts = Restarts(answer.restarts, answer.unit, back)
    output.show(
        lambda: what_if_wire(answer, back),
        lambda page: what_if_lines(page, answer.changes, answer.comparison, answer.changed.notes, restarts),
    )


def _least(scenario: Scenario, changes: list[Change], name: str, output: Output) -> None:
    """The inverse question, on the cluster with the changes."""
    from tierwise.explain.comparison import least_change_wire
    from tierwise.explain.text.what_if import first_answer_lines, least_change_lines
    from tierwise.sim.forecast.in_time import least_in_time, limit_processor_time
    from tierwise.sim.what_if.least_change import THOROUGH

    for change in changes:
        scenario = change.apply(scenario)
    large = THOROUGH.trials(len(scenario.objects)) < THOROUGH.most
    with show_progress("trying", THOROUGH.most_runs(len(scenario.objects))) as step, limit_processor_time():

        def report(_: str, runs: int, known: Callable[[], LeastChange]) -> None:
            if not runs and large:
                first = known()
                output.tell_early(lambda page: first_answer_lines(page, first))
            step(runs)

        least_change = least_in_time(scenario, name, THOROUGH, report)
    output.show(
        lambda: {"changes": [change.text for change in changes], **least_change_wire(least_change)},
        lambda page: least_change_lines(page, least_change),
    )


def _submitted(file: str) -> Change:
    from tierwise.sim.what_if.changes import submit

    objects = load([file])
    records = ((objects.record(key), objects.raw(key)) for key in objects)
    return submit(tuple((record, raw) for record, raw in records if record is not None and raw is not None), file)
