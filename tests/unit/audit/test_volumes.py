"""Pods that were bound against the rules of their volumes."""

from __future__ import annotations

import pytest
from tests.support.volumes import claim, csi_node, node, objects, pod, volume, within

from tierwise.api.codec import Raw
from tierwise.audit import audit

ZONE = "topology.kubernetes.io/zone"


def _volume(name: str, of: str, affinity: Raw | None = None) -> Raw:
    return volume(name, of, affinity=affinity, csi={"driver": "csi.test", "volumeHandle": name})


@pytest.mark.parametrize(
    ("given", "rules"),
    [
        ((pod("p", "c", on="n0"),), ["without-volume"]),
        ((pod("p", "c", on="n0"), claim("c")), ["without-volume"]),
        ((pod("p", "c"), claim("c")), []),
        ((pod("p", "c", on="n0"), claim("c", "pv"), _volume("pv", "c")), []),
        ((pod("p", "c", on="n0"), claim("c", "pv"), _volume("pv", "c", within(ZONE, "z1"))), []),
        ((pod("p", "c", on="n0"), claim("c", "pv"), _volume("pv", "c", within(ZONE, "z2"))), ["volume-out-of-reach"]),
        (
            (
                pod("p", "c", on="n0"),
                pod("q", "c", on="n0"),
                claim("c", "pv", modes=("ReadWriteOncePod",)),
                _volume("pv", "c"),
            ),
            ["claim-shared"],
        ),
        (
            (
                *(pod(f"p{i}", f"c{i}", on="n0") for i in range(2)),
                *(claim(f"c{i}", f"v{i}") for i in range(2)),
                *(_volume(f"v{i}", f"c{i}") for i in range(2)),
                csi_node("n0", csi_test=1),
            ),
            ["too-many-volumes"],
        ),
        (
            (
                *(pod(f"p{i}", "c", on="n0") for i in range(2)),
                claim("c", "v"),
                _volume("v", "c"),
                csi_node("n0", csi_test=1),
            ),
            [],
        ),
    ],
)
def test_what_is_bound_against_a_rule_is_found(given: tuple[Raw, ...], rules: list[str]) -> None:
    """Each rule by its name; what keeps all of them is not mentioned."""
    assert rules == [finding.rule for finding in audit(objects(node("n0", "z1"), *given))]


def test_pods_of_other_schedulers_are_their_own_business() -> None:
    """But for what concerns everybody."""
    other = pod("p", "c", on="n0")
    other["spec"] = {**other["spec"], "schedulerName": "default-scheduler"}  # type: ignore[dict-item]

    assert [] == audit(objects(node("n0"), other))
