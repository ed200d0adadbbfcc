"""Custom resource definitions: complete, sound, and with the limits that admission knows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from tests.support.commands import run
from tests.support.structural import complaints

from tierwise.api.codec import KINDS
from tierwise.api.definitions import DEFINITIONS, FAMILIES, Definition
from tierwise.api.limits import MEMBERS, PODS, POLICIES, SUB_GROUPS, TASKS, TIER

ROOT = Path(__file__).parents[3]
SCHEMAS: dict[tuple[str, str], dict[str, Any]] = {(d.group, d.kind): d.schema for d in DEFINITIONS}
NAMES = [d.name for d in DEFINITIONS]


@pytest.mark.parametrize("definition", DEFINITIONS, ids=NAMES)
def test_a_file_is_what_its_name_says(definition: Definition) -> None:
    """Family, group and plural are in the path; labels and further names follow from them and from the kind."""
    spec: Any = definition.manifest["spec"]
    metadata: Any = definition.manifest["metadata"]
    (version,) = spec["versions"]

    assert f"{definition.family}/{definition.group}_{definition.plural}.yaml" == definition.file
    assert definition.name == metadata["name"]
    assert definition.family == metadata["labels"]["tierwise.io/family"]
    assert definition.group.endswith(".k8s.io") == ("api-approved.kubernetes.io" in metadata.get("annotations", {}))
    assert (f"{definition.kind}List", definition.kind.lower()) == (spec["names"]["listKind"], spec["names"]["singular"])
    assert ["tierwise"] == spec["names"]["categories"]
    assert (True, True) == (version["served"], version["storage"])
    assert ("status" in version["schema"]["openAPIV3Schema"]["properties"]) == definition.status


def test_the_command_writes_the_files_of_deploy(tmp_path: Path) -> None:
    """`tierwise crds --to FOLDER` gives what deploy/crds has, and no file of that is left over."""
    assert 0 == run("crds", "--to", str(tmp_path)).exit_code

    assert _files(ROOT / "deploy/crds") == _files(tmp_path)


def _files(folder: Path) -> dict[str, str]:
    return {str(file.relative_to(folder)): file.read_text() for file in folder.glob("*/*_*.yaml")}


@pytest.mark.parametrize(
    ("kind", "path", "bound", "limit"),
    [
        ("PodGroup", "spec.minMember", "maximum", PODS),
        ("PodGroup", "spec.subGroupPolicy", "maxItems", POLICIES),
        ("HyperNode", "spec.tier", "maximum", TIER),
        ("HyperNode", "spec.members", "maxItems", MEMBERS),
        ("Job", "spec.tasks", "maxItems", TASKS),
        ("Job", "spec.tasks.replicas", "maximum", PODS),
        ("Job", "spec.maxRetry", "minimum", 0),
        ("Job", "spec.tasks.maxRetry", "minimum", -1),
        ("Job", "spec.tasks.partitionPolicy.totalPartitions", "maximum", SUB_GROUPS),
    ],
)
def test_definitions_state_the_limits_of_admission(kind: str, path: str, bound: str, limit: int) -> None:
    """The API server refuses from the same number on."""
    holder, _, field = path.rpartition(".")
    schema = _fields(_schema(kind, "volcano.sh")["schema"]["openAPIV3Schema"], *holder.split("."))

    assert limit == schema["properties"][field][bound]


def test_every_kind_of_ours_is_defined() -> None:
    """Whatever the codec reads and Kubernetes lacks has a definition, but for projects that must run to be read."""
    theirs = {"scheduling.run.ai", "kai.scheduler", "kueue.x-k8s.io", "scheduler.grove.io"}
    built_in = theirs | {
        "",
        "apps",
        "batch",
        "networking.k8s.io",
        "policy",
        "scheduling.k8s.io",
        "resource.k8s.io",
        "resource.nvidia.com",
        "storage.k8s.io",
    }

    ours = {(group, kind) for group, kind in KINDS if group not in built_in and not group.endswith(".test")}
    assert ours <= set(SCHEMAS)


@pytest.mark.parametrize(("group", "kind"), [k for k in SCHEMAS if k in KINDS], ids=str)
def test_the_api_server_keeps_every_field_that_is_read(group: str, kind: str) -> None:
    """A field of a record that the schema lacks would be dropped before tierwise sees it."""
    assert [] == list(_lost(msgspec.inspect.type_info(KINDS[group, kind]), SCHEMAS[group, kind], kind))


@pytest.mark.parametrize("definition", DEFINITIONS, ids=NAMES)
def test_a_schema_is_structural(definition: Definition) -> None:
    """Every part has one type and a description, and what is asked for is there."""
    assert [] == list(_faults(definition.schema, definition.kind))


def test_the_examples_fit_the_schemas() -> None:
    """Nothing in the examples would be refused or dropped."""
    seen, wrong = 0, []
    for file in sorted((ROOT / "examples").rglob("*.yaml")):
        for raw in yaml.load_all(file.read_text(), Loader=yaml.CSafeLoader):
            schema = SCHEMAS.get((raw["apiVersion"].rpartition("/")[0], raw["kind"])) if raw and "kind" in raw else None
            if schema is not None:
                seen += 1
                wrong += [f"{file.name}: {fault}" for fault in complaints(schema, raw)]

    assert [] == wrong
    assert seen > 10


def test_the_command_prints_one_family_without_what_is_there(tmp_path: Path) -> None:
    """Definitions that a cluster has are left to their owners."""
    present = tmp_path / "present"
    present.write_text("customresourcedefinition.apiextensions.k8s.io/jobs.batch.volcano.sh\n")

    result = run("crds", "--family", "volcano", "--missing-from", str(present))

    printed = [raw["metadata"]["name"] for raw in yaml.safe_load_all(result.stdout)]
    expected = [d.name for d in DEFINITIONS if d.family == "volcano" and d.plural != "jobs"]
    assert expected == printed


def test_every_family_has_a_kustomization_that_lists_its_files() -> None:
    """`kubectl apply --server-side -k deploy/crds/FAMILY` installs all of it."""
    for family in FAMILIES:
        listed = yaml.safe_load((ROOT / f"deploy/crds/{family}/kustomization.yaml").read_text())["resources"]
        assert sorted(Path(d.file).name for d in DEFINITIONS if d.family == family) == sorted(listed)


def test_the_chart_brings_the_same_definitions() -> None:
    """Helm installs what is in `crds` where it is missing, and never touches what is there."""
    for family in FAMILIES:
        expected = run("crds", "--family", family).stdout
        assert expected == (ROOT / f"deploy/helm/tierwise/crds/{family}.yaml").read_text()


def _lost(type_: msgspec.inspect.Type, schema: dict[str, Any], path: str) -> Iterator[str]:
    """Fields of a record for which a schema has no place, or one of another type."""
    match type_:
        case msgspec.inspect.StructType(fields=fields):
            if schema.get("x-kubernetes-preserve-unknown-fields"):
                return
            known = schema.get("properties", {})
            for field in fields:
                if field.encode_name not in known:
                    if path.count(".") or field.encode_name != "metadata":
                        yield f"{path}.{field.encode_name}"
                elif field.encode_name != "metadata":
                    yield from _lost(field.type, known[field.encode_name], f"{path}.{field.encode_name}")
        case msgspec.inspect.UnionType(types=types):
            if {type(t).__name__ for t in types} >= {"StrType", "IntType", "FloatType"}:
                yield from () if schema.get("x-kubernetes-int-or-string") else [f"{path} is no quantity"]
                return
            for inner in types:
                if not isinstance(inner, msgspec.inspect.NoneType):
                    yield from _lost(inner, schema, path)
        case msgspec.inspect.VarTupleType(item_type=item):
            if "items" in schema:
                yield from _lost(item, schema["items"], f"{path}[]")
            elif schema.get("type"):
                yield f"{path} is no list"
        case msgspec.inspect.DictType(value_type=value):
            if "additionalProperties" in schema:
                yield from _lost(value, schema["additionalProperties"], f"{path}.*")
            elif not schema.get("x-kubernetes-preserve-unknown-fields") and "properties" not in schema:
                yield f"{path} is no map"
        case msgspec.inspect.StrType():
            yield from [] if schema.get("type", "string") == "string" else [f"{path} is no text"]
        case msgspec.inspect.IntType():
            yield from [] if schema.get("type", "integer") == "integer" else [f"{path} is no number"]
        case msgspec.inspect.BoolType():
            yield from [] if schema.get("type", "boolean") == "boolean" else [f"{path} is no flag"]
        case _:
            yield f"{path}: {type(type_).__name__} is not known to this test"


def _faults(schema: dict[str, Any], path: str) -> Iterator[str]:
    loose = schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
    if "type" not in schema and not loose:
        yield f"{path} has no type"
    inner = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in inner:
            yield f"{path}.{name} is asked for and not there"
    for name, value in inner.items():
        if "description" not in value and name != "metadata":
            yield f"{path}.{name} has no description"
        yield from _faults(value, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if key in schema:
            yield from _faults(schema[key], f"{path}[{key}]")


def _schema(kind: str, group: str) -> Any:
    (found,) = [d for d in DEFINITIONS if d.kind == kind and group in d.group]
    return found.manifest["spec"]["versions"][0]  # type: ignore[index]


def _fields(schema: Any, *path: str) -> Any:
    for name in path:
        schema = schema["properties"][name]
        schema = schema.get("items", schema)
    return schema


def test_defaults_are_those_of_the_design() -> None:
    """A topology without a mode is hard, and a partition policy needs no partitions together."""
    job = _schema("Job", "batch.volcano.sh")["schema"]["openAPIV3Schema"]
    group = _schema("PodGroup", "scheduling.volcano.sh")["schema"]["openAPIV3Schema"]

    modes = [
        _fields(job, "spec", "networkTopology", "mode"),
        _fields(job, "spec", "tasks", "partitionPolicy", "networkTopology", "mode"),
        _fields(group, "spec", "networkTopology", "mode"),
        _fields(group, "spec", "subGroupPolicy", "networkTopology", "mode"),
    ]
    assert ["hard"] * 4 == [mode["default"] for mode in modes]
    assert 0 == _fields(job, "spec", "tasks", "partitionPolicy", "minPartitions")["default"]


def test_hypernodes_show_their_node_count() -> None:
    """The columns are called as in Volcano's own definition."""
    columns = [column["name"] for column in _schema("HyperNode", "volcano")["additionalPrinterColumns"]]

    assert ["Tier", "TierName", "NodeCount", "Age"] == columns


