"""The layout that the documents draw is the one that the tree has."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "tierwise"
LABORATORY = ROOT / "src" / "tierwise_lab"


def _layers() -> list[set[str]]:
    """The layers of the linter's contract, from the top down."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["id"] == "layers")
    return [set(re.findall(r"\w+", layer)) - {"__main__"} for layer in layers if layer != "__main__"]


def _drawn() -> list[set[str]]:
    """The layers that the architecture page draws, from the top down."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    block = page.split("## Layers")[1].split("```text\n")[1].split("```")[0]
    rows: list[set[str]] = []
    for line in block.splitlines():
        names = {name.strip() for name in line[:39].split("|")} - {""}
        if line.startswith(" "):
            rows[-1] |= names
        else:
            rows.append(names)
    return rows


def test_linter_knows_every_package() -> None:
    """A package that has no layer is held to no rule."""
    modules = {path.stem if path.is_file() else path.name for path in PACKAGE.iterdir()}
    packages = modules - {"__init__", "__main__", "__pycache__", "py"}

    assert set().union(*_layers()) == packages


def test_architecture_page_draws_the_linters_layers() -> None:
    """The drawing and the contract have the same packages on the same floors."""
    assert _layers() == _drawn()


def test_every_folder_says_what_it_holds() -> None:
    """The docstring of a package is what a reader meets first."""
    silent = [path for path in (ROOT / "src").rglob("__init__.py") if len(path.read_text().split('"""')[1]) < 20]

    assert [] == silent


def test_plugins_folder_shows_plugins() -> None:
    """Each file there is a plugin that a profile can name; a plugin with helpers is a folder."""
    table = (PACKAGE / "plugins" / "__init__.py").read_text()
    named = set(re.findall(r'"plugins\.([\w.]+):', table))
    files = {path.stem for path in (PACKAGE / "plugins").glob("*.py")} - {"__init__"}

    assert files <= named


@cache
def _tree(file: Path) -> ast.Module:
    """A file, parsed once for all tests here."""
    return ast.parse(file.read_text())


_IMPORT = re.compile(r"^ *(?:from ([\w.]+) )?import (?:\(([^)]*)\)|([^(\n]+))$", re.MULTILINE)


@cache
def _imports(file: Path) -> tuple[tuple[str, str], ...]:
    """What a file imports, wherever in it: the module, and the name.

    Found by its text, because to parse every file takes seconds: what ruff has formatted has one form.
    """
    found: list[tuple[str, str]] = []
    for module, listed, line in _IMPORT.findall(file.read_text()):
        names = [name.partition(" as ")[0].strip() for name in re.sub("#.*", "", listed or line).split(",")]
        found += [(module, name) if module else (name, "") for name in names if name]
    return tuple(found)


def _modules() -> dict[str, Path]:
    """Every file of the sources by its dotted name; a package is its `__init__`."""
    files = {file: file.relative_to(ROOT / "src").with_suffix("").parts for file in (ROOT / "src").rglob("*.py")}
    return {".".join(p for p in parts if p != "__init__"): file for file, parts in files.items()}


def _dependencies() -> dict[str, set[str]]:
    """Which file of the sources imports which others, wherever in it."""
    modules, found = _modules(), dict[str, set[str]]()
    for name, file in modules.items():
        pairs = [(module, own) for module, own in _imports(file) if own]
        full = {f"{module}.{own}" if f"{module}.{own}" in modules else module for module, own in pairs}
        found[name] = (full & modules.keys()) - {name}
    return found


def _circles(found: dict[str, set[str]]) -> list[set[str]]:
    """Files that import each other, in a circle of any length: what is left when all that end somewhere are gone."""
    left = dict(found)
    while ends := [name for name, others in left.items() if not (others & left.keys())]:
        for name in ends:
            del left[name]
    heads = {name: _reach(left, name) for name in left}
    circles = {frozenset(o for o in reach if name in heads.get(o, ())) for name, reach in heads.items()}
    return [set(circle) for circle in circles if len(circle) > 1]


def _reach(found: dict[str, set[str]], name: str) -> set[str]:
    """All that a file imports, and what these import, and so on."""
    seen: set[str] = set()
    ahead = [name]
    while ahead:
        news = (found.get(ahead.pop(), set()) & found.keys()) - seen
        seen |= news
        ahead += news
    return seen


def test_no_circle_of_files() -> None:
    """Also not by imports inside of functions, nor by those for types alone: whoever reads a file follows them."""
    assert [] == _circles(_dependencies())


def test_circles_of_files_are_found() -> None:
    """Of any length, and apart from what leads into them or out of them."""
    found = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set(), "e": {"a"}, "f": {"g"}, "g": {"f"}}

    assert [{"a", "b", "c"}, {"f", "g"}] == sorted(_circles(found), key=min)


READERS = ("languages", "workloads")
FAMILIES = tuple({path.parent.name for path in (PACKAGE / "dialects").glob("*/__init__.py")} - {*READERS})


