"""The journal: what each cycle saw and decided, bounded, and repeated byte by byte."""

from __future__ import annotations

import gzip
import json
import resource
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.commands import EXAMPLES, answer, run
from tests.support.draw import draw, gang, objects_of

from tierwise import __version__
from tierwise.api.core import ConfigMap, Pod
from tierwise.api.errors import InputError
from tierwise.config.profile import DEFAULT, PluginChoice, Profile
from tierwise.framework.solver import solver_version
from tierwise.manifests.files import read
from tierwise.port import Create, Delete, Objects
from tierwise.runtime.journal import Journal, JournalWriter, repeat
from tierwise.runtime.loop import Loop
from tierwise.runtime.profile_run import SchedulerProfile
from tierwise.sim.cluster.store import EmbeddedCluster
from tierwise.snapshot.usage import read_usage, usage_key, usage_of

OURS = frozenset({"", "tierwise"})
EVICTING = replace(DEFAULT, actions=("enqueue", "allocate", "backfill", "gangpreempt"))
WORLD = draw("s0[r0[n0 n1] r1[n2 n3]]", node="cpu=2", running="n0:cpu=1", tier_names={1: "rack"})


_OPEN: list[JournalWriter] = []


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    """Journals are read while they are written, and closed at the end."""
    yield
    while _OPEN:
        _OPEN.pop().close()


class Life:
    """A loop on an embedded cluster with a clock of its own, and a journal."""

    def __init__(self, objects: Objects, folder: Path, *, profile: Profile = DEFAULT, size: int = 1 << 20) -> None:
        self.cluster, self.now = EmbeddedCluster(objects), 1_000_000.0625
        scheduler = SchedulerProfile(OURS, profile)
        self.writer = JournalWriter(folder, size, (scheduler,))
        clock = lambda: self.now  # noqa: E731 - a name for a function of no arguments
        _OPEN.append(self.writer)
        self.loop = Loop(self.cluster, [scheduler], clock=clock, ticks=clock, observers=[self.writer])

    def turn(self, *, seconds: float = 5.3) -> None:
        """One turn of the loop, and pods that run after it."""
        self.loop.run_once()
        self.cluster.advance_pods()
        self.now += seconds

    def submit(self, name: str, **settings: object) -> None:
        """A gang comes."""
        self.cluster.apply([Create(raw) for raw in gang(name, **settings).manifests()])  # type: ignore[arg-type]

    def end(self, name: str) -> None:
        """A gang and all its pods are gone."""
        gone = [key for key in self.cluster.read() if key.name == name or key.name.startswith(f"{name}-")]
        self.cluster.apply([Delete(key) for key in gone])


def _busy(folder: Path, **settings: object) -> Life:
    life = Life(objects_of(WORLD), folder, **settings)  # type: ignore[arg-type]
    life.submit("first", tasks=3, each="cpu=2", soft=True)
    life.turn()
    life.submit("second", tasks=2, each="cpu=2", within=1)
    life.turn()
    life.end("first")
    life.turn()
    life.turn()
    return life


@pytest.mark.parametrize("profile", [DEFAULT, EVICTING], ids=["default", "evicting"])
def test_every_cycle_can_be_repeated(tmp_path: Path, profile: Profile) -> None:
    """The same bytes, from the first cycle of a segment and from any later one, while the writer still writes."""
    _busy(tmp_path, profile=profile)
    journal = Journal(tmp_path)
    numbers = [found.number for found in journal.cycles()]

    assert [1, 2, 3, 4] == numbers
    assert all(repeat(journal.cycle(number)).same for number in numbers)
    assert profile == journal.cycle(1).scheduler.profile


REMEMBERS = replace(
    DEFAULT, tiers=(*DEFAULT.tiers, (PluginChoice("fairshare", {"halfLife": "1h", "record": "tierwise"}),))
)


