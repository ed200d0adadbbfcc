"""Bad input: exit status 2, one line that names file, object and field, and nothing on standard output."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from tests.support.commands import run

from tierwise.api.errors import InputError
from tierwise.cli.main import cli
from tierwise.manifests.files import read

NODE = "apiVersion: v1\nkind: Node\nmetadata: {name: n0}\n"
PACKING = "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n"

FILES = {
    "broken YAML": (b"a: [1,\n", r"bad\.yaml:2:1: "),
    "an empty file": (b"", r"bad\.yaml: .*no objects"),
    "nothing but comments": (b"# nothing\n---\n", r"bad\.yaml: .*no objects"),
    "binary junk": (bytes(range(256)) * 4, r"bad\.yaml"),
    "no object": (b"- 1\n- 2\n", r"bad\.yaml#1: an object is expected"),
    "metadata that are no object": (
        b"kind: Node\napiVersion: v1\nmetadata: [a]\n",
        r"#1: Node: metadata: expected an o",
    ),
    "something behind an object": (f"{NODE}---\njunk\n".encode(), r"bad\.yaml#2: an object is expected"),
    "no kind": (b"apiVersion: v1\n", r"bad\.yaml#1: kind: the kind is missing"),
    "no name": (b"apiVersion: v1\nkind: Node\n", r"bad\.yaml#1: Node: metadata\.name: "),
    "a wrong type": (NODE.encode() + b"spec: {taints: 7}\n", r"bad\.yaml#1: Node n0: spec\.taints: expected a list"),
    "no quantity": (NODE.encode() + b"status: {allocatable: {cpu: much}}\n", r"Node n0: status\.allocatable\.cpu: "),
    "a negative quantity": (NODE.encode() + b"status: {allocatable: {cpu: -1}}\n", r"allocatable\.cpu: .*negative"),
    "no number": (NODE.encode() + b"status: {allocatable: {cpu: .inf}}\n", r"allocatable\.cpu: .*not a quantity"),
    "the same object twice": (f"{NODE}---\n{NODE}".encode(), r"bad\.yaml#2: Node n0: given twice"),
    "a character that moves the cursor": (
        NODE.replace("n0", '"n\\e[2J"').encode() + b"status: {allocatable: {cpu: x}}\n",
        r"Node n\\x1b\[2J: ",
    ),
}

CONFIGURATIONS = {
    "no mapping": ("- 1\n", r"bad\.conf: a scheduler configuration is a mapping"),
    "an unknown action": ("actions: alocate\n", r"bad\.conf: actions: unknown action alocate"),
    "an unknown plugin": (PACKING + "  - name: bin\n", r"bad\.conf: tiers\.plugins: unknown plugin bin"),
    "two documents": ("actions: allocate\n---\nactions: allocate\n", r"bad\.conf: one configuration"),
    "another version": ("kind: KubeSchedulerConfiguration\n", r"bad\.conf: apiVersion: expected one of kubescheduler"),
}

VERBS = (["schedule"], ["validate"], ["reconcile"], ["topology", "show"], ["explain", "--pod", "p0"])


def complaint(*words: object) -> str:
    """The one line of a command that refuses its input."""
    result = run(*words)
    assert (2, "") == (result.exit_code, result.stdout)
    assert re.fullmatch(r"tierwise: .+\n", result.stderr)
    return result.stderr


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_cannot_be_used(name: str, tmp_path: Path) -> None:
    """The line names the file and, as far as there are any, the object and the field."""
    content, pattern = FILES[name]
    file = tmp_path / "bad.yaml"
    file.write_bytes(content)

    assert re.search(pattern, complaint("schedule", "-f", file))


LIST = b'{"apiVersion": "v1", "kind": "List", "items":[{"apiVersion": "v1", "kind": "Node", "metadata": {"name":"n"}}]}'


def test_no_byte_of_a_list_is_a_defect(tmp_path: Path) -> None:
    """Wherever a text is not UTF-8, before the items, in them or after: it is bad input that names the file."""
    file = tmp_path / "bad.json"
    for place in range(len(LIST)):
        file.write_bytes(LIST[:place] + b"\xac" + LIST[place + 1 :])
        with pytest.raises(InputError, match=r"bad\.json"):
            read([str(file)])


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_configuration_that_cannot_be_used(name: str, tmp_path: Path) -> None:
    """The line names the configuration file and the field."""
    content, pattern = CONFIGURATIONS[name]
    config, file = tmp_path / "bad.conf", tmp_path / "good.yaml"
    config.write_text(content)
    file.write_text(NODE)

    assert re.search(pattern, complaint("schedule", "-f", file, "--config", config))


@pytest.mark.parametrize("words", VERBS, ids=lambda words: words[0])
def test_every_verb_refuses_a_missing_file(words: list[str], tmp_path: Path) -> None:
    """A file that is not there is bad input to all verbs alike."""
    assert "nowhere.yaml: " in complaint(*words, "-f", tmp_path / "nowhere.yaml")


@pytest.mark.parametrize("words", VERBS, ids=lambda words: words[0])
def test_every_verb_refuses_a_broken_configuration(words: list[str], tmp_path: Path) -> None:
    """Also verbs that do not schedule, so that a check before a roll-out means something."""
    file = tmp_path / "good.yaml"
    file.write_text(NODE)

    assert "nowhere.conf: " in complaint(*words, "-f", file, "--config", tmp_path / "nowhere.conf")


@pytest.mark.parametrize("words", [("nope",), ("--pod", "default/nope"), ("--job", "nope")], ids=" ".join)
def test_explaining_what_does_not_exist(words: tuple[str, ...], tmp_path: Path) -> None:
    """A pod or a job that is not there is bad input, and is named with its namespace."""
    file = tmp_path / "good.yaml"
    file.write_text(NODE)

    assert "default/nope: there is no such" in complaint("explain", "-f", file, *words)


def test_what_cannot_be_read_is_not_called_valid(tmp_path: Path) -> None:
    """Where some objects cannot be read, the rest is checked, and neither text nor JSON says that all is valid."""
    (tmp_path / "good.yaml").write_text(NODE)
    (tmp_path / "bad.yaml").write_text("apiVersion: v1\nkind: Node\n")

    text, wire = (run("validate", "-f", str(tmp_path), *words) for words in ([], ["-o", "json"]))

    assert (2, 2) == (text.exit_code, wire.exit_code)
    assert "invalid: 0 errors, 0 warnings in 1 object, and 1 object that cannot be read" in text.stdout
    assert '"valid":false' in wire.stdout.replace(" ", "")


def test_a_sweep_without_a_grid_says_what_it_needs() -> None:
    """One line, and the status of bad input."""
    result = run("sweep")

    assert 2 == result.exit_code
    assert "tierwise: a sweep needs a grid" in result.stderr
    assert 1 == result.stderr.count("\n")


def _commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every verb with its words."""
    context = click.Context(command)
    if not isinstance(command, click.Group):
        yield path, command
        return
    for name in command.list_commands(context):
        inner = command.get_command(context, name)
        assert inner is not None
        yield from _commands(inner, (*path, name))


