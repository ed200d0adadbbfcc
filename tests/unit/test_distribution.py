"""What people install: the package and nothing beside it, the same bytes each time."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

from tierwise import __version__

ROOT = Path(__file__).parents[2]
PACKAGES = (ROOT / "src/tierwise", ROOT / "src/tierwise_lab")
INFO = f"tierwise-{__version__}.dist-info"
DATA = {".css", ".html", ".js", ".svg", ".txt", ".yaml", ".typed"}
"""What the package holds beside Python: pages, examples for them, and the word that it is typed."""


def _build(folder: Path, **environment: str) -> dict[str, bytes]:
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    around = {key: value for key, value in os.environ.items() if key != "SOURCE_DATE_EPOCH"}
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, env={**around, **environment})
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Wheel and source archive."""
    folder = tmp_path_factory.mktemp("dist")
    _build(folder)
    return folder


def _sources() -> set[str]:
    files = (file for package in PACKAGES for file in package.rglob("*") if file.is_file())
    return {str(file.relative_to(ROOT / "src")) for file in files if "__pycache__" not in file.parts}


def test_the_wheel_holds_the_package_alone(dist: Path) -> None:
    """Every file of the scheduler and its laboratory, and of nothing else: no tests, nothing that was lying about."""
    (wheel,) = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    own = {name for name in names if not name.startswith(f"{INFO}/")}

    assert _sources() == own
    assert DATA | {".py"} == {Path(name).suffix for name in own}
    assert not any("test" in Path(name).name for name in own)
    licence, scripts = f"{INFO}/licenses/LICENSE", f"{INFO}/entry_points.txt"
    assert {f"{INFO}/{name}" for name in ("METADATA", "RECORD", "WHEEL")} | {licence, scripts} == names - own


def test_the_source_archive_holds_what_the_wheel_is_built_from(dist: Path) -> None:
    """And no more."""
    (source,) = dist.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}

    beside = {"CHANGELOG.md", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml", ".gitignore"}
    assert {f"src/{name}" for name in _sources()} == names - beside
    assert beside - {".gitignore"} <= names


def test_two_builds_give_the_same_bytes(dist: Path, tmp_path: Path) -> None:
    """Whatever the time zone; `make dist` moves the tree as well."""
    first = {file.name: file.read_bytes() for file in dist.iterdir()}

    assert first == _build(tmp_path, TZ="Asia/Kathmandu", LC_ALL="C")


def test_extras_stand_apart(dist: Path) -> None:
    """The core asks for nothing that only a cluster or a developer needs."""
    (wheel,) = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        described = message_from_bytes(archive.read(f"{INFO}/METADATA"))
    asked = described.get_all("Requires-Dist") or []
    core = {word.partition(">")[0].partition("=")[0].lower() for word in asked if "extra ==" not in word}
    cluster = {word.partition(">")[0].lower() for word in asked if "extra == 'kube'" in word}

    expected = ("aiohttp", "click", "google-re2", "highspy", "msgspec", "numpy", "prometheus-client", "pyyaml", "rich")
    assert {*expected} == core
    assert {"cryptography"} == cluster
    assert described["License-Expression"] == "Apache-2.0"
