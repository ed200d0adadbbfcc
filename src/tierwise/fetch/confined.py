"""Keeps files that others name below one folder: the name, and whatever it leads to.

Called for sources that the configuration of a cluster names. Whoever may write that need not be one who may read the
files of our pod, and what we say of a file, or make of it, would tell what is in it.
"""

from __future__ import annotations

from pathlib import Path

from tierwise.api.errors import InputError

__all__ = ["confined"]


def confined(folder: Path, place: str) -> Path:
    """What a place leads to, by whatever links; InputError where that is not below the folder, there or not.

    A relative place is one in the folder. No link is left in the answer: who opens it opens what was judged.
    """
    refusal = InputError(f"{place} is not below {folder}, and files elsewhere are not read", field="config.path")
    try:
        root = folder.resolve()
        found = Path(root, place).resolve()
    except (OSError, RuntimeError, ValueError):  # links in a circle, or characters that no path has
        raise refusal from None
    # What follows links in a circle may be left as it stands, and then says nothing about where it leads.
    if not found.is_relative_to(root) or ".." in found.parts:
        raise refusal
    return found
