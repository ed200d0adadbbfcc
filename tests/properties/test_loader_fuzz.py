"""Nothing but InputError comes out of the loader, whatever goes in."""

import io
import json

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tierwise.api.codec import Raw
from tierwise.api.errors import InputError
from tierwise.manifests.files import read

MORE = settings(max_examples=5 * settings().max_examples)
JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["1", "-1", "x", "1e99"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
RESOURCES: Raw = {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}}
POD_SPEC: Raw = {
    "schedulerName": "volcano",
    "nodeSelector": {"a": "b"},
    "tolerations": [{"key": "k", "operator": "Exists", "tolerationSeconds": 3}],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]}]
            }
        },
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "t", "namespaces": ["n"]}
            ]
        },
    },
    "containers": [{"name": "c", "resources": RESOURCES, "ports": [{"hostPort": 1}]}],
    "initContainers": [{"name": "i", "resources": RESOURCES}],
    "overhead": {"cpu": "1m"},
    "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "t", "minDomains": 2}],
}
METADATA: Raw = {
    "name": "x",
    "namespace": "n",
    "labels": {"a": "b"},
    "annotations": {"a": "b"},
    "creationTimestamp": "2024-01-01T00:00:00Z",
    "ownerReferences": [{"kind": "Job", "name": "j", "uid": "u", "controller": True}],
}
TOPOLOGY: Raw = {"mode": "hard", "highestTierAllowed": 1}
SPECS: list[Raw] = [
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "spec": POD_SPEC,
        "status": {"phase": "Running", "conditions": [{"status": "True"}]},
    },
    {
        "apiVersion": "v1",
        "kind": "Node",
        "spec": {"unschedulable": True, "taints": [{"key": "k", "effect": "NoSchedule"}]},
        "status": {"allocatable": {"cpu": "1"}, "capacity": {"cpu": 2}, "conditions": [{"status": True}]},
    },
    {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "spec": {
            "minMember": 1,
            "minTaskMember": {"w": 1},
            "minResources": {"cpu": "1"},
            "networkTopology": TOPOLOGY,
            "subGroupPolicy": [{"name": "s", "subGroupSize": 1, "matchLabelKeys": ["k"], "networkTopology": TOPOLOGY}],
        },
    },
    {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "spec": {"weight": 1, "capability": {"cpu": "1"}, "guarantee": {"resource": {"cpu": "1"}}, "reclaimable": True},
    },
    {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "spec": {"tier": 1, "members": [{"type": "Node", "selector": {"exactMatch": {"name": "n0"}}}]},
    },
    {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "spec": {
            "minAvailable": 1,
            "plugins": {"svc": []},
            "policies": [{"action": "RestartJob", "event": "PodFailed", "exitCode": 3}],
            "tasks": [{"replicas": 1, "template": {"spec": POD_SPEC}, "partitionPolicy": {"totalPartitions": 1}}],
        },
    },
    {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "spec": {"minAvailable": "50%"}},
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 3},
    {
        "apiVersion": "v1",
        "kind": "List",
        "items": [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "y"}}],
    },
]
MANIFESTS: list[Raw] = [{"metadata": METADATA, **spec} for spec in SPECS]


def load(data: bytes) -> None:
    """Read a text; only InputError may come out, in one line."""
    message = ""
    try:
        read(["-"], io.BytesIO(data))
    except InputError as error:
        message = str(error)
    assert "\n" not in message


@st.composite
def spoiled(draw: st.DrawFn) -> Raw:
    """A valid manifest in which something, somewhere, is replaced by junk."""
    manifest: Raw = json.loads(json.dumps(draw(st.sampled_from(MANIFESTS))))
    holder: dict[str, object] | list[object] = manifest
    while True:
        places: list[str] | list[int] = sorted(holder) if isinstance(holder, dict) else list(range(len(holder)))
        place = draw(st.sampled_from(places))
        inner = holder[place]  # type: ignore[call-overload, index]
        if isinstance(inner, dict | list) and inner and draw(st.integers(0, 4)):
            holder = inner
            continue
        holder[place] = draw(JUNK)  # type: ignore[call-overload, index]
        return manifest


@MORE
@given(st.binary(max_size=200))
def test_arbitrary_bytes(data: bytes) -> None:
    """Bytes without any sense."""
    load(data)


@MORE
@given(st.text("ab:-?[]{},#&*!|>'\"%@`\n \t\\<~019.", max_size=60))
def test_arbitrary_punctuation(text: str) -> None:
    """Texts made of what YAML gives a meaning."""
    load(text.encode())


@MORE
@given(spoiled())
def test_wrong_types_anywhere(manifest: Raw) -> None:
    """Valid manifests with junk in one place, as JSON and as YAML."""
    load(json.dumps(manifest).encode("utf-8", "surrogatepass"))
    load(yaml.safe_dump(manifest, allow_unicode=False).encode())


@MORE
@given(st.sampled_from(MANIFESTS), st.integers(0, 2000), st.integers(0, 3), st.binary(max_size=4))
def test_damaged_texts(manifest: Raw, at: int, gone: int, added: bytes) -> None:
    """Valid YAML with some bytes taken out and others put in."""
    text = yaml.safe_dump(manifest).encode()
    at %= len(text)
    load(text[:at] + added + text[at + gone :])


def test_the_manifests_are_valid_before_they_are_spoiled() -> None:
    """Otherwise the fuzzing would fuzz nothing."""
    for manifest in MANIFESTS:
        assert read(["-"], io.BytesIO(json.dumps(manifest).encode()))
