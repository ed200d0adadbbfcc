"""The record of jobs that have ended: a ConfigMap that the scheduler keeps, so that a restart forgets no run.

One line of JSON for each run, the latest last, and no more than `MOST` of them: about 100 KB. Jobs whose pods still
exist are read from these; a run is recorded as soon as all pods of a job have ended.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Final

from tierwise.api.codec import Raw
from tierwise.api.core import ConfigMap
from tierwise.model.expected_ends import finished_runs
from tierwise.model.finished_run import FinishedRun
from tierwise.model.snapshot import Snapshot
from tierwise.port import Create, Effect, Key, Objects, Update

__all__ = ["MOST", "RUN_HISTORY", "history_effects", "history_key", "read_history"]

RUN_HISTORY: Final = "tierwise-run-history"
"""The name of the ConfigMap; a profile names its namespace."""
MOST: Final = 1000
_RUNS: Final = "runs"


def history_key(namespace: str) -> Key:
    """Where the record is."""
    return Key("", "ConfigMap", namespace, RUN_HISTORY)


def read_history(record: ConfigMap) -> tuple[FinishedRun, ...]:
    """The runs of a record; ValueError where it was written by something else."""
    runs = []
    for number, line in enumerate(record.data.get(_RUNS, "").splitlines(), 1):
        try:
            job, queue, pods, seconds, ended, stated = json.loads(line)
            runs.append(FinishedRun(str(job), str(queue), int(pods), float(seconds), float(ended), float(stated)))
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            raise ValueError(f"line {number} of its runs cannot be read: {error}") from None
    return tuple(runs)


def history_effects(objects: Objects, snapshot: Snapshot) -> list[Effect]:
    """Write down the runs that have ended since the record was written; nothing where the profile keeps none."""
    if not snapshot.history_in:
        return []
    recorded = {(run.job, run.ended) for run in snapshot.history}
    new = [run for run in finished_runs(snapshot.jobs) if (run.job, run.ended) not in recorded]
    oldest = snapshot.history[0].ended if len(snapshot.history) >= MOST else 0.0
    if not any(run.ended > oldest for run in new):
        return []  # what has been dropped because it is old does not come back while its pods are there
    data = {_RUNS: _spelled((*snapshot.history, *new))}
    key = history_key(snapshot.history_in)
    present = objects.raw(key)
    if present is not None:
        return [Update(key, {**present, "data": data})]
    metadata = {"name": key.name, "namespace": key.namespace}
    manifest: Raw = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    return [Create(manifest)]


def _spelled(runs: Iterable[FinishedRun]) -> str:
    latest: Sequence[FinishedRun] = sorted(runs, key=lambda run: (run.ended, run.job))[-MOST:]
    lines = ([run.job, run.queue, run.pods, round(run.seconds, 3), run.ended, run.stated] for run in latest)
    return "".join(f"{json.dumps(line, separators=(',', ':'))}\n" for line in lines)
