"""What a newcomer meets first: one headline, true plurals, times of an export, pipes, versions, Kueue's marks."""

from __future__ import annotations

import json
import os
from pathlib import Path
from threading import Thread

import pytest
from tests.support.commands import answer, manifests, run
from tests.support.draw import draw, gang

from tierwise.api.plurals import several
from tierwise.cli.inputs import load, moment
from tierwise.sim.what_if.least_change import Effort

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}}
SPEC = {"schedulerName": "volcano", "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}


def test_pods_that_are_not_allowed_are_in_the_headline(tmp_path: Path) -> None:
    """A pod whose podGroup does not exist, and one behind a gate, are not "nothing to schedule"."""
    lost = {**POD["metadata"], "annotations": {"scheduling.k8s.io/group-name": "nope"}}  # type: ignore[dict-item]
    gated = {**SPEC, "schedulingGates": [{"name": "later"}]}
    for pods in (
        [{**POD, "metadata": lost, "spec": SPEC}],
        [{**POD, "spec": gated}],
        [{**POD, "metadata": lost, "spec": SPEC}, {**POD, "metadata": {"name": "q"}, "spec": gated}],
    ):
        first = run("schedule", "--nodes", "1", "-f", manifests(tmp_path, *pods)).stdout.splitlines()[0]
        number = f"{len(pods)} pod{'s' if len(pods) > 1 else ''}"
        assert first.startswith(f"0 pods bound, {number} not allowed; ")
    assert (
        "nothing to schedule" in run("schedule", "-f", manifests(tmp_path, *draw("n0", node="cpu=1").manifests)).stdout
    )


@pytest.mark.parametrize(
    ("noun", "plural"),
    [("rack", "racks"), ("switch", "switches"), ("chassis", "chassis"), ("bay", "bays"), ("facility", "facilities")],
)
def test_plurals_of_what_sites_call_a_tier(noun: str, plural: str) -> None:
    """No "switchs", no "chassiss"."""
    assert plural == several(noun)


def test_a_tier_without_a_name_has_domains(tmp_path: Path) -> None:
    """Not "2 tier 1s", and not "more tier 1ss" below a long list."""
    two = manifests(tmp_path, *draw("r0[n0] r1[n1]", node="cpu=1").manifests)
    many = manifests(tmp_path, *draw(" ".join(f"r{i}[n{i}]" for i in range(25)), node="cpu=1").manifests, name="m.yaml")

    assert run("drainable", "-f", two).stdout.startswith("2 domains of tier 1: 2 without pods")
    assert "and 5 more; --all shows them" in run("drainable", "-f", many).stdout
    assert "more nodes" not in run("drainable", "--tier", "node", "-f", many).stdout


@pytest.mark.parametrize("where", ["heartbeat", "condition", "start", "nothing"])
def test_times_in_statuses_count(where: str, tmp_path: Path) -> None:
    """An export is of the moment at which a kubelet was heard of last, not of when the newest object was made."""
    ready = {"type": "Ready", "status": "True"}
    if where == "heartbeat":
        ready["lastHeartbeatTime"] = "2026-06-01T00:00:00Z"
    if where == "condition":
        ready["lastTransitionTime"] = "2026-06-01T00:00:00Z"
    status = {"startTime": "2026-06-01T00:00:00Z"} if where == "start" else {}
    made = {"creationTimestamp": "2025-01-01T00:00:00Z"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n0", **made}, "status": {"conditions": [ready]}}
    pod = {**POD, "metadata": {"name": "p", **made}, "spec": {**SPEC, "nodeName": "n0"}, "status": status}

    found = moment(load([str(manifests(tmp_path, node, pod))]), None)

    assert (1735689600.0 if where == "nothing" else 1780272000.0) == found


@pytest.mark.parametrize("ending", ["yaml", "json"])
def test_a_pipe_is_a_file(ending: str, tmp_path: Path) -> None:
    """`-f <(command)`: read once, whatever its name says and however long it is."""
    objects = [*draw("r0[n0]", node="cpu=9").manifests, *gang("a", tasks=1, each="cpu=1").manifests()]
    wide = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "wide"}, "data": {"x": "y" * 200_000}}
    pipe = tmp_path / f"pipe.{ending}"
    os.mkfifo(pipe)
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [*objects, wide]})
    writer = Thread(target=pipe.write_text, args=(text,))
    writer.start()

    found = answer("schedule", "-f", pipe)

    writer.join()
    assert {"default/a-0": "n0"} == found["bindings"]


