"""tools/changelog.py: fragments move into the list of changes, below the version that is made."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A list of changes without a version, and two fragments."""
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n\nIn `changelog.d/`.\n")
    (tmp_path / "changelog.d").mkdir()
    _fragment(tmp_path, "0001-a", "### Fixed\n\nOne.\nTwo.\n\nThree.\n")
    _fragment(tmp_path, "0002-b", "### Added\n\nFour.\n\n### Fixed\n\nFive.\n")
    return tmp_path


def _fragment(folder: Path, name: str, text: str) -> None:
    (folder / f"changelog.d/{name}.md").write_text(text)


def _gather(folder: Path, version: str = "0.1.0") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tools/changelog.py"), version, "2026-11-16", str(folder)]
    return subprocess.run(command, capture_output=True, text=True)


FIRST = """\
## 0.1.0 (2026-11-16)

### Added

- Four.

### Fixed

- One.
  Two.

  Three.
- Five.
"""


def test_fragments_are_grouped_below_the_version(folder: Path) -> None:
    """In order of their names, several groups in one fragment included; afterwards they are gone."""
    assert 0 == _gather(folder).returncode
    assert (folder / "CHANGELOG.md").read_text().endswith(f"In `changelog.d/`.\n\n{FIRST}")
    assert [] == list((folder / "changelog.d").iterdir())


def test_a_version_that_is_being_made_gets_more(folder: Path) -> None:
    """And a later one stands above it."""
    _gather(folder)
    _fragment(folder, "0003-c", "### Fixed\n\nSix.\n")
    _gather(folder)
    grown = FIRST + "- Six.\n"
    assert (folder / "CHANGELOG.md").read_text().endswith(f"\n\n{grown}")
    _fragment(folder, "0004-d", "### Removed\n\nSeven.\n")
    _gather(folder, "0.2.0")
    assert (
        (folder / "CHANGELOG.md").read_text().endswith(f"## 0.2.0 (2026-11-16)\n\n### Removed\n\n- Seven.\n\n{grown}")
    )


@pytest.mark.parametrize("text", ["Nothing above.\n", "### Improved\n\nSomething.\n", "### Fixed\n", ""])
def test_a_fragment_without_a_group_is_refused(folder: Path, text: str) -> None:
    """By its name, and nothing is changed."""
    _fragment(folder, "0003-c", text)
    before = (folder / "CHANGELOG.md").read_text()
    refused = _gather(folder)

    assert (1, before) == (refused.returncode, (folder / "CHANGELOG.md").read_text())
    assert refused.stderr.startswith("0003-c.md: ")


def test_every_fragment_can_be_gathered() -> None:
    """Those that wait for the next version."""
    for fragment in (ROOT / "changelog.d").glob("[0-9]*.md"):
        groups = [line.removeprefix("### ") for line in fragment.read_text().splitlines() if line.startswith("### ")]
        assert groups, fragment.name
        assert set(groups) <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}, fragment.name
