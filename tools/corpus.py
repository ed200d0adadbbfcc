"""Run the manifests of other projects through `tierwise validate` and `tierwise schedule`, and count what is said.

    python tools/corpus.py FOLDER [--most 60] [--list silent] [--list wrong]

Each folder below FOLDER is a project: a snapshot of its repository, of which the YAML files with objects of Kubernetes
are read, but neither templates of charts nor definitions. Nothing of it is kept. Every file is one of these:

    ok      all of its objects are read, and nothing is said about them
    told    a line says what is not read, not supported or wrong, and names it
    silent  an object that wants pods has none in the plan, and no line says why
    wrong   a traceback, no answer in time, a file that `schedule` refuses and `validate` does not, or one in which
            `validate` finds a mistake that `schedule` does not tell
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import yaml
from click.testing import CliRunner, Result

from tierwise.cli.main import cli

KINDS = ("ok", "told", "silent", "wrong")
LONGEST = 20
"""Seconds of the processor for one command."""
LARGEST = 1 << 20
_LEFT_OUT = {".github", "vendor", "node_modules", "templates", "crd", "crds", "charts", "chart"}
_NOT_READ = {"CustomResourceDefinition", "Kustomization", "Component", "List"}
_TEMPLATES = {"TrainingRuntime", "ClusterTrainingRuntime", "PodTemplate"}
"""Kinds with containers of which others make pods."""


class _LateError(Exception):
    pass


def main() -> int:
    """Print a table of counts, and the files of the kinds that are asked for; 1 where something is silent or wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--list", action="append", choices=KINDS, default=[], help="name the files of this kind")
    parser.add_argument("--most", type=int, help="so many files of a project, from all of its folders")
    asked = parser.parse_args()
    signal.signal(signal.SIGPROF, _late)
    whole: Counter[str] = Counter()
    print("| Project | Files | " + " | ".join(KINDS) + " |\n|---|---|" + "---|" * len(KINDS))
    for project in sorted(path for path in asked.folder.iterdir() if path.is_dir()):
        counts: Counter[str] = Counter()
        files = list(_files(project))
        for file in files[:: max(1, -(-len(files) // asked.most))] if asked.most else files:
            kind, why = judged(file)
            counts[kind] += 1
            if kind in asked.list:
                print(f"{kind}: {file.relative_to(asked.folder)}: {why}", file=sys.stderr, flush=True)
        if counts:
            print(_row(project.name.replace("+", "/"), counts), flush=True)
            whole += counts
    print(_row("all", whole))
    return int(bool(whole["silent"] or whole["wrong"]))


def _row(name: str, counts: Counter[str]) -> str:
    return f"| {name} | {counts.total()} | " + " | ".join(str(counts[kind]) for kind in KINDS) + " |"


def _files(project: Path) -> Iterator[Path]:
    """The files of a project with objects for a cluster."""
    for file in sorted((*project.rglob("*.yaml"), *project.rglob("*.yml"))):
        if _LEFT_OUT.isdisjoint(file.parts) and file.stat().st_size <= LARGEST and _objects(file):
            yield file


def _objects(file: Path) -> list[dict[str, Any]]:
    """The objects of a file; none where it is a template, no YAML, or has nothing that this is about."""
    try:
        text = file.read_text(encoding="utf-8")
        found = [] if "{{" in text else list(yaml.load_all(text, Loader=yaml.CSafeLoader))
    except (OSError, UnicodeError, yaml.YAMLError):
        return []
    objects = [raw for raw in found if isinstance(raw, dict) and raw.get("apiVersion") and raw.get("kind")]
    return [] if all(raw["kind"] in _NOT_READ for raw in objects) else objects


def judged(file: Path) -> tuple[str, str]:
    """What becomes of a file, and why it is called so."""
    try:
        checked = _run("validate", "-f", file, "-o", "json")
        planned = _run("schedule", "-f", file, "-o", "json")
    except _LateError:
        return "wrong", f"no answer in {LONGEST} seconds"
    for result in (checked, planned):
        if result.exit_code not in (0, 1, 2) or (result.exception and not isinstance(result.exception, SystemExit)):
            return "wrong", f"it ends with {result.exception!r}"
    # That a file has no nodes is said of nearly all, and says nothing about what is read of it.
    of_file = "".join(line for line in planned.stderr.splitlines(keepends=True) if "hold no nodes" not in line).strip()
    refused, told = planned.exit_code == 2, bool(of_file)
    if (refused and checked.exit_code == 0) or (checked.exit_code != 0 and not told):
        return "wrong", f"validate exits {checked.exit_code} and schedule {planned.exit_code}: {planned.stderr[:200]}"
    said = checked.stdout + checked.stderr + planned.stderr
    if refused:
        return "told", of_file
    plan = json.loads(planned.stdout)
    pods = [*plan["bindings"], *(pod for entry in plan["pending"] for pod in entry.get("pods", [entry]))]
    shown = f"{said} {pods}"
    for raw in _objects(file):
        if _wants_pods(raw) and _name(raw) not in shown and raw["kind"] not in said:
            return "silent", f"{raw['kind']} {_name(raw)} has a template, no pod and no line"
    warned = json.loads(checked.stdout)["warnings"] or of_file
    return ("told", str(warned)) if warned else ("ok", "")


def _name(raw: dict[str, Any]) -> str:
    meta = raw.get("metadata") or {}
    return str(meta.get("name") or meta.get("generateName") or "")


def _wants_pods(raw: dict[str, Any]) -> bool:
    spec = raw.get("spec")
    idle = isinstance(spec, dict) and (spec.get("replicas") == 0 or spec.get("suspend") is True)
    return not idle and raw["kind"] not in _TEMPLATES and _has_pods(raw)


def _has_pods(raw: object) -> bool:
    """Whether an object has containers somewhere, and so pods."""
    if isinstance(raw, dict):
        if isinstance(raw.get("containers"), list) and raw["containers"]:
            return True
        return any(_has_pods(value) for value in raw.values())
    return isinstance(raw, list) and any(_has_pods(value) for value in raw)


def _run(*words: object) -> Result:
    signal.setitimer(signal.ITIMER_PROF, LONGEST)
    try:
        env = {"COLUMNS": "200", "TERM": "dumb", "NO_COLOR": "1"}
        return CliRunner().invoke(cli, [str(word) for word in words], env=env, prog_name="tierwise")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _late(_signal: int, _frame: FrameType | None) -> None:
    raise _LateError


if __name__ == "__main__":
    sys.exit(main())
