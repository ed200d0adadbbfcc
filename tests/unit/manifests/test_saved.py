"""A saved state decides what the live one decided, bit for bit, whenever it is read again."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
from tests.support.commands import answer, run
from tests.support.draw import draw, gang, objects_of

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.manifests.saved import saved, saved_at, served
from tierwise.port import Objects

NOW = 1794724601.9204938
RAWS = [
    raw
    for objects in [objects_of(draw("r0[n0 n1]", node="gpu=4"), gang("train", tasks=2, each="gpu=4", within=1))]
    for key in objects
    if (raw := objects.raw(key)) is not None
]


def _file(folder: Path, now: float = NOW) -> Path:
    file = folder / "cluster.jsonl"
    file.write_bytes(b"".join(msgspec.json.encode(raw) + b"\n" for raw in saved(RAWS, now)))
    return file


def test_the_moment_is_kept_to_the_microsecond() -> None:
    """Whoever reads a saved state runs at the time of the look."""
    objects = Objects.of((codec.decode(raw), raw) for raw in saved(RAWS, NOW))

    assert round(NOW, 6) == saved_at(objects)
    assert saved_at(Objects.of((codec.decode(raw), raw) for raw in RAWS)) is None


def test_saving_what_was_saved_changes_nothing(tmp_path: Path) -> None:
    """A file and the same file read and written again are the same bytes."""
    first = _file(tmp_path).read_bytes()
    again = [json.loads(line) for line in first.splitlines()][1:]

    assert first == b"".join(msgspec.json.encode(raw) + b"\n" for raw in saved(again, NOW))


def test_every_verb_takes_the_file(tmp_path: Path) -> None:
    """The same answers as from the objects themselves at that time, and nothing for `validate` to complain about."""
    file = _file(tmp_path)

    assert 2 == len(answer("schedule", "-f", file)["bindings"])
    assert "placed" == answer("why", "-f", file, "train-0")["state"]
    assert {"errors": [], "warnings": []} == {
        name: found for name, found in answer("validate", "-f", file).items() if name != "valid"
    }
    assert run("schedule", "-f", file, "-o", "json").stdout == run("schedule", "-f", file, "-o", "json").stdout


def test_pods_that_wait_for_others_can_be_left_out() -> None:
    """Those that run take up room whoever placed them, and stay."""
    pods: list[Raw] = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        for name, spec in (
            ("ours", {"schedulerName": "tierwise"}),
            ("theirs", {"schedulerName": "default-scheduler"}),
            ("running", {"schedulerName": "default-scheduler", "nodeName": "n0"}),
        )
    ]

    kept = list(served([*RAWS[:1], *pods], {"tierwise"}))

    assert [RAWS[0], pods[0], pods[2]] == kept


def test_bookkeeping_is_left_out() -> None:
    """Who wrote which field when is of no use to a scheduler, and most of the size."""
    raw = {**RAWS[0], "metadata": {**RAWS[0]["metadata"], "managedFields": [{"manager": "x"}]}}  # type: ignore[dict-item]

    assert [RAWS[0]] == list(saved([raw], NOW))[1:]
