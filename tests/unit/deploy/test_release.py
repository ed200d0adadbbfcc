"""tools/release.py: what a release holds, and what it says that it could not do."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import sys
import tarfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tierwise import __version__

ROOT = Path(__file__).parents[3]
LOCKS = sorted((ROOT / "locks").glob("*.lock"))
CHART = ROOT / "deploy/helm/tierwise"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    """The program as a module; it imports the one beside it."""
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import release  # type: ignore[import-not-found]
    finally:
        sys.path.pop(0)
    found: ModuleType = release
    return found


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def test_the_chart_is_packed_as_the_same_bytes(tool: ModuleType, tmp_path: Path) -> None:
    """With every file of it below its name, as helm wants it."""
    packed = tool.chart_archive(CHART)
    file = tmp_path / "chart.tgz"
    file.write_bytes(packed)
    with tarfile.open(file) as archive:
        names = set(archive.getnames())

    assert packed == tool.chart_archive(CHART)
    assert {"tierwise/Chart.yaml", "tierwise/values.yaml", "tierwise/values.schema.json"} <= names
    assert {"tierwise"} == {name.partition("/")[0] for name in names}


def test_the_chart_is_an_oci_artefact(tool: ModuleType, tmp_path: Path) -> None:
    """From the index to the layer every digest and size is that of its blob, and kinds are helm's."""
    packed = tmp_path / "chart.tgz"
    packed.write_bytes(tool.chart_archive(CHART))

    tool.oci_layout(packed, CHART, tmp_path / "oci")

    def blob(entry: Any) -> bytes:
        data: bytes = (tmp_path / "oci/blobs/sha256" / entry["digest"].removeprefix("sha256:")).read_bytes()
        assert (entry["digest"], entry["size"]) == (_digest(data), len(data))
        return data

    (entry,) = json.loads((tmp_path / "oci/index.json").read_text())["manifests"]
    manifest = json.loads(blob(entry))
    (layer,) = manifest["layers"]
    assert __version__ == json.loads(blob(manifest["config"]))["version"]
    assert packed.read_bytes() == blob(layer)
    kinds = ("application/vnd.cncf.helm.config.v1+json", "application/vnd.cncf.helm.chart.content.v1.tar+gzip")
    assert kinds == (manifest["config"]["mediaType"], layer["mediaType"])
    assert {"imageLayoutVersion": "1.0.0"} == json.loads((tmp_path / "oci/oci-layout").read_text())


def test_the_plugin_has_a_manifest_for_krew(tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the sum of its archive, and a program in it of the name that the manifest says."""
    monkeypatch.setenv("RELEASE_URL", "https://example.org/v")
    release = tool.Release(tmp_path / "out")

    tool.plugin(release, "1.2.3")

    manifest = yaml.safe_load((release.folder / "krew.yaml").read_text())
    (platform,) = manifest["spec"]["platforms"]
    archive = release.folder / "kubectl-tierwise.tar.gz"
    with tarfile.open(archive) as found:
        modes = {entry.name: entry.mode for entry in found}
    assert ("v1.2.3", "https://example.org/v/kubectl-tierwise.tar.gz") == (manifest["spec"]["version"], platform["uri"])
    assert f"sha256:{platform['sha256']}" == _digest(archive.read_bytes())
    assert 0o755 == modes[platform["bin"]]
    assert [entry["from"] for entry in platform["files"]] == ["kubectl-tierwise", "LICENSE"]
    assert [] == release.left


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not on this machine")
def test_provenance_names_every_file_and_its_inputs(tool: ModuleType, tmp_path: Path) -> None:
    """An in-toto statement with the sums of what was made, the commit and the lock files."""
    release = tool.Release(tmp_path / "out")
    release.write("a.whl", b"a")
    release.write("oci/index.json", b"{}")

    statement = json.loads(tool.provenance(release, "1.2.3"))

    subjects = {subject["name"]: subject["digest"]["sha256"] for subject in statement["subject"]}
    assert {"a.whl": _digest(b"a")[7:], "oci/index.json": _digest(b"{}")[7:]} == subjects
    assert ("https://in-toto.io/Statement/v1", "https://slsa.dev/provenance/v1") == (
        statement["_type"],
        statement["predicateType"],
    )
    inputs = [found["uri"] for found in statement["predicate"]["buildDefinition"]["resolvedDependencies"]]
    assert {f"file:locks/{lock.name}" for lock in LOCKS} <= set(inputs)


def test_what_is_signed_can_be_verified(tool: ModuleType, tmp_path: Path) -> None:
    """Each file by the key's own signature, and the statement in its envelope."""
    key = ec.generate_private_key(ec.SECP256R1())
    none = serialization.NoEncryption()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, none)
    (tmp_path / "key.pem").write_bytes(pem)
    release = tool.Release(tmp_path / "out")
    release.write("a.whl", b"a")

    tool.sign(release, b"{}", str(tmp_path / "key.pem"))

    public, how = key.public_key(), ec.ECDSA(hashes.SHA256())
    public.verify(base64.b64decode((release.folder / "a.whl.sig").read_bytes()), b"a", how)
    envelope = json.loads((release.folder / "provenance.intoto.jsonl").read_text())
    signed = base64.b64decode(envelope["signatures"][0]["sig"])
    public.verify(signed, b"DSSEv1 28 application/vnd.in-toto+json 2 {}", how)
    assert b"{}" == base64.b64decode(envelope["payload"])


def test_what_could_not_be_done_is_said(tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No key, no registry, no image: each is a line, and nothing fails."""
    monkeypatch.setenv("PATH", str(tmp_path))
    release = tool.Release(tmp_path / "out")

    tool.pushed(release, tmp_path / "chart.tgz", "1.2.3", None, None)
    tool.image(release, skip=True)
    tool.sign(release, b"{}", None)

    assert [
        "the chart was not pushed to a registry: there is no helm and docker-registry; oci/ holds the artefact",
        "the image was not built: --no-image",
        "nothing was signed: RELEASE_KEY is not set, and for keyless signatures there is no cosign",
    ] == release.left
