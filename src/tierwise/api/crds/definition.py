"""A custom resource and the manifest that defines it: names, columns of `kubectl get`, schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from tierwise.api.codec import Raw

__all__ = ["AGE", "Definition", "PrinterColumn"]

_PROTECTED: Final = ".k8s.io"
_APPROVAL: Final = "https://github.com/kubernetes-sigs/scheduler-plugins/pull/52"
"""Where the project that owns scheduling.sigs.k8s.io agreed on these kinds; the API server asks for it."""


class PrinterColumn(msgspec.Struct, frozen=True):
    """A column of `kubectl get`; a wide one shows with `-o wide` alone."""

    name: str
    path: str
    type: str = "string"
    wide: bool = False

    def manifest(self) -> Raw:
        found: Raw = {"name": self.name, "type": self.type, "jsonPath": self.path}
        return found | ({"priority": 1} if self.wide else {})


AGE: Final = PrinterColumn("Age", ".metadata.creationTimestamp", "date")


class Definition(msgspec.Struct, frozen=True):
    """One kind: `fields` are those beside apiVersion, kind and metadata."""

    family: str  # the project that the kind comes from: "volcano", "koordinator", "network-aware", "scheduler-plugins"
    group: str
    version: str
    kind: str
    plural: str
    about: str
    fields: Mapping[str, Raw]
    columns: tuple[PrinterColumn, ...]
    short_names: tuple[str, ...] = ()
    namespaced: bool = True
    needs: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of the manifest, which the API server prescribes."""
        return f"{self.plural}.{self.group}"

    def schema(self) -> Raw:
        """The schema of the whole object."""
        shared: Raw = {
            "apiVersion": {"type": "string", "description": "Group and version of the kind."},
            "kind": {"type": "string", "description": "The name of the kind."},
            "metadata": {"type": "object"},
        }
        found: Raw = {"type": "object", "description": self.about, "properties": {**shared, **self.fields}}
        return found | ({"required": list(self.needs)} if self.needs else {})

    def manifest(self) -> Raw:
        """The CustomResourceDefinition."""
        version: Raw = {
            "name": self.version,
            "served": True,
            "storage": True,
            "additionalPrinterColumns": [column.manifest() for column in self.columns],
            "schema": {"openAPIV3Schema": self.schema()},
        }
        if "status" in self.fields:
            version["subresources"] = {"status": {}}
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": self._metadata(),
            "spec": {
                "group": self.group,
                "scope": "Namespaced" if self.namespaced else "Cluster",
                "names": self._names(),
                "versions": [version],
            },
        }

    def _metadata(self) -> Raw:
        labels = {"app.kubernetes.io/part-of": "tierwise", "tierwise.io/family": self.family}
        found: Raw = {"name": self.name, "labels": labels}
        if self.group.endswith(_PROTECTED):
            found["annotations"] = {"api-approved.kubernetes.io": _APPROVAL}
        return found

    def _names(self) -> Raw:
        found: Raw = {
            "kind": self.kind,
            "listKind": f"{self.kind}List",
            "plural": self.plural,
            "singular": self.kind.lower(),
            "categories": ["tierwise"],
        }
        return found | ({"shortNames": list(self.short_names)} if self.short_names else {})
