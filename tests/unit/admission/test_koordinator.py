"""What `validate` says of Koordinator's objects."""

from __future__ import annotations

from tests.support.koordinator import (
    annotated,
    cluster,
    gang,
    layers,
    objects_of,
    pod,
)

from tierwise.admission import ValidationResult, validate

FLAT = {"s0": {"b0": "n0 n1"}}


def _errors(verdict: ValidationResult) -> list[str]:
    return [f"{finding.path}: {finding.message}" for finding in verdict.errors]


def test_sound_objects_pass() -> None:
    """Nothing is said of a cluster and a gang as they should be."""
    verdict = validate(objects_of(cluster(FLAT), gang("g", 2, multiples={"BlockLayer": 2})))

    assert ([], ()) == (_errors(verdict), verdict.warnings)


def test_a_gang_that_cannot_be_is_refused() -> None:
    """Unknown strategies and policies, JSON that is none, and totals below the minimum are errors."""
    asks = '{"gatherStrategy": [{"layer": "x", "strategy": "May"}]}'
    noted = {
        "gang.scheduling.koordinator.sh/network-topology-spec": asks,
        "gang.scheduling.koordinator.sh/groups": '["worker"]',
        "gang.scheduling.koordinator.sh/match-policy": "sometimes",
        "gang.scheduling.koordinator.sh/total-number": "1",
    }
    errors = "\n".join(_errors(validate(objects_of(cluster(FLAT), gang("g", 2, annotations=noted)))))

    assert 'strategy "May" is not known' in errors
    assert '"worker" is not of the form namespace/name' in errors
    assert 'match-policy: match-policy "sometimes" is not known' in errors
    assert "the total 1 is less than the minimum 2" in errors


def test_what_can_never_be_placed_is_told_beforehand() -> None:
    """A size that is no multiple, and a layer that does not exist, are warnings."""
    verdict = validate(objects_of(cluster(FLAT), gang("g", 3, must="RowLayer", multiples={"BlockLayer": 2})))
    told = "\n".join(finding.message for finding in verdict.warnings)

    assert "minMember 3 is not a multiple of 2" in told
    assert 'layer "RowLayer" is not in the network topology' in told


def test_pods_and_topologies_are_looked_at() -> None:
    """A minimum that is no number is an error; an unreadable index, and a topology that does not count, are not."""
    other = {**layers("BlockLayer"), "metadata": {"name": "other"}}
    odd = annotated(pod("p"), name="g", min_available="two", network_topology_index="first")
    verdict = validate(objects_of([other, odd]))

    assert 'metadata.annotations.gang.scheduling.koordinator.sh/min-available: "two" is not a whole number' in _errors(
        verdict
    )
    assert 2 == len([w for w in verdict.warnings if "default" in w.message or "whole number" in w.message])
