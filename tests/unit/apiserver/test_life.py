"""A served cluster lives: scheduler, controllers and kubelets act on what clients write."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import pytest
from tests.support.commands import EXAMPLES
from tests.support.playground import START, Json, Playground, deployment, nodes

from tierwise.api.core import Pod
from tierwise.apiserver.objects import ObjectApi
from tierwise.apiserver.store import ServedCluster
from tierwise.config.profile import DEFAULT
from tierwise.manifests.files import read
from tierwise.port import Objects
from tierwise.sim.cluster.controller_manager import ControllerManager
from tierwise.sim.cluster.pod_behaviour import PodSpeed
from tierwise.sim.cluster.simulation import Simulation
from tierwise.sim.cluster.store import EmbeddedCluster

REVISION = "deployment.kubernetes.io/revision"
JSON = ObjectApi.JSON_PATCH
_IS_WEB = {"key": "app", "operator": "In", "values": ["web"]}


def _phases(ground: Playground) -> list[str]:
    return [pod["status"]["phase"] for pod in ground.list("v1/pods")]


def _images(ground: Playground) -> set[str]:
    return {pod["spec"]["containers"][0]["image"] for pod in ground.list("v1/pods")}


def _sets(ground: Playground) -> Sequence[Json]:
    return ground.list("apps/v1/replicasets")


def test_a_deployment_gets_its_pods_and_is_told_of_them() -> None:
    """Pods are made, placed and run, and the status counts them."""
    ground = Playground(nodes("n0"))
    ground.create("apps/v1/deployments", deployment(replicas=2))

    ground.live()
    status = ground.get("apps/v1/deployments", "web")["status"]

    assert ["Running", "Running"] == _phases(ground)
    assert {"n0"} == {pod["spec"]["nodeName"] for pod in ground.list("v1/pods")}
    assert (2, 2, 2) == (status["replicas"], status["readyReplicas"], status["updatedReplicas"])
    assert {"Available": "True", "Progressing": "True"} == {c["type"]: c["status"] for c in status["conditions"]}


def test_a_moment_ends_though_others_write_all_the_time() -> None:
    """Time goes on: each second has its share of the pods, and the cluster rests once nobody writes any more."""
    ground = Playground(nodes("n0", cpu="64"))
    ground.create("apps/v1/deployments", deployment("web-0", replicas=1))
    number = 0

    def busy() -> bool:
        """A client that writes once in every round; the moment is over after the third one."""
        nonlocal number
        number += 1
        ground.create("apps/v1/deployments", deployment(f"web-{number}", replicas=1))
        return number % 3 == 0

    rested = []
    for _ in range(4):
        ground.simulation.advance(ground.now, busy)
        rested.append(ground.simulation.rested)
        ground.now += 1
    seconds = {pod["metadata"]["creationTimestamp"] for pod in ground.list("v1/pods")}
    ground.live()

    assert [False] * 4 == rested
    assert 12 == number
    assert len(seconds) >= 4
    assert ground.simulation.rested
    assert ["Running"] * 13 == _phases(ground)


def test_a_deployment_is_scaled_both_ways() -> None:
    """Up to what fits and down again; what waits goes first."""
    ground = Playground(nodes("n0", cpu="2"))
    ground.create("apps/v1/deployments", deployment(replicas=1))
    ground.live()

    place = ground.place("apps/v1/deployments", "web")
    ground.api.rescale(place, lambda scale: scale | {"spec": {"replicas": 3}}, {})
    ground.live()
    full = sorted(_phases(ground))
    placed = {pod["metadata"]["uid"] for pod in ground.list("v1/pods") if "nodeName" in pod["spec"]}
    ground.api.rescale(place, lambda scale: scale | {"spec": {"replicas": 2}}, {})
    ground.live()

    assert ["Pending", "Running", "Running"] == full
    assert ["Running", "Running"] == _phases(ground)
    assert placed == {pod["metadata"]["uid"] for pod in ground.list("v1/pods")}
    assert {"replicas": 2} == ground.api.scale(place)["spec"]


def test_a_deployment_that_is_applied_again_adopts_what_was_left() -> None:
    """Deleted with --cascade=orphan and applied again, it has its set and its pods as before."""
    ground = Playground(nodes("n0"))
    ground.create("apps/v1/deployments", deployment(replicas=3))
    ground.live()
    before = {pod["metadata"]["uid"] for pod in ground.list("v1/pods")}
    ground.delete("apps/v1/deployments", "web", propagationPolicy="Orphan")
    ground.live()
    alone = [one["metadata"].get("ownerReferences") for one in _sets(ground)]
    ground.create("apps/v1/deployments", deployment(replicas=3))
    ground.live()

    assert [[]] == alone
    assert 3 == ground.get("apps/v1/deployments", "web")["status"]["readyReplicas"]
    assert before == {pod["metadata"]["uid"] for pod in ground.list("v1/pods")}


@pytest.mark.parametrize("selector", [{"matchLabels": {"app": "web"}}, {"matchExpressions": [_IS_WEB]}])
def test_a_set_adopts_pods_that_nobody_controls(selector: Json) -> None:
    """Those that its selector matches count; a pod of another name and one that has ended do not."""
    ground = Playground(nodes("n0"))
    spec = deployment()["spec"]["template"]["spec"]
    for name, app in (("mine", "web"), ("other", "db")):
        ground.create("v1/pods", {"metadata": {"name": name, "labels": {"app": app}}, "spec": spec})
    template = deployment()["spec"]["template"]
    body = {"replicas": 2, "selector": selector, "template": template}
    ground.create("apps/v1/replicasets", {"metadata": {"name": "web"}, "spec": body})
    ground.live()

    owners = {pod["metadata"]["name"]: pod["metadata"].get("ownerReferences") for pod in ground.list("v1/pods")}
    assert 3 == len(owners)
    assert "web" == owners["mine"][0]["name"]
    assert None is owners["other"]


def test_a_stateful_set_adopts_pods_of_its_own_names_only() -> None:
    """As its controller numbers them."""
    ground = Playground(nodes("n0"))
    spec = deployment()["spec"]["template"]["spec"]
    for name in ("web-0", "stray"):
        ground.create("v1/pods", {"metadata": {"name": name, "labels": {"app": "web"}}, "spec": spec})
    body = deployment(replicas=1)["spec"] | {"serviceName": "web"}
    ground.create("apps/v1/statefulsets", {"metadata": {"name": "web"}, "spec": body})
    ground.live()

    owned = {pod["metadata"]["name"]: bool(pod["metadata"].get("ownerReferences")) for pod in ground.list("v1/pods")}
    assert {"web-0": True, "stray": False} == owned


def test_a_pod_whose_label_is_taken_away_is_released_and_replaced() -> None:
    """It runs on for whoever looks at what is wrong with it."""
    ground = Playground(nodes("n0"))
    ground.create("apps/v1/deployments", deployment(replicas=2))
    ground.live()
    name = ground.names("v1/pods")[0]
    ground.patch("v1/pods", name, {"metadata": {"labels": {"app": "broken"}}})
    ground.live()

    owned = {pod["metadata"]["name"]: bool(pod["metadata"].get("ownerReferences")) for pod in ground.list("v1/pods")}
    assert not owned.pop(name)
    assert [True, True] == list(owned.values())


def test_pods_of_a_node_that_is_deleted_are_replaced() -> None:
    """After the while that Kubernetes takes."""
    ground = Playground(nodes("n0", "n1"))
    ground.create("apps/v1/deployments", deployment(replicas=2))
    ground.live()
    lost = ground.list("v1/pods")[0]["spec"]["nodeName"]
    ground.delete("v1/nodes", lost)
    ground.live(30)
    before = {pod["metadata"]["uid"] for pod in ground.list("v1/pods")}
    ground.live(60)

    assert 2 == len(before)
    assert ["Running", "Running"] == _phases(ground)
    assert lost not in {pod["spec"]["nodeName"] for pod in ground.list("v1/pods")}


def test_a_namespace_goes_whose_pods_are_on_a_deleted_node() -> None:
    """Nobody is left to say that they have stopped."""
    ground = Playground(nodes("n0"))
    ground.create("v1/namespaces", {"metadata": {"name": "team"}})
    ground.create("apps/v1/deployments", deployment() | {"metadata": {"name": "web", "namespace": "team"}})
    ground.live()
    ground.delete("v1/nodes", "n0")
    ground.delete("v1/namespaces", "team")
    ground.live(120)

    assert "team" not in ground.names("v1/namespaces")


def test_another_template_rolls_out() -> None:
    """The new set takes over, and the old one is empty in the end."""
    ground = Playground(nodes("n0"))
    ground.create("apps/v1/deployments", deployment(replicas=2, image="one"))
    ground.live()

    ground.patch("apps/v1/deployments", "web", {"spec": deployment(replicas=2, image="two")["spec"]})
    ground.live(10)

    sizes = {one["metadata"]["annotations"][REVISION]: one["spec"]["replicas"] for one in _sets(ground)}
    assert {"two"} == _images(ground)
    assert 2 == len(ground.list("v1/pods"))
    assert {"1": 0, "2": 2} == sizes


def test_a_rollout_is_undone_with_the_set_that_was_there_before() -> None:
    """Nulls and empty maps, which clients add, do not make it another one; it becomes the newest."""
    ground = Playground(nodes("n0"))
    before = deployment(replicas=2, image="one")
    ground.create("apps/v1/deployments", before)
    ground.live()
    ground.patch("apps/v1/deployments", "web", {"spec": deployment(replicas=2, image="two")["spec"]})
    ground.live(10)

    template = before["spec"]["template"]
    template["spec"] |= {"securityContext": {}, "affinity": None}
    ground.patch("apps/v1/deployments", "web", [{"op": "replace", "path": "/spec/template", "value": template}], JSON)
    ground.live(10)

    assert {"one"} == _images(ground)
    assert ["2", "3"] == sorted(one["metadata"]["annotations"][REVISION] for one in _sets(ground))
    assert "3" == ground.get("apps/v1/deployments", "web")["metadata"]["annotations"][REVISION]


def test_sets_beyond_the_history_of_a_deployment_go() -> None:
    """The oldest first."""
    ground = Playground(nodes("n0"))
    raw = deployment(replicas=1, image="0")
    raw["spec"]["revisionHistoryLimit"] = 1
    ground.create("apps/v1/deployments", raw)
    for image in ("1", "2", "3"):
        ground.live(5)
        ground.patch("apps/v1/deployments", "web", {"spec": {"template": deployment(image=image)["spec"]["template"]}})
    ground.live(8)

    assert ["3", "4"] == sorted(one["metadata"]["annotations"][REVISION] for one in _sets(ground))


def test_what_nothing_acts_on_is_kept_with_a_word() -> None:
    """And a service gets an address, at which nobody answers."""
    ground = Playground()
    ingress = {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "i"}, "spec": {}}
    spec = {"type": "NodePort", "ports": [{"port": 80}]}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": spec}

    told = ground.answer("networking.k8s.io/v1/ingresses", ingress).warnings
    made = ground.create("v1/services", service)["spec"]

    assert ["ingresses are kept, and nothing acts on them here"] == list(told)
    assert made["clusterIP"].startswith("10.96.")
    assert 30_000 <= made["ports"][0]["nodePort"] < 32_768


@pytest.mark.parametrize(
    ("timing", "marks", "seconds"),
    [
        (PodSpeed(), {"tierwise.io/run-for": "60s"}, 63),
        (PodSpeed(speed=20.0), {"tierwise.io/run-for": "60s"}, 6),
        (PodSpeed(run=60), {}, 63),
        (PodSpeed(speed=20.0, run=60), {}, 6),
    ],
)
def test_a_job_ends_after_its_time_at_the_speed_of_the_cluster(timing: PodSpeed, marks: Json, seconds: int) -> None:
    """A minute takes a minute, or three seconds at twenty times the speed; then the Job is complete."""
    ground = Playground(nodes("n0"), timing=timing)
    template = {
        "metadata": {"annotations": marks},
        "spec": {"containers": [{"name": "main", "image": "i"}], "restartPolicy": "Never"},
    }
    job: Json = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": template}}
    ground.create("batch/v1/jobs", job)

    ground.live(2)
    early = ground.get("batch/v1/jobs", "j")["status"]
    ground.live(seconds - 2)
    status = ground.get("batch/v1/jobs", "j")["status"]

    assert (1, 0) == (early["active"], early["succeeded"])
    assert (0, 1, "Complete") == (status["active"], status["succeeded"], status["conditions"][0]["type"])


def test_pods_that_are_meant_to_run_on_do_so() -> None:
    """Whatever the time of those that are meant to end."""
    ground = Playground(nodes("n0"), timing=PodSpeed(run=1))
    ground.create("apps/v1/deployments", deployment(replicas=1))

    ground.live(5)

    assert ["Running"] == _phases(ground)


def test_a_gang_is_placed_whole_and_says_so_in_events() -> None:
    """A Volcano job through admission, controllers and scheduler, and events that `describe` finds by uid."""
    ground = Playground(nodes("n0", "n1"))
    container = {"name": "main", "resources": {"requests": {"cpu": "2"}}}
    task = {"name": "worker", "replicas": 4, "template": {"spec": {"containers": [container]}}}
    job = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {"minAvailable": 4, "tasks": [task]},
    }
    ground.create("batch.volcano.sh/v1alpha1/jobs", job)

    ground.live(4)
    group = ground.list("scheduling.volcano.sh/v1beta1/podgroups")[0]
    uid = group["metadata"]["uid"]
    events = ground.list("v1/events", fieldSelector=f"involvedObject.uid={uid}")

    assert ["Running"] * 4 == _phases(ground)
    assert "Running" == group["status"]["phase"]
    assert "Scheduled" in {event["reason"] for event in events}


def test_a_cordoned_node_takes_no_more_and_a_drained_one_moves_its_pods() -> None:
    """As `kubectl drain` does it: cordon, then evict."""
    ground = Playground(nodes("n0", "n1"))
    ground.create("apps/v1/deployments", deployment(replicas=2))
    ground.live()
    used = ground.list("v1/pods")[0]["spec"]["nodeName"]

    ground.patch("v1/nodes", used, {"spec": {"unschedulable": True}})
    for name in ground.names("v1/pods", fieldSelector=f"spec.nodeName={used}"):
        ground.api.evict(ground.place("v1/pods", name), {}, {})
    ground.live(5)

    assert [] == ground.names("v1/pods", fieldSelector=f"spec.nodeName={used}")
    assert ["Running", "Running"] == _phases(ground)


def test_a_namespace_takes_everything_in_it_along() -> None:
    """It goes last, and nothing new comes meanwhile."""
    ground = Playground(nodes("n0"))
    ground.create("v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
    raw = deployment()
    ground.create("apps/v1/deployments", raw | {"metadata": {"name": "web", "namespace": "team"}})
    ground.live()
    running = len(ground.list("v1/pods", "team"))

    ground.delete("v1/namespaces", "team")
    ground.live(5)

    assert 2 == running
    assert "team" not in ground.names("v1/namespaces")
    assert [] == ground.list("v1/pods", "team")


def test_objects_of_the_manifests_have_what_clients_rely_on() -> None:
    """Uids, versions, times and namespaces, also those that the files leave out."""
    ground = Playground([*nodes("n0"), deployment() | {"metadata": {"name": "web", "namespace": "team"}}])

    found = ground.get("apps/v1/deployments", "web", "team")["metadata"]

    assert {"uid", "resourceVersion", "creationTimestamp", "generation"} <= set(found)
    assert {"default", "kube-system", "team"} <= set(ground.names("v1/namespaces"))


def test_what_two_writers_change_is_never_lost() -> None:
    """A controller that decided on an old version writes nothing, and does so again on the new one."""
    from tierwise.port import Key, Update

    ground = Playground([deployment()])
    key = Key("apps", "Deployment", "default", "web")
    seen = ground.cluster.read().raw(key)
    assert seen is not None
    ground.patch("apps/v1/deployments", "web", {"metadata": {"labels": {"mine": "yes"}}})

    outcome = ground.cluster.apply([Update(key, {**seen, "spec": {}})])[0]

    assert not outcome.ok
    assert "yes" == ground.get("apps/v1/deployments", "web")["metadata"]["labels"]["mine"]


@pytest.mark.parametrize("example", ["01-llm-training", "05-a-jobs-life", "12-nvlink-domains", "13-volumes"])
def test_a_served_cluster_decides_as_the_embedded_one_does(example: str) -> None:
    """Versions, uids and controllers of workloads around it change no placement."""
    objects = Objects.of((entry.record, entry.raw) for entry in read([str(EXAMPLES / example)], sys.stdin))
    plain = Simulation(objects, DEFAULT, start=START)
    for _ in plain.run(120):
        pass
    served = ServedCluster(objects, lambda: START)
    life = Simulation(served.read(), DEFAULT, start=START, user=ControllerManager(), cluster=served)
    for _ in life.run(120):
        pass

    def places(cluster: EmbeddedCluster) -> dict[str, tuple[str, bool]]:
        pods = cluster.read().every(Pod).items()
        return {path: (pod.spec.node_name, pod.status.phase == "Running") for path, pod in pods}

    assert places(plain.cluster) == places(served)
