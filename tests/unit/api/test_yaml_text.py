"""YAML to plain data: what scalars mean, what is shared, what is refused and where."""

import pytest

from tierwise.api.errors import InputError
from tierwise.api.yaml_events import resolve
from tierwise.api.yaml_text import documents, is_plain


def load(text: str) -> list[object]:
    """All documents of a text."""
    return [document for document, _ in documents(text.encode(), file="f") if document is not None]


def complaint(text: str) -> str:
    """What is said about a text that is refused."""
    with pytest.raises(InputError) as caught:
        load(text)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", None),
        ("~", None),
        ("Null", None),
        ("yes", True),
        ("OFF", False),
        ("y", "y"),
        ("12", 12),
        ("-0", 0),
        ("010", 8),
        ("08", "08"),
        ("0x1F", 31),
        ("0b11", 3),
        ("1_000", 1000),
        ("0x_", "0x_"),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1.5e+3", 1500.0),
        ("1e3", "1e3"),
        ("1.5e+999", "1.5e+999"),
        (".inf", float("inf")),
        ("-.INF", float("-inf")),
        ("1:30", "1:30"),
        ("2024-01-01", "2024-01-01"),
        ("2024-01-01T00:00:00Z", "2024-01-01T00:00:00Z"),
        ("1Gi", "1Gi"),
        ("=", "="),
        ("9" * 5000, "9" * 5000),
    ],
)
def test_plain_scalars_mean_what_yaml_1_1_says(text: str, expected: object) -> None:
    """Booleans and numbers as kubectl reads them; times, clock readings and what is too large stay strings."""
    found = resolve(text)

    assert (expected, type(expected)) == (found, type(found))


@pytest.mark.parametrize("key", ["1", "-1", "1.5", "true", "yes", "null", "~", "on", "010", "", "[]", "{}"])
def test_keys_are_strings_or_refused(key: str) -> None:
    """Numbers and booleans become the strings that they print as, in block and in flow style; nothing else does."""
    for text in (f"{key}: a\n", f"{{{key}: a}}\n"):
        try:
            found = load(text)
        except InputError:
            continue
        assert all(isinstance(name, str) for document in found if isinstance(document, dict) for name in document)


def test_documents_are_parted_wherever_a_mark_stands() -> None:
    """Empty documents, comments, marks with content, byte order marks and carriage returns are all in order."""
    text = "\ufeff# first\r\n---\r\na: 1\r\n---\r\n---\n# nothing\n--- {b: 2}\n---\nc: |\n  x\n  --- y\n"

    assert [{"a": 1}, {"b": 2}, {"c": "x\n--- y\n"}] == load(text)


def test_directives_and_explicit_ends_are_understood() -> None:
    """A text that uses them is read as a whole."""
    assert [{"a": 1}, {"b": 2}] == load("%YAML 1.1\n---\na: 1\n...\n---\nb: 2\n")


def test_aliases_give_copies() -> None:
    """Changing one object must not change another that used the same anchor."""
    (found,) = load("a: &x {k: [1]}\nb: *x\n")

    assert isinstance(found, dict)
    assert {"a": {"k": [1]}, "b": {"k": [1]}} == found
    assert found["a"]["k"] is not found["b"]["k"]


def test_merges_fill_in_what_is_missing() -> None:
    """Keys of the map itself win over merged ones, wherever they stand, and the first merged map over the next."""
    text = "a: &a {x: 1, y: 1}\nb: &b {y: 2, z: 2}\nc: {x: 0, <<: [*a, *b]}\nd:\n  <<: *b\n  z: 0\n"

    assert [{"x": 0, "y": 1, "z": 2}, {"y": 2, "z": 0}] == [load(text)[0][part] for part in "cd"]  # type: ignore[index]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: [1, 2\nb: 3\n", "f:2:2: did not find expected ',' or ']'"),
        ("ok: 1\n---\na: 1\n b: 2\n", "f:4:3: mapping values are not allowed in this context"),
        ("a: 1\nb: 2\na: 3\n", 'f:3:1: the key "a" is given twice'),
        ("x:\n  a: 1\n  'a': 3\n", 'f:3:3: the key "a" is given twice'),
        ("1: a\n'1': b\n", 'f:2:1: the key "1" is given twice'),
        ("? [a]\n: b\n", "f:1:3: a key must be a string"),
        ("~: b\n", "f:1:1: a key must be a string"),
        ("a: *x\n", 'f:1:4: found undefined alias "x"'),
        ("a: &x [*x]\n", 'f:1:8: "x" contains itself'),
        ("a: !!binary aGk=\n", 'f:1:4: the tag "tag:yaml.org,2002:binary" is not supported'),
        ("a: !thing {b: c}\n", 'f:1:4: the tag "!thing" is not supported'),
        ("a: !!int b\n", 'f:1:4: "b" is not of the type of its tag'),
        ("a: {<<: 3}\n", 'f:1:10: "<<" takes a map or a list of maps'),
        ("\tb: c\n", "f:1:1: found character that cannot start any token"),
    ],
)
def test_broken_texts_say_where(text: str, expected: str) -> None:
    """Every refusal is one line with file, line and column."""
    assert expected == complaint(text)


