"""`tierwise simulate` on the command line: readers, pages, JSON, the report, and bad input."""

from __future__ import annotations

import json
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.support.commands import EXAMPLES

from tierwise.cli.main import cli
from tierwise_lab.replay.traces.readers import read_trace

HOSTS = "ip,DSW,PSW,ASW\n" + "".join(f"h{i},G1,P{i // 4},S{i // 2 % 2}\n" for i in range(8))
JOBS = """timestamp,duration,num_gpus,gpu_time,cluster
2017-10-09 07:01:55,66.0,1,66.0,a
2017-10-09 06:13:03,2951.0,16,2951.0,b
2017-10-09 06:20:00,800.0,12,800.0,b
2017-10-09 06:21:00,80.0,400,80.0,b
"""


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """The command with a fabric of eight hosts and a trace of four jobs."""
    (tmp_path / "hosts.csv").write_text(HOSTS)
    (tmp_path / "jobs.csv").write_text(JOBS)
    return ["simulate", "--topology", str(tmp_path / "hosts.csv"), "--trace", str(tmp_path / "jobs.csv")]


def run(*arguments: str) -> Result:
    """The command line, run."""
    return CliRunner().invoke(cli, arguments)


def test_files_are_replayed(files: list[str]) -> None:
    """A job larger than the cluster is refused, the others end; leaves are known by their path."""
    result = run(*files, "--profile", "default", "--profile", "best-fit", "-o", "json")
    assert result.exit_code == 0
    told = json.loads(result.stdout)
    assert told["inputs"]["domains"]["1"] == 4  # S0 and S1 below P0 are not those below P1
    assert [outcome["profile"] for outcome in told["outcomes"]] == ["default", "best-fit"]
    for outcome in told["outcomes"]:
        assert outcome["jobs"] == {"arrived": 4, "finished": 3, "running": 0, "waiting": 0, "refused": 1}
    assert told["outcomes"][0]["spread"]["leaves"]["max"] == 1.0


def test_the_page_shows_profiles_side_by_side(files: list[str]) -> None:
    """One column each, in the order given."""
    result = run(*files, "--profile", "propose", "--profile", "random")
    assert result.exit_code == 0
    assert ["propose", "random"] in [line.split() for line in result.stdout.splitlines()]


def test_a_profile_may_be_a_file(files: list[str], tmp_path: Path) -> None:
    """It goes by the name of its file."""
    (tmp_path / "mine.yaml").write_text(
        'actions: "allocate"\ntiers:\n- plugins:\n  - name: gang\n  - name: predicates\n'
    )
    result = run(*files, "--profile", str(tmp_path / "mine.yaml"), "-o", "json")
    assert json.loads(result.stdout)["outcomes"][0]["profile"] == "mine"


def test_a_checkpoint_of_a_run_that_is_through_repeats_its_results(files: list[str], tmp_path: Path) -> None:
    """With a checkpoint or without, the bytes are the same."""
    arguments = (*files, "--checkpoint", str(tmp_path / "run.json"), "-o", "json")
    assert run(*arguments).stdout == run(*arguments).stdout == run(*files, "-o", "json").stdout


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("timestamp,duration\n1,2\n", "num_gpus is missing"),
        (
            "timestamp,duration,num_gpus\n2017-10-09,5,none\n",
            "jobs.csv:2: num_gpus: cannot be read: none; a whole number above 0 is expected",
        ),
        (
            "timestamp,duration,num_gpus\n2017-10-09,-5,1\n",
            "jobs.csv:2: duration: cannot be read: -5; a duration, in seconds or as 1h30m",
        ),
        (
            "timestamp,duration,num_gpus\nmonday,5,1\n",
            "jobs.csv:2: timestamp: cannot be read: monday; a time, in seconds (1700000000) or as 2024-05-01",
        ),
        ("timestamp,duration,num_gpus\n2017-10-09,5\n", "jobs.csv:2: num_gpus: cannot be read: nothing"),
        ("", "a line of titles"),
    ],
)
def test_bad_traces_are_named(files: list[str], tmp_path: Path, text: str, said: str) -> None:
    """One line with file, line and column, and exit status 2."""
    (tmp_path / "jobs.csv").write_text(text)
    result = run(*files)
    assert result.exit_code == 2
    assert said in result.stderr


def test_an_unknown_profile_is_named(files: list[str]) -> None:
    """Those that need no file are listed."""
    result = run(*files, "--profile", "best")
    assert result.exit_code == 2
    known = "default, propose, patient, rings, repair, spares, easy, conservative, remembers, five-in-five, best-fit"
    assert f"best is neither a file nor one of {known}" in result.stderr


def test_bad_numbers_of_a_synthetic_trace_are_named() -> None:
    """The message says which numbers may be given."""
    result = run("simulate", "--topology", "synthetic:", "--trace", "synthetic:jobs=none")
    assert result.exit_code == 2
    assert "jobs=none" in result.stderr


def test_the_report_is_one_file_of_sound_markup(files: list[str], tmp_path: Path) -> None:
    """Every element is closed, and nothing is fetched from elsewhere."""
    file = tmp_path / "report.html"
    assert run(*files, "--profile", "default", "--profile", "random", "--html", str(file)).exit_code == 0
    text = file.read_text()
    checker = Nesting()
    checker.feed(text)
    assert not checker.open
    assert checker.seen["svg"] == 12  # 3 over time, 2 by size, 3 of spread and traffic, 2 heat maps, 2 in the key
    assert "http" not in text
    assert "src=" not in text


class Nesting(HTMLParser):
    """Counts elements, and holds that each is closed in its turn."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: Counter[str] = Counter()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen[tag] += 1
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen[tag] += 1

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize(
    ("file", "gpus", "queues"),
    [
        ("acme.csv", [8, 32, 16], ("Evaluation", "Pretrain")),
        ("helios.csv", [1, 16], ("vc1", "vc2")),
        ("alibaba-spot.csv", [16, 4, 1], ("13", "57")),
        ("alibaba-pai.csv", [4, 1], ("default",)),
        ("supercloud.csv", [4, 1], ("debug", "normal")),
        ("sacct.txt", [16, 1], ("train",)),
        ("own.csv", [8, 16, 64, 4], ("products", "research")),
    ],
)
def test_published_traces_are_known_by_their_columns(file: str, gpus: list[int], queues: tuple[str, ...]) -> None:
    """Jobs without GPUs or an end are left out; parts of a GPU are a whole one, workers have theirs each."""
    found = read_trace(str(EXAMPLES / "20-traces" / file))

    assert (gpus, queues) == (found.gpus.tolist(), found.queues)
    assert found.duration.min() >= 300


def test_spot_jobs_come_after_the_others() -> None:
    """What a trace says of importance is a priority."""
    assert [1, 0, 0] == read_trace(str(EXAMPLES / "20-traces" / "alibaba-spot.csv")).priority.tolist()


def test_unknown_columns_are_told_with_those_that_are_known(tmp_path: Path) -> None:
    """One line names every trace and its columns."""
    (tmp_path / "jobs.csv").write_text("when,what\n1,2\n")
    told = run("simulate", "--topology", "synthetic:", "--trace", str(tmp_path / "jobs.csv"))

    assert told.exit_code == 2
    assert "the columns are those of no known trace (Philly: timestamp, duration, num_gpus;" in told.stderr
    assert "sacct: Submit, ElapsedRaw, AllocTRES)" in told.stderr
