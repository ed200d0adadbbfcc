"""`nodes` and `queue`, and answers as lists: wide, as names, and by templates."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.commands import EXAMPLES, answer, manifests, run
from tests.support.draw import draw, gang

from tierwise.api.errors import InputError
from tierwise.cli.jsonpath import filled

ETA = ("-f", EXAMPLES / "18-expected-start", "--now", "2026-01-01T12:00:00Z")
DATA = {"jobs": [{"name": "a", "n": 1, "x.y": True}, {"name": "b", "n": None}], "of": {"k": "v"}}


def test_nodes_have_a_state_in_their_domain(tmp_path: Path) -> None:
    """Idle, mixed and allocated by the scarce resource; cordoned before these."""
    world = draw("r0[n0 n1 n2] r1[n3]", node="gpu=8", running="n1:gpu=4 n2:gpu=8", cordoned="n3")
    file = manifests(tmp_path, *world.manifests)

    states = answer("nodes", "-f", file)["states"]

    assert [("r0", "idle", 0), ("r0", "mixed", 4), ("r0", "allocated", 8), ("r1", "cordoned", 0)] == [
        (one["group"], one["state"], one["used"]) for one in states
    ]
    assert ["node/n0", "node/n1", "node/n2", "node/n3"] == run("nodes", "-f", file, "-o", "name").stdout.split()
    assert "z is no label of a node, and none of the tiers: 1" in run("nodes", "-f", file, "--by", "z").stderr


def test_nodes_by_a_label(tmp_path: Path) -> None:
    """The values of any label of nodes are groups too; nodes without it are a group of their own."""
    nodes = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n{i}", "labels": labels}}
        for i, labels in enumerate(({"kind": "a"}, {"kind": "b"}, {}))
    ]
    found = answer("nodes", "-f", manifests(tmp_path, *nodes), "--by", "kind")

    assert ["", "a", "b"] == [one["group"] for one in found["states"]]


def test_the_order_of_a_queue_and_its_factors(tmp_path: Path) -> None:
    """Priority before age; each job has its place, of how many, and what plugins say of it."""
    world = draw("n0", node="gpu=8", running="n0:gpu=8")
    old, urgent = gang("old", tasks=1, each="gpu=8"), gang("urgent", tasks=1, each="gpu=8", created=9, priority=5)
    file = manifests(tmp_path, *world.manifests, *old.manifests(), *urgent.manifests())

    jobs = answer("queue", "-f", file)["jobs"]

    assert [("default/urgent", 1, 2, "5"), ("default/old", 2, 2, "0")] == [
        (job["podGroup"], job["position"], job["of"], job["factors"]["priority"]) for job in jobs
    ]
    assert "there is no such queue" in run("queue", "-f", file, "defualt").stderr


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{.jobs[*].name}", "a b"),
        (".jobs[-1].name", "b"),
        ("{.jobs[0]['x.y']} {.jobs[1].n}", "true null"),
        ('{range .jobs[*]}{.name}={.n}{"\\n"}{end}', "a=1\nb=null\n"),
        ("{.missing}|{.of.k}", "|v"),
        ("{$.of}", '{"k": "v"}'),
        ("{range .none[*]}{.x}{end}-", "-"),
    ],
)
def test_templates_of_kubectls_kind(template: str, expected: str) -> None:
    """Paths, indexes, every element, keys with dots, ranges and texts; what is not there is left out."""
    assert expected == filled(template, DATA)


@pytest.mark.parametrize("template", ["{.a", "{end}", "{range .jobs[*]}x", "{.jobs[?(@.n)]}", "a}"])
def test_templates_that_cannot_be_read_are_refused(template: str) -> None:
    """In one line, with exit status 2."""
    with pytest.raises(InputError):
        filled(template, DATA)
    assert 2 == run("eta", *ETA, "-o", f"jsonpath={template}").exit_code


def test_lists_in_every_form() -> None:
    """Names alone, one template, and lines as long as they need to be."""
    assert ["podgroup/ml/train-b", "podgroup/ml/train-c", "podgroup/ml/huge"] == run(
        "eta", *ETA, "-o", "name"
    ).stdout.split()
    assert "ml/train-b ml/train-c ml/huge" == run("eta", *ETA, "-o", "jsonpath={.jobs[*].podGroup}").stdout
    assert "pod/default/train-0\n" == run("why", "-f", EXAMPLES / "02-why-not", "train-0", "-o", "name").stdout
    assert "is none of text, wide, json, yaml, name" in run("eta", *ETA, "-o", "xml").stderr
    wide = run("why", "-f", EXAMPLES / "02-why-not", "train-0", "-o", "wide").stdout
    assert max(map(len, run("why", "-f", EXAMPLES / "02-why-not", "train-0").stdout.splitlines())) < max(
        map(len, wide.splitlines())
    )


def test_misspelt_pods_and_jobs_get_a_hint() -> None:
    """The nearest name, or that it is a job."""
    assert "did you mean default/train-0?" in run("why", "-f", EXAMPLES / "02-why-not", "tarin-0").stderr


@pytest.mark.parametrize(
    "words", [("why",), ("explain",), ("explain", "--job"), ("eta",), ("what-if", "--start")], ids=" ".join
)
def test_a_misspelt_job_is_suggested_as_it_is_written(words: tuple[str, ...]) -> None:
    """Also where its podGroup, which the controllers make, has a uid in its name."""
    verb, *rest = words
    told = run(verb, "-f", EXAMPLES / "01-llm-training", *rest, "pretrian").stderr

    assert told.endswith(" (did you mean default/pretrain?)\n")
    assert "default/train is a job" in run("why", "-f", EXAMPLES / "02-why-not", "train").stderr
