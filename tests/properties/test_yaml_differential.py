"""The fast YAML reader against the sure one, and the sure one against PyYAML's own loader.

Texts are dumps of random data in random styles, edited at random, and scalars in every position. Wherever the fast
path would be taken, it must give what the event reader gives; where it refuses, the event reader is asked anyway.
"""

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tierwise.api.errors import InputError
from tierwise.api.yaml_events import Allowance, build
from tierwise.api.yaml_text import is_plain, read_plain

pytest.importorskip("yaml_rs", reason="without yaml-rs there is no fast path")

MORE = settings(max_examples=10 * settings().max_examples)
WORDS = st.sampled_from(
    [
        "a",
        "foo",
        "bar baz",
        "x: y",
        "- z",
        "# c",
        "true",
        "no",
        "null",
        "1",
        "1.5",
        "010",
        "1e3",
        "2024-01-01",
        "http://a:1/b",
        "it's",
        "a  b",
        "  lead",
        "trail  ",
        "~",
        "",
        "é",
        "漢字",
        "---",
        "...",
        '"q"',
        '{"a":"b"}',
        "{}",
        "[]",
        "|",
        ">",
        "&a",
        "*a",
        "!t",
        "<<",
        "a\n",
        "a\n\nb",
        "\na",
        "a\n  b\n",
        "\n",
        "0/5 nodes: 3 Insufficient cpu no match",
    ]
)
TEXTS = WORDS | st.text("ab XY09-:#'\"\\|>&*!%@`,[]{}?~=._/\n é\u00a0漢😀", max_size=20)
DATA = st.recursive(
    TEXTS | st.sampled_from([1, 0, -5, 1.5, True, False, None]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=12,
)
FLOW_WORDS = WORDS | st.text("ab09-.:/=+_'\" ?", max_size=4)
FLOW_ENDS = st.sampled_from([", ", ", ", ", ", ",", " , ", ": ", " ", "", ",\n  "])
FLOWS = st.recursive(
    FLOW_WORDS,
    lambda inner: st.builds(
        lambda brackets, keyed, parts: (
            brackets[0]
            + "".join((f"{key}: " if keyed else "") + value + end for key, value, end in parts).removesuffix(", ")
            + brackets[1]
        ),
        st.sampled_from([("[", "]"), ("[", "]"), ("{", "}"), ("{", "}"), ("{ ", " }"), ("[", "}"), ("{", "")]),
        st.booleans(),
        st.lists(st.tuples(st.sampled_from(["a", "b", "c d", "'e'"]) | FLOW_WORDS, inner, FLOW_ENDS), max_size=3),
    ),
    max_leaves=8,
)
EDITS = st.sampled_from(
    [
        "\n",
        "  ",
        "- ",
        ": ",
        '"',
        "'",
        "|",
        ">",
        " #",
        "\n  ",
        "\n- ",
        "|-",
        ">+",
        "|2",
        "\n\n",
        "a",
        "\\",
        "---",
        "-",
        ":",
    ]
)
POSITIONS = (
    "k: {}\n",
    "- {}\n",
    "{}: a\n",
    '"a": {}',
    "k: {} # c\n",
    "- - {}\n",
    "--- {}\n",
    "k:\n  {}\n",
    "- k: {}\n  l: m\n",
)


class _Dumper(yaml.SafeDumper):
    """Dumps strings in whichever style they ask for, and never uses aliases."""

    styles: list[str | None]

    def ignore_aliases(self, data: object) -> bool:
        return True


def _string(dumper: _Dumper, text: str) -> yaml.Node:
    style = dumper.styles[len(text) % len(dumper.styles)]
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _string)


class _Loader(yaml.SafeLoader):
    """PyYAML's loader, with times, clock readings and "=" as strings."""


