"""tools/image and tools/fresh_machine: what they say where something is missing, before they do anything."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[3] / "tools"

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not on this machine")


@pytest.mark.parametrize(
    ("tool", "refusal", "program"),
    [("image", "no image: ", "there is no buildah"), ("fresh_machine", "no fresh machine: ", "there is no mmdebstrap")],
)
def test_what_is_missing_is_said(tool: str, refusal: str, program: str, tmp_path: Path) -> None:
    """In one line, with the exit status that make takes for a skip; nothing is made."""
    path = tmp_path / "path"
    path.mkdir()
    for name in ("bash", "dirname", "env"):
        (path / name).symlink_to(str(shutil.which(name)))
    folder = tmp_path / "folder"
    done = subprocess.run([TOOLS / tool, folder], capture_output=True, text=True, env={"PATH": str(path)})

    assert (3, "") == (done.returncode, done.stdout)
    assert done.stderr.startswith(refusal)
    assert (program if os.geteuid() == 0 else "needs root") in done.stderr
    assert not folder.exists()
