"""`make docs` builds every page, strictly, and the site loads nothing from elsewhere."""

import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[2]
TOOL = "tools/build_docs.py"


def _build(root: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(root / TOOL), "--folder", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_site_builds_strictly(tmp_path: Path) -> None:
    """Every page of the repository becomes a page of the site, and no link or heading is missing."""
    done = _build(ROOT, tmp_path)

    assert (0, "") == (done.returncode, done.stderr)
    assert (tmp_path / "site/index.html").exists()
    assert (tmp_path / "site/docs/reference/cli.html").exists()
    assert [] == _dead(tmp_path / "site")


class _Page(HTMLParser):
    """What a page of the site links to or loads, and what can be linked to in it."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.links.update(link for name in ("href", "src") if (link := found.get(name)))
        self.anchors.update(anchor for name in ("id", "name") if (anchor := found.get(name)))


def _dead(site: Path) -> list[str]:
    """The links of all pages that lead to no file of the site, or to no place in it; other hosts are not asked."""
    pages = {file.resolve(): _Page(file) for file in site.rglob("*.html") if file.name != "404.html"}
    dead = []
    for file, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or link.startswith("#__"):
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            target = target / "index.html" if target.is_dir() else target
            anchor = unquote(parts.fragment)
            if not target.exists() or (anchor and target in pages and anchor not in pages[target].anchors):
                dead.append(f"{file.relative_to(site.resolve())}: {link}")
    return sorted(dead)


_INDEX = "# Documentation\n\n## Guides\n\n- [One](one.md)\n"


@pytest.mark.parametrize(
    ("index", "page", "complaint"),
    [
        (_INDEX, "# One\n\n[gone](two.md)\n", "page does not exist"),
        (_INDEX, "# One\n\n[gone](one.md#nowhere)\n", "anchor does not exist"),
        (_INDEX, '# One\n\n<img src="https://example.com/a.png">\n', "load something from elsewhere"),
        ("# Documentation\n\n## Guides\n", "# One\n", "in no list"),
    ],
    ids=["page", "heading", "foreign", "unlisted"],
)
def test_what_is_wrong_stops_the_build(tmp_path: Path, index: str, page: str, complaint: str) -> None:
    """A broken link, an image of another host and a page that nobody lists end the build with status 1 and a word."""
    for folder in ("docs", "examples", "tools"):
        (tmp_path / folder).mkdir()
    shutil.copyfile(ROOT / TOOL, tmp_path / TOOL)
    for name in ("README", "CONTRIBUTING", "SECURITY", "CHANGELOG"):
        (tmp_path / f"{name}.md").write_text(f"# {name}\n")
    (tmp_path / "docs/README.md").write_text(index)
    (tmp_path / "docs/one.md").write_text(page)

    done = _build(tmp_path, tmp_path / "build")

    assert 1 == done.returncode
    assert complaint in done.stderr
