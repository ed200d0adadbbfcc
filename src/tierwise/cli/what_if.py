"""`tierwise what-if`: what other nodes, quotas, jobs or plugins would change, and the least that starts a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tierwise.cli import options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tierwise.sim.what_if.changes import Change, Scenario

__all__ = ["what_if"]


@click.command(
    "what-if",
    epilog="""\b
Examples:
  tierwise what-if -f cluster.yaml -f jobs.yaml --add-nodes 2=node-7 --drain rack-3
  tierwise what-if -f state.json --quota team-a:nvidia.com/gpu=64 --priority team-a/train=1000
  tierwise what-if -f state.json --submit job.yaml -o json
  tierwise what-if -f state.json --start team-a/train
  kubectl tierwise what-if --remove spine-1
""",
)
@options.source
@options.config
@options.now
@click.option(
    "--submit",
    multiple=True,
    metavar="FILE",
    type=click.Path(allow_dash=True),
    help="Create these objects, or replace those of the same names.",
)
@click.option("--delete", "deleted", multiple=True, metavar="JOB", help="Delete a job with its pods.")
@click.option("--add-nodes", multiple=True, metavar="N=NODE", help="Add N nodes like NODE, in the same domains.")
@click.option(
    "--add-domains", multiple=True, metavar="N=DOMAIN", help="Add N domains like DOMAIN (a rack, a spine), with nodes."
)
@click.option(
    "--remove", "removed", multiple=True, metavar="NAME", help="Remove a node, or a domain with all its nodes."
)
@click.option("--drain", "drained", multiple=True, metavar="NAME", help="Drain a node, or all nodes of a domain.")
@click.option(
    "--cordon", "cordoned", multiple=True, metavar="NAME", help="Cordon a node, or all nodes of a domain: pods stay."
)
@click.option(
    "--uncordon", "uncordoned", multiple=True, metavar="NAME", help="Uncordon a node, or all nodes of a domain."
)
@click.option(
    "--quota",
    "quotas",
    multiple=True,
    metavar="QUEUE[.FIELD]:RESOURCE=AMOUNT",
    help="Set the capability (or deserved, guarantee) of a queue.",
)
@click.option(
    "--priority", "priorities", multiple=True, metavar="JOB=NUMBER", help="Set the priority of a job and its pods."
)
@click.option(
    "--constraint",
    "constraints",
    multiple=True,
    metavar="JOB[:POLICY]=LIMIT",
    help="Set a topology constraint: hard:TIER, soft or none; TIER is a number or a name.",
)
@click.option(
    "--plugin", "plugins", multiple=True, metavar="NAME[:KEY=VALUE,...]", help="Switch a plugin on, after all others."
)
@click.option("--without-plugin", multiple=True, metavar="NAME", help="Switch a plugin off.")
@click.option("--then-config", metavar="FILE", type=click.Path(), help="Schedule with this configuration instead.")
@click.option("--start", metavar="JOB", help="Ask the inverse: what is the least that makes JOB start now?")
@options.everything
@options.output
def what_if(
    filenames: tuple[str, ...],
    config_file: str | None,
    now: float | None,
    start: str | None,
    everything: bool,
    output_format: str,
    **given: tuple[str, ...] | str | None,
) -> None:
    """Show what would happen to which job if something were different; or the least that makes a job start.

    The cluster is scheduled in memory until nothing changes, as it is and with the changes, and the two are compared.
    Changes are made in the order of the options above. Nothing outside is touched.
    """
    from tierwise.cli.inputs import introduce, load, moment, profile_of, tell_crashes
    from tierwise.cli.progress import show_progress
    from tierwise.cli.screen import print_json, print_page
    from tierwise.sim.what_if.runs import prepared, what_if, what_if_wire

    changes = list(_changes(given))
    if not changes and start is None:
        raise click.UsageError("Name a change (such as --drain NODE), or a job with --start.")
    profile = profile_of(config_file)
    objects = load(filenames)
    if filenames:
        introduce(objects)
    with show_progress("scheduling"):
        scenario = prepared(objects, profile, moment(objects, now))
        answer = what_if(scenario, changes) if start is None else None
    if answer is None:
        _least(scenario, changes, str(start), json=output_format == "json")
        return
    for guard in answer.guards[-1:]:
        tell_crashes(guard)
    if output_format == "json":
        print_json(what_if_wire(answer))
    else:
        from tierwise.explain.text.what_if import what_if_lines

        print_page(
            lambda page: what_if_lines(page, answer.changes, answer.comparison, answer.notes), everything=everything
        )


def _least(scenario: Scenario, changes: list[Change], name: str, *, json: bool) -> None:
    """The inverse question, on the cluster with the changes."""
    from tierwise.cli.progress import show_progress
    from tierwise.cli.screen import print_json, print_page
    from tierwise.explain.comparison import least_change_wire
    from tierwise.explain.text.what_if import least_change_lines
    from tierwise.sim.what_if.least_change import least_change

    for change in changes:
        scenario = change.apply(scenario)
    with show_progress("trying"):
        found = least_change(scenario, name)
    if json:
        print_json({"changes": [change.text for change in changes], **least_change_wire(found)})
    else:
        print_page(lambda page: least_change_lines(page, found))


def _changes(given: dict[str, tuple[str, ...] | str | None]) -> Iterator[Change]:
    """The changes that the options ask for, in their order."""
    from tierwise.sim.what_if.change_texts import CHANGES, read_change
    from tierwise.sim.what_if.changes import UseProfile

    names = {"delete": "deleted", "remove": "removed", "drain": "drained"}
    names |= {"cordon": "cordoned", "uncordon": "uncordoned"}
    names |= {"quota": "quotas", "priority": "priorities", "constraint": "constraints", "plugin": "plugins"}
    for file in given["submit"] or ():
        yield _submitted(file)
    for change in CHANGES:
        if change == "plugin" and isinstance(then := given["then_config"], str):
            from tierwise.cli.inputs import profile_of

            yield UseProfile(profile_of(then), then)
        for text in given[names.get(change, change.replace("-", "_"))] or ():
            yield read_change(change, text)


def _submitted(file: str) -> Change:
    from tierwise.cli.inputs import load
    from tierwise.sim.what_if.changes import Submit

    objects = load([file])
    found = ((objects.record(key), objects.raw(key)) for key in objects)
    return Submit(tuple((record, raw) for record, raw in found if record is not None and raw is not None), file)
