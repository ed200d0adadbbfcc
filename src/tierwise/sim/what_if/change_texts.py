"""Changes of a cluster as people write them: values of the options of `what-if`, and of the addresses of the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from tierwise.api.errors import InputError, suggestion
from tierwise.api.yaml_text import documents
from tierwise.sim.what_if import changes, set_changes

__all__ = ["CHANGES", "read_change"]


def read_change(kind: str, text: str) -> changes.Change:
    """The change of a kind that a text describes; InputError where it describes none."""
    reader = CHANGES.get(kind)
    if reader is None:
        raise InputError(f'"{kind}" is no change; there are {", ".join(CHANGES)}{suggestion(kind, CHANGES)}')
    return reader(text)


def _numbered(text: str, option: str, form: str) -> tuple[int, str]:
    number, _, name = text.partition("=")
    if not number.isdecimal() or not name:
        raise InputError(f'"{text}" is not {form}', field=option)
    return int(number), name


def _quota(text: str) -> changes.Change:
    what, _, amount = text.rpartition("=")
    queue, _, resource = what.partition(":")
    if not (queue and resource and amount):
        form = "QUEUE[.FIELD]:RESOURCE=AMOUNT, as in team-a:nvidia.com/gpu=64"
        raise InputError(f'"{text}" is not {form}', field="--quota")
    name, _, field = queue.rpartition(".")
    if field not in changes.QUOTAS:
        name = queue
        field = changes.QUOTAS[0]
    return changes.set_quota(name, field, resource, amount)


def _constraint(text: str) -> changes.Change:
    who, _, limit = text.partition("=")
    job, _, policy = who.partition(":")
    mode, _, tier = limit.partition(":")
    if not job or mode not in ("hard", "soft", "none") or (mode == "hard") != bool(tier):
        form = "JOB[:POLICY]=LIMIT with a limit of hard:TIER, soft or none"
        near = suggestion(mode, ("hard", "soft", "none"))
        raise InputError(f'"{text}" is not {form}{near}', field="--constraint")
    return changes.set_constraint(job, mode, tier, policy)


def _plugin(text: str) -> changes.Change:
    name, _, settings = text.partition(":")
    arguments: dict[str, object] = {}
    for pair in settings.split(",") if settings else ():
        key, separator, value = pair.partition("=")
        if not separator:
            raise InputError(f'"{text}" is not NAME[:KEY=VALUE,...]', field="--plugin")
        arguments[key] = _scalar(value)
    return changes.switch_plugin(name, arguments)


def _scalar(text: str) -> object:
    """A value as YAML reads it."""
    contents = [document for document, _ in documents(text.encode(), file="--plugin")]
    return contents[0] if contents else ""


def _priority(text: str) -> changes.Change:
    job, _, value = text.rpartition("=")
    if not job or not value.removeprefix("-").isdecimal():
        raise InputError(f'"{text}" is not JOB=NUMBER, as in team-a/train=1000', field="--priority")
    return changes.set_priority(job, int(value))


def _nodes(text: str) -> changes.Change:
    return changes.add_nodes(*_numbered(text, "--add-nodes", "N=NODE, as in 2=node-7"))


def _domains(text: str) -> changes.Change:
    return changes.add_domains(*_numbered(text, "--add-domains", "N=DOMAIN, as in 1=rack-3"))


def _parts(text: str) -> changes.Change:
    return set_changes.add_parts(*_numbered(text, "--add-parts", "N=JOB, as in 1=team-a/serve-0"))


def _loosen(text: str) -> changes.Change:
    job, _, path = text.partition("=")
    if not job:
        raise InputError(f'"{text}" is not JOB[=SET], as in team-a/serve-0=serve', field="--loosen")
    return set_changes.loosen(job, path)


CHANGES: Final[Mapping[str, Callable[[str], changes.Change]]] = {
    "delete": changes.delete_job,
    "add-nodes": _nodes,
    "add-domains": _domains,
    "remove": changes.remove,
    "drain": changes.drain,
    "cordon": changes.cordon,
    "uncordon": changes.uncordon,
    "quota": _quota,
    "priority": _priority,
    "constraint": _constraint,
    "loosen": _loosen,
    "add-parts": _parts,
    "plugin": _plugin,
    "without-plugin": changes.switch_plugin,
}
"""Kinds of changes by the name of their option, in the order in which they are made."""
