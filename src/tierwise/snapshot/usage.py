"""The record of usage that fades: a ConfigMap that the leader writes once a minute, and when it stops.

It is bounded: so many namespaces of a queue, and so many in all, are kept apart (`framework.usage`), and what has faded
goes. After a crash at most a minute is missing of what has ended meanwhile: what still runs is charged by its holdings.

Who may write the ConfigMap may let a queue start anew (`resets`): the leader forgets its usage once it sees that.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from tierwise.api.codec import Raw
from tierwise.api.core import ConfigMap
from tierwise.config.usage import UsageRules
from tierwise.model.snapshot import Fault, Snapshot
from tierwise.model.usage import Prepaid, UsageMemory, UsageOwner, UsageState
from tierwise.port import Create, Effect, Key, Objects, RecordEvent, Update
from tierwise.snapshot.derive import Derived, Graph

__all__ = [
    "UNREADABLE_USAGE",
    "USAGE",
    "read_usage",
    "resetting",
    "spelled_usage",
    "usage_effects",
    "usage_key",
    "usage_memory",
    "usage_of",
]

USAGE: Final = "tierwise-usage"
"""The name of the ConfigMap; a profile names its namespace."""
_USAGE: Final = "usage"
_RESETS: Final = "resets"
_PAUSE: Final = 60.0
"""Seconds between two writes."""
_MOST_RESETS: Final = 1000
_LARGEST: Final = 1 << 200
UNREADABLE_USAGE: Final = (ValueError, TypeError, AttributeError, KeyError, OverflowError, RecursionError)
"""Errors that reading raises where something else has written."""
_EVEN: Final = "no usage is remembered: all queues start even"


def usage_key(namespace: str) -> Key:
    """Where the record is."""
    return Key("", "ConfigMap", namespace, USAGE)


def usage_memory(graph: Graph, rules: UsageRules) -> Derived[tuple[UsageMemory, tuple[Fault, ...]]]:
    """The record, and what is wrong with it."""
    key = usage_key(rules.namespace)
    record = graph.whole(lambda state: state.record(key) if rules.namespace else None, graph.kinds(ConfigMap))
    return graph.whole(partial(_memory, rules.namespace), record)


def _memory(namespace: str, record: ConfigMap | None) -> tuple[UsageMemory, tuple[Fault, ...]]:
    recorded, resets, faults = read_usage(record)
    return UsageMemory(namespace, recorded, resets), faults


def read_usage(record: ConfigMap | None) -> tuple[UsageState | None, Mapping[str, float], tuple[Fault, ...]]:
    """Read the record: the usage, None where there is none; when queues were to start anew; and what is wrong."""
    if record is None:
        return None, {}, ()
    try:
        resets = _times(json.loads(record.data.get(_RESETS, "{}")))
        text = record.data.get(_USAGE, "")
        return usage_of(text) if text else None, resets, ()
    except UNREADABLE_USAGE as error:
        meta = record.metadata
        event = f"it cannot be read, and all queues start even: {type(error).__name__}"
        return None, {}, (Fault(f"ConfigMap {meta.namespace}/{meta.name}", "InvalidUsage", event),)


def usage_of(text: str) -> UsageState:
    """Usage that was written down; one of `UNREADABLE_USAGE` where that is not what the text is."""
    raw = json.loads(text)
    state = UsageState(
        at=_number(raw["at"]),
        time=_number(raw["time"]),
        half_life=_number(raw["halfLife"]),
        unit=str(raw["unit"]),
        used=_amounts(raw["used"]),
        rates=_amounts(raw["rates"]),
        prepaid=tuple([_prepaid(*line) for line in raw["prepaid"]]),
        writes=int(raw["writes"]),
        since=_number(raw["since"]),
        resets=_times(raw["resets"]),
    )
    if state.half_life <= 0 or state.time > 64 * state.half_life:
        raise ValueError("its clock is not one of ours")
    return state


def _number(raw: Any) -> float:
    number = float(raw)
    if not 0.0 <= number < 1e15:
        raise ValueError("a number is out of range")
    return number


def _times(raw: Mapping[str, Any]) -> dict[str, float]:
    return {str(queue): _number(at) for queue, at in raw.items()}


def _whole(raw: Any) -> int:
    number = int(raw)
    if not 0 <= number < _LARGEST:
        raise ValueError("a number is out of range")
    return number


def _amounts(raw: Iterable[Any]) -> dict[UsageOwner, int]:
    return {(str(queue), str(namespace)): _whole(number) for queue, namespace, number in raw}


def _prepaid(job: Any, queue: Any, namespace: Any, rate: Any, until: Any) -> Prepaid:
    return Prepaid(str(job), (str(queue), str(namespace)), _whole(rate), _number(until))


def spelled_usage(state: UsageState) -> str:
    """Usage in the form in which it is written down."""
    fields = {
        "at": state.at,
        "time": state.time,
        "halfLife": state.half_life,
        "unit": state.unit,
        "since": state.since,
        "writes": state.writes,
        "used": [[*owner, state.used[owner]] for owner in sorted(state.used)],
        "rates": [[*owner, state.rates[owner]] for owner in sorted(state.rates)],
        "prepaid": [[paid.job, *paid.owner, paid.rate, paid.until] for paid in state.prepaid],
        "resets": dict(sorted(state.resets.items())),
    }
    return json.dumps(fields, separators=(",", ":"))


def usage_effects(objects: Objects, snapshot: Snapshot, usage: UsageState, *, at_once: bool = False) -> list[Effect]:
    """Write down what is remembered; nothing before a minute has passed, unless it is to be done `at_once`."""
    memory = snapshot.usage_memory
    if memory is None or not memory.namespace or not usage.at:
        return []
    recorded = memory.recorded
    due = recorded is None or not 0.0 <= usage.at - recorded.at < _PAUSE
    if not due and not at_once:
        return []
    key = usage_key(memory.namespace)
    present = objects.raw(key)
    writes = max(usage.writes, recorded.writes if recorded is not None else 0) + 1
    data: Raw = {_USAGE: spelled_usage(replace(usage, writes=writes))}
    event: list[Effect] = [RecordEvent(key, "Normal", "UsageStartsEven", _EVEN)] if usage.since == usage.at else []
    if present is None:
        metadata = {"name": key.name, "namespace": key.namespace}
        return [Create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}), *event]
    before = present.get("data")
    return [Update(key, {**present, "data": {**(before if isinstance(before, dict) else {}), **data}}), *event]


def resetting(record: ConfigMap | None, queues: Iterable[str], now: float) -> Raw:
    """The entry of the record that lets queues start anew."""
    _, resets, _ = read_usage(record)
    latest = sorted({**resets, **dict.fromkeys(queues, now)}.items(), key=lambda one: (-one[1], one[0]))
    return {_RESETS: json.dumps(dict(sorted(latest[:_MOST_RESETS])))}
