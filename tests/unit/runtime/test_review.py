"""Admission reviews: what is denied, what passes with a warning, and which defaults are filled in."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tierwise.admission import complete
from tierwise.api import codec
from tierwise.api.errors import InputError
from tierwise.dialects.volcano.job import pod_group_name
from tierwise.port import Objects
from tierwise.runtime.review import Request, Reviewer, ReviewResponse, read_request

VOLCANO = "scheduling.volcano.sh/v1beta1"
QUEUE: dict[str, Any] = {"apiVersion": VOLCANO, "kind": "Queue", "metadata": {"name": "q"}, "spec": {"weight": 1}}


def _hypernode(name: str, *nodes: str, tier: int = 1) -> dict[str, Any]:
    members = [{"type": "Node", "selector": {"exactMatch": {"name": node}}} for node in nodes]
    spec = {"tier": tier, "members": members}
    return {"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": {"name": name}, "spec": spec}


def _job(**spec: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "main", "image": "busybox"}]}}
    tasks = [{"name": "worker", "replicas": 2, "template": template}]
    meta = {"name": "train", "namespace": "team"}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": meta,
        "spec": {"tasks": tasks, **spec},
    }


def _reviewer(*raws: dict[str, Any]) -> Reviewer:
    objects = Objects.of((codec.decode(raw), raw) for raw in raws)
    return Reviewer(lambda: objects)


def _created(raw: dict[str, Any], namespace: str = "") -> Request:
    return Request("1", "CREATE", namespace, {"kind": raw["kind"]}, object=raw)


def _changed(old: dict[str, Any], new: dict[str, Any]) -> Request:
    return Request("1", "UPDATE", kind={"kind": new["kind"]}, object=new, old_object=old)


def test_a_sound_object_passes() -> None:
    """An answer without errors carries the uid, and nothing to worry about."""
    answer = _reviewer().validate(_created(_hypernode("r0", "n0")))

    assert {"uid": "1", "allowed": True} == answer.wire()["response"]


def test_a_wrong_object_is_denied_with_field_and_figures() -> None:
    """The message names every field that is wrong."""
    raw = _hypernode("r0", "n0", tier=-1)
    raw["spec"]["members"][0]["type"] = "Rack"

    response: Any = _reviewer().validate(_created(raw)).wire()["response"]

    assert not response["allowed"]
    assert (422, "Invalid") == (response["status"]["code"], response["status"]["reason"])
    assert "spec.tier: tier is -1, it must be at least 0" in response["status"]["message"]
    assert 'spec.members[0].type: type "Rack" is not known' in response["status"]["message"]


def test_an_unreadable_object_is_denied() -> None:
    """A type error is the sender's, and names the field."""
    raw = _hypernode("r0", "n0")
    raw["spec"]["tier"] = "one"

    response: Any = _reviewer().validate(_created(raw)).wire()["response"]

    assert not response["allowed"]
    assert "spec.tier: expected an integer, got a string" in response["status"]["message"]


def test_a_tree_on_its_way_is_only_warned_about() -> None:
    """Nodes move from one hyperNode to another in two requests, the first of which makes them overlap."""
    around = _reviewer(_hypernode("r0", "n0", "n1"))

    answer = around.validate(_created(_hypernode("r1", "n1")))

    assert answer.allowed
    assert "n1" in " ".join(answer.warnings)


def test_the_cluster_is_looked_at_anew_for_every_review() -> None:
    """A queue that was made in the meantime is known."""
    known = [Objects.of([(codec.decode(QUEUE), QUEUE)])]
    around = Reviewer(lambda: known[-1])
    request = _created(_job(queue="later"), "team")

    before = around.validate(request)
    later = {**QUEUE, "metadata": {"name": "later"}}
    known.append(Objects.of((codec.decode(raw), raw) for raw in (QUEUE, later)))
    after = around.validate(request)

    assert ('spec.queue: queue "later" does not exist',) == before.errors
    assert after.allowed


def test_the_tree_is_looked_at_anew_for_every_review() -> None:
    """So is a hyperNode: what did not overlap before does now."""
    known = [Objects()]
    around = Reviewer(lambda: known[-1])
    request = _created(_hypernode("r1", "n1"))
    assert () == around.validate(request).warnings

    raw = _hypernode("r0", "n0", "n1")
    known.append(Objects.of([(codec.decode(raw), raw)]))
    assert "n1" in " ".join(around.validate(request).warnings)


def test_what_may_not_change_is_denied() -> None:
    """A job's queue is fixed once it is there, its replicas are not."""
    old, scaled = _job(queue="a"), _job(queue="a")
    scaled["spec"]["tasks"][0] = {**scaled["spec"]["tasks"][0], "replicas": 4}

    assert not _reviewer().validate(_changed(old, _job(queue="b"))).allowed
    assert _reviewer().validate(_changed(old, scaled)).allowed


def test_what_is_wrong_already_may_be_relabelled_and_removed() -> None:
    """Rules that came after an object must not lock it in."""
    wrong = _hypernode("r0", "n0", tier=-1)
    labelled = {**wrong, "metadata": {"name": "r0", "labels": {"a": "b"}}}
    leaving = {**_hypernode("r0", tier=-2), "metadata": {"name": "r0", "deletionTimestamp": "2026-01-01T00:00:00Z"}}

    assert _reviewer().validate(_changed(wrong, labelled)).allowed
    assert _reviewer().validate(_changed(wrong, leaving)).allowed
    assert _reviewer().validate(Request("1", "DELETE", object=None, old_object=wrong)).allowed


def _deleted(name: str, **meta: str) -> Request:
    old = {**QUEUE, "metadata": {"name": name, **meta}}
    return Request("1", "DELETE", kind={"kind": "Queue"}, object=None, old_object=old)


