#!/usr/bin/env python3
"""Gather a release in build/release: archives, chart, plugin of kubectl, SBOM, provenance, signatures. `make release`.

    tools/release.py [--folder FOLDER] [--helm HELM] [--registry REGISTRY] [--key KEY] [--no-image]

| File | What |
|---|---|
| *.whl, *.tar.gz | wheel and source archive, built twice: the same bytes |
| tierwise-VERSION.tgz, oci/ | the chart, and as an OCI layout; pushed to a registry on loopback and pulled back |
| kubectl-tierwise.tar.gz, krew.yaml | the plugin of kubectl, and its manifest for krew |
| artifacthub-repo.yml | what Artifact Hub asks for beside the annotations of the chart |
| sbom.cdx.json, LICENSES.md | what an installation holds, checked against the schema of CycloneDX |
| image.tar | the image, built twice |
| provenance.intoto.json | an in-toto statement with SLSA's provenance of all of these |
| SHA256SUMS, *.sig, provenance.intoto.jsonl | sums; signatures, where there is a key (RELEASE_KEY, a PEM file) |

Whatever could not be made, tried or signed here is said, and stands in `not-done.txt`; exit status 1 where something
that was made is wrong.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dist

ROOT = Path(__file__).resolve().parents[1]
CHART = ROOT / "deploy/helm/tierwise"
REPOSITORY = "https://example.com/tierwise"  # the address of a fork or mirror: RELEASE_URL
BUILD_TYPE = "https://tierwise.io/make-release/v1"
Raw = dict[str, Any]


class Release:
    """A folder that fills, and what could not be done."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.left: list[str] = []
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)

    def lacks(self, what: str) -> None:
        """Say what could not be done here."""
        print(f"== not done: {what}")
        self.left.append(what)

    def write(self, name: str, data: bytes) -> Path:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        return file


def main() -> None:
    """All of it."""
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--folder", type=Path, default=ROOT / "build/release")
    options.add_argument("--helm", default=os.environ.get("HELM") or shutil.which("helm"))
    options.add_argument("--registry", default=os.environ.get("REGISTRY") or shutil.which("docker-registry"))
    options.add_argument("--key", default=os.environ.get("RELEASE_KEY"))
    options.add_argument("--no-image", action="store_true")
    chosen = options.parse_args()
    release, version = Release(chosen.folder), version_of(ROOT)
    archives(release)
    packed = release.write(f"tierwise-{version}.tgz", chart_archive(CHART))
    oci_layout(packed, CHART, release.folder / "oci")
    pushed(release, packed, version, chosen.helm, chosen.registry)
    plugin(release, version)
    sbom(release)
    image(release, skip=chosen.no_image)
    shutil.copyfile(ROOT / "deploy/helm/artifacthub-repo.yml", release.folder / "artifacthub-repo.yml")
    tag(release, version)
    statement = provenance(release, version)
    sign(release, statement, chosen.key)
    release.write("not-done.txt", "".join(f"{line}\n" for line in release.left).encode())
    print(f"== {len(list(release.folder.iterdir()))} files in {release.folder}; not done: {len(release.left)}")


def version_of(tree: Path) -> str:
    """The version that the code says; the chart and the changelog say the same."""
    found = re.search(r'__version__ = "(.+)"', (tree / "src/tierwise/__init__.py").read_text())
    chart = re.search(r"^version: (.+)$", (tree / "deploy/helm/tierwise/Chart.yaml").read_text(), re.MULTILINE)
    assert found is not None
    assert chart is not None
    if found[1] != chart[1] or f"## {found[1]} " not in (tree / "CHANGELOG.md").read_text():
        raise SystemExit(f"version {found[1]} is not that of the chart ({chart[1]}), or has no heading in CHANGELOG.md")
    return found[1]


def archives(release: Release) -> None:
    """Wheel and source archive, twice."""
    built = dist.build(ROOT, release.folder)
    with tempfile.TemporaryDirectory() as folder:
        again = dist.build(dist.moved(Path(folder) / "tree"), Path(folder) / "dist")
        dist.same(built, again, "another folder at another time")


def plain_tar(files: dict[str, tuple[bytes, int]]) -> bytes:
    """A compressed archive in which nothing is of the moment: names, contents and modes alone."""
    out = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=out, mode="wb", mtime=0, filename="") as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for name, (data, mode) in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), mode
            archive.addfile(entry, io.BytesIO(data))
    return out.getvalue()


def chart_archive(chart: Path) -> bytes:
    """The chart as helm packs it, the same bytes each time."""
    ignored = {line.strip() for line in (chart / ".helmignore").read_text().splitlines()} | {".helmignore"}
    files = [file for file in chart.rglob("*") if file.is_file() and file.name not in ignored]
    return plain_tar({f"tierwise/{file.relative_to(chart)}": (file.read_bytes(), 0o644) for file in files})


