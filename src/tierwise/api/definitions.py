"""Custom resource definitions of all kinds that tierwise reads and that Kubernetes lacks.

The manifests are the files of api/crds, one for each kind, in a folder for the project that owns the kind. They are
printed by `tierwise crds`, and served by the embedded cluster, for clusters where the projects have not installed
theirs. A definition holds every field that its owner's has, so that nothing a user wrote is dropped.
"""

from __future__ import annotations

from pkgutil import get_data  # importlib.resources brings archives and temporary files with it: too slow to start
from typing import Final

import msgspec

from tierwise.api.codec import Raw
from tierwise.api.yaml_text import documents

__all__ = ["DEFINITIONS", "FAMILIES", "Definition", "PrinterColumn"]


class PrinterColumn(msgspec.Struct, frozen=True):
    """A column of `kubectl get`; one with a priority shows with `-o wide` alone.

    Those of Kubernetes' own kinds also say what is shown where nothing is at the path, or name what makes the cell.
    """

    name: str
    type: str = "string"
    path: str = msgspec.field(name="jsonPath", default="")
    priority: int = 0
    absent: str | int = ""
    cell: str = ""


class Definition(msgspec.Struct, frozen=True):
    """One kind: the manifest that defines it, and the parts of it that are asked for."""

    file: str  # below api/crds: "volcano/scheduling.volcano.sh_queues.yaml"
    text: str
    manifest: Raw
    group: str
    kind: str
    plural: str
    short_names: tuple[str, ...]
    columns: tuple[PrinterColumn, ...]
    schema: Raw  # of the whole object
    status: bool  # whether status is written at a path of its own

    @property
    def family(self) -> str:
        """The project that the kind comes from."""
        return self.file.partition("/")[0]

    @property
    def name(self) -> str:
        """The name of the manifest, which the API server prescribes."""
        return f"{self.plural}.{self.group}"


def _read(file: str) -> Definition:
    data = get_data("tierwise.api", f"crds/{file}") or b""
    ((manifest, _),) = documents(data, file=file)
    assert isinstance(manifest, dict)
    spec = manifest["spec"]
    names, (version,) = spec["names"], spec["versions"]
    return Definition(
        file=file,
        text=data.decode(),
        manifest=manifest,
        group=spec["group"],
        kind=names["kind"],
        plural=names["plural"],
        short_names=tuple(names.get("shortNames", ())),
        columns=msgspec.convert(version["additionalPrinterColumns"], tuple[PrinterColumn, ...]),
        schema=version["schema"]["openAPIV3Schema"],
        status="subresources" in version,
    )


DEFINITIONS: Final[tuple[Definition, ...]] = tuple(
    _read(f"{file}.yaml")
    for file in (
        "volcano/scheduling.volcano.sh_podgroups",
        "volcano/scheduling.volcano.sh_queues",
        "volcano/topology.volcano.sh_hypernodes",
        "volcano/bus.volcano.sh_commands",
        "volcano/batch.volcano.sh_jobs",
        "koordinator/scheduling.koordinator.sh_clusternetworktopologies",
        "koordinator/scheduling.sigs.k8s.io_podgroups",
        "koordinator/scheduling.koordinator.sh_podgroups",
        "koordinator/scheduling.sigs.k8s.io_elasticquotas",
        "network-aware/appgroup.diktyo.x-k8s.io_appgroups",
        "network-aware/networktopology.diktyo.x-k8s.io_networktopologies",
        "network-aware/scheduling.sigs.x-k8s.io_appgroups",
        "network-aware/scheduling.sigs.x-k8s.io_networktopologies",
        "scheduler-plugins/scheduling.x-k8s.io_podgroups",
        "tierwise/tierwise.io_windows",
    )
)

FAMILIES: Final[tuple[str, ...]] = tuple(dict.fromkeys(definition.family for definition in DEFINITIONS))
"""The projects that the kinds come from; each can be installed by itself."""