@pytest.mark.parametrize(
    ("group", "lists", "without", "valid"),
    [
        ("scheduling.sigs.x-k8s.io", ("costList", "originCosts", "costs"), "bandwidthCapacity", False),
        ("scheduling.sigs.x-k8s.io", ("costList", "originCosts", "costs"), "networkCost", True),
        ("scheduling.sigs.x-k8s.io", ("costList", "originCosts", "costs"), "destination", False),
        ("networktopology.diktyo.x-k8s.io", ("topologyList", "originList", "costList"), "bandwidthCapacity", True),
        ("networktopology.diktyo.x-k8s.io", ("topologyList", "originList", "costList"), "networkCost", False),
    ],
)
def test_admission_and_definition_ask_for_the_same_of_a_link(
    tmp_path: Path, group: str, lists: tuple[str, str, str], without: str, *, valid: bool
) -> None:
    """What the API server refuses, `validate` refuses, and the other way round; a default is no requirement."""
    keys, origins, costs = lists
    entry = {"destination": "z2", "networkCost": 1, "bandwidthCapacity": "1Gi"}
    del entry[without]
    key = {"topologyKey": "topology.kubernetes.io/zone", origins: [{"origin": "z1", costs: [entry]}]}
    weights = [{"name": "UserDefined", keys: [key]}]
    raw = {"apiVersion": f"{group}/v1alpha1", "kind": "NetworkTopology", "metadata": {"name": "nt", "namespace": "d"}}
    raw["spec"] = {"configmapName": "m", "weights": weights}
    cost = _fields(
        _schema("NetworkTopology", group)["schema"]["openAPIV3Schema"], "spec", "weights", keys, origins, costs
    )
    filled = {name: field["default"] for name, field in cost["properties"].items() if "default" in field} | entry
    file = tmp_path / "nt.yaml"
    file.write_text(yaml.safe_dump(raw))

    assert valid == (set(cost["required"]) <= filled.keys())
    assert valid == (0 == run("validate", "-f", file).exit_code)