_Loader.yaml_implicit_resolvers = {
    first: [
        (tag, pattern) for tag, pattern in resolvers if tag.rpartition(":")[2] not in ("timestamp", "value", "merge")
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


@st.composite
def dumps(draw: st.DrawFn) -> str:
    """Random data as PyYAML writes it, in one of many styles."""
    _Dumper.styles = draw(st.lists(st.sampled_from([None, None, "|", ">", '"', "'"]), min_size=1, max_size=5))
    return yaml.dump(
        {draw(TEXTS): draw(DATA), "k": draw(DATA)},
        Dumper=_Dumper,
        default_flow_style=draw(st.sampled_from([False, False, False, None])),
        allow_unicode=draw(st.booleans()),
        width=draw(st.sampled_from([20, 80, 1000])),
        indent=draw(st.integers(1, 4)),
        explicit_start=draw(st.booleans()),
        sort_keys=False,
    )


@st.composite
def edited(draw: st.DrawFn) -> str:
    """A dump with some characters put in and others taken out."""
    text = draw(dumps())
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(text)))
        text = text[:at] + draw(EDITS | st.just("")) + text[at + draw(st.integers(0, 2)) :]
    return text


def surely(text: str) -> list[object]:
    """What the event reader reads."""
    return list(build(text, file="f", line=0, allowance=Allowance(len(text))))


def agree(text: str) -> None:
    """Assert that the fast path, where it would be taken and reads anything, reads the same."""
    if "\n---" in text or not is_plain(text.encode()):
        return  # the loader parts texts at marks before it comes to this
    found = read_plain(text.encode())
    if found is None:
        return
    try:
        expected = surely(text)
    except InputError as error:
        pytest.fail(f"{text!r} is read as {found!r} but refused: {error}")
    assert repr(expected) == repr([found]), text


@MORE
@given(edited())
@example("a: |\n  x\n\n  y\nb: >-\n  x\n  y\n")
@example("a: 'it''s\n  long'\nb: \"x\\\n  y\"\n")
def test_structures_are_read_alike(text: str) -> None:
    """Block and quoted scalars, comments, indentation, lists of lists, and the errors in them."""
    agree(text)


@MORE
@given(st.sampled_from(POSITIONS), st.text("0123456789+-._eExXoObinfatyNFrulsT: #", min_size=1, max_size=7) | TEXTS)
def test_scalars_are_read_alike(position: str, text: str) -> None:
    """Anything that looks a little like a number, a boolean or a key, wherever it may stand."""
    agree(position.format(text))


@MORE
@given(FLOWS, st.sampled_from(POSITIONS), st.integers(0, 200), EDITS | st.just(""))
@example("[{a: b, c: [d, {e: 'f'}]}, []]", "k: {}\n", 0, "")
@example("[ it's, inf, ?'a, ]", "k: {}\n", 0, "")
@example("{[a]: b}", "k: {} # c\n", 0, "")
def test_flow_style_is_read_alike(text: str, position: str, at: int, edit: str) -> None:
    """Lists and maps in brackets: keys, quotes, commas, ends of lines, and the errors in them."""
    whole = position.replace("{}", text)
    agree(whole)
    agree(whole[:at] + edit + whole[at:])


@given(dumps())
def test_the_sure_reader_agrees_with_pyyaml(text: str) -> None:
    """The event reader gives what PyYAML's own loader gives; where it does not, it refuses a doubtful key."""
    expected = list(yaml.load_all(text, _Loader))
    try:
        found = surely(text)
    except InputError as error:
        found, expected = [error.message], [error.message if "key" in error.message else expected]
    assert repr(expected) == repr(found)


def test_enough_texts_take_the_fast_path() -> None:
    """The comparison would mean nothing if everything were left to the sure reader."""
    block = yaml.safe_dump({"a": ["b", {"c": "d e"}], "f": "g\nh\n", "i": 1, "j": 1.5, "k": True, "l": {}, "m": None})
    flow = "a: {b: [c, 'd e'], f: {g: 1}}\n"

    for text in (block, flow):
        assert is_plain(text.encode())
        assert read_plain(text.encode()) is not None