@pytest.mark.parametrize("verb", ["schedule", "explain p", "topology show", "top", "reconcile"])
def test_a_version_that_a_kind_does_not_have_is_left_out_with_a_warning(verb: str, tmp_path: Path) -> None:
    """The rest is answered, as it is beside a kind that nobody knows, and the versions that are known are named."""
    group = {"apiVersion": "scheduling.volcano.sh/v9", "kind": "PodGroup", "metadata": {"name": "g"}}
    world = [*draw("r0[n0]", node="cpu=9").manifests, {**POD, "spec": SPEC}]
    wrong = run(*verb.split(), "-f", manifests(tmp_path, *world, group))
    odd = run(*verb.split(), "-f", manifests(tmp_path, *world, {**group, "kind": "Odd"}))

    assert (0, 0) == (wrong.exit_code, odd.exit_code)
    assert "known is scheduling.volcano.sh/v1beta1" in wrong.stderr
    assert odd.stdout == wrong.stdout


def test_marks_of_kueue_that_have_no_effect_are_named(tmp_path: Path) -> None:
    """On the object and in its template; not those that count, nor where Kueue has admitted the pod."""
    marks = {"kueue.x-k8s.io/elastic-job": "true", "provreq.kueue.x-k8s.io/maxRunDurationSeconds": "600"}
    labels = {"kueue.x-k8s.io/queue-name": "lq", "kueue.x-k8s.io/pod-group-nam": "g"}
    inside = {
        "metadata": {"annotations": {"kueue.x-k8s.io/podset-balanced": "x"}},
        "spec": {**SPEC, "restartPolicy": "Never"},
    }
    meta = {"name": "j", "labels": labels, "annotations": marks}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {"template": inside}}
    admitted = {**meta, "labels": {**labels, "kueue.x-k8s.io/managed": "true"}}

    told = run("validate", "-f", manifests(tmp_path, job), width=200).stdout
    pod = run("validate", "-f", manifests(tmp_path, {**POD, "metadata": admitted, "spec": SPEC}), width=200).stdout

    for key in (*marks, "kueue.x-k8s.io/podset-balanced"):
        assert f'"{key}" is passed over: Kueue alone reads it' in told
    assert "(did you mean kueue.x-k8s.io/pod-group-name?)" in told
    assert "queue-name" not in told
    assert "Kueue alone" not in pod


def test_a_search_that_stopped_early_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A way is no help only where that is known; where its runs were used up it is not settled."""
    world = draw("r0[n0 n1] r1[n2 n3]", node="gpu=8", cordoned="n0 n1 n2 n3")
    file = manifests(tmp_path, *world.manifests, *gang("big", tasks=9, each="gpu=8", within=1).manifests())
    settled = answer("what-if", "-f", file, "--start", "big")
    monkeypatch.setattr(Effort, "trials", lambda self, objects: 2)

    found = answer("what-if", "-f", file, "--start", "big")

    assert [] == settled["notSettled"]
    assert "uncordon" in settled["noHelp"]
    assert "uncordon" in found["notSettled"]
    assert "uncordon" not in found["noHelp"]
    assert "not settled" in run("what-if", "-f", file, "--start", "big").stdout


@pytest.mark.parametrize("verb", ["validate", "schedule"])
def test_kinds_that_stand_beside_jobs_are_known(verb: str, tmp_path: Path) -> None:
    """A Secret or a ServiceAccount beside a job is no kind that nobody knows; another one is."""
    beside = [
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"a": "b"}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "r"}},
    ]
    odd = {"apiVersion": "example.com/v1", "kind": "Odd", "metadata": {"name": "o"}}
    node = draw("n0", node="cpu=9").manifests

    quiet = run(verb, "-f", manifests(tmp_path, *node, *beside))
    told = run(verb, "-f", manifests(tmp_path, *node, *beside, odd))

    assert (0, "") == (quiet.exit_code, quiet.stderr)
    assert "not known" not in quiet.stdout
    assert "Odd" in told.stdout + told.stderr
