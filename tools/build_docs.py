"""Build the documentation as a site of plain files that loads nothing from elsewhere.

    make docs                    # build/docs/site/index.html opens in a browser, with or without a server

The pages are the Markdown files that a code host shows: README.md, the other pages at the root, `docs/` and the READMEs
of the examples. They are copied as they are, with the files that they link to, and Zensical builds them strictly: a
link to a page or a heading that does not exist is an error. The navigation is read from the lists of docs/README.md and
of the indexes that it leads to, so a page is listed once; decisions are for developers, and have pages but no place in
it. Exit status 1 where a page is in no list, or the build fails.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html import escape
from os.path import normpath
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INDEX = "docs/README.md"
EXAMPLES = "examples/README.md"
APART = "docs/decisions/README.md"
AT_THE_ROOT = sorted((page.name for page in ROOT.glob("*.md")), key=lambda name: (name != "README.md", name))

_SECTION = re.compile(r"^## +(.+?) *$", re.MULTILINE)
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s#]+)(?:#[^)\s]*)?\)")
_PICTURE = re.compile(r"!\[[^\]]*\]\(([^)\s#]+)|<img[^>]+src=[\"']([^\"']+)")
_TITLE = re.compile(r"^# +(.+?) *$", re.MULTILINE)
# What a page would load from another host while it is viewed; a plain link waits for a click, and may go anywhere.
_LOADED = re.compile(r"<(?:script|img|iframe|source)[^>]+src=[\"'](?:https?:)?//|<link[^>]+rel=\"stylesheet\"[^>]+//")

Entry = dict[str, object]


def pages() -> list[str]:
    """Every page of the site, as paths from the root."""
    below = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("README.md")]
    return [*AT_THE_ROOT, *sorted(str(page.relative_to(ROOT)) for page in below)]


def _links(page: str, text: str | None = None) -> Iterator[str]:
    """What the links of a page, or of a part of its text, lead to in this repository, as paths from the root."""
    for target in _LINK.findall((ROOT / page).read_text(encoding="utf-8") if text is None else text):
        if "://" not in target and not target.startswith("mailto:"):
            yield normpath(Path(page).parent / target)


def _title(page: str) -> str:
    found = _TITLE.search((ROOT / page).read_text(encoding="utf-8"))
    return found.group(1).replace("`", "") if found else page


def navigation() -> list[Entry]:
    """The sections of docs/README.md with the pages that they list; the index of a folder heads its pages."""
    listed = {INDEX, *AT_THE_ROOT}

    def new(linked: Iterator[str]) -> list[str]:
        """The pages not listed before; they are from now on."""
        found = [other for other in dict.fromkeys(linked) if other.endswith(".md") and other not in listed]
        listed.update(found)
        return found

    def entry(page: str) -> Entry:
        folder = Path(page).parent
        if not (page.startswith("docs/") and page.endswith("/README.md")) and page != EXAMPLES:
            return {_title(page): page}
        own = new(other for other in _links(page) if folder in (Path(other).parent, Path(other).parent.parent))
        return {_title(page): [page, *({_title(other): other} for other in own)]}

    text = (ROOT / INDEX).read_text(encoding="utf-8")
    entries: list[Entry] = [{"tierwise": "README.md"}]
    for title, body in zip(_SECTION.findall(text), _SECTION.split(text)[2::2], strict=True):
        found = [(page, entry(page)) for page in new(_links(INDEX, body))]
        below = [entry for page, entry in found if page != APART]
        entries += [{title: below}] if below else []
    entries.append({"Project": [{_title(page): page} for page in AT_THE_ROOT[1:]]})
    forgotten = [page for page in pages() if page not in listed]
    if forgotten:
        raise SystemExit(f"in no list of {INDEX} or of an index that it leads to: {', '.join(forgotten)}")
    return entries


def _toml(value: object) -> str:
    """TOML for lists, tables and strings; a JSON string is a TOML string."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(key)} = {_toml(inner)}" for key, inner in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _settings() -> str:
    return "\n".join(
        (
            "[project]",
            'site_name = "tierwise"',
            'site_description = "A network-topology-aware gang scheduler for Kubernetes"',
            'docs_dir = "pages"',
            'site_dir = "site"',
            "use_directory_urls = false",  # so that the site opens from a disk as well
            f"nav = {_toml(navigation())}",
            "[project.theme]",
            "font = false",  # the fonts of the system: others would be loaded from elsewhere
            'features = ["navigation.indexes", "navigation.top", "search.highlight", "content.code.copy"]',
            "[[project.theme.palette]]",
            'media = "(prefers-color-scheme: light)"',
            'scheme = "default"',
            "[[project.theme.palette]]",
            'media = "(prefers-color-scheme: dark)"',
            'scheme = "slate"',
            "",
        )
    )


def build(folder: Path) -> int:
    """Build the site below `folder`; the exit status says whether every page, link and heading is there."""
    shutil.rmtree(folder, ignore_errors=True)
    for page in pages():
        pictures = _PICTURE.findall((ROOT / page).read_text(encoding="utf-8"))
        beside = (
            *_links(page),
            *(normpath(Path(page).parent / picture) for words in pictures for picture in words if picture),
        )
        linked = (target for target in beside if (ROOT / target).is_file())
        for file in (page, *linked):
            copy = folder / "pages" / file
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / file, copy)
    (folder / "zensical.toml").write_text(_settings(), encoding="utf-8")
    zensical = Path(sys.executable).with_name("zensical")
    done = subprocess.run([zensical, "build", "--strict"], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stdout + done.stderr, file=sys.stderr)
        return 1
    foreign = [str(page) for page in (folder / "site").rglob("*.html") if _LOADED.search(page.read_text("utf-8"))]
    if foreign:
        print(f"these pages load something from elsewhere: {', '.join(foreign)}", file=sys.stderr)
        return 1
    for target in {target for page in pages() for target in _links(page) if (ROOT / target).is_dir()}:
        _listing(target, folder / "site" / target)
    print(f"{len(pages())} pages in {folder / 'site'}")
    return 0


def _listing(target: str, shown: Path) -> None:
    """A folder that pages link to: its files, and a page that lists them, as a code host shows it."""
    files = sorted(path for path in (ROOT / target).iterdir() if path.is_file() and not path.name.startswith("."))
    shown.mkdir(parents=True, exist_ok=True)
    for file in files:
        shutil.copyfile(file, shown / file.name)
    if not (shown / "index.html").exists():
        base = Path(target).name
        rows = "".join(f'<li><a href="../{base}/{name}">{name}</a></li>' for name in (escape(f.name) for f in files))
        title = escape(target)
        text = f"<!doctype html><meta charset=utf-8><title>{title}</title><h1>{title}</h1><ul>{rows}</ul>\n"
        (shown / "index.html").write_text(text, encoding="utf-8")


def main() -> int:
    """Build the site where the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "docs", help="where to build")
    return build(parser.parse_args().folder)


if __name__ == "__main__":
    sys.exit(main())
