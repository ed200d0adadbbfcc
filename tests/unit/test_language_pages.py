"""The pages of languages: what they show as a migration is scheduled, and both ways of writing it get one place."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from tests.support.languages import run

from tierwise.admission import validate
from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.dialects.languages import LANGUAGES
from tierwise.port import Objects

FOLDER = Path(__file__).parents[2] / "docs" / "languages"
PAGES = sorted(path for path in FOLDER.glob("*.md") if path.name != "README.md")
_YAML = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)


def _blocks(page: Path, heading: str) -> list[list[Raw]]:
    section = page.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return [[raw for raw in yaml.safe_load_all(block) if raw] for block in _YAML.findall(section)]


def _cluster() -> list[Raw]:
    (nodes,) = _blocks(FOLDER / "README.md", "The cluster of the examples")
    return nodes


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_both_ways_of_writing_a_gang_get_one_place(page: Path) -> None:
    """Before and after the migration the same pods stand on the same nodes, and all of them do."""
    before, after = _blocks(page, "Migration")

    placed = [run(_cluster(), manifests)[0] for manifests in (before, after)]

    assert placed[0] == placed[1]
    assert {raw["metadata"]["name"] for raw in before if raw["kind"] == "Pod"} == set(placed[0])  # type: ignore[index]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_shows_is_valid(page: Path) -> None:
    """Without a doubt: somebody will copy it."""
    for manifests in _blocks(page, "Migration"):
        verdict = validate(Objects.of((codec.decode(raw), raw) for raw in [*_cluster(), *manifests]))
        assert ((), ()) == (verdict.errors, verdict.warnings)


def test_every_language_is_on_the_front_page() -> None:
    """With what its pods name their group by."""
    front = (FOLDER / "README.md").read_text(encoding="utf-8")

    assert [] == [name for name in LANGUAGES if name not in front]
    assert [] == [page.name for page in PAGES if f"]({page.name})" not in front]
