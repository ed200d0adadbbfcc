"""Groups of the languages besides Volcano's and Koordinator's: what they may say, and whom their pods may name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tierwise.admission.verdict import Issue, at_least, at_most, one_of, warning
from tierwise.api.core import Pod
from tierwise.api.limits import PODS
from tierwise.api.scheduler_plugins import PodGroup as PluginGroup
from tierwise.dialects.groups import Group
from tierwise.dialects.koordinator.gangs import gang_of
from tierwise.dialects.languages import LANGUAGES, Name, named_group
from tierwise.dialects.volcano.annotations import group_of

__all__ = ["check_plugin_group", "check_pod"]

_PLUGIN_PHASES = frozenset(
    {"", "Pending", "PreScheduling", "Scheduling", "Scheduled", "Running", "Unknown", "Finished", "Failed"}
)


def check_pod(pod: Pod, declared: Mapping[Name, Group]) -> Iterator[Issue]:
    """Issues of what a pod says of its group: one that does not exist, and several that cannot all count."""
    name = named_group(pod)
    if name is None:
        return
    counts = group_of(pod) or gang_of(pod)
    others = [f"{group} ({language})" for language, group in _every(pod) if counts or (language, group) != name]
    for other in others:
        yield warning("metadata", f"the pod names several groups: {counts or name[1]} counts, and {other} does not")
    if not counts and name not in declared:
        yield warning("metadata", f"the group {name[1]} of {name[0]} does not exist: the pod waits for it")


def _every(pod: Pod) -> Iterator[Name]:
    for language in LANGUAGES.values():
        path = language.named(pod)
        if path:
            yield language.LANGUAGE, path


def check_plugin_group(record: PluginGroup) -> Iterator[Issue]:
    """Issues of a PodGroup of scheduling.x-k8s.io."""
    spec = record.spec
    yield from at_least("spec.minMember", spec.min_member, 1)
    yield from at_most("spec.minMember", spec.min_member, PODS)
    yield from at_least("spec.scheduleTimeoutSeconds", spec.schedule_timeout_seconds, 0)
    yield from one_of("status.phase", record.status.phase, _PLUGIN_PHASES)
