"""Programs around other projects' own Go code, built once for each version and each state of our files.

Everything is fetched by Go's own means, from the module proxy; nothing of other projects is kept in this repository.
Where there is no Go, or a module cannot be fetched, `UnavailableError` says so, and a comparison is skipped.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

HERE = Path(__file__).resolve().parent
CACHE = Path(os.environ.get("TIERWISE_CACHE", Path.home() / ".cache" / "tierwise")) / "compare"
KUBERNETES = "1.36.3"
VOLCANO, VOLCANO_TYPES = "1.15.1", "1.14.0"
SHARED = "lines.go"
SKIPPED = 3

# What the scheduler of VOLCANO uses and the newest module of its types that is published does not have yet.
_NEWER_TYPES = """package v1beta1

const QueueAllocationGateKey = GroupName + "/queue-allocation-gate"
"""


class UnavailableError(Exception):
    """Why a program cannot be built here."""


def check(project: str) -> None:
    """Raise where the modules of a project (`volcano` or `kubernetes`) cannot be had."""
    _module("k8s.io/kubernetes", KUBERNETES)
    if project == "volcano":
        _module("volcano.sh/volcano", VOLCANO)
        _module("volcano.sh/apis", VOLCANO_TYPES)


def kubernetes(*files: str) -> Path:
    """A program of ours around Kubernetes' packages, of the version that is compared with; the first file names it."""
    files = (*files, SHARED)
    name = files[0].removesuffix(".go").replace("_", "-")
    folder = CACHE / f"{name}-{KUBERNETES}"
    program = folder / f"program-{_mark(files)}"
    if program.exists():
        return program
    theirs = (_module("k8s.io/kubernetes", KUBERNETES) / "go.mod").read_text()
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.go"):
        old.unlink()
    for file in files:
        shutil.copyfile(HERE / file, folder / file)
    print(f"building {name} in {folder} (minutes, the first time)", file=sys.stderr)
    staged = re.findall(r"^\s+(k8s\.io/\S+) => \./staging", theirs, re.M)
    own = f"v0.{KUBERNETES.partition('.')[2]}"
    lines = [f"\t{name} => {name} {own}" for name in staged]
    go = re.search(r"^go (\S+)", theirs, re.M)
    head = f"module compare\n\ngo {go.group(1) if go else '1.26.0'}\n\nrequire k8s.io/kubernetes v{KUBERNETES}\n"
    (folder / "go.mod").write_text("\n".join([head, "replace (", *lines, ")", ""]))
    (folder / "go.sum").unlink(missing_ok=True)
    _run(["go", "mod", "tidy"], folder)
    _run(["go", "build", "-p", "1", "-o", str(program), "."], folder)
    shutil.rmtree(folder / "vendor", ignore_errors=True)
    return program


def volcano(checkout: Path | None = None) -> Path:
    """The program that runs Volcano's session, from its published module or from a checkout."""
    files = ("volcano.go", SHARED)
    version = VOLCANO
    if checkout is not None:
        words = ["git", "-C", str(checkout), "rev-parse", "HEAD"]
        version = subprocess.run(words, capture_output=True, text=True).stdout.strip() or str(checkout)
    program = CACHE / f"volcano-{_mark(files, version)}"
    if program.exists():
        return program
    source = checkout or _volcano_source()
    CACHE.mkdir(parents=True, exist_ok=True)
    folder = source / "cmd" / "tierwise-compare"
    folder.mkdir(exist_ok=True)
    try:
        for file in files:
            shutil.copyfile(HERE / file, folder / file)
        print(f"building Volcano's session in {source} (minutes, the first time)", file=sys.stderr)
        _run(["go", "build", "-mod=mod", "-p", "1", "-o", str(program), "./cmd/tierwise-compare"], source)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return program


