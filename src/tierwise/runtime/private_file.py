"""Files that no one else may read, from their first byte on: keys, kubeconfigs, journals."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO

__all__ = ["private_file"]


def private_file(path: Path) -> IO[bytes]:
    """A new file (0600) for writing, in place of one that is there; OSError where it cannot be made."""
    path.unlink(missing_ok=True)
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
