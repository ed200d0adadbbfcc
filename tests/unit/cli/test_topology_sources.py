"""`topology generate` and `topology diff` as a user meets them."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.support.commands import answer, manifests, run
from tests.support.fabric_manager import FabricManager, ports
from tests.support.manifests import discovery, node

CONF = "SwitchName=s0 Nodes=n[0-1]\nSwitchName=s1 Nodes=n[2-3]\nSwitchName=s2 Switches=s[0-1]\n"
MARK = "volcano.sh/network-topology-source"


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """Two leaves below one spine."""
    file = tmp_path / "topology.conf"
    file.write_text(CONF)
    return file


@pytest.fixture
def cluster(tmp_path: Path, conf: Path) -> Path:
    """Their nodes and hyperNodes."""
    made = [*yaml.safe_load_all(run("topology", "generate", "--from", f"slurm:{conf}").stdout)]
    return manifests(tmp_path, *(node(f"n{i}") for i in range(4)), *made)


def _generated(*words: object) -> dict[str, dict[str, object]]:
    """The hyperNodes that are printed, by name."""
    result = run("topology", "generate", *words)
    assert 0 == result.exit_code, result.stderr
    return {raw["metadata"]["name"]: raw for raw in yaml.safe_load_all(result.stdout)}


def test_manifests_are_printed_with_a_summary_and_their_source(conf: Path) -> None:
    """Ready for kubectl, and the same in JSON."""
    result = run("topology", "generate", "--from", f"slurm:{conf}", "--tier-names", "leaf,spine")
    found = list(yaml.safe_load_all(result.stdout))
    listed = answer("topology", "generate", "--from", f"slurm:{conf}", "--tier-names", "leaf,spine")

    assert f"# slurm:{conf}: 4 nodes in 3 domains: 2 of tier 1 leaf, 1 of tier 2 spine" == result.stdout.splitlines()[0]
    assert ["s0", "s1", "s2"] == [raw["metadata"]["name"] for raw in found]
    assert {"leaf", "spine"} == {raw["spec"]["tierName"] for raw in found}
    assert all({MARK: "slurm"} == raw["metadata"]["labels"] for raw in found)
    assert ("List", found) == (listed["kind"], listed["items"])


def test_generated_manifests_are_sound(conf: Path, tmp_path: Path) -> None:
    """`validate` has nothing against them, and `topology show` finds the tree without a problem."""
    file = tmp_path / "made.yaml"
    file.write_text(run("topology", "generate", "--from", f"slurm:{conf}", "--name-prefix", "hall1-").stdout)
    tree = answer("topology", "show", "-f", file, "-f", manifests(tmp_path, *(node(f"n{i}") for i in range(4))))

    assert {"valid": True, "errors": [], "warnings": []} == answer("validate", "-f", file)
    assert [] == tree["problems"]
    assert ["n0", "n1"] == tree["hyperNodes"]["hall1-s0"]["nodes"]


def test_formats_lead_back_to_where_they_started(conf: Path, tmp_path: Path) -> None:
    """Slurm's file to hyperNodes, to labels, to YAML, and to Slurm's file again."""
    made, labels, again = (tmp_path / name for name in ("made.yaml", "labels.yaml", "topology.yaml"))
    made.write_text(run("topology", "generate", "--from", f"slurm:{conf}").stdout)
    labels.write_text(run("topology", "generate", "--from", f"hypernodes:{made}", "--to", "topograph").stdout)
    again.write_text(run("topology", "generate", "--from", f"topograph:{labels}", "--to", "slurm-yaml").stdout)
    result = run("topology", "generate", "--from", f"slurm:{again}", "--to", "slurm")

    assert CONF == result.stdout.partition("\n")[2]


def test_a_folder_of_slurm_is_read_as_slurm_reads_it(conf: Path) -> None:
    """topology.yaml before topology.conf."""
    assert {"s0", "s1", "s2"} == set(_generated("--from", f"slurm:{conf.parent}"))
    (conf.parent / "topology.yaml").write_text("- {topology: t, tree: {switches: [{switch: x, nodes: n0}]}}")
    assert {"x"} == set(_generated("--from", f"slurm:{conf.parent}"))


def test_labels_are_read_as_the_controller_reads_them(tmp_path: Path) -> None:
    """Names are those that discovery in the cluster would give."""
    labels = {"rack": "r0", "kubernetes.io__hostname": "n0"}
    file = manifests(tmp_path, discovery("a3: rack kubernetes.io/hostname"), node("n0", **labels))
    made = _generated("--from", f"label:{file}")

    assert list(made) == list(_generated("--from", "label", "-f", file))
    assert list(made) == [raw["metadata"]["name"] for raw in answer("reconcile", "-f", file)["objects"]]
    assert 1 == run("topology", "diff", "-f", file, "--from", "label").exit_code


def test_a_host_map_comes_from_standard_input() -> None:
    """Rows in any order give the same bytes."""
    rows = ["n0,r0,s0", "n1,r0,s1", "n2,r1,s0"]
    texts = ["\n".join(["host,rack,spine", *order]) for order in (rows, rows[::-1])]
    outputs = {run("topology", "generate", "--from", "csv:-", stdin=text).stdout for text in texts}

    assert 1 == len(outputs)
    assert "name: s1-r0" in outputs.pop()


def test_json_lines_are_a_host_map(tmp_path: Path) -> None:
    """One host to a line."""
    file = tmp_path / "hosts.jsonl"
    file.write_text("".join(json.dumps({"host": f"n{i}", "rack": f"r{i}"}) + "\n" for i in range(2)))

    assert {"r0", "r1"} == set(_generated("--from", f"json:{file}"))


@pytest.fixture
def manager() -> Iterator[FabricManager]:
    """A fabric of two leaves and a spine."""
    with FabricManager({"resources/ports": ports("n0-l0", "n1-l1", "l0=s0", "l1=s0")}) as running:
        yield running


def test_a_fabric_manager_is_asked_with_credentials_from_the_environment(manager: FabricManager) -> None:
    """Never from the command line, where others see them."""
    result = run("topology", "generate", "--from", f"ufm:{manager.address}", TIERWISE_UFM_TOKEN="t0")

    assert 3 == len(list(yaml.safe_load_all(result.stdout)))
    assert {"Basic t0"} == {proof for _, proof in manager.asked}


def test_a_fabric_manager_that_refuses_is_bad_input(manager: FabricManager) -> None:
    """One line, exit status 2, nothing printed."""
    manager.status = 401
    result = run("topology", "generate", "--from", f"ufm:{manager.address}")

    assert (2, "") == (result.exit_code, result.stdout)
    assert f"tierwise: {manager.address}/ufmRest/resources/ports: HTTP 401 Unauthorized\n" == result.stderr


def test_no_difference(cluster: Path, conf: Path) -> None:
    """Exit status 0."""
    result = run("topology", "diff", "-f", cluster, "--from", f"slurm:{conf}")

    assert 0 == result.exit_code
    assert result.stdout.startswith("no difference: 3 hyperNodes")


def test_differences_are_told(cluster: Path, conf: Path) -> None:
    """What comes, changes and goes, which nodes move, and which are unknown; exit status 1."""
    conf.write_text("SwitchName=s0 Nodes=n[0-2]\nSwitchName=s9 Nodes=n9\nSwitchName=s2 Switches=s0,s9\n")
    result = run("topology", "diff", "-f", cluster, "--from", f"slurm:{conf}")
    wire = json.loads(run("topology", "diff", "-f", cluster, "--from", f"slurm:{conf}", "-o", "json").stdout)

    assert 1 == result.exit_code
    assert [
        "          hyperNode  tier  members",
        "  create  s9         1     + n9",
        "  change  s0         1     + n2",
        "  change  s2         2     + s9  - s1",
        "  delete  s1         1     - n[2-3]",
        "",
        "Nodes that move",
        "  n2  s1  →  s0",
        "",
        "1 node is named by the source and not in the cluster: n9",
        "",
        "1 node of the cluster is not named by the source: n3",
    ] == result.stdout.splitlines()[-12:]
    assert (False, ["s9"], ["s0", "s2"], ["s1"], 0) == (
        wire["equal"],
        *([change["name"] for change in wire[what]] for what in ("create", "change", "delete")),
        wire["same"],
    )
    assert {"node": "n2", "from": "s1", "to": "s0"} in wire["moves"]
    assert (["n9"], ["n3"]) == (wire["unknownNodes"], wire["unplacedNodes"])


def test_hypernodes_of_others_are_not_deleted(tmp_path: Path, conf: Path) -> None:
    """Only those with the mark of the source are its own."""
    raw = {"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": {"name": "mine"}, "spec": {}}
    wire = run("topology", "diff", "-f", manifests(tmp_path, raw), "--from", f"slurm:{conf}", "-o", "json").stdout

    assert [] == json.loads(wire)["delete"]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--from", "roce:x"), '"roce" is none of label, aws, azure'),
        (("--from", "slurm"), "slurm needs a place, as in slurm:FILE"),
        (("--from", "topograph"), "topograph reads manifests: give -f FILE, or --from topograph:FILE"),
        ((), "the nodes of a cluster are expected: give -f FILE"),
        (("--preset", "aws"), "the nodes of a cluster are expected: give -f FILE"),
        (("--preset", "acme"), '"acme" is none of aws, azure, coreweave, gke, nebius, oke, topograph'),
        (("--preset", "aws", "--from", "gke:x"), "--from and --preset both name a source"),
        (("--from", "slurm:/nowhere"), "tierwise: /nowhere: cannot be read: No such file or directory"),
        (("--from", "csv:-", "--tier-names", "a,b"), "2 names for 1 tiers"),
        (("--from", "csv:-", "--to", "slurm", "-o", "json"), "--to slurm is not JSON"),
    ],
)
def test_bad_usage_is_told(words: tuple[str, ...], text: str) -> None:
    """Exit status 2."""
    result = run("topology", "generate", *words, stdin="host,rack\nn0,r0\n")

    assert (2, "") == (result.exit_code, result.stdout)
    assert text in " ".join(result.stderr.split())


def test_every_error_of_a_file_is_told_and_nothing_printed(conf: Path) -> None:
    """Each with its line, so that one look is enough."""
    conf.write_text("SwitchName=a Nodes=n[\nSwitchName\n")
    result = run("topology", "generate", "--from", f"slurm:{conf}")

    assert (2, "") == (result.exit_code, result.stdout)
    assert [f"tierwise: {conf}:1:", f"tierwise: {conf}:2:"] == [
        " ".join(line.split()[:2]) for line in result.stderr.splitlines()
    ]


def test_a_clos_fabric_with_repeated_names(tmp_path: Path) -> None:
    """As large as a public one of its kind: 847 hosts, 119 leaves whose names repeat below 3 pods, one core."""
    file = tmp_path / "fabric.csv"
    leaves = [(f"P{pod}", f"S{leaf}") for pod in range(3) for leaf in range(40)][:119]
    with file.open("w", newline="") as text:
        table = csv.writer(text)
        table.writerow(["ip", "DSW", "PSW", "ASW"])
        table.writerows([f"h{i:04x}", "G6", *leaves[i % 119]] for i in range(847))
    result = run("topology", "generate", "--from", f"csv:{file}")
    made = list(yaml.safe_load_all(result.stdout))

    assert "847 nodes in 123 domains: 119 of tier 1 ASW, 3 of tier 2 PSW, 1 of tier 3 DSW" in result.stdout
    assert ("", 123) == (result.stderr, len({raw["metadata"]["name"] for raw in made}))


def _labelled(**labels: dict[str, str]) -> list[dict[str, object]]:
    return [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": given}}
        for name, given in labels.items()
    ]


GKE = {"cloud.google.com/gce-topology-block": "b0", "cloud.google.com/gce-topology-subblock": "sb0"}
AWS = {"topology.k8s.aws/network-node-layer-1": "nn-1", "topology.k8s.aws/network-node-layer-2": "nn-2"}


def test_a_preset_is_found_by_the_labels_of_the_nodes(tmp_path: Path) -> None:
    """Without a source the nodes tell it, and the command says what it found; the result is that of the preset."""
    file = manifests(tmp_path, *_labelled(n0=GKE, n1=GKE, plain={}))
    alone, named = (run("topology", "generate", "-f", file, *words) for words in ((), ("--preset", "gke")))

    assert (0, "tierwise: found the labels of gke on 2 of 3 nodes\n") == (alone.exit_code, alone.stderr)
    assert (0, "") == (named.exit_code, named.stderr)
    assert alone.stdout == named.stdout
    assert "# gke: 2 nodes in 2 domains: 1 of tier 1 subblock, 1 of tier 2 block" in alone.stdout
    assert {"gke"} == {raw["metadata"]["labels"][MARK] for raw in yaml.safe_load_all(alone.stdout)}


def test_mixed_presets_are_told_apart_by_the_user(tmp_path: Path) -> None:
    """Nothing is guessed: each is named with its number of nodes, and each can be chosen."""
    file = manifests(tmp_path, *_labelled(n0=GKE, n1=AWS, n2={**AWS, **GKE}, n3={}))
    result = run("topology", "generate", "-f", file)

    assert (2, "") == (result.exit_code, result.stdout)
    assert (
        "tierwise: nodes carry the labels of several presets, aws (2 nodes), gke (2 nodes): choose one with --preset\n"
        == result.stderr
    )
    assert {"nn-1", "nn-1-nn-2"} == set(_generated("-f", file, "--preset", "eks"))
    assert {"b0", "b0-sb0"} == set(_generated("--from", f"gke:{file}"))


def test_nodes_without_labels_of_a_preset_are_bad_input(tmp_path: Path) -> None:
    """The message names the presets that are known."""
    result = run("topology", "generate", "-f", manifests(tmp_path, node("n0")))

    assert (2, "") == (result.exit_code, result.stdout)
    assert "no node carries the labels of a preset (aws, azure," in result.stderr


def test_a_preset_is_compared_with_the_cluster(tmp_path: Path) -> None:
    """`diff` reads the same sources: what `generate` printed differs in nothing."""
    nodes = _labelled(n0=AWS, n1=AWS)
    made = [*yaml.safe_load_all(run("topology", "generate", "-f", manifests(tmp_path, *nodes)).stdout)]
    result = run("topology", "diff", "-f", manifests(tmp_path, *nodes, *made))

    assert 0 == result.exit_code, result.stdout


def test_show_says_what_a_tree_could_be_made_of(tmp_path: Path) -> None:
    """Nodes carry the labels of a preset, and there are no hyperNodes; with them there is nothing to say."""
    file = manifests(tmp_path, *_labelled(n0=GKE, n1={}))
    told = "tierwise: nodes carry the labels of gke (1 node): tierwise topology generate makes hyperNodes of them\n"
    assert told == run("topology", "show", "-f", file).stderr

    made = [*yaml.safe_load_all(run("topology", "generate", "-f", file).stdout)]
    assert "" == run("topology", "show", "-f", manifests(tmp_path, *_labelled(n0=GKE, n1={}), *made)).stderr


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["--fabric", "é!"], '--fabric: "é!" cannot be the value of a label'),
        (["--fabric", "Topology kai.scheduler/net"], "cannot be the value of a label"),
        (["--tier-names", "leaf,leaf"], '--tier-names: "leaf" would be the name of several tiers'),
    ],
)
def test_names_that_would_break_what_is_made_are_refused(conf: Path, words: list[str], fault: str) -> None:
    """An API server takes no such label, and a name of two tiers means neither."""
    result = run("topology", "generate", "--from", f"slurm:{conf}", *words)

    assert (2, "") == (result.exit_code, result.stdout)
    assert fault in result.stderr


def test_one_node_is_a_node(tmp_path: Path) -> None:
    """The summary has right plurals."""
    conf = tmp_path / "one.conf"
    conf.write_text("SwitchName=s0 Nodes=n0\n")

    assert "1 node in 1 domain: 1 of tier 1" in run("topology", "generate", "--from", f"slurm:{conf}").stdout