COMMANDS = dict(_commands(cli))


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_an_option_without_its_value_is_told(words: tuple[str, ...]) -> None:
    """One that comes last, of whatever verb: it is not taken as if it had a value."""
    taking = [param for param in COMMANDS[words].params if isinstance(param, click.Option) and not param.is_flag]
    for flag in (flag for param in taking for flag in param.opts):
        done = run(*words, flag)
        assert (2, f"Option '{flag}' requires an argument" in done.stderr) == (done.exit_code, True), done.stderr


@pytest.mark.parametrize(
    "words",
    [
        "windows --from-slurm FILE",
        "crds --missing-from FILE",
        "simulate --topology synthetic:spines=1 --trace FILE",
        "simulate --topology FILE",
    ],
)
def test_a_file_that_is_no_text_is_told(words: str, tmp_path: Path) -> None:
    """In words of our own, whatever the file is for."""
    file = tmp_path / "bad.bin"
    file.write_bytes(b"\x00\x01binary\xff")
    further = ["--trace", "synthetic:jobs=1"] if "--trace" not in words and "simulate" in words else []
    done = run(*(str(file) if word == "FILE" else word for word in words.split()), *further)

    assert (2, f"tierwise: {file}: the text is not UTF-8\n") == (done.exit_code, done.stderr)


def test_an_address_is_said_to_be_none_of_a_file() -> None:
    """As kubectl reads them; what was fetched is read here."""
    done = run("schedule", "-f", "https://example.com/jobs/train.yaml", width=200)

    assert 2 == done.exit_code
    assert "an address is not fetched here: curl -L ADDRESS >train.yaml, then -f that" in done.stderr