def test_usage_is_recorded_and_written_down(tmp_path: Path) -> None:
    """Every cycle of a profile that remembers is repeated with what it knew, and a restart goes on with the record."""
    life = _busy(tmp_path, profile=REMEMBERS)
    life.turn(seconds=100)
    life.turn()
    journal = Journal(tmp_path)
    record = life.cluster.read().record(usage_key("tierwise"))
    recorded, _, _ = read_usage(record if isinstance(record, ConfigMap) else None)
    known = [journal.cycle(found.number) for found in journal.cycles()]
    again = Life(life.cluster.read(), tmp_path / "again", profile=REMEMBERS)
    again.now = life.now
    again.turn()
    again.turn()
    went_on = Journal(tmp_path / "again").cycle(2)

    assert all(repeat(one).same for one in known)
    assert recorded is not None
    assert recorded.since == usage_of(known[-1].usage).since == usage_of(went_on.usage).since
    assert usage_of(went_on.usage).counted()["default", "default"] > 0


def test_a_clean_stop_writes_usage_down(tmp_path: Path) -> None:
    """Whatever has passed since the last time; and not where another leads."""
    found = []
    for leads in (True, False):
        life = _busy(tmp_path / str(leads), profile=REMEMBERS)
        life.loop.run(period=1.0, pause=0.0, stopping=lambda: True, may=lambda leads=leads: leads)  # type: ignore[misc]
        record = life.cluster.read().record(usage_key("tierwise"))
        recorded, _, _ = read_usage(record if isinstance(record, ConfigMap) else None)
        assert recorded is not None
        found.append(life.now - recorded.at)

    assert 0.0 == found[0]
    assert found[1] > 0.0


def test_what_is_decided_otherwise_is_noticed(tmp_path: Path) -> None:
    """A recorded cycle with another profile is not the same."""
    _busy(tmp_path)
    recorded = Journal(tmp_path).cycle(1)
    spread = replace(DEFAULT, tiers=(*DEFAULT.tiers, (PluginChoice("nodeorder", {"leastrequested.weight": 99}),)))
    other = replace(recorded, scheduler=SchedulerProfile(OURS, replace(spread, actions=("enqueue",))))

    assert repeat(recorded).same
    assert not repeat(other).same


def test_a_restart_goes_on(tmp_path: Path) -> None:
    """Another process numbers its cycles after those that are there, and a killed writer leaves whole lines."""
    _busy(tmp_path / "old")
    shutil.copytree(tmp_path / "old", tmp_path / "new")  # as a killed writer leaves it
    life = Life(objects_of(WORLD), tmp_path / "new")
    life.turn()
    journal = Journal(tmp_path / "new")

    assert [1, 2, 3, 4, 5] == [found.number for found in journal.cycles()]
    assert all(repeat(journal.cycle(number)).same for number in (4, 5))


