"""The rows about files: what reading the output of kubectl takes, against its size, and what yaml-rs is worth."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import process_time

import yaml

from tierwise.api import codec
from tierwise.api.core import Pod
from tierwise.snapshot.builder import build
from tierwise_lab.bench.lab import Lab, Measured, row
from tierwise_lab.bench.manifests import GANG, Manifest, group, node, pod, read_manifests
from tierwise_lab.bench.measure import at_most, best_of, compared

__all__ = []

_IMAGES = 50  # that a kubelet lists
_READ = """
import sys, time
from pathlib import Path
from tierwise.cli.inputs import load

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("VmHWM:")).split()[1])

small, large = sys.argv[1:]
load([small])
before, begun = peak(), time.process_time()
kept = load([large])
print(time.process_time() - begun, max(1, peak() - before))
"""
"""Reads a file with next to nothing in it and then the one that counts: seconds, and bytes beyond the first."""


_SLOW = "import sys; sys.modules['yaml_rs'] = None\n"
"""As if yaml-rs were not installed."""


class _AsKubectl(yaml.CSafeDumper):
    """Writes what is there twice twice."""

    def ignore_aliases(self, data: object) -> bool:
        return True


@row("C13a", at_most(2, 1.2))
def _c13a(lab: Lab) -> Measured:
    """Peak memory above that of reading one node, against the size of the file."""
    size, peak, _ = _measured(lab)
    what = f"peak memory of reading `kubectl get -o json` ÷ the file ({_mb(peak)} ÷ {_mb(size)})"
    return what, peak / size


@row("C13b", at_most(10, 5))
def _c13b(lab: Lab) -> Measured:
    """Processor seconds of the same for 100 MB."""
    size, _, seconds = _measured(lab)
    what = f"seconds to read 100 MB of `kubectl get -o json` ({seconds:.1f} s for {_mb(size)})"
    return what, seconds / size * 1e8


@row("C13c", at_most(20, 10))
def _c13c(lab: Lab) -> Measured:
    """Processor seconds of reading `kubectl get -o yaml` without the extra `fast`, against those with it."""
    nodes = max(1, lab.size.everyday // 100)
    with tempfile.TemporaryDirectory() as folder:
        small = Path(folder, "one.yaml")
        large = Path(folder, "all.yaml")
        for file, number in ((small, 1), (large, nodes)):
            items = [*map(_node, range(number)), *map(_pod, range(10 * number))]
            file.write_text(yaml.dump({"apiVersion": "v1", "items": items, "kind": "List"}, Dumper=_AsKubectl))
        without, fast = (_read(small, large, before)[0] for before in (_SLOW, ""))
    what = f"seconds to read `kubectl get -o yaml` without yaml-rs ÷ with it ({without:.1f} s ÷ {fast:.1f} s)"
    return what, without / fast


@row("C13d", at_most(3, 1.15))
def _c13d(lab: Lab) -> Measured:
    """The first reading of a cluster's pods, against decoding them."""
    number = lab.size.everyday
    pods = [_pod(i) for i in range(number)]
    groups = [group(g) for g in range(number // GANG)]
    objects = read_manifests([*map(node, range(number // 8)), *groups, *pods])
    texts = [json.dumps(raw).encode() for raw in pods[:1_000]]
    decoding = best_of(3, lambda: [codec.decode_json(text, Pod) for text in texts], clock=process_time) / len(texts)
    reading = best_of(3, lambda: build(objects, 0.0), clock=process_time) / number
    what = f"reading one of {number:,} pods for the first time ÷ decoding it"
    return compared(f"{what}, {len(texts[0]) / 1e3:.0f} KB", reading, decoding)


def _measured(lab: Lab) -> tuple[int, int, float]:
    return lab.once("files", lambda: _measure(max(1, lab.size.everyday // 10)))


def _measure(nodes: int) -> tuple[int, int, float]:
    """The size of a file, and bytes and seconds that reading it takes."""
    with tempfile.TemporaryDirectory() as folder:
        small = Path(folder, "one.json")
        large = Path(folder, "all.json")
        _write(small, (_node(0),))
        _write(large, (*map(_node, range(nodes)), *(_pod(i) for i in range(10 * nodes))))
        seconds, peak = _read(small, large)
        return large.stat().st_size, peak, seconds


def _read(small: Path, large: Path, before: str = "") -> tuple[float, int]:
    command = [sys.executable, "-c", before + _READ, str(small), str(large)]
    seconds, peak = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return float(seconds), int(peak)


def _write(file: Path, manifests: tuple[Manifest, ...]) -> None:
    """As kubectl writes: keys sorted, four spaces, the kind after the items."""
    with file.open("w") as out:
        out.write('{\n    "apiVersion": "v1",\n    "items": [\n')
        out.writelines(_between(json.dumps(raw, indent=4, sort_keys=True) for raw in manifests))
        out.write('\n    ],\n    "kind": "List",\n    "metadata": {\n        "resourceVersion": ""\n    }\n}\n')


def _between(texts: Iterator[str]) -> Iterator[str]:
    for i, text in enumerate(texts):
        yield ("" if i == 0 else ",\n") + "        " + text.replace("\n", "\n        ")


def _node(number: int) -> Manifest:
    raw = node(number)
    raw["status"]["images"] = [
        {"names": [f"registry.example/{i}@sha256:{i:064x}", f"registry.example/team-{i % 7}/app-{i}:v{i}"]} | _size(i)
        for i in range(_IMAGES)
    ]
    return _managed(raw)


def _size(number: int) -> Manifest:
    return {"sizeBytes": 1_000_000 * number}


def _pod(number: int) -> Manifest:
    raw = pod(number // 100, number % 100)
    container = raw["spec"]["containers"][0]
    container["env"] = [{"name": f"VARIABLE_{i}", "value": f"value {i} of this container"} for i in range(12)]
    container["volumeMounts"] = [{"name": f"v{i}", "mountPath": f"/var/lib/{i}", "readOnly": True} for i in range(3)]
    raw["spec"]["volumes"] = [{"name": f"v{i}", "configMap": {"name": f"settings-{i}"}} for i in range(3)]
    raw["spec"]["tolerations"] = [
        {"key": f"node.kubernetes.io/{what}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for what in ("not-ready", "unreachable")
    ]
    raw["status"]["conditions"] = [
        {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    return _managed(raw)


def _managed(raw: Manifest) -> Manifest:
    """With the API server's bookkeeping of writers, which is about half of what it sends."""
    fields: Manifest = {
        f"f:{part}-{i}": {".": {}, "f:name": {}, "f:value": {}} for part in ("spec", "status") for i in range(12)
    }
    entry = {"apiVersion": "v1", "fieldsType": "FieldsV1", "operation": "Update", "time": "2026-01-01T00:00:00Z"}
    writers = [{**entry, "manager": name, "fieldsV1": fields} for name in ("kube-controller-manager", "kubelet")]
    meta = {**raw["metadata"], "uid": "5cd8ed0e-42c1-4d34-9c01-2c7b0a6d1a55", "managedFields": writers}
    return {**raw, "metadata": meta}


def _mb(size: float) -> str:
    return f"{size / 1e6:,.0f} MB"
