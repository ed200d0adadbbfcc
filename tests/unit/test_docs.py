"""The documentation holds: links lead somewhere, commands exist, and nothing that users meet is left out."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from tests.support import rows_page
from tests.support.commands import EXAMPLES, answer, run
from tests.support.points_page import PAGE, page

from tierwise.cli.main import cli
from tierwise.config.actions import ACTIONS
from tierwise.explain.reasons import described
from tierwise.plugins import PLUGINS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
BENCHMARKS = DOCS / "benchmarks.md"
FRONT = ROOT / "README.md"
PAGES = [FRONT, *sorted(DOCS.rglob("*.md"))]
OTHERS = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("*/README.md")), *sorted(ROOT.glob("examples/**/*.md"))]
LINKED = [*PAGES, *(page for page in OTHERS if page not in PAGES)]

_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)
_REASON = re.compile(r'\bReason\(\s*"(\w+)"')
_PROBLEM = re.compile(r'\b(?:Problem|Fault|fail)\([^\n]*?, "([A-Z]\w+)"')
_SHELLS = ("console", "sh", "bash")


def _named(page: Path) -> str:
    return str(page.relative_to(ROOT))


def _prose(page: Path) -> str:
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def _anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as code hosts make them."""
    plain = (re.sub(r"[^\w\- ]", "", title.replace("`", "").lower()) for title in _HEADING.findall(_prose(page)))
    return {title.replace(" ", "-") for title in plain} | set(re.findall(r'<a id="(\w+)">', _prose(page)))


def _commands(line: str) -> Iterator[list[str]]:
    """The words of each `tierwise` command in a line of shell, without what follows a redirection."""
    line = re.sub(r"\$\((.*?)\)", r" && \1 && ", line).replace('"', "")
    for part in re.split(r"\|\|?|&&|;", line):
        words = shlex.split(part.split(">")[0].removeprefix("$ "), comments=True)
        if words and words[0] in ("tierwise", ".venv/bin/tierwise"):
            yield words[1:]


def _shown(page: Path) -> Iterator[tuple[str, list[str], bool]]:
    """Every `tierwise` command on a page, and whether it is meant to be run as it stands."""
    text = page.read_text(encoding="utf-8")
    for language, body in _FENCE.findall(text):
        for line in body.splitlines() if language in _SHELLS else ():
            if line.startswith("$ "):
                yield from ((line, words, True) for words in _commands(line[2:]))
    for span in _SPAN.findall(_prose(page)):
        if span.startswith("tierwise "):
            yield from ((span, words, False) for words in _commands(span))


def _parse(words: list[str], *, whole: bool) -> None:
    """Raise UsageError where a verb or an option does not exist; `whole` commands must be complete as well."""
    command: click.Command = cli
    context = click.Context(cli, info_name="tierwise")
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.get_command(context, words[0])
        if found is None:
            raise click.UsageError(f"there is no verb {words[0]}")
        command, words = found, words[1:]
        context = click.Context(command, info_name=command.name, parent=context)
    if whole and not isinstance(command, click.Group):
        command.make_context(command.name, list(words))
    else:
        value = ["VALUE"] if words and words[-1].startswith("-") else []  # a page may name an option alone
        command.make_parser(context).parse_args([*words, *value])


@pytest.mark.parametrize("page", LINKED, ids=_named)
def test_relative_links_lead_somewhere(page: Path) -> None:
    """Every link that is not to another host names a file that exists, and a heading that is there."""
    broken = []
    for link in _LINK.findall(_prose(page)):
        path, _, anchor = link.partition("#")
        if "://" in link or link.startswith("mailto:"):
            continue
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in _anchors(target)):
            broken.append(link)

    assert [] == broken


@pytest.mark.parametrize("page", PAGES, ids=_named)
def test_links_to_sources_say_their_names(page: Path) -> None:
    """A link to a source file is called as the file is, also after the file was renamed."""
    named = re.findall(r"\[`([\w/]+\.py)`\]\(([^)\s]+\.py)\)", _prose(page))

    assert [] == [(text, target) for text, target in named if not target.endswith(text)]


@pytest.mark.parametrize("page", PAGES, ids=_named)
def test_commands_exist(page: Path) -> None:
    """Every command that a page shows has a verb and options that the command line knows."""
    wrong = []
    for text, words, whole in _shown(page):
        try:
            _parse(words, whole=whole)
        except click.UsageError as error:
            wrong.append(f"{text}: {error.format_message()}")

    assert [] == wrong


