"""Kubernetes' own package for selectors of devices and tierwise's on the same drawn selectors.

Every selector is drawn from its own seed, so a difference can be drawn again (`--only SEED`). What is compared: whether
the API server would refuse it, what it is estimated to cost, and what it says of a device: yes, no, or an error. With
`--table FILE` the answers of Kubernetes are written down for a test that runs without Go.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
from go_programs import HERE, kubernetes

sys.path.insert(0, str(HERE.parents[1]))
from tests.support.selectors import DRIVER, draw, kept

from tierwise.api.cel import CompileError, EvaluationError, TooMuchWorkError, Work, selector
from tierwise.api.resource import Device

Raw = dict[str, Any]

_LIMIT = 1_000_000
_PLENTY = 10**9


def theirs_of(program: Path, questions: list[tuple[str, Raw]]) -> list[Raw]:
    """What Kubernetes' package answers, from one process for all of these."""
    lines = "".join(json.dumps({"expression": e, "driver": DRIVER, "device": d}) + "\n" for e, d in questions)
    ran = subprocess.run([program], input=lines, capture_output=True, text=True)
    answers = [json.loads(line) for line in ran.stdout.splitlines()]
    if len(answers) != len(questions):
        raise SystemExit(f"the package ended after {len(answers)} of {len(questions)}: {ran.stderr[-2000:]}")
    return answers


def ours_of(expression: str, device: Raw) -> Raw:
    """What tierwise answers."""
    try:
        found = selector(expression)
    except CompileError as error:
        return {"refused": str(error)}
    budget, said = Work(_PLENTY), Raw(most=found.most)
    try:
        said["match"] = found.matches(DRIVER, msgspec.convert(device, Device), budget)
    except TooMuchWorkError as error:
        said["beyond"] = str(error)
    except EvaluationError as error:
        said["error"] = str(error)
    return {**said, "cost": _PLENTY - budget.left}


def verdict(said: Raw) -> str:
    """Refused, an error, or what the selector says of the device."""
    if said.get("refused") or said["most"] > _LIMIT:
        return "refused"
    if "beyond" in said or "cost limit exceeded" in said.get("error", ""):
        return "too much work"
    return "error" if said.get("error") else "yes" if said["match"] else "no"


def main() -> int:
    """Compare, and say what differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--selectors", type=int, default=7380)
    parser.add_argument("--seed", type=int, default=1, help="the first seed; selector k is drawn from seed + k")
    parser.add_argument("--only", type=int, help="draw this one seed, and print the selector and both answers")
    parser.add_argument("--show", type=int, default=10, help="how many differences to print")
    parser.add_argument("--table", type=Path, help="write Kubernetes' answers to this file")
    options = parser.parse_args()
    program = kubernetes("device_selectors.go")
    seeds = [options.only] if options.only is not None else range(options.seed, options.seed + options.selectors)
    fixed = kept() if options.only is None else []
    questions = [*fixed, *(draw(seed) for seed in seeds)]
    names = [*(f"kept {i + 1}" for i in range(len(fixed))), *(f"seed {seed}" for seed in seeds)]
    answers = theirs_of(program, questions)
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    dearer = cheaper = 0
    for name, (expression, device), theirs in zip(names, questions, answers, strict=True):
        ours = ours_of(expression, device)
        said = verdict(theirs)
        counts[said] += 1
        if options.only is not None:
            print(expression, json.dumps(device), "\nkubernetes", theirs, "\ntierwise  ", ours)
        if verdict(ours) != said or (said != "refused" and ours["most"] != theirs["most"]):
            wrong.append(f"{name}: {expression} on {device['name']}: kubernetes {theirs}, tierwise {ours}")
        elif said in ("yes", "no"):
            dearer += ours["cost"] > theirs["cost"]
            cheaper += ours["cost"] < theirs["cost"]
    shown = ", ".join(f"{number} {said}" for said, number in sorted(counts.items()))
    print(f"{len(questions)} selectors ({shown}): {len(wrong)} differ")
    print(f"of those with an answer {dearer} are charged more than in Kubernetes, and {cheaper} less")
    for text in wrong[: options.show]:
        print(f"  {text}")
    if options.table is not None:
        rows = [
            [expression, device["name"], verdict(theirs), theirs["most"] if verdict(theirs) != "refused" else 0]
            for (expression, device), theirs in zip(questions, answers, strict=True)
        ]
        options.table.write_text("[\n" + ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n]\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