def volcano_scheduler() -> Path:
    """Volcano's scheduler itself, from its published module."""
    program = CACHE / f"vc-scheduler-{VOLCANO}"
    if not program.exists():
        source = _volcano_source()
        print(f"building Volcano's scheduler in {source} (minutes, the first time)", file=sys.stderr)
        _run(["go", "build", "-mod=mod", "-p", "2", "-o", str(program), "./cmd/scheduler"], source)
    return program


def _mark(files: Sequence[str], version: str = "") -> str:
    """Other files make another program."""
    return hashlib.sha256(b"".join((HERE / file).read_bytes() for file in files) + version.encode()).hexdigest()[:12]


def _volcano_source() -> Path:
    """The two published modules of Volcano, put together as they stand in its repository."""
    source = CACHE / f"volcano-source-{VOLCANO}"
    if (source / "ready").exists():
        return source
    shutil.rmtree(source, ignore_errors=True)
    whole, types = _module("volcano.sh/volcano", VOLCANO), _module("volcano.sh/apis", VOLCANO_TYPES)
    beside = source / "staging" / "src" / "volcano.sh" / "apis"
    for part in ("cmd", "pkg", "third_party"):
        shutil.copytree(whole / part, source / part)
    shutil.copytree(types, beside)
    for name in ("go.mod", "go.sum"):
        shutil.copyfile(whole / name, source / name)
    for folder, _, _ in os.walk(source):
        Path(folder).chmod(0o755)  # modules are kept read-only
    for file in (source / "go.mod", source / "go.sum", beside / "go.mod", beside / "go.sum"):
        file.chmod(0o644)
    (beside / "pkg" / "apis" / "scheduling" / "v1beta1" / "newer.go").write_text(_NEWER_TYPES)
    (source / "ready").touch()
    return source


def _module(path: str, version: str) -> Path:
    if shutil.which("go") is None:
        raise UnavailableError("there is no Go here")
    words = ["go", "mod", "download", "-json", f"{path}@v{version}"]
    CACHE.mkdir(parents=True, exist_ok=True)
    found = subprocess.run(words, cwd=CACHE, capture_output=True, text=True)
    told = json.loads(found.stdout or "{}")
    if "Dir" not in told:
        raise UnavailableError(f"{path} {version} cannot be fetched: {told.get('Error', found.stderr.strip())}")
    return Path(told["Dir"])


def _run(words: list[str], folder: Path) -> None:
    subprocess.run(["nice", "-n", os.environ.get("TIERWISE_NICE", "10"), *words], cwd=folder, check=True)


class Conversation:
    """A program that answers a line with a line; started anew now and then, as it may keep what it has seen."""

    def __init__(self, program: Path, lifetime: int = 200) -> None:
        self._program = program
        self._lifetime = lifetime
        self._left = 0
        self._process: subprocess.Popen[str] | None = None

    def send(self, question: object) -> None:
        """Ask, without waiting for the answer."""
        if self._left == 0:
            self.close()
            self._process = subprocess.Popen(
                [self._program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
            self._left = self._lifetime
        self._left -= 1
        assert self._process is not None
        into, _ = _pipes(self._process)
        into.write(json.dumps(question) + "\n")
        into.flush()

    def receive(self) -> dict[str, Any]:
        """The answer to the question that was sent."""
        assert self._process is not None
        _, out = _pipes(self._process)
        line = out.readline()
        if not line:
            self._left = 0
            return {"error": "the program ended"}
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """End the program."""
        if self._process is not None:
            into, out = _pipes(self._process)
            into.close()
            self._process.wait()
            out.close()
            self._process = None


def _pipes(process: subprocess.Popen[str]) -> tuple[IO[str], IO[str]]:
    assert process.stdin is not None
    assert process.stdout is not None
    return process.stdin, process.stdout


if __name__ == "__main__":
    try:
        print(volcano_scheduler())
    except UnavailableError as error:
        print(f"no Volcano: {error}", file=sys.stderr)
        sys.exit(SKIPPED)