_SAVED = re.compile(r"```yaml\n((?:(?!```).)*)```\n+Save it as `([\w.]+)`", re.DOTALL)


def _outputs(page: Path) -> Iterator[tuple[list[str], list[str]]]:
    """Every command on files that a reader has whose output a page shows, and the lines that it shows of it."""
    text = page.read_text(encoding="utf-8")
    saved = {name for _, name in _SAVED.findall(text)}
    for language, body in _FENCE.findall(text):
        for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:] if language == "console" else ():
            command, *lines = part.splitlines()
            words = next(_commands(command), [])
            if lines and any(word.startswith("examples/") or word in saved for word in words):
                yield words, lines


def _missing(shown: list[str], printed: list[str]) -> list[str]:
    """The shown lines that do not follow each other in what is printed; "[...]" stands for any number of lines."""
    left, leap = printed, False
    for line in shown:
        if line == "[...]":
            leap = True
        elif line not in (left if leap else left[:1]):
            return [line]
        else:
            left, leap = left[left.index(line) + 1 :], False
    return []


@pytest.mark.parametrize("page", [page for page in PAGES if any(_outputs(page))], ids=_named)
def test_output_is_real(page: Path, tmp_path: Path) -> None:
    """What a page shows of a command on an example, or on files that it tells to save, is what the command prints."""
    places = {}
    for text, name in _SAVED.findall(page.read_text(encoding="utf-8")):
        places[name] = tmp_path / name
        places[name].write_text(text, encoding="utf-8")

    wrong = []
    for words, shown in _outputs(page):
        real = (str(ROOT / word if word.startswith("examples/") else places.get(word, word)) for word in words)
        wrong += _missing(shown, run(*real, width=80 if page == FRONT else 100).stdout.splitlines())

    assert [] == wrong


@pytest.mark.parametrize("words", [["shcedule", "-f", "x"], ["schedule", "--fast", "-f", "x"], ["schedule"]])
def test_wrong_commands_are_found(words: list[str]) -> None:
    """A misspelt verb, an option that does not exist and a missing file are complained about."""
    with pytest.raises(click.UsageError):
        _parse(words, whole=True)