def test_bytes_that_are_no_text_say_where() -> None:
    """Invalid UTF-8 is refused before anything is parsed."""
    with pytest.raises(InputError, match=r"^f:2:4: the text is not UTF-8$"):
        list(documents(b"a: b\nc: \xff\n", file="f"))


@pytest.mark.parametrize("text", ["a: " + "[" * 100_000, "- " * 100_000, "{a: " * 100_000, "[" * 999 + "]" * 999])
def test_nesting_is_bounded(text: str) -> None:
    """Depth that would overflow a stack is refused in no time."""
    assert "nested more than 200 deep" in complaint(text)


def test_indentation_is_bounded() -> None:
    """The same for nesting by indentation."""
    assert "nested more than 200 deep" in complaint("".join(" " * depth + "a:\n" for depth in range(400)))


def test_aliases_are_bounded() -> None:
    """A few lines of aliases of aliases must not stand for milliards of nodes, in one document or in many."""
    bomb = "a0: &a0 [1,1,1,1,1,1,1,1,1,1]\n" + "".join(
        f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]\n" for level in range(1, 5)
    )

    assert "the aliases expand to too much" in complaint(bomb + "\na5: [*a4, *a4, *a4]\n")
    assert "the aliases expand to too much" in complaint("---\n".join([bomb] * 10))


def test_what_kubectl_prints_is_plain() -> None:
    """The fast path takes it: block style, JSON within a block scalar, managed fields, odd messages, empty maps."""
    text = """\
metadata:
  annotations:
    last-applied-configuration: |
      {"apiVersion":"v1","spec":{"containers":[{"args":["a"]}]}}
  managedFields:
  - fieldsV1:
      f:spec:
        k:{"name":"c"}:
          .: {}
  uid: 00d5a5b3-8d2e-4a2e-9a4b-000000000001
spec:
  containers:
  - args:
    - --verbose=2
  securityContext: {}
status:
  conditions:
  - lastProbeTime: null
    message: '0/1 nodes are available: 1 node(s) had untolerated taint {node/not-ready:
      }, no node fits.'
"""

    assert is_plain(text.encode())


def test_flow_style_on_one_line_is_plain() -> None:
    """The fast path takes what people write: words, numbers and strings, in lists and maps of a few levels."""
    text = """\
metadata: {name: rack-0, labels: {example.com/rack: 'r 0', tier: "1"}}
spec:
  members:
  - {type: Node, selector: {labelMatch: {matchLabels: {example.com/rack: r0}}}}  # by label
  containers: [{name: main, image: registry:5000/a/b:1.0, args: [--lr=0.1, "-c", /bin/sh], ports: [], env: [{}]}]
"""

    assert is_plain(text.encode())


@pytest.mark.parametrize(
    "text",
    [
        "a: yes\n",
        "a: 1e3\n",
        "a: &x b\n",
        "a: {b}\n",
        "a: {b: yes}\n",
        "a: {1: b}\n",
        "a: [b: c]\n",
        "a: {[b]: c}\n",
        "a: [b,\n  c]\n",
        "a: [[b]\n, c]\n",
        "a: [it's, ?'b]\n",
        "a: {b: :c}\n",
        "a: {b: {c: {d: {e: {f: {g: h}}}}}}\n",
        "{b: c}\n",
        "a:\tb\n",
        "1: a\n",
        "a: 010\n",
        "a: |\n",
        "a: \u2028\n",
        "a: |\n  b",
    ],
)
def test_what_readers_disagree_on_is_not_plain(text: str) -> None:
    """The fast path leaves it alone."""
    assert not is_plain(text.encode())
