"""Write src/tierwise/api/field_names.txt: the fields of every kind that tierwise reads, by type.

    tools/field_names.py OPENAPI.json… CRD.yaml… > src/tierwise/api/field_names.txt

Takes OpenAPI v3 documents of Kubernetes and CustomResourceDefinitions, tierwise's own among them (`tierwise crds`).
Where several describe one kind, the fields of all of them are known. Names alone are kept. What the table has already
and no given file describes stays as it is, so that a few kinds can be added without all of the others at hand.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml

from tierwise.api import field_names
from tierwise.api.codec import KINDS
from tierwise.dialects.workloads import READ_BESIDE, WORKLOADS

Fields = dict[str, Any]
"""By field: None for a value, "*" for anything, the name of a type, or the fields of one."""

_PREFIX = "#/components/schemas/"
_META = "ObjectMeta"
_OTHER_VERSIONS: dict[str, Fields] = {
    "PodSpec": {"workloadRef": None},
    "Device": {"basic": "Device"},
    "DeviceRequest": {
        **dict.fromkeys(("adminAccess", "allocationMode", "count", "deviceClassName")),
        "capacity": "CapacityRequirements",
        "selectors": "DeviceSelector",
        "tolerations": "DeviceToleration",
    },
}
"""Fields that some version of Kubernetes has, and the definitions at hand have not."""
_INSIDE = {"PodSpec": {"containers", "nodeSelector"}, "Container": {"image", "command", "volumeMounts"}}
"""Types of Kubernetes that definitions write out, and some of whose fields they have, maybe among further ones."""
_KINDS = {*KINDS, *WORKLOADS, *READ_BESIDE, ("", "PodTemplate")}


def main(files: list[str]) -> None:
    """Read the definitions, and print the table."""
    schemas: dict[str, Any] = {}
    crds: list[Any] = []
    for file in files:
        text = Path(file).read_text(encoding="utf-8")
        if file.endswith(".json"):
            schemas |= json.loads(text)["components"]["schemas"]
        else:
            crds += [
                d
                for d in yaml.load_all(text, Loader=yaml.CSafeLoader)  # in C: some of them have megabytes
                if isinstance(d, dict) and d.get("kind") == "CustomResourceDefinition"
            ]
    sys.stdout.write("\n".join([*_Table(schemas, crds).lines(), ""]))


class _Table:
    def __init__(self, schemas: dict[str, Any], crds: list[Any]) -> None:
        self._schemas = schemas
        kinds, types = field_names.table()
        self._types: dict[str, Fields] = {
            name: {field: within or None for field, within in field_names.fields(name).items()} for name in types
        }
        self._named: dict[str, str] = {}
        self._kinds = dict(kinds)
        for name, schema in schemas.items():
            for kind in schema.get("x-kubernetes-group-version-kind", ()):
                if (kind["group"], kind["kind"]) in _KINDS:
                    self._kinds[f"{kind['group']}/{kind['kind']}"] = self._reference(name)
        merged: dict[str, Fields] = {}
        for crd in crds:
            spec = crd["spec"]
            key = f"{spec['group']}/{spec['names']['kind']}"
            if (spec["group"], spec["names"]["kind"]) not in _KINDS:
                continue
            for version in spec["versions"]:
                schema = version["schema"]["openAPIV3Schema"][
                    "properties"
                ]  # of an object, even if it is like a template
                merged[key] = _union(
                    merged.get(key, {}), {name: self._fields(part, name) for name, part in schema.items()}
                )
        seen = {json.dumps(fields, sort_keys=True): name for name, fields in self._types.items()}
        for key, fields in merged.items():
            fields |= {"metadata": _META, "apiVersion": None, "kind": None}
            if "status" in fields and tuple(key.split("/")) in WORKLOADS:
                fields["status"] = "*"  # people write what they ask for
            self._kinds[key] = self._lifted(key.replace("/", "-"), fields, seen)

        for name, fields in _OTHER_VERSIONS.items():
            self._types[name] |= fields

    def lines(self) -> list[str]:
        kinds = [f"{key} {name}" for key, name in sorted(self._kinds.items())]
        types = sorted(self._types.items())
        return [*kinds, *(f"{name}: {' '.join(map(_shown, sorted(fields.items())))}" for name, fields in types)]

    def _reference(self, name: str) -> str:
        short = name.rpartition(".")[2]
        if name not in self._named:
            short = short if short not in self._named.values() else name
            self._named[name] = short
            found = self._fields(self._schemas[name])
            self._types[short] = _union(self._types.get(short, {}), found if isinstance(found, dict) else {})
        return self._named[name]

    def _fields(self, schema: Any, step: str = "") -> Fields | str | None:
        """What a schema says: fields, the name of a type, "*" for anything, None for a plain value."""
        if not isinstance(schema, dict):
            return None
        for part in schema.get("allOf", ()):
            if "$ref" in part:
                return self._fields(part, step)
        if "$ref" in schema:
            name = schema["$ref"].removeprefix(_PREFIX)
            target = self._schemas[name]
            if "properties" not in target:
                return self._fields(target, step)
            return self._reference(name)
        if schema.get("type") == "array":
            return self._fields(schema.get("items", {}), step)
        if "containers" in schema.get("properties", {}).get("spec", {}).get("properties", {}):
            return "PodTemplateSpec"
        known = next((name for name, marks in _INSIDE.items() if marks <= set(schema.get("properties", ()))), "")
        if known:
            own = {name: inner for name, inner in schema["properties"].items() if name not in self._types[known]}
            further = self._fields({"properties": own}) if own else {}
            return {**self._types[known], **further} if isinstance(further, dict) and further else known
        if schema.get("properties") and not schema.get("x-kubernetes-preserve-unknown-fields"):
            return {key: self._fields(inner, key) for key, inner in schema["properties"].items()}
        every = self._fields(schema.get("additionalProperties"))
        if isinstance(every, dict):
            return {"*": every}
        if schema.get("type") == "object":
            return "PodTemplateSpec" if step == "template" else "*"
        return None

    def _lifted(self, name: str, fields: Fields, seen: dict[str, str]) -> str:
        """Give nested fields types of their own; the same fields are one type."""
        flat = {
            key: self._lifted(f"{name}.{key}", inner, seen) if isinstance(inner, dict) else inner
            for key, inner in fields.items()
        }
        same = json.dumps(flat, sort_keys=True)
        if same not in seen:
            seen[same] = name
            self._types[name] = flat
        return seen[same]


def _union(one: Fields, other: Fields) -> Fields:
    result = dict(one)
    for key, inner in other.items():
        mine = result.get(key)
        if isinstance(mine, dict) and isinstance(inner, dict):
            result[key] = _union(mine, inner)
        elif key not in result or mine is None or (mine == "*" and inner is not None):
            result[key] = inner
    return result


def _shown(entry: tuple[str, Any]) -> str:
    key, inner = entry
    return key if inner is None else f"{key}>{inner}"


if __name__ == "__main__":
    main(sys.argv[1:])
