#!/usr/bin/env python3
"""Run the end-to-end tests on every version of Kubernetes that tools/control_plane lists. Run by `make e2e-matrix`.

    tools/e2e_matrix.py [--cached] [VERSION]...

A version that cannot be had is told and left out; with --cached only those are run that are built already. Writes
`build/e2e-matrix.md`, whose table stands in docs/reference/kubernetes-support.md. Exit status 1 where one failed.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TOOL = ROOT / "tools/control_plane"


def main() -> int:
    """Each version in turn."""
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--cached", action="store_true", help="build nothing")
    options.add_argument("versions", nargs="*", help="1.33 or 1.33.13; all by default")
    chosen = options.parse_args()
    listed = subprocess.run([TOOL, "--versions"], check=True, capture_output=True, text=True).stdout.split()
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    today, lines, failed = datetime.now(UTC).date(), [], False
    for version in chosen.versions or listed:
        result = run(version, build=not chosen.cached)
        failed = failed or "failed" in result
        lines.append(f"| {version} | {result} | {commit.stdout.strip()} | {today} |\n")
        print(f"== {version}: {result}", flush=True)
    text = "| Kubernetes | End-to-end tests | Commit | Run on |\n|---|---|---|---|\n" + "".join(lines)
    (ROOT / "build").mkdir(exist_ok=True)
    (ROOT / "build/e2e-matrix.md").write_text(text)
    return 1 if failed else 0


def run(version: str, *, build: bool) -> str:
    """What became of one version."""
    variables = {**os.environ, "KUBERNETES_VERSION": version}
    words = [str(TOOL)] if build else [str(TOOL), "--no-build"]
    found = subprocess.run(
        words, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False
    )
    if found.returncode:
        return f"not run: {found.stderr.strip().splitlines()[-1]}"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-n",
        "0",
        "-q",
        "--import-mode=importlib",
        "-o",
        "addopts=",
        "tests/e2e",
    ]
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    sys.stdout.write(done.stdout[-4000:] if done.returncode else "")
    counts = re.findall(r"[0-9]+ (?:passed|failed|skipped|errors?)", done.stdout)
    return ", ".join(counts) if counts else f"failed with status {done.returncode}"


if __name__ == "__main__":
    sys.exit(main())