def _kebab(name: str) -> str:
    """The file name for a plugin that a configuration spells NetworkOverhead or QOSSort."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", name).lower()


@pytest.mark.parametrize(("folder", "names"), [("plugins", sorted(PLUGINS.built_in)), ("actions", sorted(ACTIONS))])
def test_every_plugin_and_action_has_a_page(folder: str, names: list[str]) -> None:
    """Each name of a profile has a page of its own, and a line in the table of its folder."""
    table = (DOCS / folder / "README.md").read_text(encoding="utf-8")

    assert [] == [name for name in names if not (DOCS / folder / f"{_kebab(name)}.md").exists()]
    assert [] == [name for name in names if f"({_kebab(name)}.md)" not in table]


def test_every_verb_is_in_the_reference() -> None:
    """With a section of its own, or one for each of its own verbs."""
    described = _anchors(DOCS / "reference" / "cli.md")

    assert [] == [
        name for name in cli.list_commands(click.Context(cli)) if not any(a.startswith(name) for a in described)
    ]


@pytest.mark.parametrize("pattern", [_REASON, _PROBLEM], ids=["reasons", "problems"])
def test_every_code_is_described(pattern: re.Pattern[str]) -> None:
    """Whoever meets a code in a message finds it in the table of codes."""
    sources = (file.read_text(encoding="utf-8") for file in sorted((ROOT / "src").rglob("*.py")))
    codes = {code for text in sources for code in pattern.findall(text)}

    assert codes
    assert set() == {code for code in codes if not described(code)}


@pytest.mark.parametrize(
    "words",
    [
        ["schedule", "-f", EXAMPLES / "02-why-not"],
        ["explain", "-f", EXAMPLES / "02-why-not", "train-0"],
        ["explain", "-f", EXAMPLES / "02-why-not", "--job", "train"],
        ["validate", "-f", EXAMPLES / "02-why-not"],
        ["topology", "show", "-f", EXAMPLES / "02-why-not"],
        ["reconcile", "-f", EXAMPLES / "02-why-not"],
        ["submit", "-f", EXAMPLES / "02-why-not"],
        ["what-if", "-f", EXAMPLES / "02-why-not", "--uncordon", "a3"],
        ["what-if", "-f", EXAMPLES / "02-why-not", "--start", "train"],
        ["defrag", "-f", EXAMPLES / "02-why-not", "--for", "8x4@rack"],
        ["eta", "-f", EXAMPLES / "02-why-not", "train"],
    ],
    ids=lambda words: " ".join(str(word) for word in words if word not in ("-f", EXAMPLES / "02-why-not")),
)
def test_every_key_of_the_json_is_described(words: list[object]) -> None:
    """Scripts find each key that a command prints on the page about JSON."""
    described = set(re.findall(r"[`.\"](\w+)[`\"]", (DOCS / "reference" / "json.md").read_text(encoding="utf-8")))

    assert set() == set(answer(*words)) - described


def test_the_page_about_extension_points_is_that_of_the_code() -> None:
    """Points, methods and rules are what the table has; `python -m tests.support.points_page` writes the page."""
    assert page() == PAGE.read_text(encoding="utf-8")


def test_the_page_about_rows_of_the_benchmark_is_that_of_the_code() -> None:
    """Every row with its gates, its words and its last figure; `python -m tests.support.rows_page` writes the page."""
    assert rows_page.page() == rows_page.PAGE.read_text(encoding="utf-8")


_RECORD = re.compile(r"# (\d{4}): (.+)\n\n- Room: (.+)\n- Status: ((?:in force|replaced by \[).*)\n")


def test_decisions_are_listed_by_room_with_their_status() -> None:
    """Each record says its room and status below a title, and the index lists it so, once."""
    folder = DOCS / "decisions"
    rooms = re.split(r"^## (.+)\n", (folder / "README.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    listed = {
        name: (room, title, status)
        for room, rows in zip(rooms[::2], rooms[1::2], strict=True)
        for name, title, status in re.findall(r"^\| \[\d{4}\]\((.+?)\) \| (.+) \| (.+) \|$", rows, re.MULTILINE)
    }
    said = {}
    for path in sorted(folder.glob("0*.md")):
        found = _RECORD.match(path.read_text(encoding="utf-8"))
        assert found is not None, path.name
        number, title, room, status = found.groups()
        assert path.name.startswith(f"{number}-")
        said[path.name] = room, title, status

    assert said == listed


def test_every_room_has_a_page_of_what_holds() -> None:
    """The index lists a page for each room, short enough to be read, that cites no record which was replaced."""
    folder = DOCS / "decisions"
    index = (folder / "README.md").read_text(encoding="utf-8")
    rooms = re.findall(r"^## (.+)$", index, re.MULTILINE)
    pages = dict(re.findall(r"^- \[(.+)\]\((\D[\w-]+\.md)\)$", index, re.MULTILINE))
    texts = {page: (folder / page).read_text(encoding="utf-8") for page in pages.values()}
    records = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("0*.md")}

    assert sorted(rooms) == sorted(pages)
    assert [] == [page for page, text in texts.items() if len(text.split()) > 600]
    assert [] == [
        (page, name)
        for page, text in texts.items()
        for name in re.findall(r"\((0\d{3}-[\w-]+\.md)\)", text)
        if "- Status: in force" not in records[name]
    ]


def test_the_readme_fits_a_narrow_screen() -> None:
    """No line of its pictures and commands is longer than 80 columns, and its words are those of a few minutes."""
    text = FRONT.read_text(encoding="utf-8")
    words = re.findall(r"\w[\w'-]*", re.sub(r"\]\([^)]*\)", "]", _prose(FRONT)))

    assert [] == [line for _, body in _FENCE.findall(text) for line in body.splitlines() if len(line) > 80]
    assert len(words) <= 950


def test_the_readme_shows_measured_numbers() -> None:
    """What the README says of a cycle beside Volcano's is in the table of the page about benchmarks."""
    shown, measured = (page.read_text(encoding="utf-8") for page in (FRONT, BENCHMARKS))
    said = re.findall(r" an? (\d+)th\b", shown.partition("beside Volcano's own code")[2].partition("\n")[0])
    table = measured.partition("### Beside Volcano's own code")[2].partition("## Published")[0]

    assert said
    assert said == re.findall(r"\| (\d+) \|$", table, re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=_named)
def test_pages_keep_to_the_style(page: Path) -> None:
    """No page calls anything simple."""
    assert [] == re.findall(r"\b(?:simply|just)\b", _prose(page), re.IGNORECASE)
