#!/usr/bin/env python3
"""Move the fragments of changelog.d into CHANGELOG.md, below the heading of a version.

    tools/changelog.py VERSION DATE [FOLDER]

A version that has a heading already gets them added to it: until it is published it is still being made.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

LOG, FRAGMENTS = "CHANGELOG.md", "changelog.d"
GROUPS = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")


def main() -> None:
    """Gather, write, delete."""
    version, date, *root = sys.argv[1:]
    folder = Path(*root) if root else Path(__file__).resolve().parents[1]
    fragments = sorted((folder / FRAGMENTS).glob("[0-9]*.md"))
    text = (folder / LOG).read_text()
    heading = re.compile(rf"^## {re.escape(version)}(?: [^\n]*)?\n(?P<body>.*?)(?=^## |\Z)", re.DOTALL | re.MULTILINE)
    present = heading.search(text)
    entries: dict[str, list[str]] = {group: [] for group in GROUPS}
    if present:
        for group, body in groups(present["body"], LOG):
            entries[group] += re.split(r"\n(?=- )", body)
    for fragment in fragments:
        for group, body in groups(fragment.read_text(), fragment.name):
            entries[group].append("- " + re.sub(r"\n(?=[^\n])", "\n  ", body))
    parts = [f"## {version} ({date})"]
    parts += [f"### {group}\n\n" + "\n".join(found) for group, found in entries.items() if found]
    section = "\n\n".join(parts) + "\n"
    if present:
        after = text[present.end() :]
        text = text[: present.start()] + section + (f"\n{after}" if after else "")
    else:
        head, note, older = re.fullmatch(r"(.*^## Unreleased\n)(.*?)(^## .*)?", text, re.DOTALL | re.MULTILINE).groups()
        text = f"{head}{note.rstrip()}\n\n{section}" + (f"\n{older}" if older else "")
    (folder / LOG).write_text(text)
    for fragment in fragments:
        fragment.unlink()
    print(f"{len(fragments)} fragments are in {LOG} below {version}")


def groups(text: str, name: str) -> list[tuple[str, str]]:
    """The parts of a text below headings of level 3, each without blank lines around it."""
    first, *parts = re.split(r"^### ", text, flags=re.MULTILINE)
    found = [(group.strip(), body.strip()) for group, _, body in (part.partition("\n") for part in parts)]
    for group, body in found:
        if group not in GROUPS or not body:
            raise SystemExit(f"{name}: {group!r} is not one of {', '.join(GROUPS)}, or has no text")
    if first.strip() or not found:
        raise SystemExit(f"{name}: it does not begin with one of {', '.join(GROUPS)} as a heading of level 3")
    return found


if __name__ == "__main__":
    main()
