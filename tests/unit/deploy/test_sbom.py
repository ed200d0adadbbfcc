"""tools/sbom.py: what an image holds, and under which licences."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("cyclonedx", reason="what writes SBOMs is in the lock files of tests and of releases")

TOOL = Path(__file__).parents[3] / "tools/sbom.py"
SCHEMA_LICENCE = {"expression", "license"}


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two installed packages beside tierwise, one with an expression and one with a classifier, and one of Debian."""
    folder = tmp_path_factory.mktemp("image")
    (folder / "tierwise").mkdir(parents=True)
    (folder / "tierwise_lab").mkdir()
    (folder / "tierwise/__init__.py").write_text('__version__ = "9.8.7"\n')
    for name, said in (("B_c", "License: a\n very long text"), ("a", "License-Expression: MIT OR Apache-2.0")):
        info = folder / f"{name}-1.2.dist-info"
        info.mkdir()
        classifier = "Classifier: License :: OSI Approved :: BSD License\n" if name == "B_c" else ""
        (info / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: 1.2\n{classifier}{said}\n")
    for file, text in (
        ("etc/os-release", 'ID=debian\nVERSION_ID="13"\n'),
        ("usr/share/doc/libc6/copyright", "License: LGPL-2.1\n"),
        ("var/lib/dpkg/status", "Package: libc6\nStatus: install ok installed\nArchitecture: all\nVersion: 2.4+1\n"),
    ):
        (folder / file).parent.mkdir(parents=True)
        (folder / file).write_text(text)
    return folder


def _made(packages: Path, folder: Path) -> tuple[str, str]:
    command = [sys.executable, str(TOOL), str(packages), str(folder), str(packages)]
    subprocess.run(command, check=True, capture_output=True)
    return (folder / "sbom.cdx.json").read_text(), (folder / "LICENSES.md").read_text()


@pytest.fixture(scope="module")
def made(packages: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """The SBOM, and the list of licences."""
    return _made(packages, tmp_path_factory.mktemp("out"))


def test_every_package_is_listed_with_its_licence(made: tuple[str, str]) -> None:
    """By its normal name, an expression before anything else; and every component can be referred to."""
    document, licences = json.loads(made[0]), made[1]
    found = {c["name"]: c for c in document["components"] if c.get("purl", "").startswith("pkg:pypi/")}

    assert ("tierwise", "9.8.7") == tuple(document["metadata"]["component"][key] for key in ("name", "version"))
    own = [component["name"] for component in document["metadata"]["component"]["components"]]
    assert ["tierwise", "tierwise_lab"] == own
    assert ["a", "b-c"] == list(found)
    assert [{"expression": "MIT OR Apache-2.0"}] == found["a"]["licenses"]
    assert [{"license": {"name": "BSD License"}}] == found["b-c"]["licenses"]
    assert "| b-c | 1.2 | BSD License |" in licences
    assert "| libc6 | 2.4+1 | LGPL-2.1 |" in licences
    references = [component["bom-ref"] for component in document["components"]]
    assert "pkg:deb/debian/libc6@2.4%2B1?arch=all&distro=debian-13" in references
    assert len(references) == len(set(references))
    told = {entry["ref"]: entry.get("dependsOn", []) for entry in document["dependencies"]}
    assert sorted(references) == sorted(told["pkg:pypi/tierwise@9.8.7"])
    assert all(SCHEMA_LICENCE & set(entry) for c in document["components"] for entry in c["licenses"])


def test_the_same_packages_give_the_same_files(packages: Path, made: tuple[str, str], tmp_path: Path) -> None:
    """Nothing in them is of the moment."""
    assert made == _made(packages, tmp_path)
