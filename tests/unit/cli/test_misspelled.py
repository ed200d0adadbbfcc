"""A name that is typed wrongly is answered with the nearest that exists, wherever a name is typed."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from tests.support.commands import EXAMPLES, manifests, run
from tests.support.draw import draw, gang

NAMES = [
    ("shcedule", "schedule"),
    ("topology shwo", "show"),
    ("config validat x", "validate"),
    ("explain defalt/train-0 -f FILES", "default/train-0"),
    ("explain --job trian -f FILES", "train"),
    ("why trian-0 -f FILES", "default/train-0"),
    ("why NotEnoughResouces -f FILES", "NotEnoughResources"),
    ("eta default/trian -f FILES", "train"),
    ("queue defualt -f FILES", "default"),
    ("hold trian --reason r -f FILES", "train"),
    ("hold --queue defualt --reason r -f FILES", "default"),
    ("release trian -f FILES", "train"),
    ("nodes --by rak -f FILES", "rack"),
    ("nodes --by example.com/zon -f FILES", "example.com/zone"),
    ("drainable --tier rak -f FILES", "rack"),
    ("drainable rac0 -f FILES", "rack0"),
    ("defrag --for nvidia.com/gpu=8x1@rak -f FILES", "rack"),
    ("topology show --fabric nvlnk -f FABRICS", "nvlink"),
    ("topology export --fabric nvlnk -f FABRICS", "nvlink"),
    ("topology generate --from slrum:x", "slurm"),
    ("topology generate --preset topogrph -f FILES", "topograph"),
    ("topology generate --from csv:CSV --host-column hots", "host"),
    ("submit --lose-node nod0@1s -f FILES", "node0"),
    ("submit --return-node nod0@1s -f FILES", "node0"),
    ("what-if --drain rac0 -f FILES", "rack0"),
    ("what-if --start trian -f FILES", "train"),
    ("what-if --delete trian -f FILES", "train"),
    ("what-if --priority trian=1 -f FILES", "train"),
    ("what-if --add-nodes 2=nod0 -f FILES", "node0"),
    ("what-if --add-domains 2=rac0 -f FILES", "rack0"),
    ("what-if --quota defualt:gpu=4 -f FILES", "default"),
    ("what-if --quota default.capabilty:gpu=4 -f FILES", "default.capability"),
    ("what-if --constraint trian=soft -f FILES", "train"),
    ("what-if --constraint train=hard:rak -f FILES", "rack"),
    ("what-if --constraint train=hrad:rack -f FILES", "hard"),
    ("what-if --plugin binpak -f FILES", "binpack"),
    ("what-if --without-plugin binpak -f FILES", "binpack"),
    ("plugins binpak", "binpack"),
    ("probe --node nod0 --print --once -f FILES", "node0"),
    ("advertise-bandwidth --node nod0 --speed 1G --print --once -f FILES", "node0"),
    ("simulate --topology synthetic:spins=1 --trace synthetic:jobs=2", "spines"),
    ("simulate --topology synthetic:spines=1 --trace synthetic:job=2", "jobs"),
    ("simulate --topology synthetic:spines=1 --trace synthetic:jobs=2 --profile defalt", "default"),
    ("sweep -f GRID", "profile"),
    ("nodes -f FILES -o nmae", "name"),
    ("bench --row P1bb", "P1"),
    ("replay JOURNAL --cycle 2 --job trian", "train"),
    ("replay JOURNAL --cycle 2 --pod trian-0", "train-0"),
]


@pytest.mark.parametrize(("words", "meant"), NAMES, ids=[words for words, _ in NAMES])
def test_the_nearest_name_is_suggested(words: str, meant: str, tmp_path: Path) -> None:
    """One line, status 2, and the name that was meant."""
    world = draw("rack0[node0 node1] rack1[node2]", node="gpu=8 cpu=8", tier_names={1: "rack"}).manifests
    labelled = [json.loads(json.dumps(raw)) for raw in world]
    for raw in labelled:
        raw["metadata"]["labels"] = {"example.com/zone": "a"} if raw["kind"] == "Node" else {}
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "default"}}
    train = gang("train", tasks=1, each="gpu=8", within=1)
    files = manifests(tmp_path, *labelled, {**queue, "spec": {"weight": 1}}, *train.manifests())
    (tmp_path / "hosts.csv").write_text("host,rack\nn0,r0\n")
    (tmp_path / "grid.yaml").write_text("axes: {profle: [default], seed: [1]}\nbaseline: default\n")
    if "JOURNAL" in words:
        assert 0 == run("submit", "-f", files, "--until", "10s", "--journal", tmp_path / "journal").exit_code
    places = {
        "FILES": str(files),
        "FABRICS": str(EXAMPLES / "14-several-fabrics"),
        "csv:CSV": f"csv:{tmp_path / 'hosts.csv'}",
        "GRID": str(tmp_path / "grid.yaml"),
        "JOURNAL": str(tmp_path / "journal"),
    }

    done = run(*(places.get(word, word) for word in shlex.split(words)), width=200)

    assert 2 == done.exit_code
    near = done.stderr.lower().replace("default/", "").replace("'", "")  # click's own words have quotes
    assert f"did you mean {meant.lower().removeprefix('default/')}?" in near


def test_a_pod_that_never_came_to_fail(tmp_path: Path) -> None:
    """Pods may come later, so this is told when the time has come."""
    world = draw("n0", node="gpu=8").manifests
    file = manifests(tmp_path, *world, *gang("train", tasks=1, each="gpu=8").manifests())

    done = run("submit", "-f", file, "--until", "10s", "--fail", "trian-0=1@1s", width=200)

    assert 0 == done.exit_code
    assert "it is not running (did you mean default/train-0?)" in done.stdout