def _group(name: str, queue: str, phase: str = "Inqueue") -> dict[str, Any]:
    meta = {"name": name, "namespace": "team"}
    status = {"phase": phase}
    return {"apiVersion": VOLCANO, "kind": "PodGroup", "metadata": meta, "spec": {"queue": queue}, "status": status}


@pytest.mark.parametrize("name", ["default", "root"])
def test_the_queues_that_everybody_relies_on_stay(name: str) -> None:
    """Volcano does not let them go either."""
    response: Any = _reviewer().validate(_deleted(name)).wire()["response"]

    assert (False, 403, "Forbidden") == (
        response["allowed"],
        response["status"]["code"],
        response["status"]["reason"],
    )


def test_a_queue_with_jobs_in_it_stays() -> None:
    """Jobs and podGroups count once, and no longer when they have ended."""
    ended = {**_job(queue="q"), "status": {"state": {"phase": "Completed"}}}
    ended["metadata"] = {**ended["metadata"], "name": "ended"}
    around = _reviewer(QUEUE, _job(queue="q"), ended, _group("alone", "q"), _group("done", "q", "Completed"))

    (message,) = around.validate(_deleted("q")).errors
    assert 'queue "q" has 2 jobs in it (team/alone, team/train): delete or finish them first' == message
    assert around.validate(_deleted("another")).allowed
    assert _reviewer(QUEUE, ended).validate(_deleted("q")).allowed


def test_the_group_of_a_job_does_not_count_beside_it() -> None:
    """One that runs is counted once, and that of a job that has ended keeps no queue, whatever its own phase says."""
    runs = _job(queue="q")
    ended = {**runs, "status": {"state": {"phase": "Completed"}}}
    group = _group(pod_group_name(codec.decode(runs)), "q", "Running")

    (message,) = _reviewer(QUEUE, runs, group).validate(_deleted("q")).errors
    assert 'queue "q" has 1 job in it (team/train): delete or finish them first' == message
    assert _reviewer(QUEUE, ended, group).validate(_deleted("q")).allowed


def test_a_queue_with_queues_below_it_stays() -> None:
    """They would hang in the air."""
    child = {**QUEUE, "metadata": {"name": "child"}, "spec": {"parent": "q"}}

    (message,) = _reviewer(QUEUE, child).validate(_deleted("q")).errors
    assert 'queue "q" has 1 queue below it (child): delete or move them first' == message


def test_a_queue_on_its_way_out_may_go() -> None:
    """Its finalizers are others' business."""
    around = _reviewer(QUEUE, _group("alone", "q"))

    assert around.validate(_deleted("q", deletionTimestamp="2026-01-01T00:00:00Z")).allowed


def test_a_name_that_is_going_to_be_generated_is_none_to_complain_about() -> None:
    """GenerateName is completed after admission."""
    raw = _job()
    raw["metadata"] = {"generateName": "train-"}

    assert _reviewer().validate(_created(raw, "team")).allowed


def test_defaults_are_a_patch_that_gives_what_complete_gives() -> None:
    """Applying the patch to the object as it was sent fills in the same fields."""
    raw = _job()
    response: Any = _reviewer().mutate(_created(raw, "team")).wire()["response"]
    patch = json.loads(base64.b64decode(response["patch"]))

    assert "JSONPatch" == response["patchType"]
    assert complete(raw) == _patched(raw, patch)
    assert {"op": "add", "path": "/spec/minAvailable", "value": 2} in patch
    assert {"op": "add", "path": "/spec/tasks/0/minAvailable", "value": 2} in patch


def test_an_object_without_a_spec_gets_one() -> None:
    """A queue that says nothing still has a weight."""
    raw = {"apiVersion": VOLCANO, "kind": "Queue", "metadata": {"name": "q"}}

    answer = _reviewer().mutate(_created(raw))

    assert ({"op": "add", "path": "/spec", "value": {"weight": 1, "reclaimable": True}},) == answer.patch


def test_a_complete_object_is_left_alone() -> None:
    """No patch where there is nothing to fill in, or nothing that can be read."""
    full = complete(_job())

    assert "patch" not in _reviewer().mutate(_created(full)).wire()["response"]  # type: ignore[operator]
    assert () == _reviewer().mutate(_created(_job(tasks="none"))).patch


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", "not an AdmissionReview"),
        (b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}', "missing required field `request`"),
        (b'{"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview", "request": {"uid": "1"}}', "not adm"),
    ],
)
def test_what_is_no_review_is_refused(body: bytes, said: str) -> None:
    """One line says what is wrong with the request."""
    with pytest.raises(InputError, match=said):
        read_request(body)


def _patched(raw: Any, patch: list[dict[str, Any]]) -> Any:
    """A JSON patch of additions and replacements, applied step by step."""
    found = json.loads(json.dumps(raw))
    for change in patch:
        *way, last = change["path"].strip("/").split("/")
        place = found
        for step in way:
            place = place[int(step) if isinstance(place, list) else step]
        place[last] = change["value"]
    return found


def test_first_warnings_are_shown() -> None:
    """An API server takes only so many; what is beyond them is left out, and not the other way round."""
    answer = ReviewResponse(_created(QUEUE), warnings=tuple(f"w{i}" for i in range(10)))

    assert [f"w{i}" for i in range(8)] == answer.wire()["response"]["warnings"]  # type: ignore[index]


def test_review_that_is_nested_too_deeply_is_the_senders_fault() -> None:
    """A body that no decoder reads is refused in one line."""
    deep = b'{"a":' * 5_000 + b"1" + b"}" * 5_000
    with pytest.raises(InputError, match="not an AdmissionReview"):
        read_request(b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": ' + deep + b"}")
