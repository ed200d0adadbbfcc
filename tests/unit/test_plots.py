"""The pictures of the benchmarks."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_pictures_show_what_the_tables_say() -> None:
    """Whoever changes a measured row draws it again: python tools/plots.py."""
    spec = importlib.util.spec_from_file_location("plots", ROOT / "tools" / "plots.py")
    assert spec is not None
    assert spec.loader is not None
    plots = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(plots)

    drawn = {name: (ROOT / "docs" / "images" / name).read_text(encoding="utf-8") for name in plots.pictures()}
    assert plots.pictures() == drawn
