"""The oracle of what Kubernetes refuses: a real API server is asked about the objects that unit tests draw."""

from __future__ import annotations

import copy

from tests.e2e.api import Api, ApiRefusal, Json
from tests.e2e.control_plane import ControlPlane
from tests.support.drawn_workloads import drawn

_PLURALS = {
    "Pod": "api/v1/namespaces/default/pods",
    "ReplicationController": "api/v1/namespaces/default/replicationcontrollers",
    "Job": "apis/batch/v1/namespaces/default/jobs",
    "CronJob": "apis/batch/v1/namespaces/default/cronjobs",
    **{
        kind: f"apis/apps/v1/namespaces/default/{kind.lower()}s"
        for kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")
    },
}


def test_a_real_server_takes_and_refuses_the_same(plane: ControlPlane) -> None:
    """Every object that unit tests call good is accepted, and every one that they call broken is refused."""
    api = Api(plane)
    asked = [{"name": name, "raw": raw, "good": good} for good in (True, False) for name, raw in drawn(good=good)]
    wrong: list[str] = []

    def ask(one: Json) -> None:
        name, raw, good = one["name"], one["raw"], one["good"]
        try:
            api.ask("POST", f"/{_PLURALS[raw['kind']]}?dryRun=All", copy.deepcopy(raw))
            refused = ""
        except ApiRefusal as refusal:
            refused = str(refusal)
        if bool(refused) == good:
            wrong.append(f"{name}: {refused or 'taken'}")

    api.each(asked, ask)

    assert len(asked) > 1000
    assert [] == sorted(wrong)