def oci_layout(packed: Path, chart: Path, folder: Path) -> None:
    """The chart as an OCI artefact on disk: what `helm push` would send, for any program that copies layouts."""
    import yaml

    def blob(data: bytes, kind: str) -> Raw:
        digest = hashlib.sha256(data).hexdigest()
        (folder / "blobs/sha256").mkdir(parents=True, exist_ok=True)
        (folder / "blobs/sha256" / digest).write_bytes(data)
        return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(data)}

    about = yaml.safe_load((chart / "Chart.yaml").read_text())
    config = blob(_json(about), "application/vnd.cncf.helm.config.v1+json")
    content = blob(packed.read_bytes(), "application/vnd.cncf.helm.chart.content.v1.tar+gzip")
    titles = {
        f"org.opencontainers.image.{key}": str(about[name])
        for key, name in (("title", "name"), ("version", "version"), ("description", "description"))
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config,
        "layers": [content],
        "annotations": titles,
    }
    entry = blob(_json(manifest), "application/vnd.oci.image.manifest.v1+json")
    entry["annotations"] = {"org.opencontainers.image.ref.name": str(about["version"])}
    (folder / "index.json").write_bytes(_json({"schemaVersion": 2, "manifests": [entry]}))
    (folder / "oci-layout").write_bytes(_json({"imageLayoutVersion": "1.0.0"}))


def pushed(release: Release, packed: Path, version: str, helm: str | None, registry: str | None) -> None:
    """The chart sent to a registry on loopback by helm, and pulled back: the same bytes."""
    if not helm or not registry:
        missing = " and ".join(name for name, found in (("helm", helm), ("docker-registry", registry)) if not found)
        release.lacks(f"the chart was not pushed to a registry: there is no {missing}; oci/ holds the artefact")
        return
    with serving(registry) as host, tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [helm, "push", str(packed), f"oci://{host}/charts", "--plain-http"], check=True, capture_output=True
        )
        words = [helm, "pull", f"oci://{host}/charts/tierwise", "--version", version, "--plain-http", "-d", folder]
        subprocess.run(words, check=True, capture_output=True)
        if (Path(folder) / packed.name).read_bytes() != packed.read_bytes():
            raise SystemExit("the chart that was pulled back is another one")
    print(f"== {packed.name}: pushed to a registry and pulled back, the same bytes")


@contextmanager
def serving(registry: str) -> Iterator[str]:
    """A registry on loopback; host and port."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{taken.getsockname()[1]}"
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.yml"
        config.write_text(
            f"version: 0.1\nstorage: {{filesystem: {{rootdirectory: {folder}}}}}\nhttp: {{addr: '{host}'}}\n"
        )
        process = subprocess.Popen(
            [registry, "serve", str(config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            for _ in range(100):
                try:
                    urllib.request.urlopen(f"http://{host}/v2/", timeout=5).close()
                    break
                except OSError:
                    time.sleep(0.1)
            yield host
        finally:
            process.kill()
            process.wait()


LAUNCHER = """#!/bin/sh
# kubectl finds this as its plugin; what it does is in the Python package.
PYTHON="${TIERWISE_PYTHON:-python3}"
if ! "$PYTHON" -c 'import tierwise.cli.kubectl' 2>/dev/null; then
    echo "kubectl-tierwise: $PYTHON has no tierwise: pip install 'tierwise[kube]', or set TIERWISE_PYTHON" >&2
    exit 1
