"""tools/sbom.py: what an image holds, and under which licences."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[3] / "tools/sbom.py"
SCHEMA_LICENCE = {"expression", "license"}


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """Two installed packages beside tierwise: one with an expression, one with a classifier."""
    folder = tmp_path / "packages"
    (folder / "tierwise").mkdir(parents=True)
    (folder / "tierwise/__init__.py").write_text('__version__ = "9.8.7"\n')
    for name, said in (("B_c", "License: a\n very long text"), ("a", "License-Expression: MIT OR Apache-2.0")):
        info = folder / f"{name}-1.2.dist-info"
        info.mkdir()
        classifier = "Classifier: License :: OSI Approved :: BSD License\n" if name == "B_c" else ""
        (info / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: 1.2\n{classifier}{said}\n")
    return folder


def _made(packages: Path, folder: Path) -> tuple[str, str]:
    subprocess.run([sys.executable, str(TOOL), str(packages), str(folder)], check=True, capture_output=True)
    return (folder / "sbom.cdx.json").read_text(), (folder / "LICENSES.md").read_text()


def test_every_package_is_listed_with_its_licence(packages: Path, tmp_path: Path) -> None:
    """By its normal name, an expression before anything else; and every component can be referred to."""
    listed, licences = _made(packages, tmp_path / "out")
    document = json.loads(listed)
    found = {c["name"]: c for c in document["components"] if c.get("purl", "").startswith("pkg:pypi/")}

    assert ("tierwise", "9.8.7") == tuple(document["metadata"]["component"][key] for key in ("name", "version"))
    assert ["a", "b-c"] == list(found)
    assert [{"expression": "MIT OR Apache-2.0"}] == found["a"]["licenses"]
    assert [{"license": {"name": "BSD License"}}] == found["b-c"]["licenses"]
    assert "| b-c | 1.2 | BSD License |" in licences
    references = [component["bom-ref"] for component in document["components"]]
    assert len(references) == len(set(references))
    assert references == document["dependencies"][0]["dependsOn"]
    assert all(SCHEMA_LICENCE & set(entry) for c in document["components"] for entry in c["licenses"])


def test_the_same_packages_give_the_same_files(packages: Path, tmp_path: Path) -> None:
    """Nothing in them is of the moment."""
    assert _made(packages, tmp_path / "first") == _made(packages, tmp_path / "second")