def test_a_torn_end_is_left_out(tmp_path: Path) -> None:
    """Half a line at the end of a file does not keep the rest from being read."""
    life = _busy(tmp_path)
    life.writer.close()
    (segment,) = tmp_path.iterdir()
    data = segment.read_bytes()
    segment.write_bytes(data[: len(data) * 9 // 10])

    assert [1, 2] == [found.number for found in Journal(tmp_path).cycles()][:2]
    assert repeat(Journal(tmp_path).cycle(2)).same


def test_the_size_is_bounded(tmp_path: Path) -> None:
    """The oldest cycles go, the newest can be repeated, and the folder is never larger than it may be."""
    life = Life(objects_of(WORLD), tmp_path, size=8_000)
    largest = 0
    for index in range(120):
        life.submit(f"g{index}", tasks=1, each="cpu=1")
        life.turn()
        life.end(f"g{index}")
        largest = max(largest, sum(path.stat().st_size for path in tmp_path.iterdir()))
    numbers = [found.number for found in Journal(tmp_path).cycles()]

    assert largest <= 8_000
    assert 120 == numbers[-1]
    assert numbers[0] > 1
    assert numbers == list(range(numbers[0], 121))
    assert all(repeat(Journal(tmp_path).cycle(number)).same for number in (numbers[0], 119, 120))


def test_objects_that_are_too_many_end_the_journal(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One line in the log, an empty folder, and a loop that goes on."""
    life = Life(objects_of(WORLD), tmp_path, size=10)
    life.submit("first", tasks=1)
    life.turn()
    life.turn()

    assert [] == list(tmp_path.iterdir())
    assert 1 == sum("the journal in" in record.message for record in caplog.records)
    assert life.cluster.read().every(Pod)["default/first-0"].spec.node_name


def test_a_folder_that_goes_away_costs_the_journal_alone(tmp_path: Path) -> None:
    """The loop goes on where the disk does not."""
    folder = tmp_path / "journal"
    life = Life(objects_of(WORLD), folder)
    folder.rmdir()
    life.submit("first", tasks=1)
    life.turn()

    assert life.cluster.read().every(Pod)["default/first-0"].spec.node_name


@pytest.mark.parametrize(
    "example", sorted(path.name for path in EXAMPLES.iterdir() if (path / "cluster.yaml").exists())
)
def test_examples_come_back_as_they_were(tmp_path: Path, example: str) -> None:
    """Objects of every kind are read from a journal as they were, and decide the same."""
    paths = {str(path): path for path in (EXAMPLES / example).glob("*.yaml")}
    loaded = []
    for path in sorted(paths):
        try:
            entries = read([path])
        except InputError:
            continue
        loaded += [(e.record, e.raw) for e in entries]
    life = Life(Objects.of(loaded), tmp_path)
    life.turn()
    life.turn()
    journal = Journal(tmp_path)

    assert [1, 2] == [found.number for found in journal.cycles()]
    assert all(repeat(journal.cycle(number)).same for number in (1, 2))


_EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("submit"), st.integers(1, 3), st.sampled_from([None, 1, 2]), st.integers(0, 2)),
        st.tuples(st.just("end"), st.integers(0, 5)),
    ),
    min_size=1,
    max_size=6,
)


@given(events=_EVENTS, evicting=st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_lives_are_repeated(
    tmp_path_factory: pytest.TempPathFactory, events: list[tuple[object, ...]], evicting: bool
) -> None:
    """Whatever comes and goes, every cycle decides the same bytes again."""
    folder = tmp_path_factory.mktemp("journal")
    life = Life(objects_of(WORLD), folder, profile=EVICTING if evicting else DEFAULT, size=20_000)
    for number, event in enumerate(events):
        if event[0] == "submit":
            _, tasks, within, priority = event
            life.submit(f"g{number}", tasks=tasks, each="cpu=2", within=within, priority=priority)
        else:
            life.end(f"g{event[1]}")
        life.turn()
    journal = Journal(folder)
    same = [repeat(journal.cycle(found.number)).same for found in journal.cycles()]
    life.writer.close()

    assert [True] * len(same) == same
    assert same


# -- the command line


def test_cycles_are_listed_and_repeated(tmp_path: Path) -> None:
    """The list has cycles with news; one of them is shown as a page, and is the same."""
    _busy(tmp_path)

    rows = answer("replay", tmp_path)["cycles"]
    assert [{"Bind": 3}, {}, {"Bind": 2}] == [row["effects"] for row in rows]
    assert ["NotEnoughResources"] == [w["reason"] for w in rows[1]["waiting"].values()]
    assert 4 == len(answer("replay", tmp_path, "--all")["cycles"])
    second = answer("replay", tmp_path, "--cycle", 2)
    assert (True, 2) == (second["same"], second["cycle"])
    page = run("replay", tmp_path, "--cycle", 1).stdout
    assert "the same decisions, byte by byte" in page
    assert "3 pods bound in 1 gang" in page
    assert "4 cycles decided the same, byte by byte" in run("replay", tmp_path, "--verify").stdout


def test_the_history_of_a_job(tmp_path: Path) -> None:
    """Only what concerns it: it waited, then it started."""
    _busy(tmp_path)
    rows = answer("replay", tmp_path, "--job", "second")["cycles"]

    assert [({}, 1), ({"Bind": 2}, 0)] == [(row["effects"], len(row["waiting"])) for row in rows]
    assert "NotEnoughResources" in run("replay", tmp_path, "--job", "second").stdout


def test_explain_and_what_if_on_top(tmp_path: Path) -> None:
    """Why did this happen last night: by replay itself, and by every other verb on what the cycle saw."""
    _busy(tmp_path)
    place = f"journal:{tmp_path}@2"

    assert "second-0" in run("replay", tmp_path, "--cycle", 2, "--pod", "second-0").stdout
    assert "not-now" == answer("replay", tmp_path, "--cycle", 2, "--job", "second")["verdict"]
    assert "not-now" == answer("replay", tmp_path, "--at", "1970-01-12T13:46:46Z", "--job", "second")["verdict"]
    assert "not-now" == answer("explain", "-f", place, "--config", place, "--job", "second")["verdict"]
    changed = answer("what-if", "-f", place, "--delete", "first")["jobs"]
    assert {"default/first": "ends", "default/second": "starts"} == {j["podGroup"]: j["effect"] for j in changed}


def test_a_cycle_that_differs_is_an_exit_status(tmp_path: Path) -> None:
    """As from another version of tierwise: the page is shown, and the difference is said."""
    _busy(tmp_path).writer.close()
    (segment,) = tmp_path.iterdir()
    text = gzip.decompress(segment.read_bytes()).decode()
    segment.write_bytes(gzip.compress(text.replace('"node":"n2"', '"node":"n3"').encode()))

    result = run("replay", tmp_path, "--cycle", 1)
    assert 1 == result.exit_code
    assert result.stderr.endswith("cycle 1 decides otherwise now\n")
    assert 1 == run("replay", tmp_path, "--verify").exit_code


def test_a_journal_names_the_solver(tmp_path: Path) -> None:
    """As well as the version: with another one equal places may be chosen otherwise."""
    _busy(tmp_path).writer.close()
    (segment,) = tmp_path.iterdir()
    text = gzip.decompress(segment.read_bytes()).decode()
    other = text.replace('"node":"n2"', '"node":"n3"').replace(solver_version(), "HiGHS 9.9.9")
    segment.write_bytes(gzip.compress(other.encode()))

    result = run("replay", tmp_path, "--cycle", 1, "-o", "json")
    assert "HiGHS 9.9.9" == json.loads(result.stdout)["solver"]
    now = f"{__version__} with {solver_version()}"
    assert f"(written by {__version__} with HiGHS 9.9.9, repeated by {now})" in result.stderr


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--cycle", "99"], "there is no cycle 99; the oldest is 1"),
        (["--at", "1969-01-01T00:00:00Z"], "there is no cycle at that time or before"),
        (["--pod", "x"], "--pod needs a cycle"),
        (["--cycle", "1", "--pod", "x"], "Pod default/x: cycle 1 did not look for a place for it"),
    ],
)
def test_what_is_not_there_is_said(tmp_path: Path, words: list[str], text: str) -> None:
    """One line, exit status 2."""
    _busy(tmp_path)
    result = run("replay", tmp_path, *words)

    assert 2 == result.exit_code
    assert text in result.stderr


def test_other_folders_and_places_are_refused(tmp_path: Path) -> None:
    """A folder without a journal, a file that is none, and a place that names no cycle."""
    assert "holds no journal" in run("replay", tmp_path).stderr
    assert 2 == run("replay", tmp_path / "nowhere").exit_code
    (tmp_path / "journal-00000001.jsonl.gz").write_bytes(gzip.compress(b"{}\n"))
    assert "is no journal" in run("replay", tmp_path, "--cycle", 1).stderr
    assert "is not journal:DIR@CYCLE" in run("schedule", "-f", f"journal:{tmp_path}").stderr


# -- what no writer has left


@pytest.mark.parametrize("bytes_", [0, 1, 2, 9, 10, 11, 40, 400])
def test_any_beginning_of_a_file_is_read(tmp_path: Path, bytes_: int) -> None:
    """A writer that was killed, or a disk that was full: the cycles before are there, and the next writer goes on."""
    life = _busy(tmp_path)
    life.writer.close()
    (whole,) = tmp_path.iterdir()
    (tmp_path / "journal-00000005.jsonl.gz").write_bytes(whole.read_bytes()[:bytes_])
    listed = answer("replay", tmp_path, "--all")["cycles"]
    verified = run("replay", tmp_path, "--verify")
    missing = run("replay", tmp_path, "--cycle", 5)
    again = Life(objects_of(WORLD), tmp_path)
    again.turn()

    assert [1, 2, 3, 4] == [cycle["cycle"] for cycle in listed]
    assert (0, 2) == (verified.exit_code, missing.exit_code)
    assert [1, 2, 3, 4, 5] == [found.number for found in Journal(tmp_path).cycles()]


def test_every_cut_of_a_file_is_read(tmp_path: Path) -> None:
    """Wherever a file ends, its whole lines are cycles, one after the other."""
    life = _busy(tmp_path / "whole")
    life.writer.close()
    (whole,) = (tmp_path / "whole").iterdir()
    data, cut = whole.read_bytes(), tmp_path / "cut" / whole.name
    cut.parent.mkdir()
    counts = []
    for length in (*range(40), *range(40, len(data), 7), len(data)):
        cut.write_bytes(data[:length])
        numbers = [found.number for found in Journal(cut.parent).cycles()]
        assert list(range(1, len(numbers) + 1)) == numbers
        counts.append(len(numbers))

    assert sorted(counts) == counts
    assert (0, 4) == (counts[0], counts[-1])


def test_a_full_disk_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The journal ends with one line, closing it is silent, and the loop goes on."""
    life = Life(objects_of(WORLD), tmp_path)
    life.submit("first", tasks=3, each="cpu=2", soft=True)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))  # as a disk that takes no more
    try:
        life.turn()
        life.turn()
        life.writer.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert 1 == len([line for line in caplog.messages if "the journal in" in line])
    assert [] == [line for line in caplog.messages if "left out, because" in line]
    assert life.cluster.read().every(Pod)["default/first-0"].spec.node_name


def test_what_unpacks_without_end_is_refused(tmp_path: Path) -> None:
    """One line, and no more memory than a journal of that size would need."""
    with gzip.open(tmp_path / "journal-00000001.jsonl.gz", "wb", compresslevel=9) as file:
        for _ in range(200):
            file.write(b" " * (1 << 20))
    listed, read = run("replay", tmp_path), run("schedule", "-f", f"journal:{tmp_path}@1")

    assert [2, 2] == [listed.exit_code, read.exit_code]
    assert "it unpacks to more than" in read.stderr


@given(data=st.data())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_byte_of_a_journal_is_a_defect(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Some bytes of what is in a journal are others: it is read, decides otherwise, or is refused in one line."""
    text, whole = _text_of_a_journal(tmp_path_factory)
    changed = bytearray(text)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(changed) - 1))
        changed[place] = data.draw(st.sampled_from(b'\x00\x91\xff"{}[]:,-019aZ.\n'))
    folder = tmp_path_factory.mktemp("changed")
    (folder / whole.name).write_bytes(gzip.compress(bytes(changed), 1))
    results = [run("replay", folder), run("replay", folder, "--verify"), run("replay", folder, "--cycle", 2)]

    assert {result.exit_code for result in results} <= {0, 1, 2}, [result.stderr for result in results]


_TEXTS: list[tuple[bytes, Path]] = []


def _text_of_a_journal(factory: pytest.TempPathFactory) -> tuple[bytes, Path]:
    if not _TEXTS:
        folder = factory.mktemp("whole")
        _busy(folder).writer.close()
        (whole,) = folder.iterdir()
        _TEXTS.append((gzip.decompress(whole.read_bytes()), whole))
    return _TEXTS[0]
