"""The annotations and the status of elastic quotas."""

from __future__ import annotations

import json

from tests.support.koordinator import objects_of
from tests.support.quotas import GPU, nodes, quota, worker

from tierwise import controllers
from tierwise.api.codec import Raw
from tierwise.api.elastic_quota import ElasticQuota
from tierwise.controllers.stamp import since
from tierwise.sim.cluster.driver import reconcile
from tierwise.sim.cluster.store import EmbeddedCluster

PREFIX = "quota.scheduling.koordinator.sh/"


def written(*manifests: Raw, now: float = 0.0) -> EmbeddedCluster:
    """The cluster once the controllers have nothing more to do."""
    cluster = EmbeddedCluster(objects_of(list(manifests)))
    reconcile(cluster, now)
    return cluster


def figures(cluster: EmbeddedCluster, name: str) -> dict[str, int]:
    """What a quota's annotations say, in cards, and what its status says is used."""
    record = cluster.read().every(ElasticQuota)[f"default/{name}"]
    noted = {k.removeprefix(PREFIX): v for k, v in record.metadata.annotations.items() if k.startswith(PREFIX)}
    return {k: int(json.loads(v)[GPU]) for k, v in noted.items()} | {"used": int(record.status.used[GPU])}


TREE = [
    quota("p", most=16, least=8, is_parent=True),
    quota("a", most=16, least=4, parent="p"),
    quota("b", most=16, least=4, parent="p", lends=False),
]
PODS = [
    worker("runs", quota="a", gpu=4, on="n0", firm=True),
    worker("waits", quota="a", gpu=8),
    worker("kept", quota="a", gpu=2, firm=True),
]


def test_every_figure_of_a_quota() -> None:
    """Requests count pending pods, what is used does not; min stands for a quota that does not lend."""
    cluster = written(*nodes("n0 n1"), *TREE, *PODS)

    assert {
        "runtime": 12,
        "request": 14,
        "child-request": 14,
        "guaranteed": 4,
        "allocated": 4,
        "non-preemptible-request": 6,
        "non-preemptible-used": 4,
        "used": 4,
    } == figures(cluster, "a")
    assert {"request": 4, "child-request": 0, "runtime": 4} == {
        k: v for k, v in figures(cluster, "b").items() if k in ("request", "child-request", "runtime")
    }
    assert {"request": 18, "runtime": 16, "used": 4, "guaranteed": 8, "allocated": 8} == {
        k: v for k, v in figures(cluster, "p").items() if not k.startswith(("non", "child"))
    }


def test_texts_are_compact_and_list_what_max_lists() -> None:
    """Keys sorted, quantities as texts, resources that nobody has included."""
    raw = quota("a", most=16)
    raw["spec"]["max"]["cpu"] = "1500m"  # type: ignore[index]
    record = written(*nodes("n0"), raw).read().every(ElasticQuota)["default/a"]

    assert '{"cpu":"0","nvidia.com/gpu":"0"}' == record.metadata.annotations[f"{PREFIX}runtime"]


def test_its_own_result_leaves_nothing_to_do() -> None:
    """Level-triggered: a second look changes nothing."""
    assert [] == controllers.run(written(*nodes("n0"), *TREE, *PODS).read(), 0.0)


def test_the_time_since_a_quota_holds_too_much() -> None:
    """Written when it begins, kept while it lasts, taken back when it is over."""
    quotas = [quota("a", most=8, least=4), quota("b", most=8, least=4)]
    pods = [worker("w", quota="a", gpu=8, on="n0"), worker("v", quota="b", gpu=4)]
    cluster = written(*nodes("n0"), *quotas, *pods, now=60.0)

    assert "1970-01-01T00:01:00Z" == _since(cluster)
    later = EmbeddedCluster(cluster.read())  # one that does not know what was settled, and so looks again
    reconcile(later, 90.0)
    assert "1970-01-01T00:01:00Z" == _since(later)
    raws = [raw for key in cluster.read() if (raw := cluster.read().raw(key)) is not None and key.name != "v"]
    assert "" == _since(written(*raws, now=99.0))


def test_a_time_in_the_future_was_wrong() -> None:
    """Since when a quota owes is counted from now where it was noted by a clock that has been set back."""
    assert "1970-01-01T00:01:00Z" == since("1970-01-01T01:00:00Z", 60.0)
    assert "1970-01-01T00:00:30Z" == since("1970-01-01T00:00:30Z", 60.0)


def _since(cluster: EmbeddedCluster) -> str:
    return cluster.read().every(ElasticQuota)["default/a"].metadata.annotations["tierwise.io/quota-over-since"]
