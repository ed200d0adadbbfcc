"""`tierwise what-if`: what other nodes, quotas, jobs or plugins would change, and the least that starts a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tierwise.api.errors import InputError
from tierwise.cli import options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tierwise.sim.changes import Change, Scenario

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
    from tierwise.sim.what_if import prepared, what_if, what_if_wire

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
    from tierwise.sim.least_change import least_change

    for change in changes:
        scenario = change.apply(scenario)
    with show_progress("trying"):
        found = least_change(scenario, name)
    if json:
        print_json({"changes": [change.text for change in changes], **least_change_wire(found)})
    else:
        print_page(lambda page: least_change_lines(page, found))


def _changes(given: dict[str, tuple[str, ...] | str | None]) -> Iterator[Change]:
    """The changes that the options ask for."""
    from tierwise.sim import changes as c

    def words(name: str) -> tuple[str, ...]:
        value = given[name]
        return value if isinstance(value, tuple) else ()

    for file in words("submit"):
        yield _submitted(file)
    yield from map(c.DeleteJob, words("deleted"))
    for text in words("add_nodes"):
        yield c.AddNodes(*_numbered(text, "--add-nodes", "N=NODE, as in 2=node-7"))
    for text in words("add_domains"):
        yield c.AddDomains(*_numbered(text, "--add-domains", "N=DOMAIN, as in 1=rack-3"))
    yield from map(c.Remove, words("removed"))
    yield from map(c.Drain, words("drained"))
    yield from map(c.Uncordon, words("uncordoned"))
    for text in words("quotas"):
        yield _quota(text)
    for text in words("priorities"):
        job, _, value = text.rpartition("=")
        if not job or not value.removeprefix("-").isdecimal():
            raise InputError(f'"{text}" is not JOB=NUMBER, as in team-a/train=1000', field="--priority")
        yield c.SetPriority(job, int(value))
    for text in words("constraints"):
        yield _constraint(text)
    then = given["then_config"]
    if isinstance(then, str):
        from tierwise.cli.inputs import profile_of

        yield c.UseProfile(profile_of(then), then)
    for text in words("plugins"):
        yield _plugin(text)
    for name in words("without_plugin"):
        yield c.SwitchPlugin(name, on=False)


def _submitted(file: str) -> Change:
    from tierwise.cli.inputs import load
    from tierwise.sim.changes import Submit

    objects = load([file])
    found = ((objects.record(key), objects.raw(key)) for key in objects)
    return Submit(tuple((record, raw) for record, raw in found if record is not None and raw is not None), file)


def _numbered(text: str, option: str, form: str) -> tuple[int, str]:
    number, _, name = text.partition("=")
    if not number.isdecimal() or not name:
        raise InputError(f'"{text}" is not {form}', field=option)
    return int(number), name


def _quota(text: str) -> Change:
    from tierwise.sim.changes import QUOTAS, SetQuota

    what, _, amount = text.rpartition("=")
    queue, _, resource = what.partition(":")
    if not (queue and resource and amount):
        form = "QUEUE[.FIELD]:RESOURCE=AMOUNT, as in team-a:nvidia.com/gpu=64"
        raise InputError(f'"{text}" is not {form}', field="--quota")
    name, _, field = queue.rpartition(".")
    if field not in QUOTAS:
        name, field = queue, QUOTAS[0]
    return SetQuota(name, field, resource, amount)


def _constraint(text: str) -> Change:
    from tierwise.sim.changes import SetConstraint

    who, _, limit = text.partition("=")
    job, _, policy = who.partition(":")
    mode, _, tier = limit.partition(":")
    if not job or mode not in ("hard", "soft", "none") or (mode == "hard") != bool(tier):
        form = "JOB[:POLICY]=LIMIT with a limit of hard:TIER, soft or none"
        raise InputError(f'"{text}" is not {form}', field="--constraint")
    return SetConstraint(job, mode, tier, policy)


def _plugin(text: str) -> Change:
    from tierwise.sim.changes import SwitchPlugin

    name, _, told = text.partition(":")
    arguments: dict[str, object] = {}
    for pair in told.split(",") if told else ():
        key, separator, value = pair.partition("=")
        if not separator:
            raise InputError(f'"{text}" is not NAME[:KEY=VALUE,...]', field="--plugin")
        arguments[key] = _scalar(value)
    return SwitchPlugin(name, arguments)


def _scalar(text: str) -> object:
    """A value as YAML reads it."""
    from tierwise.api.yaml_text import documents

    found = [document for document, _ in documents(text.encode(), file="--plugin")]
    return found[0] if found else ""
