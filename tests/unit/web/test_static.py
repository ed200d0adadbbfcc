"""The static files: they refer to each other and to nothing else, and a wheel takes them along."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pytest
from tests.support.commands import ROOT

STATIC = ROOT / "src" / "tierwise" / "web" / "static"
FILES = sorted(STATIC.iterdir())
_IMPORT = re.compile(r'(?:from |import\()"\./([\w.]+)"')
_LINK = re.compile(r'(?:src=|href=|SharedWorker\()"/static/([\w.]+)"')


def test_every_file_that_is_named_exists_and_every_file_is_named() -> None:
    """Modules by their imports, the rest by the page."""
    named = {name for file in FILES for name in _IMPORT.findall(file.read_text()) + _LINK.findall(file.read_text())}

    assert {file.name for file in FILES} - {"index.html", "tenant.html"} == named


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_nothing_is_loaded_from_elsewhere_and_no_text_becomes_markup(file: Path) -> None:
    """No other host, no inline script or style, no way from a string to elements."""
    text = file.read_text().replace("http://www.w3.org/2000/svg", "")

    assert "://" not in text
    for risk in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "style=",
        "onclick",
        "<style",
    ):
        assert risk not in text
    assert "<script>" not in text


def test_a_wheel_has_them(tmp_path: Path) -> None:
    """They are package data like any other file."""
    builder = pytest.importorskip("hatchling.builders.wheel").WheelBuilder(str(ROOT))
    wheel = next(builder.build(directory=str(tmp_path), versions=["standard"]))

    names = {Path(name).name for name in zipfile.ZipFile(wheel).namelist() if "/web/static/" in name}
    assert {file.name for file in FILES} == names
