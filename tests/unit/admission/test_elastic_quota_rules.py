"""Admission of elastic quotas and of the pods in them."""

from __future__ import annotations

import pytest
from tests.support.koordinator import objects_of
from tests.support.quotas import quota, worker

from tierwise.admission import complete, validate
from tierwise.api.codec import Raw

PREFIX = "quota.scheduling.koordinator.sh/"


def errors(*manifests: Raw) -> list[str]:
    """Object, path and message of every error."""
    return [f"{e.object} {e.path}: {e.message}" for e in validate(objects_of(list(manifests))).errors]


def warnings(*manifests: Raw) -> list[str]:
    """Messages of the warnings that speak of quotas."""
    return [w.message for w in validate(objects_of(list(manifests))).warnings if "quota" in w.path]


def test_a_sound_tree_is_accepted() -> None:
    """A child's max may exceed its parent's."""
    tree = [quota("p", most=10, least=5, is_parent=True), quota("a", most=40, least=3, parent="p")]

    assert [] == errors(*tree, worker("w", quota="a"))


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (quota("q", most=-1, least=None), "max -1 is negative"),
        (quota("q", most=1, least=-1), "min -1 is negative"),
        (quota("q", most=1, least=2), "min 2 is more than the max of 1"),
        (quota("q", most=1, weight=-1), "the shared weight of nvidia.com/gpu is negative"),
        (quota("q", most=1, annotations={f"{PREFIX}shared-weight": "much"}), "shared weight is not a JSON object"),
        (quota("q", most=1, annotations={f"{PREFIX}namespaces": "blue"}), "not a JSON list of namespaces"),
        (quota("q", most=1, parent="p"), 'parent quota "p" does not exist'),
        (quota("q", most=1, parent="q", is_parent=True), "cyclic dependency: q -> q"),
    ],
)
def test_what_a_quota_says_of_itself(raw: Raw, said: str) -> None:
    """One clear error each."""
    found = errors(raw)

    assert any(said in message for message in found), found


def test_children_ask_for_no_more_than_their_parent_has() -> None:
    """Unless somebody allows it, or the parent is the root of its tree."""
    children = [quota(name, most=9, least=3, parent="p") for name in "ab"]
    said = "the children's min come to 6 in all, more than the 5 of this parent"

    assert [f"ElasticQuota default/p spec.min.nvidia.com/gpu: {said}"] == errors(
        quota("p", most=9, least=5, is_parent=True), *children
    )
    for label in ("allow-force-update", "is-root"):
        parent = quota("p", most=9, least=5, is_parent=True, labels={f"{PREFIX}{label}": "true"})
        assert [] == errors(parent, *children)


def test_resources_of_parent_and_child_agree() -> None:
    """The same in max, and no further ones in min."""
    parent = quota("p", most=9, least=None, is_parent=True)
    child = quota("c", most=9, least=1, parent="p")
    child["spec"]["max"]["cpu"] = "1"  # type: ignore[index]
    found = errors(parent, child)

    assert 2 == len(found)
    assert "does not list cpu" in found[0]
    assert 'min of its parent quota "p" does not list nvidia.com/gpu' in found[1]


def test_trees_do_not_mix() -> None:
    """A child names the tree of its parent, or none."""
    parent = quota("p", most=9, is_parent=True, labels={f"{PREFIX}tree-id": "t"})

    assert [] == errors(parent, quota("c", most=9, parent="p"))
    assert ["tree-id"] == [
        e.split(":")[0].rpartition("/")[2]
        for e in errors(parent, quota("c", most=9, parent="p", labels={f"{PREFIX}tree-id": "u"}))
    ]


