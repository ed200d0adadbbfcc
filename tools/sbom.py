#!/usr/bin/env python3
"""What an image holds: an SBOM (CycloneDX 1.6, JSON) and a list of licences. Run by deploy/Containerfile.

    tools/sbom.py PACKAGES FOLDER [ROOT]

PACKAGES is where the Python packages are installed; those of Debian are read from dpkg's own list below ROOT. FOLDER
gets `sbom.cdx.json`, written by CycloneDX's own library, and `LICENSES.md`. The same image gives the same files:
nothing in them is of the moment.
"""

from __future__ import annotations

import re
import sys
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import Distribution, distributions
from pathlib import Path

from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import DisjunctiveLicense, LicenseExpression
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from packageurl import PackageURL

STATUS = "var/lib/dpkg/status"
RELEASE = "etc/os-release"
COPYRIGHT = "usr/share/doc/{}/copyright"
UNKNOWN = "not stated"
License = LicenseExpression | DisjunctiveLicense


def main() -> None:
    """Both files."""
    packages, folder, root = map(Path, [*sys.argv[1:], "/"][:3])
    version = (packages / "tierwise/__init__.py").read_text().partition('__version__ = "')[2].partition('"')[0]
    own = _component(PackageURL("pypi", name="tierwise", version=version), [LicenseExpression("Apache-2.0")])
    own.type = ComponentType.APPLICATION
    for name in ("tierwise", "tierwise_lab"):  # the laboratory is a package of its own in one distribution
        if (packages / name).is_dir():
            licenses = [LicenseExpression("Apache-2.0")]
            own.components.add(Component(name=name, version=version, bom_ref=f"package {name}", licenses=licenses))
    python = Component(
        type=ComponentType.APPLICATION,
        name="python",
        version=sys.version.partition(" ")[0],
        bom_ref="python",
        licenses=[DisjunctiveLicense(name="PSF-2.0")],
    )
    found = [python, *_python(packages), *_debian(root)]
    bom = Bom(components=found)
    bom.metadata.component = own
    bom.metadata.timestamp = datetime.fromtimestamp(0, UTC)
    references = " ".join(component.bom_ref.value or "" for component in found)
    bom.serial_number = uuid.uuid5(uuid.NAMESPACE_URL, f"tierwise {version} {references}")
    bom.register_dependency(own, found)
    folder.mkdir(parents=True, exist_ok=True)
    written = make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6).output_as_string(indent=1)
    (folder / "sbom.cdx.json").write_text(written + "\n")
    rows = [f"| {c.name} | {c.version or ''} | {', '.join(_licences(c))} |" for c in [own, *found]]
    head = ["# Licences", "", "What this image holds, and under which licences.", ""]
    table = ["| Package | Version | Licences |", "|---|---|---|", *rows]
    (folder / "LICENSES.md").write_text("\n".join([*head, *table]) + "\n")
    print(f"{len(found)} components")


def _component(purl: PackageURL, licences: list[License]) -> Component:
    reference = purl.to_string()
    return Component(name=purl.name, version=purl.version, purl=purl, bom_ref=reference, licenses=licences)


def _python(packages: Path) -> Iterator[Component]:
    """The installed distributions, by name."""
    for found in sorted(distributions(path=[str(packages)]), key=lambda each: each.name.lower()):
        name = re.sub(r"[-_.]+", "-", found.name).lower()
        yield _component(PackageURL("pypi", name=name, version=found.version), _stated(found))


def _stated(found: Distribution) -> list[License]:
    """A licence: an SPDX expression where there is one, else what the metadata says."""
    if expression := found.metadata.get("License-Expression"):
        return [LicenseExpression(expression)]
    classes = [
        line.rpartition(" :: ")[2] for line in found.metadata.get_all("Classifier") or [] if "License ::" in line
    ]
    names = classes or [
        text for text in [found.metadata.get("License", "")] if text and len(text) < 80 and "\n" not in text
    ]
    return [DisjunctiveLicense(name=name) for name in names or [UNKNOWN]]


def _debian(root: Path) -> Iterator[Component]:
    """The packages that dpkg has installed; none on another system."""
    if not (root / STATUS).is_file():
        return
    system = dict(line.split("=", 1) for line in (root / RELEASE).read_text().splitlines() if "=" in line)
    distro = f"{system.get('ID', 'debian')}-{system.get('VERSION_ID', '')}".replace('"', "")
    for entry in (root / STATUS).read_text().split("\n\n"):
        fields = dict(re.findall(r"^(Package|Version|Architecture|Status): (.*)$", entry, re.MULTILINE))
        if fields.get("Status", "").endswith(" installed"):
            about = {"arch": fields["Architecture"], "distro": distro}
            purl = PackageURL("deb", "debian", fields["Package"], fields["Version"], about)
            named = _copyright(root, fields["Package"]) or [UNKNOWN]
            yield _component(purl, [DisjunctiveLicense(name=text) for text in named])


def _copyright(root: Path, package: str) -> list[str]:
    """The licences that a Debian copyright file names, in fields, or in an older one by the texts that it refers to."""
    file = root / COPYRIGHT.format(package)
    text = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
    fields = re.findall(r"^License:[ \t]*(\S[^\n]*)$", text, re.MULTILINE)
    return sorted(set(fields or re.findall(r"/usr/share/common-licenses/([A-Za-z0-9.+-]*[A-Za-z0-9+])", text)))


def _licences(component: Component) -> list[str]:
    return [entry.value if isinstance(entry, LicenseExpression) else entry.name or "" for entry in component.licenses]


if __name__ == "__main__":
    main()
