"""Filling nodes whose GPUs are shared: fragmentation by its definition, and no device given away twice."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from tests.support.depth import examples

from tierwise.cli.main import cli
from tierwise_lab.replay.engine.checkpoint import load, save
from tierwise_lab.replay.report.outcome import Data
from tierwise_lab.replay.shared_gpu.devices import DeviceState, PodKinds, fitting, fragmentation, stranded
from tierwise_lab.replay.shared_gpu.filling import Filling, Fillings
from tierwise_lab.replay.shared_gpu.openb import Pods, order
from tierwise_lab.replay.shared_gpu.policies import POLICIES

KINDS = PodKinds(
    cpu=np.array([4, 2, 1, 8]),
    memory=np.array([1, 1, 1, 1]),
    devices=np.array([1, 1, 0, 2]),
    each=np.array([1000, 300, 0, 1000]),
    weight=np.array([0.4, 0.3, 0.2, 0.1]),
)


def slow(cpu: int, left: list[int]) -> float:
    """The definition, pod by pod and device by device; memory is always enough."""
    total = 0.0
    for i in range(len(KINDS)):
        need, each = int(KINDS.devices[i]), max(1, int(KINDS.each[i]))
        fits = cpu >= KINDS.cpu[i] and sum(amount >= each for amount in left) >= need > 0
        total += KINDS.weight[i] * (sum(a for a in left if a < each) if fits else sum(left))
    return total


@given(st.lists(st.tuples(st.integers(0, 9), st.lists(st.integers(0, 1000), min_size=3, max_size=3)), min_size=1))
def test_fragmentation_is_what_the_definition_says(rows: list[tuple[int, list[int]]]) -> None:
    """All rows and kinds at once, or one by one."""
    cpus = np.array([cpu for cpu, _ in rows])
    state = DeviceState(cpus, np.full(len(rows), 99), np.array([left for _, left in rows]))
    assert fragmentation(state, KINDS) == pytest.approx([slow(cpu, left) for cpu, left in rows])


def test_gpus_without_cpu_are_stranded() -> None:
    """Pods ask for 4, 2 and 8 cpus with 1, 0.3 and 2 GPUs: 3 for 0.69 GPUs when weighted."""
    state = DeviceState(np.array([8, 3, 0]), np.array([9, 9, 9]), np.array([[1000, 0], [1000, 690], [500, 0]]))
    assert stranded(state, KINDS) == pytest.approx([0.0, 1000.0, 500.0])


@examples(15)
@given(st.sampled_from(sorted(POLICIES)), st.lists(st.integers(0, 3), min_size=1, max_size=25))
def test_what_is_placed_is_taken_once(policy: str, arriving: list[int]) -> None:
    """No device goes below nothing, amounts add up, and a pod is refused only where no node fits."""
    empty = DeviceState(np.array([16, 8, 4]), np.array([9, 9, 9]), np.array([[1000, 1000], [1000, 1000], [1000, 0]]))
    filling = Filling(("a", "b", "c"), empty, Pods(KINDS, np.arange(4)), np.array(arriving), policy, POLICIES[policy])
    used = 0
    for kind in arriving:
        possible = bool(fitting(filling.state, KINDS, kind).any())
        before = filling.placed
        filling.arrive(kind)
        assert (filling.placed > before) == possible
        used += int(KINDS.devices[kind] * KINDS.each[kind]) * (filling.placed - before)
        assert (filling.state.left >= 0).all()
        assert (filling.state.cpu >= 0).all()
        assert filling.allocated * 1000 == pytest.approx(used)


def test_arrivals_reach_the_load_and_repeat() -> None:
    """Until the last pod they ask for less than the load; the same seed gives the same order."""
    pods = Pods(KINDS, np.array([0, 1, 1, 2, 3]))
    arriving = order(pods, 1.0, 20, seed=7)
    asked = (KINDS.devices * KINDS.each)[arriving]
    assert asked.sum() >= 20_000 > asked[:-1].sum()
    assert arriving.tolist() == order(pods, 1.0, 20, seed=7).tolist()


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """The command on two nodes with three GPUs; files with openb's columns are known by them."""
    (tmp_path / "nodes.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\nn-10,8000,4096,2,A\nn-2,8000,4096,1,B\n")
    (tmp_path / "pods.csv").write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1000,16,1,500\nq,1000,16,0,0\n")
    return ["simulate", "--topology", str(tmp_path / "nodes.csv"), "--trace", str(tmp_path / "pods.csv")]


def run(*words: str) -> Result:
    """The command line, run."""
    return CliRunner().invoke(cli, words)


def test_nodes_are_filled_from_the_command_line(words: list[str]) -> None:
    """All GPUs go to pods of half a GPU each, and the page says so for each policy."""
    told = json.loads(run(*words, "--profile", "fragmentation", "-o", "json").stdout)
    assert told["outcomes"][0]["gpus"] == {"total": 3.0, "allocated": 3.0, "allocation": 1.0}
    page = run(*words, "--profile", "fragmentation", "--profile", "best-fit")
    assert page.stdout.count("100.00 %") == 3  # of each, and in the verdict


def test_a_policy_may_be_a_file(words: list[str], tmp_path: Path) -> None:
    """Any profile will do: nodes without a device are out, and its own plugins rank the others."""
    (tmp_path / "mine.yaml").write_text('actions: "allocate"\ntiers:\n- plugins:\n  - name: gang\n  - name: binpack\n')
    told = json.loads(
        run(*words, "--profile", str(tmp_path / "mine.yaml"), "--profile", "default", "-o", "json").stdout
    )
    assert [outcome["profile"] for outcome in told["outcomes"]] == ["mine", "default"]
    assert all(outcome["gpus"]["allocation"] == 1.0 for outcome in told["outcomes"])


def test_an_unknown_policy_is_named(words: list[str]) -> None:
    """With those that there are."""
    refused = run(*words, "--profile", "propose")
    assert refused.exit_code == 2
    assert "propose is neither a file nor one of default, fragmentation, stranding, best-fit" in refused.stderr


def test_the_report_is_written(words: list[str], tmp_path: Path) -> None:
    """Three plots and a table, in one file that fetches nothing."""
    file = tmp_path / "report.html"
    assert run(*words, "--profile", "stranding", "--html", str(file)).exit_code == 0
    text = file.read_text()
    assert text.count("<svg") == text.count("</svg>") == 4  # and one beside the name of the policy
    assert "http" not in text


@pytest.mark.parametrize("pods", [1, 9, 17])
def test_a_filling_goes_on_from_a_checkpoint(pods: int, tmp_path: Path) -> None:
    """Stopped in the midst of the first policy or of the second, nobody can tell."""

    def fillings() -> Fillings:
        empty = DeviceState(
            np.array([16, 8, 4]), np.array([9, 9, 9]), np.array([[1000, 1000], [1000, 1000], [1000, 0]])
        )
        kinds = Pods(KINDS, np.arange(4))
        policies = {name: POLICIES[name] for name in ("stranding", "best-fit")}
        return Fillings(("a", "b", "c"), empty, kinds, order(kinds, 2.0, 5, seed=3), policies)

    def through(some: Fillings) -> Data:
        for _ in some.run():
            pass
        return some.results()

    stopped, file = fillings(), str(tmp_path / "run.json")
    for _ in islice(stopped.run(), pods):
        pass
    save(file, stopped.checkpoint())
    resumed = fillings()
    point = load(file, resumed.digest)
    assert point is not None
    resumed.resume(point)
    assert through(resumed) == through(fillings())