def test_names_and_namespaces_are_claimed_once() -> None:
    """Quotas of one name in two namespaces, and a namespace on two lists."""
    twin = quota("a", most=1)
    twin["metadata"]["namespace"] = "other"  # type: ignore[index]
    listed = {f"{PREFIX}namespaces": '["blue"]'}

    assert [] == errors(quota("a", most=1), twin)
    older = quota("a", most=1, namespace="koordinator-system")
    older["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"  # type: ignore[index]
    twin["metadata"]["creationTimestamp"] = "2026-01-02T00:00:00Z"  # type: ignore[index]
    assert "older quota of this name in namespace koordinator-system" in errors(older, twin)[0]
    assert (
        'listed by quota "a" already'
        in errors(
            quota("a", most=1, annotations=listed, namespace="koordinator-system"),
            quota("b", most=1, annotations=listed, namespace="koordinator-system"),
        )[0]
    )


def test_pods_belong_into_leaves() -> None:
    """By label and by namespace alike."""
    assert 1 == len(errors(quota("p", most=1, is_parent=True), worker("w", quota="p")))
    own = quota("blue", most=1, is_parent=True, namespace="blue")
    assert 1 == len(errors(own, worker("w", namespace="blue")))
    assert [] == errors(quota("blue", most=1, is_parent=True), worker("w", namespace="blue"))  # not that namespace's


def test_a_child_may_be_forced_beyond_the_min_of_its_parent() -> None:
    """The label counts on the parent and on any child."""
    forced = {f"{PREFIX}allow-force-update": "true"}
    parent = quota("p", most=10, least=1, is_parent=True)

    assert 1 == len(errors(parent, quota("a", most=10, least=3, parent="p")))
    assert [] == errors(parent, quota("a", most=10, least=3, parent="p", labels=forced))
    assert [] == errors(
        quota("p", most=10, least=1, is_parent=True, labels=forced), quota("a", most=10, least=3, parent="p")
    )


def test_what_has_no_effect_is_told() -> None:
    """A quota that does not exist, and a flag that is neither true nor false."""
    assert ['quota "b" does not exist for namespace default: the default quota counts'] == warnings(
        quota("a", most=1), worker("w", quota="b")
    )
    odd = worker("w", quota="a")
    odd["metadata"]["labels"][f"{PREFIX}preemptible"] = "False"  # type: ignore[index]
    assert 1 == len(warnings(quota("a", most=1), odd))


def test_defaults_are_written_out() -> None:
    """The parent, and max as the weight; what was given stays."""
    bare: Raw = {**quota("a", most=4), "metadata": {"name": "a"}}
    filled = complete(bare)["metadata"]

    assert isinstance(filled, dict)
    assert {f"{PREFIX}parent": "koordinator-root-quota"} == filled["labels"]
    assert {f"{PREFIX}shared-weight": '{"nvidia.com/gpu":"4"}'} == filled["annotations"]
    assert complete(quota("a", most=4, parent="p", weight=1)) == quota("a", most=4, parent="p", weight=1)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("8", "the total is not a JSON object of resources and quantities"),
        ('{"cpu": "-1"}', "the total of cpu is negative"),
        ('{"cpu": "8"}', ""),
    ],
)
def test_a_total_is_stated_in_amounts(text: str, problem: str) -> None:
    """By the root of a tree."""
    marks = {f"{PREFIX}tree-id": "t", f"{PREFIX}is-root": "true"}
    path = f"metadata.annotations.{PREFIX}total-resource"
    root = quota("p", most=9, labels=marks, annotations={f"{PREFIX}total-resource": text})

    assert ([f"ElasticQuota default/p {path}: {problem}"] if problem else []) == errors(root)
    assert [] == warnings(root)


def test_only_a_root_states_a_total() -> None:
    """On any other quota it counts for nothing, and its author is told."""
    (told,) = warnings(quota("p", most=9, annotations={f"{PREFIX}total-resource": '{"cpu": "8"}'}))

    assert "root of a tree" in told


def test_amounts_may_be_equal() -> None:
    """A quota may guarantee all that it may use, and a parent's min may be shared out to the last."""
    tree = [quota("p", most=6, least=6, is_parent=True), *(quota(n, most=6, least=3, parent="p") for n in "ab")]

    assert [] == errors(*tree)


def test_tenant_claims_nothing_of_others() -> None:
    """A quota that lists a namespace which is not its own is told so; the owner of the namespace hears nothing."""
    listed = {f"{PREFIX}namespaces": '["blue"]'}
    evil = quota("a", most=1, namespace="evil", annotations=listed)
    evil["metadata"]["creationTimestamp"] = "2020-01-01T00:00:00Z"  # type: ignore[index]
    own = quota("b", most=1, namespace="blue", annotations=listed)
    own["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"  # type: ignore[index]

    assert [] == errors(evil, own)
    assert 1 == len(validate(objects_of([evil, own])).warnings)


def test_older_of_two_quotas_is_not_refused() -> None:
    """Only the younger one of a name hears that another counts; the older one is warned."""
    older, younger = quota("a", most=1, namespace="koordinator-system"), quota("a", most=1, namespace="blue")
    older["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"  # type: ignore[index]
    younger["metadata"]["creationTimestamp"] = "2026-01-02T00:00:00Z"  # type: ignore[index]
    found = errors(younger, older)

    assert ["ElasticQuota blue/a"] == [message.partition(" metadata")[0] for message in found]
    older["metadata"]["creationTimestamp"] = "2026-01-03T00:00:00Z"  # type: ignore[index]
    assert [] == errors(younger, older)


@pytest.mark.parametrize(("above", "told"), [(32, []), (33, ["more than 32 quotas are above it"])])
def test_chains_end_where_the_scheduler_cuts_them(above: int, told: list[str]) -> None:
    """Thirty-two quotas may stand above each other."""
    chain = [quota(f"q{i}", most=1, parent=f"q{i + 1}" if i < above else "", is_parent=i > 0) for i in range(above + 1)]

    assert told == [message.rpartition(": ")[2] for message in errors(*chain)]
