"""The verbs, their options, and that both kinds of output tell the same."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
import yaml
from tests.support.commands import EXAMPLES, answer, manifests, run

from tierwise import __version__

TRAINING = EXAMPLES / "01-llm-training"
ESCAPE = "\x1b["


def test_schedule_binds_what_it_says() -> None:
    """The headline counts the bindings of the JSON."""
    found = answer("schedule", "-f", TRAINING)

    assert 29 == len(found["bindings"])
    assert 16 == len(found["pending"])
    assert run("schedule", "-f", TRAINING).stdout.startswith("29 pods bound in 2 gangs, 16 pods in 1 gang waiting;")


def test_the_order_of_the_manifests_does_not_matter(tmp_path: Path) -> None:
    """The same objects in reverse give the same page and the same answer."""
    files = sorted(TRAINING.glob("*.yaml"))
    objects = [raw for file in files for raw in yaml.safe_load_all(file.read_text())]
    there, back = manifests(tmp_path, *objects), manifests(tmp_path, *reversed(objects), name="reversed.yaml")

    assert run("schedule", "-f", there).stdout == run("schedule", "-f", back).stdout
    assert answer("schedule", "-f", there) == answer("schedule", "-f", back)


def test_cycles_bound_the_run() -> None:
    """One cycle lets jobs into their queue, and their pods come into being after it."""
    result = run("schedule", "-f", TRAINING, "--cycles", 1)

    assert result.stdout.startswith("0 pods bound, 45 pods in 3 gangs waiting; 1 cycle\n")
    assert {} == answer("schedule", "-f", TRAINING, "--cycles", 1)["bindings"]


def test_standard_input_is_read(tmp_path: Path) -> None:
    """A dash stands for standard input, in YAML or JSON."""
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n0"}}

    for text in (json.dumps(node), yaml.safe_dump(node)):
        result = run("topology", "show", "-f", "-", "-o", "json", stdin=text)
        assert ["n0"] == json.loads(result.stdout)["hyperNodes"]["<cluster-top-hypernode>"]["nodes"]


def test_validate_says_no_with_exit_status_1() -> None:
    """Invalid objects are no bad input: they are listed, and the status is 1."""
    broken = run("validate", "-f", EXAMPLES / "03-broken-topology", "-o", "json")

    assert 1 == broken.exit_code
    assert not json.loads(broken.stdout)["valid"]
    assert 0 == run("validate", "-f", TRAINING).exit_code


@pytest.mark.parametrize("words", [("llm-train-worker-5",), ("--pod", "default/llm-train-worker-5")], ids=len)
def test_explain_takes_the_pod_either_way(words: tuple[str, ...]) -> None:
    """As an argument or as an option, with or without the default namespace."""
    found = answer("explain", "-f", TRAINING, *words)

    assert "default/llm-train-worker-5" == found["pod"]
    assert "worker-1" == found["subGroup"]


def test_explain_of_a_pod_that_has_its_place() -> None:
    """A pod that runs is not looked for, and the answer says where it is."""
    result = run("explain", "-f", TRAINING, "team-b/serve-0")

    assert (0, "Pod team-b/serve-0: it is on node node-36 already\n") == (result.exit_code, result.stdout)


def test_explain_of_a_job_by_its_own_name() -> None:
    """A Volcano job is found by its name, though its podGroup has a uid behind it."""
    found = answer("explain", "-f", TRAINING, "--job", "default/llm-train")

    assert found["podGroup"].startswith("default/llm-train-")
    assert ("spine-0", 24) == (found["hyperNode"], len(found["bindings"]))


def test_reconcile_makes_objects_and_schedules_nothing() -> None:
    """The controllers make a podGroup for every job, and for every pod that is in none."""
    found = answer("reconcile", "-f", TRAINING)["objects"]

    owners = [raw["metadata"]["ownerReferences"][0]["kind"] for raw in found if raw["kind"] == "PodGroup"]
    assert {"Job": 3, "Pod": 6} == Counter(owners)
    assert not any("nodeName" in raw.get("spec", {}) for raw in found if raw["metadata"].get("namespace") != "team-b")


def test_colour_is_for_terminals() -> None:
    """Colour where it is asked for, none in pipes, none where NO_COLOR is set."""
    words = ("schedule", "-f", TRAINING)

    assert ESCAPE not in run(*words).stdout
    assert ESCAPE in run(*words, FORCE_COLOR="1", TERM="xterm-256color").stdout
    assert ESCAPE not in run(*words, FORCE_COLOR="1", TERM="xterm-256color", NO_COLOR="1").stdout


def test_names_cannot_steer_the_terminal(tmp_path: Path) -> None:
    """An escape character in a name is shown as a question mark."""
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n\x1b[2J"}}
    result = run("topology", "show", "-f", manifests(tmp_path, node))

    assert "n?[2J" in result.stdout
    assert "\x1b" not in result.stdout


def test_the_time_comes_from_the_manifests(tmp_path: Path) -> None:
    """Not from the clock, so that two runs give the same objects."""
    words = ("reconcile", "-f", TRAINING)

    assert answer(*words) == answer(*words, "--now", "2026-03-02T09:10:00Z")
    assert answer(*words) != answer(*words, "--now", "2030-01-01T00:00:00Z")


@pytest.mark.parametrize(
    "words",
    [
        ("schedule",),
        ("schedule", "-f", TRAINING, "--now", "yesterday"),
        ("schedule", "-f", TRAINING, "--cycles", "0"),
        ("explain", "-f", TRAINING),
        ("explain", "-f", TRAINING, "a", "--job", "b"),
        ("frobnicate",),
    ],
    ids=lambda words: " ".join(map(str, words[::2])),
)
def test_wrong_usage(words: tuple[object, ...]) -> None:
    """Exit status 2, nothing on standard output, and a hint where to find help."""
    result = run(*words)

    assert (2, "") == (result.exit_code, result.stdout)
    assert "--help" in result.stderr


@pytest.mark.parametrize("verb", ["schedule", "explain", "validate", "reconcile", "topology show", "completion"])
def test_help_has_examples(verb: str) -> None:
    """Every verb shows how it is used."""
    result = run(*verb.split(), "--help")

    assert 0 == result.exit_code
    assert (
        f"Examples:\n  tierwise {verb} " in result.stdout.replace("    tierwise", "  tierwise")
        or "eval" in result.stdout
    )


def test_help_lists_the_verbs() -> None:
    """With a line for each."""
    text = run("--help").stdout

    for verb in ("schedule", "explain", "validate", "topology", "reconcile", "bench", "completion", "version"):
        assert f"\n  {verb} " in text


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str) -> None:
    """The script of a shell asks tierwise itself for the words."""
    assert "_TIERWISE_COMPLETE" in run("completion", shell).stdout


def test_completion_completes_verbs() -> None:
    """What the script asks is answered."""
    result = run(_TIERWISE_COMPLETE="bash_complete", COMP_WORDS="tierwise sch", COMP_CWORD="1")

    assert "plain,schedule" in result.stdout


def test_version() -> None:
    """Both ways of asking for it."""
    assert f"tierwise {__version__}" == run("version").stdout.splitlines()[0] == run("--version").stdout.strip()


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["help"], 0, "Commands:"),
        (["help", "schedule"], 0, "Usage: tierwise schedule"),
        (["help", "shedule"], 2, "No such command 'shedule' (did you mean schedule?)"),
        (["shedule"], 2, "No such command 'shedule' (did you mean schedule?)"),
        (["xyzzy"], 2, "No such command 'xyzzy'."),
    ],
)
def test_help_is_found_where_people_look_for_it(words: list[str], status: int, said: str) -> None:
    """`help` is a word too, and a misspelt verb is answered with the nearest."""
    result = run(*words)

    assert status == result.exit_code
    assert said in result.output


def test_schedule_first_says_what_it_passes_over(tmp_path: Path) -> None:
    """Kinds that are not understood, fields that do not exist, and what admission would refuse, before the result."""
    ray = {"apiVersion": "ray.io/v9", "kind": "RayCluster", "spec": {}}
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g"},
        "spec": {"minMembers": 2, "networkTopology": {"mode": "firm"}},
    }
    files = manifests(
        tmp_path,
        *({**ray, "metadata": {"name": name}} for name in "abc"),
        {"apiVersion": "example.com/v1", "kind": "Queue", "metadata": {"name": "d"}},
        group,
    )

    result = run("schedule", "-f", files)

    assert 0 == result.exit_code
    assert [
        (
            "tierwise: warning: 3 objects of kind RayCluster (ray.io/v9) are not understood "
            "(known is ray.io/v1, ray.io/v1alpha1) and were left out"
        ),
        (
            "tierwise: warning: 1 object of kind Queue (example.com/v1) is not understood "
            "(known is scheduling.run.ai/v2, scheduling.volcano.sh/v1beta1) and was left out"
        ),
        'tierwise: warning: PodGroup default/g: spec.minMembers: unknown field "minMembers" (did you mean minMember?)',
    ] == result.stderr.splitlines()[:3]
    assert "tierwise: warning: admission would refuse PodGroup default/g: spec.networkTopology.mode" in result.stderr


def test_a_configuration_is_validated_alone(tmp_path: Path) -> None:
    """Without manifests, and without a cluster; neither of the two is a mistake of the caller."""
    good, bad = tmp_path / "good.conf", tmp_path / "bad.conf"
    good.write_text('actions: "allocate"\ntiers: [{plugins: [{name: gang}]}]\n')
    bad.write_text('actions: "alocate"\n')
    results = [run("validate", "--config", file) for file in (good, bad)]

    assert [0, 2] == [result.exit_code for result in results]
    assert results[0].stdout.startswith("valid: ")
    assert "unknown action alocate" in results[1].stderr
    assert 2 == run("validate").exit_code


EARLY = """{}
kind: HyperNode
{}
spec: {{tier: 1, members: [{{name: node3, type: Node}}]}}
"""


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ("version: topology.volcano.sh/v1alpha1", "name: h", "version stands for apiVersion and name stands for metad"),
        ("version: topology.volcano.sh/v1alpha1", "metadata: {name: h}", "missing (version stands for apiVersion?)"),
        ("apiVersion: topology.volcano.sh/v1alpha1", "name: h", "has no name (name stands for metadata.name?)"),
        ("apiVersion: topology.volcano.sh/v1alpha1", "metadata: {name: h}", "{exactMatch: {name: node3}} instead of"),
    ],
)
def test_the_first_form_of_hypernodes_gets_a_hint(tmp_path: Path, first: str, second: str, words: str) -> None:
    """Volcano's design begins with examples of which no API server took a line."""
    file = tmp_path / "early.yaml"
    file.write_text(EARLY.format(first, second))
    result = run("validate", "-f", file)

    assert result.exit_code
    assert words in " ".join((result.stdout + result.stderr).split())


def test_validate_reports_every_file(tmp_path: Path) -> None:
    """A file that cannot be read is named, and what is wrong elsewhere is told all the same; strict or not."""
    (tmp_path / "broken.yaml").write_text("a: [\n")
    (tmp_path / "node.yaml").write_text("apiVersion: v1\nkind: Node\nmetadata: {name: n, lables: {}}\n")

    loose = run("validate", "-f", tmp_path)
    (tmp_path / "broken.yaml").unlink()
    strict = run("validate", "-f", tmp_path, "--strict", "-o", "json")

    assert 2 == loose.exit_code
    assert "broken.yaml:2:1" in loose.stderr
    assert 'unknown field "lables" (did you mean labels?)' in loose.stdout
    assert 1 == strict.exit_code
    assert [("Node n", "metadata.lables")] == [(e["object"], e["path"]) for e in json.loads(strict.stdout)["errors"]]
