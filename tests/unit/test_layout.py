"""The layout that the documents draw is the one that the tree has."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "tierwise"


def _layers() -> list[set[str]]:
    """The layers of the linter's contract, from the top down."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["id"] == "layers")
    return [set(re.findall(r"\w+", layer)) - {"__main__"} for layer in layers if layer != "__main__"]


def _drawn() -> list[set[str]]:
    """The layers that the architecture page draws, from the top down."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    block = page.split("## Layers")[1].split("```text\n")[1].split("```")[0]
    rows: list[set[str]] = []
    for line in block.splitlines():
        names = {name.strip() for name in line[:39].split("|")} - {""}
        if line.startswith(" "):
            rows[-1] |= names
        else:
            rows.append(names)
    return rows


def test_linter_knows_every_package() -> None:
    """A package that has no layer is held to no rule."""
    modules = {path.stem if path.is_file() else path.name for path in PACKAGE.iterdir()}
    packages = modules - {"__init__", "__main__", "__pycache__", "py"}

    assert set().union(*_layers()) == packages


def test_architecture_page_draws_the_linters_layers() -> None:
    """The drawing and the contract have the same packages on the same floors."""
    assert _layers() == _drawn()


def test_every_folder_says_what_it_holds() -> None:
    """The docstring of a package is what a reader meets first."""
    silent = [path for path in PACKAGE.rglob("__init__.py") if len(path.read_text().split('"""')[1]) < 20]

    assert [] == silent


def test_plugins_folder_shows_plugins() -> None:
    """Each file there is a plugin that a profile can name; a plugin with helpers is a folder."""
    table = (PACKAGE / "plugins" / "__init__.py").read_text()
    named = set(re.findall(r'_plugin\("([\w.]+)"', table))
    files = {path.stem for path in (PACKAGE / "plugins").glob("*.py")} - {"__init__"}

    assert files <= named
