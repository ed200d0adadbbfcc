"""Jobs and queues that are held: they wait with the reason until they are released, in every language."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from tests.support.commands import EXAMPLES, answer, manifests, run
from tests.support.draw import draw, gang
from tests.support.playground import Json, Playground
from tests.support.served_playground import kubeconfig_of, served

from tierwise.api.codec import Raw
from tierwise.api.hold import HOLD, held


def _cluster(folder: Path, *more: Raw, group: Raw | None = None) -> Path:
    train = list(gang("train", tasks=2, each="gpu=4", queue="team").manifests())
    for raw in train:
        if raw["kind"] == "PodGroup":
            raw["metadata"] = {**raw["metadata"], **(group or {})}  # type: ignore[dict-item]
    return manifests(folder, *draw("n0", node="gpu=8").manifests, *train, *more)


def _queue(name: str, parent: str = "", reason: str | None = None) -> Raw:
    about = {"name": name, "annotations": {HOLD: reason} if reason is not None else {}}
    spec = {"parent": parent} if parent else {}
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": about, "spec": spec}


def test_a_held_job_waits_with_its_reason(tmp_path: Path) -> None:
    """Though there is room for it; without the annotation it starts."""
    free = _cluster(tmp_path, _queue("team"))
    assert 2 == len(answer("schedule", "-f", free)["bindings"])

    file = _cluster(tmp_path, _queue("team"), group={"annotations": {HOLD: "wrong data set"}})
    told = answer("why", "-f", file, "train-0")

    assert ("Held", "not-allowed") == (told["reason"], told["verdict"])
    assert "it is held: wrong data set" in run("why", "-f", file, "train-0").stdout


def test_a_held_queue_holds_all_below_it(tmp_path: Path) -> None:
    """Its own jobs, and those of queues inside it."""
    above = _cluster(tmp_path, _queue("team", parent="division"), _queue("division", reason="audit"))

    assert {} == answer("schedule", "-f", above)["bindings"]
    assert "its queue division is held: audit" in run("why", "-f", above, "train-0").stdout
    own = _cluster(tmp_path, _queue("team", reason="audit"))
    assert "its queue is held: audit" in run("queue", "-f", own, "-o", "wide").stdout


def test_pods_that_run_stay(tmp_path: Path) -> None:
    """A hold lets nothing start, and stops nothing."""
    train = list(gang("train", tasks=2, each="gpu=4", on="n0 n0").manifests())
    for raw in train:
        if raw["kind"] == "PodGroup":
            raw["metadata"]["annotations"] = {HOLD: "later"}  # type: ignore[index]
    found = answer("schedule", "-f", manifests(tmp_path, *draw("n0", node="gpu=8").manifests, *train))

    assert ([], {}) == (list(found["pending"]), found.get("evictions", {}) or {})


@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        ({}, ""),
        ({HOLD: ""}, "no reason is given"),
        ({HOLD: "a\nb"}, "a b"),
        ({HOLD: "x" * 300}, "x" * 200 + "…"),
    ],
)
def test_reasons_are_one_short_line(marks: dict[str, str], expected: str) -> None:
    """Whatever a tenant writes there."""
    assert expected == held(marks)


def test_a_volcano_job_in_a_file_is_held_before_its_group_is_made(tmp_path: Path) -> None:
    """It hands the annotation on; on a workload that does not, the annotation is named as not read."""
    folder = EXAMPLES / "01-llm-training"
    [patch] = yaml.safe_load_all(run("hold", "-f", folder, "pretrain", "--reason", "audit").stdout)
    job = next(
        raw
        for raw in yaml.safe_load_all((folder / "job.yaml").read_text())
        if raw["kind"] == "Job" and raw["metadata"]["name"] == "embed"
    )
    pods = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    plain: Raw = {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": pods}}
    for raw, name in ((job, "embed"), (plain, "plain")):
        raw["metadata"] = {"name": name, "annotations": {HOLD: "audit"}}
    file = manifests(tmp_path, job, plain)

    assert ("Job", "pretrain", "audit") == (
        patch["kind"],
        patch["metadata"]["name"],
        patch["metadata"]["annotations"][HOLD],
    )
    assert "it is held: audit" in run("schedule", "-f", folder / "cluster.yaml", "-f", file).stdout
    assert [("Job plain", f"metadata.annotations.{HOLD}")] == [
        (found["object"], found["path"]) for found in answer("validate", "-f", file)["warnings"]
    ]


def test_what_is_printed_for_files_holds_the_job(tmp_path: Path) -> None:
    """The annotation on the object that declares it, as kubectl applies it; release takes it away."""
    example = EXAMPLES / "18-expected-start"
    printed = run("hold", "-f", example, "ml/train-b", "--reason", "wrong data").stdout
    [patch] = yaml.safe_load_all(printed)

    assert ("PodGroup", "wrong data") == (patch["kind"], patch["metadata"]["annotations"][HOLD])
    assert ": null" in run("release", "-f", example, "ml/train-b").stdout
    assert "did you mean ml/train-b?" in run("hold", "-f", example, "ml/trian-b", "--reason", "x").stderr
    assert (
        "did you mean"
        in run("hold", "-f", _cluster(tmp_path, _queue("team")), "--queue", "taem", "--reason", "x").stderr
    )
    assert "Name a job" in run("hold", "-f", example, "--reason", "x").stderr


@pytest.mark.parametrize(
    ("words", "path", "name"), [(["train"], "podgroups", "train"), (["--queue", "team"], "queues", "team")]
)
def test_a_live_cluster_is_written_to(tmp_path: Path, words: list[str], path: str, name: str) -> None:
    """The annotation of the group or of the queue, beside those that are there; releasing takes it away."""
    raws = list(yaml.safe_load_all(_cluster(tmp_path, _queue("team")).read_text()))
    ground = Playground(raws)

    def marks() -> Json:
        found: Json = ground.get(f"scheduling.volcano.sh/v1beta1/{path}", name)["metadata"].get("annotations", {})
        return found

    before = marks()
    with served(ground) as url:
        config = ("--kubeconfig", kubeconfig_of(tmp_path, url))
        holding = run("hold", *words, "--reason", "audit", *config)
        while_held = marks()
        released = run("release", *words, *config)

    assert (0, 0) == (holding.exit_code, released.exit_code), holding.stderr + released.stderr
    assert " held" in holding.stdout
    assert {**before, HOLD: "audit"} == while_held
    assert before == marks()
