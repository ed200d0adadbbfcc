"""Tells a job, and the group of its pods, why the API server does not take the pods that its controller makes.

A quota or a policy that refuses them would else be known to the log alone, while the job waits for pods for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from tierwise.api.codec import Raw, api_group, part
from tierwise.dialects.pod_marks import GROUP_ANNOTATION
from tierwise.port import Create, Key, Outcome, RecordEvent, key_of_raw

__all__ = ["REFUSED", "RefusedPods"]

REFUSED: Final = "FailedCreate"
"""The reason of the events, as Kubernetes' own controllers give it."""
_REMEMBERED: Final = 10_000


class RefusedPods:
    """Last refusal reported for each job, so that a repeated one is reported once."""

    def __init__(self) -> None:
        self._told: dict[Key, str] = {}

    def tell(self, outcomes: Iterable[Outcome]) -> Iterator[RecordEvent]:
        """Events about the jobs and groups of pods that were refused; a pod that is taken ends what was told."""
        refused: dict[Key, tuple[Raw, str]] = {}
        for outcome in outcomes:
            raw = outcome.effect.raw if isinstance(outcome.effect, Create) else {}
            owner = _owner(raw) if raw.get("kind") == "Pod" else None
            if owner is None or outcome.withheld:
                continue
            if outcome.ok:
                self._told.pop(owner, None)
            else:
                refused.setdefault(owner, (raw, outcome.error))
        for owner, (raw, error) in refused.items():
            text = error.replace(key_of_raw(raw).name, "NAME")  # which of its pods is asked for first is no news
            if self._told.get(owner) == text:
                continue
            self._told.pop(owner, None)
            self._told[owner] = text
            if len(self._told) > _REMEMBERED:
                del self._told[next(iter(self._told))]
            for about in (owner, *_group(raw)):
                yield RecordEvent(about, "Warning", REFUSED, f"the API server refuses pods of {owner.name}: {error}")


def _owner(raw: Raw) -> Key | None:
    """The job that a pod is made for."""
    references = part(raw, "metadata").get("ownerReferences")
    for reference in references if isinstance(references, list) else ():
        if reference.get("controller"):
            namespace = key_of_raw(raw).namespace or "default"
            return Key(
                api_group(str(reference["apiVersion"])), str(reference["kind"]), namespace, str(reference["name"])
            )
    return None


def _group(raw: Raw) -> Iterator[Key]:
    marks = part(part(raw, "metadata"), "annotations")
    name = marks.get(GROUP_ANNOTATION)
    if isinstance(name, str) and name:
        yield Key("scheduling.volcano.sh", "PodGroup", key_of_raw(raw).namespace or "default", name)