@pytest.mark.parametrize(
    ("package", "upper"), [("explain", (("text",), ("board",))), ("dialects", (FAMILIES, READERS))]
)
def test_no_arrow_runs_back_up(package: str, upper: tuple[tuple[str, ...], ...]) -> None:
    """What a package builds on knows nothing of what is built on it: files that are not named here are its ground.

    Words and JSON know nothing of pages for people, and these nothing of the board. What all languages share knows
    none of them, and a language knows nothing of who reads them all.
    """
    inside = f"tierwise.{package}."
    floor = {name: number for number, names in enumerate(upper, 1) for name in names}

    def height(name: str) -> int:
        return floor.get(name.removeprefix(inside).partition(".")[0], 0)

    assert [] == [
        (name, other)
        for name, others in _dependencies().items()
        for other in others
        if name.startswith(inside) and other.startswith(inside) and height(other) > height(name)
    ]


def test_tests_share_parts_across_folders() -> None:
    """A test borrows no private name, and nothing from a test of another sort; `tests/support` is for all."""
    wrong = [
        (str(file.relative_to(ROOT)), module, name)
        for file in (ROOT / "tests").rglob("*.py")
        for module, name in _imports(file)
        if module.split(".")[0] == "tests"
        if name.startswith("_") or ("test_" in f"{module}.{name}" and not module.startswith(_folder(file)))
    ]

    assert [] == wrong


def _folder(file: Path) -> str:
    """The sort of tests that a file belongs to, such as `tests.unit`."""
    return ".".join(file.relative_to(ROOT).parts[:2])


def test_shared_parts_rest_on_no_folder_of_tests() -> None:
    """`tests/support` can be used from everywhere, so it imports from itself and from the sources alone."""
    wrong = [
        (file.name, module)
        for file in (ROOT / "tests" / "support").glob("*.py")
        for module, _ in _imports(file)
        if module.startswith("tests.") and not module.startswith("tests.support")
    ]

    assert [] == wrong


def test_unit_tests_stand_where_their_package_stands() -> None:
    """A folder of unit tests is named after a package, or after the folder of manifests."""
    packages = {path.name for top in (PACKAGE, LABORATORY) for path in top.iterdir() if path.is_dir()} | {"deploy"}
    folders = {path.name for path in (ROOT / "tests" / "unit").iterdir() if path.is_dir()} - {"__pycache__"}

    assert set() == folders - packages


def test_only_the_client_opens_http_sessions() -> None:
    """Servers import aiohttp too, and the linter sees whole packages: a session is opened in kube and nowhere else."""
    asking = {file.parent.name for file in PACKAGE.rglob("*.py") if "ClientSession" in file.read_text()}

    assert {"kube"} == asking


def test_glossary_names_folders_that_exist() -> None:
    """Where the glossary speaks of a package, the package is there."""
    named = set(re.findall(r"`([a-z_]+(?:/[a-z_]+)*)/`", (ROOT / "docs" / "glossary.md").read_text()))

    assert named
    assert [] == sorted(name for name in named if not (PACKAGE / name).is_dir())


def _glossary() -> list[str]:
    """The words of the glossary, one for each row of its tables."""
    page = (ROOT / "docs" / "glossary.md").read_text()
    rows = [row.split("|")[1].strip() for row in page.splitlines() if row.startswith("| ")]
    return [word for word in rows if word != "Word"]


def _names() -> set[str]:
    """Every name in the sources, files and folders included, as words: `PodSet` and `POD_SET` are "pod set"."""
    parts: set[str] = set()
    for file in (ROOT / "src").rglob("*.py"):
        parts |= {file.stem, file.parent.name}
        for node in ast.walk(_tree(file)):
            name = getattr(node, "name", None) or getattr(node, "id", None) or getattr(node, "attr", None)
            if isinstance(name, str):
                parts.add(name)
    return {f" {re.sub(r'(?<=[a-z0-9])(?=[A-Z])', ' ', part).replace('_', ' ').lower()} " for part in parts}


def test_glossary_is_short_and_has_each_word_once() -> None:
    """A word with two entries has two senses, and a reader learns no private language of hundreds of words."""
    words = _glossary()

    assert [] == sorted(word for word in set(words) if words.count(word) > 1)
    assert len(words) <= 80


def test_words_of_the_glossary_are_names_in_the_code() -> None:
    """A word that no name has is a word that nobody needs."""
    names = " ".join(_names())
    forms = {word: word.replace("-", " ") for word in _glossary()}
    unused = [w for w, form in forms.items() if f" {form} " not in names and f" {form}s " not in names]

    assert [] == unused


def test_what_the_first_command_installs_has_the_servers() -> None:
    """`make run` installs one lock file, and README goes on with `serve` and `up`."""
    locked = (ROOT / "locks/requirements-build.lock").read_text(encoding="utf-8")

    assert [] == [name for name in ("aiohttp", "prometheus-client") if f"\n{name}==" not in f"\n{locked}"]
    assert "cryptography==" not in locked
