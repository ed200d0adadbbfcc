#!/usr/bin/env python3
"""Run the tests on every Python of 3.11 to 3.14 that is on this machine.

    tools/pythons.py [--python PYTHON]... [ARGUMENT...]

Pythons are looked for as tools/dist.py looks for them. Each gets an environment below build/pythons, with what the lock
file of the tests lists; ARGUMENTs are pytest's, so that a part of the tests can be run. One that is missing is named.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from dist import ROOT, interpreters

LOCK = ROOT / "locks/requirements-dev.lock"


def main() -> None:
    """The exit status is 1 where the tests fail on one of them."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--python", action="append", default=[], help="an interpreter to test")
    chosen, more = options.parse_known_args()
    failed = []
    for name, python in interpreters(chosen.python):
        if python is None:
            print(f"== Python {name} is not on this machine: not tried", flush=True)
            continue
        inside = prepared(python)
        version = subprocess.check_output([inside / "bin" / "python", "--version"], text=True).strip()
        print(f"== {version}", flush=True)
        if subprocess.run([inside / "bin" / "pytest", *more], cwd=ROOT, check=False).returncode:
            failed.append(version)
    sys.exit(f"failed on {', '.join(failed)}" if failed else 0)


def prepared(python: str) -> Path:
    """An environment of a Python, made once for each state of the lock file."""
    version = subprocess.check_output([python, "-c", "import sys; print(sys.version.split()[0])"], text=True).strip()
    inside = ROOT / "build" / "pythons" / version
    stamp = inside / ".stamp"
    if not stamp.exists() or stamp.stat().st_mtime < LOCK.stat().st_mtime:
        # By the pip that is here: a Python of Debian may have none of its own to put into an environment.
        subprocess.run([python, "-m", "venv", "--clear", "--without-pip", inside], check=True)
        pip = [sys.executable, "-m", "pip", "--python", inside / "bin" / "python", "install", "--quiet"]
        subprocess.run([*pip, "--require-hashes", "-r", LOCK], check=True)
        subprocess.run([*pip, "--no-deps", "--no-build-isolation", "-e", ROOT], check=True)
        stamp.touch()
    return inside


if __name__ == "__main__":
    main()