fi
exec "$PYTHON" -c 'import sys; from tierwise.cli.kubectl import main; sys.exit(main())' "$@"
"""


def plugin(release: Release, version: str) -> None:
    """The plugin of kubectl, and its manifest with the sum."""
    licence = (ROOT / "LICENSE").read_bytes()
    packed = plain_tar({"kubectl-tierwise": (LAUNCHER.encode(), 0o755), "LICENSE": (licence, 0o644)})
    file = release.write("kubectl-tierwise.tar.gz", packed)
    text = (ROOT / "deploy/krew.yaml").read_text()
    base = os.environ.get("RELEASE_URL") or REPOSITORY
    if "RELEASE_URL" not in os.environ:
        release.lacks(f"krew.yaml names {base}: set RELEASE_URL to where the files will be")
    for name, value in (("VERSION", f"v{version}"), ("URL", base), ("SHA256", _sum(file))):
        text = text.replace("{" + name + "}", value)
    release.write("krew.yaml", text.encode())


def sbom(release: Release) -> None:
    """What an installation with the extra `kube` holds; installed by hash, from wheels alone."""
    with tempfile.TemporaryDirectory() as folder:
        inside = Path(folder) / "packages"
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:"]
        done = subprocess.run(
            [*pip, "--require-hashes", "-r", "locks/requirements-kube.lock", "--target", str(inside)],
            cwd=ROOT,
            check=False,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            release.lacks(f"no SBOM: {done.stderr.strip().splitlines()[-1]}")
            return
        for own in ("tierwise", "tierwise_lab"):
            shutil.copytree(ROOT / "src" / own, inside / own, dirs_exist_ok=True)
        words = [sys.executable, str(ROOT / "tools/sbom.py"), str(inside), str(release.folder), folder]
        subprocess.run(words, check=True, capture_output=True)
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    wrong = JsonStrictValidator(SchemaVersion.V1_6).validate_str((release.folder / "sbom.cdx.json").read_text())
    if wrong is not None:
        raise SystemExit(f"sbom.cdx.json is no CycloneDX 1.6: {wrong}")
    print("== sbom.cdx.json is valid CycloneDX 1.6")


def image(release: Release, *, skip: bool) -> None:
    """The image, twice from the same base: the same manifest."""
    if skip:
        release.lacks("the image was not built: --no-image")
        return
    folders = [ROOT / f"build/image-{number}" for number in (1, 2)]
    for number, folder in enumerate(folders):
        if number:
            folder.mkdir(parents=True, exist_ok=True)
            for base in ("builder.tar", "runtime.tar"):
                shutil.copyfile(folders[0] / base, folder / base)
        done = subprocess.run([ROOT / "tools/image", folder], check=False, capture_output=True, text=True)
        if done.returncode:
            release.lacks((done.stderr.strip().splitlines() or ["no image"])[-1])
            return
    first, second = (_manifest(folder / "tierwise.tar") for folder in folders)
    if first != second:
        raise SystemExit(f"two builds of the image differ: {first} and {second}")
    shutil.copyfile(folders[0] / "tierwise.tar", release.folder / "image.tar")
    print(f"== image.tar: twice {first}")


def _manifest(archive: Path) -> str:
    with tarfile.open(archive) as found:
        index = found.extractfile("index.json")
        assert index is not None
        return str(json.load(index)["manifests"][0]["digest"])


def tag(release: Release, version: str) -> None:
    """Whether what is built is what the tag of the version names."""
    done = _git("describe", "--exact-match", "--tags", "--match", f"v{version}")
    if done != f"v{version}":
        release.lacks(f"this commit is not tagged v{version}: RELEASING.md says when to tag")
    if _git("status", "--porcelain"):
        release.lacks("the tree has changes that no commit has")


def provenance(release: Release, version: str) -> bytes:
    """An in-toto statement: what was made, from which commit and which locked inputs, and by what."""
    made = sorted(file for file in release.folder.rglob("*") if file.is_file())
    subjects = [{"name": str(file.relative_to(release.folder)), "digest": {"sha256": _sum(file)}} for file in made]
    locks = sorted((ROOT / "locks").glob("*.lock"))
    inputs = [{"uri": f"file:locks/{lock.name}", "digest": {"sha256": _sum(lock)}} for lock in locks]
    commit = _git("rev-parse", "HEAD")
    source = {"uri": os.environ.get("RELEASE_URL") or REPOSITORY, "digest": {"gitCommit": commit}}
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects,
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {"version": version, "command": "make release"},
                "internalParameters": {"python": sys.version.partition(" ")[0]},
                "resolvedDependencies": [source, *inputs],
            },
            "runDetails": {"builder": {"id": os.environ.get("RELEASE_BUILDER") or f"{BUILD_TYPE}/by-hand"}},
        },
    }
    sums = "".join(f"{_sum(file)}  {file.relative_to(release.folder)}\n" for file in made)
    release.write("SHA256SUMS", sums.encode())
    return release.write("provenance.intoto.json", _json(statement)).read_bytes()


def sign(release: Release, statement: bytes, key: str | None) -> None:
    """A signature for each file, and an envelope around the statement; with a key alone."""
    if not key:
        keyless = "cosign is here, but needs an identity" if shutil.which("cosign") else "there is no cosign"
        release.lacks(f"nothing was signed: RELEASE_KEY is not set, and for keyless signatures {keyless}")
        return
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    loaded = serialization.load_pem_private_key(Path(key).read_bytes(), password=None)
    if not isinstance(loaded, ec.EllipticCurvePrivateKey):
        raise SystemExit(f"{key} is no ECDSA key; openssl ecparam -name prime256v1 -genkey -noout makes one")

    def signature(data: bytes) -> str:
        return base64.b64encode(loaded.sign(data, ec.ECDSA(hashes.SHA256()))).decode()

    files = [file for file in release.folder.iterdir() if file.is_file()]
    for file in files:
        release.write(f"{file.name}.sig", signature(file.read_bytes()).encode())
    kind = "application/vnd.in-toto+json"
    covered = b"DSSEv1 %d %s %d %s" % (len(kind), kind.encode(), len(statement), statement)
    envelope = {
        "payloadType": kind,
        "payload": base64.b64encode(statement).decode(),
        "signatures": [{"keyid": "", "sig": signature(covered)}],
    }
    release.write("provenance.intoto.jsonl", _json(envelope))
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    release.write("release.pub", loaded.public_key().public_bytes(serialization.Encoding.PEM, form))
    print(f"== {len(files)} files are signed; release.pub verifies them")


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _sum(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _json(value: Raw) -> bytes:
    return json.dumps(value, indent=1, sort_keys=True).encode() + b"\n"


if __name__ == "__main__":
    main()
