"""Every conformance case through the command line: a cluster, what is asked of it, and what must come out."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.conformance.checks import faults
from tests.support.commands import manifests, run

CASES = Path(__file__).parent / "cases"
FILES = sorted(CASES.rglob("*.yaml"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(CASES).with_suffix("")))
def test_case(file: Path, tmp_path: Path) -> None:
    """The answer of the command is what the case expects, and a case that fails can be found by its name."""
    case = _read(file)
    expected = case["expect"]
    assert file.stem == case["name"]

    result = run(*_words(case, tmp_path), "-o", "json")

    if "exit" in expected:
        assert expected["exit"] == result.exit_code, result.stderr
        assert re.search(expected.get("stderr", ""), result.stderr) is not None, result.stderr
        return
    assert result.exit_code in ((0, 1) if case["verb"] == "validate" else (0,)), result.stderr
    assert [] == faults(case["verb"], expected, json.loads(result.stdout))


def test_the_cases_are_there() -> None:
    """A folder that moved would pass without a case."""
    assert len(FILES) >= 700


def _read(file: Path) -> dict[str, Any]:
    case: dict[str, Any] = yaml.load(file.read_text(), Loader=yaml.CSafeLoader)  # in C: seven times as quick
    return case


def _words(case: dict[str, Any], folder: Path) -> list[str]:
    words = ["topology", "show"] if case["verb"] == "topology" else [case["verb"]]
    words += ["-f", str(manifests(folder, *case["objects"]))]
    if "config" in case:
        config = folder / "scheduler.yaml"
        config.write_text(case["config"] if isinstance(case["config"], str) else yaml.safe_dump(case["config"]))
        words += ["--config", str(config)]
    if "cycles" in case and case["verb"] == "schedule":
        words += ["--cycles", str(case["cycles"])]
    return words + [str(word) for word in case.get("args", [])]
