"""The real helm, on one cluster: HELM, one on the path, or the one that is built beside the control plane."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tests.e2e.control_plane import ControlPlane

__all__ = ["Helm"]

ROOT = Path(__file__).parents[2]


class Helm:
    """The program, with caches of its own; LookupError where there is none."""

    def __init__(self, plane: ControlPlane) -> None:
        self.program = os.environ.get("HELM") or shutil.which("helm") or _built()
        self._plane = plane

    def __call__(self, *words: str | Path) -> str:
        command = [self.program, *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, env=self.environment(), cwd=ROOT)
        assert 0 == done.returncode, f"{' '.join(command)}\n{done.stderr}"
        return done.stdout

    def environment(self) -> dict[str, str]:
        """For commands that a person types: the cluster is the only one, and helm is on the path."""
        path = os.pathsep.join((str(Path(self.program).parent), os.environ["PATH"]))
        own = {"HOME": str(self._plane.folder / "home"), "KUBECONFIG": str(self._plane.kubeconfig), "PATH": path}
        return {**os.environ, **own}


def _built() -> str:
    command = [str(ROOT / "tools/control_plane"), "--no-build", "--with", "helm"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise LookupError(done.stderr.strip())
    return f"{done.stdout.strip()}/helm"
