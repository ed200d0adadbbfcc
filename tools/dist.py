#!/usr/bin/env python3
"""Build wheel and source archive into dist/, check them, and install them into empty environments. Run by `make dist`.

    tools/dist.py [--twine TWINE] [--python PYTHON]...

Built twice, the second time from a copy of the tree with other times and from the source archive: the same bytes.
Each Python that is named, and those of 3.11 to 3.14 on the path or below PYENV_ROOT, gets an environment with the wheel
alone, which schedules an example, simulates a trace and looks for a cluster, and then the extra `kube`, which webhooks
need. In the first of them `tools/door.py` types every line that help, README and guides show. Needs the network; an
interpreter that is not there is said.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
PARTS = (".gitignore", "src", "CHANGELOG.md", "LICENSE", "README.md", "pyproject.toml")
EXAMPLE = "examples/01-llm-training"
TOPOLOGY = "synthetic:spines=1,leaves=2,hosts=4"


def main() -> None:
    """Build, compare, check, install."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--twine", help="a twine, for its check")
    options.add_argument("--python", action="append", default=[], help="an interpreter to install into")
    chosen = options.parse_args()
    shutil.rmtree(DIST, ignore_errors=True)
    built = build(ROOT, DIST)
    with tempfile.TemporaryDirectory() as folder:
        again = build(moved(Path(folder) / "tree"), Path(folder) / "dist")
        same(built, again, "another folder at another time")
        (source,) = (file for file in built if file.name.endswith(".tar.gz"))
        shutil.unpack_archive(source, folder, filter="data")
        wheel = build(Path(folder) / source.name.removesuffix(".tar.gz"), Path(folder) / "from-source", "wheel")
        same([file for file in built if file.suffix == ".whl"], wheel, "the source archive")
    if chosen.twine:
        subprocess.run([chosen.twine, "check", "--strict", *built], check=True)
    sums = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in built]
    (DIST / "SHA256SUMS").write_text("".join(sums))
    for file in built:
        print(f"== dist/{file.name}: {file.stat().st_size:,} bytes")
    (wheel_file,) = (file for file in built if file.suffix == ".whl")
    lines_typed = False
    for version, python in interpreters(chosen.python):
        if python is None:
            print(f"== Python {version} is not on this machine: not tried")
        else:
            install(python, wheel_file, types_lines=not lines_typed)  # with one of them: it takes minutes
            lines_typed = True


def build(tree: Path, into: Path, *targets: str) -> list[Path]:
    """The archives of a tree, in order of their names."""
    words = [word for target in targets or ("sdist", "wheel") for word in ("-t", target)]
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(into), *words]
    subprocess.run(command, cwd=tree, check=True, capture_output=True, env=quiet())
    return sorted(into.iterdir())


def moved(to: Path) -> Path:
    """A copy of what is built from; nothing in it is as old as it was, nor as readable for others."""
    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, to / part, copy_function=shutil.copyfile)
        else:
            to.mkdir(exist_ok=True, parents=True)
            shutil.copyfile(ROOT / part, to / part)
    for file in to.rglob("*"):
        file.chmod(0o700 if file.is_dir() else 0o600)
    return to


def same(ours: Iterable[Path], theirs: Iterable[Path], where: str) -> None:
    """Name for name and byte for byte."""
    first, second = ({file.name: file.read_bytes() for file in files} for files in (ours, theirs))
    if first != second:
        raise SystemExit(f"built from {where}, these differ: {', '.join(sorted(first.keys() | second.keys()))}")
    print(f"== the same bytes from {where}: {', '.join(first)}")


def interpreters(named: list[str]) -> list[tuple[str, str | None]]:
    """The Pythons that are named; else those that can be found, by version."""
    if named:
        return [(python, python) for python in named]
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    found = []
    for version in VERSIONS:
        more = sorted(pyenv.glob(f"versions/{version}.*/bin/python"))
        found.append((version, str(more[-1]) if more else shutil.which(f"python{version}")))
    return found


def install(python: str, wheel: Path, *, types_lines: bool) -> None:
    """Into an empty environment: the core alone first, then what a cluster needs; and type every shown line with it."""
    with tempfile.TemporaryDirectory() as folder:
        inside = Path(folder) / "venv"
        subprocess.run([python, "-m", "venv", str(inside)], check=True)
        run(inside, "pip", "install", "--quiet", "--only-binary", ":all:", str(wheel))
        core = run(inside, "python", "--version").strip()
        said = run(inside, "tierwise", "schedule", "-f", str(ROOT / EXAMPLE)).splitlines()[0]
        run(inside, "tierwise", "simulate", "--topology", TOPOLOGY, "--trace", "synthetic:jobs=20")
        refuses(inside, "/nowhere: No such file", "run", "--kubeconfig", "/nowhere")
        webhook = ("webhook", "--no-cluster", "--tls-folder", "/nowhere")
        refuses(inside, "install tierwise with the extra `kube`", *webhook)
        run(inside, "pip", "install", "--quiet", "--only-binary", ":all:", f"{wheel}[kube]")
        refuses(inside, "/nowhere/tls.crt: No such file", *webhook)
        run(inside, "kubectl-tierwise", "--help")
        run(inside, "pip", "check")
        print(f"== {core}: {said}; it looks for a cluster, and with the extra `kube` for certificates", flush=True)
        if types_lines:
            subprocess.run([sys.executable, ROOT / "tools" / "door.py", inside / "bin"], check=True, env=quiet())


def refuses(inside: Path, sentence: str, *words: str) -> None:
    """See that a command of tierwise fails, and why."""
    said = run(inside, "tierwise", *words, fails=True)
    if sentence not in said:
        raise SystemExit(f"`tierwise {' '.join(words)}` does not say {sentence!r}: {said}")


def run(inside: Path, program: str, *words: str, fails: bool = False) -> str:
    """What a program of an environment says; the end of everything where it does not end as it should."""
    command = [str(inside / "bin" / program), *words]
    done = subprocess.run(command, capture_output=True, text=True, cwd=inside, env=quiet(), check=False)
    if bool(done.returncode) != fails:
        raise SystemExit(f"exit status {done.returncode}: {' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def quiet() -> dict[str, str]:
    """The environment, without what would lead to this tree, and without epochs that others have set."""
    dropped = ("PYTHONPATH", "PYTHONHOME", "SOURCE_DATE_EPOCH", "VIRTUAL_ENV", "KUBECONFIG")
    kept = {key: value for key, value in os.environ.items() if key not in dropped}
    return {**kept, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}


if __name__ == "__main__":
    main()
