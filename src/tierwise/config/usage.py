"""Rules of a profile for usage that fades: the arguments of its plugin fairshare, in Volcano's words or in ours.

In Volcano's words (`fairshare.halfLifeMinutes` and others) namespaces take turns inside a queue by one resource, and
queues share as before. In ours queues share by what they have used as well. A half-life that is zero, or left out in
our words, is refused: usage that never fades, or fades at once, would be silently something else than fair.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any, Final

import msgspec

from tierwise.api.duration import seconds
from tierwise.api.errors import InputError
from tierwise.config.arguments import flag, words
from tierwise.config.given import as_written
from tierwise.config.profile import Profile

__all__ = ["FAIRSHARE", "UsageRules", "Weights", "notes_on_usage", "usage_rules"]

FAIRSHARE: Final = "fairshare"
"""The plugin."""

Weights = tuple[tuple[str, int], ...]
"""Resources and their weights in thousandths, for a core, a GiB, or one of anything else."""

_FIELD: Final = "tiers.plugins.arguments"
_VOLCANO: Final = "fairshare."
_MINUTES: Final = "fairshare.halfLifeMinutes"
_USUAL_MINUTES: Final = 240
_USUAL_RESOURCE: Final = "nvidia.com/gpu"
_STATE_NAMESPACE: Final = "volcano-system"
_ENTRY: Final = 300.0
_LARGEST: Final = 1_000_000.0
_WITHOUT: Final = {
    "fairshare.enableEnqueueGate": "who has used much waits behind others, and is kept out by nothing else",
    "fairshare.stateConfigMap": "the record is the ConfigMap tierwise-usage",
    "fairshare.flushIntervalSeconds": "the record is written once a minute at most",
}
"""Arguments of Volcano's that have no effect, and what that means."""


class UsageRules(msgspec.Struct, frozen=True):
    """How usage is remembered, and who shares by it."""

    half_life: float  # seconds in which what was used comes to count half
    weights: Weights = ()  # of resources; empty: what is scarce is dear
    weights_of: Mapping[str, Weights] = {}  # by queue, where they are others
    entry: float = _ENTRY  # seconds for which a job pays when it starts
    aging: float = inf  # seconds after which a job that waits goes first in its queue; infinite: never
    namespace: str = ""  # in which the record is kept; "": nothing survives a restart
    between_queues: bool = True  # queues share by it, and not only the namespaces in them
    queues: frozenset[str] = frozenset()  # in which namespaces take turns by it; empty: in all
    model_label: str = "nvidia.com/gpu.product"  # of nodes: by which model reports tell usage apart

    @property
    def unit(self) -> str:
        """The unit of rates: usage in another unit is not comparable."""
        lists = [self.weights, *(self.weights_of[queue] for queue in sorted(self.weights_of))]
        listed = ";".join(",".join(f"{name}={weight}" for name, weight in weights) for weights in lists)
        return listed or "parts of the cluster"


def usage_rules(profile: Profile) -> UsageRules | None:
    """The rules of a profile, None where it remembers no usage; InputError where they cannot be read."""
    arguments = next((choice.arguments for choice in profile.plugins() if choice.name == FAIRSHARE), None)
    if arguments is None:
        return None
    volcanos = {name for name in arguments if name.startswith(_VOLCANO)}
    our_words = [name for name in arguments if name not in volcanos]
    if volcanos and our_words:
        raise InputError(f"{min(volcanos)} and {our_words[0]} are words of two languages: use one", field=_FIELD)
    return _own(arguments) if our_words else _volcanos(arguments)


def _own(arguments: Mapping[str, Any]) -> UsageRules:
    if "halfLife" not in arguments:
        raise InputError("fairshare needs a halfLife, such as 168h", field=f"{_FIELD}.halfLife")
    namespace = arguments.get("record", "")
    if not isinstance(namespace, str) or "/" in namespace:
        raise InputError(f'"{as_written(namespace)}" is not the name of a namespace', field=f"{_FIELD}.record")
    model = arguments.get("modelLabel", "nvidia.com/gpu.product")
    if not isinstance(model, str) or not model:
        raise InputError(f'"{as_written(model)}" is not the key of a label', field=f"{_FIELD}.modelLabel")
    return UsageRules(
        half_life=_duration(arguments, "halfLife", 0.0),
        weights=_weights(arguments.get("weights")),
        entry=_duration(arguments, "entry", _ENTRY, zero=True),
        aging=_duration(arguments, "aging", inf),
        namespace=namespace,
        model_label=model,
    )


def _duration(arguments: Mapping[str, Any], name: str, usual: float, *, zero: bool = False) -> float:
    if name not in arguments:
        return usual
    text = arguments[name]
    parsed = seconds(text) if isinstance(text, str) else None
    if parsed is None or parsed < 0 or parsed > 10 * 366 * 86_400:
        raise InputError(f'"{as_written(text)}" is not a duration such as 168h', field=f"{_FIELD}.{name}")
    if not parsed and not zero:
        raise InputError(f"{name} must be above zero", field=f"{_FIELD}.{name}")
    return parsed


def _weights(raw: object) -> Weights:
    if raw is None:
        return ()
    where = f"{_FIELD}.weights"
    if not isinstance(raw, Mapping) or not raw:
        raise InputError("expected a mapping of resources to numbers", field=where)
    parsed = []
    for name, weight in raw.items():
        good = isinstance(weight, int | float) and not isinstance(weight, bool) and 0 <= weight <= _LARGEST
        if not good:
            raise InputError(f'"{as_written(weight)}" is not a number from 0 to 1000000', field=f"{where}.{name}")
        parsed.append((str(name), round(weight * 1000)))
    if not any(weight for _, weight in parsed):
        raise InputError("no resource has a weight above zero", field=where)
    return tuple(sorted(parsed))


def _volcanos(arguments: Mapping[str, Any]) -> UsageRules:
    minutes = arguments.get(_MINUTES, _USUAL_MINUTES)
    text = str(minutes).strip()
    if isinstance(minutes, bool) or not text.isascii() or not text.isdigit() or not 0 < len(text) < 8:
        raise InputError(f'"{as_written(minutes)}" is not a whole number of minutes', field=f"{_FIELD}.{_MINUTES}")
    if not int(text):
        raise InputError("a half-life must be above zero", field=f"{_FIELD}.{_MINUTES}")
    resource = str(arguments.get("fairshare.resourceKey") or _USUAL_RESOURCE)
    prefix = "fairshare.resourceKey."
    by_queue = {name.removeprefix(prefix): str(arguments[name]) for name in arguments if name.startswith(prefix)}
    keeps = flag(arguments, "fairshare.persistState", default=False)
    return UsageRules(
        half_life=60.0 * int(text),
        weights=((resource, 1000),),
        weights_of={queue: ((name, 1000),) for queue, name in by_queue.items()},
        namespace=str(arguments.get("fairshare.stateNamespace") or _STATE_NAMESPACE) if keeps else "",
        between_queues=False,
        queues=frozenset(words(arguments, "fairshare.targetQueues")),
    )


def notes_on_usage(arguments: Mapping[str, Any]) -> list[str]:
    """A sentence for each argument of the plugin that has no effect, and for a half-life that is Volcano's own."""
    notes = [
        f"argument {name} has no effect: {_WITHOUT[name]}" for name in arguments if name in _WITHOUT and arguments[name]
    ]
    if all(name.startswith(_VOLCANO) for name in arguments) and _MINUTES not in arguments:
        notes.append(f"{_MINUTES} is not set: {_USUAL_MINUTES}, as in Volcano")
    return notes
