"""The guide for writers of plugins: its files are the example package, and its commands run in a fresh environment."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.support.commands import ROOT
from tests.support.plugin_table import OWN_PLUGIN, plugin_table

from tierwise.framework.declaration import POINTS, check_plugin

GUIDE = ROOT / "docs" / "guides" / "write-a-plugin.md"

_FILE = re.compile(r"^`([\w./]+)`:\n\n```\w+\n(.*?)^```", re.MULTILINE | re.DOTALL)
_CONSOLE = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
_ROW = re.compile(r"^\| [^|]+\? \| (\w+) \| ([^|]+) \| (?:`([\w-]+)`)? ?\|$", re.MULTILINE)


class Step(msgspec.Struct, frozen=True):
    """A command of the guide, and the lines that it shows below it."""

    command: str
    shown: tuple[str, ...]


def _steps() -> Iterator[Step]:
    for block in _CONSOLE.findall(GUIDE.read_text(encoding="utf-8")):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *shown = part.rstrip("\n").split("\n")
            yield Step(command, tuple(shown))


def _program(path: Path, *words: str) -> None:
    path.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment of its own, which sees the packages of this one: nothing is fetched, and nothing left behind."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    asked = [str(python), "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"]
    site = Path(subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip())
    (site / "beside.pth").write_text(f"import site; site.addsitedir({sysconfig.get_paths()['purelib']!r})\n")
    _program(folder / "bin" / "tierwise", str(python), "-m", "tierwise")
    _program(folder / "bin" / "pip", sys.executable, "-m", "pip", "--python", str(python))
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("COV_", "PYTEST_"))}
    return kept | {
        "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "PYTHONDONTWRITEBYTECODE": "1",  # two edits in one second would leave stale ones
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_INDEX": "1",
        "COLUMNS": "80",
        "NO_COLOR": "1",
        "TERM": "dumb",
    }


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that a reader of the guide ends up with: the files that it shows, and the clusters of the example."""
    folder = tmp_path_factory.mktemp("acme-plugins")
    for manifests in OWN_PLUGIN.glob("*.yaml"):
        shutil.copy(manifests, folder)
    for name, text in _FILE.findall(GUIDE.read_text(encoding="utf-8")):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def _run(command: str, package: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=package,
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        timeout=120,
    )


def _as_shown(shown: tuple[str, ...], actual: str) -> bool:
    pattern = "".join(r"(?:.*\n)*?" if line == "[...]" else re.escape(line) + r"\n" for line in shown)
    return re.fullmatch(pattern, actual) is not None


def test_the_guide_works_from_top_to_bottom(package: Path, environment: dict[str, str]) -> None:
    """Every command prints what is shown; those whose output is an error end with status 2, and no other.

    At the end the package is installed, and the list knows its plugins.
    """
    for step in _steps():
        done = _run(step.command, package, environment)
        refused = bool(step.shown) and step.shown[0].startswith("tierwise: ")

        assert (2 if refused else 0) == done.returncode, f"{step.command}\n{done.stdout}{done.stderr}"
        if step.shown:
            assert _as_shown(step.shown, done.stderr if refused else done.stdout), f"{step.command}\n{done.stdout}"

    listed = json.loads(_run("tierwise plugins -o json", package, environment).stdout)["plugins"]
    others = {plugin["name"]: plugin for plugin in listed if plugin["package"] != "tierwise"}

    assert {"maintenance", "namespace-order"} <= set(others)
    assert "1.0" == others["maintenance"]["version"]
    assert ["label", "weight"] == others["maintenance"]["arguments"]
    assert ["VictimSelector"] == others["namespace-order"]["points"]


def test_the_guide_shows_the_example() -> None:
    """Whoever follows the guide ends up with the package in examples/."""
    shown = dict(_FILE.findall(GUIDE.read_text(encoding="utf-8")))

    assert {name: (OWN_PLUGIN / name).read_text(encoding="utf-8") for name in shown} == shown
    code = {str(file.relative_to(OWN_PLUGIN)) for file in OWN_PLUGIN.rglob("*.py")}
    assert code | {"pyproject.toml"} <= set(shown)


def test_the_guide_names_every_point_and_a_plugin_that_takes_part() -> None:
    """With its methods; document 001's three points are among them."""
    table, text = plugin_table(), GUIDE.read_text(encoding="utf-8")
    rows = {point: (methods, plugin) for point, methods, plugin in _ROW.findall(text)}

    assert set(POINTS) == set(rows)
    for point, (methods, plugin) in rows.items():
        own = [name for name in vars(POINTS[point]) if not name.startswith("_")]
        assert ", ".join(f"`{name}`" for name in own) == methods
        assert not plugin or POINTS[point] in check_plugin(plugin, table[plugin]).points, plugin
    gangs = {"Predicate": "SearchSpace.never_fits", "SearchSpace": "SearchSpace", "VictimSelector": "VictimSelector"}
    assert all(f"Gang{theirs} is `{ours}`" in text for theirs, ours in gangs.items())
