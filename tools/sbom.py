#!/usr/bin/env python3
"""What an image holds: an SBOM (CycloneDX 1.6, JSON) and a list of licences. Run by deploy/Containerfile.

    tools/sbom.py PACKAGES FOLDER

PACKAGES is where the Python packages are installed; those of Debian are read from dpkg's own list. FOLDER gets
`sbom.cdx.json` and `LICENSES.md`. The same image gives the same files: nothing in them is of the moment.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any
from urllib.parse import quote

STATUS = Path("/var/lib/dpkg/status")
RELEASE = Path("/etc/os-release")
COPYRIGHT = "/usr/share/doc/{}/copyright"
UNKNOWN = "not stated"
Component = dict[str, Any]


def main() -> None:
    """Both files."""
    packages, folder = map(Path, sys.argv[1:])
    version = (packages / "tierwise/__init__.py").read_text().partition('__version__ = "')[2].partition('"')[0]
    own = {"type": "application", "name": "tierwise", "version": version, "bom-ref": "tierwise"}
    own |= {"licenses": [{"expression": "Apache-2.0"}], "purl": f"pkg:pypi/tierwise@{version}"}
    python = {"type": "application", "name": "python", "version": sys.version.partition(" ")[0]}
    python |= {"licenses": [{"license": {"name": "PSF-2.0"}}], "bom-ref": "python"}
    found = [python, *_python(packages), *_debian()]
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": own},
        "components": found,
        "dependencies": [{"ref": "tierwise", "dependsOn": [component["bom-ref"] for component in found]}],
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sbom.cdx.json").write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    rows = [f"| {c['name']} | {c.get('version', '')} | {', '.join(_licences(c))} |" for c in [own, *found]]
    head = ["# Licences", "", "What this image holds, and under which licences.", ""]
    table = ["| Package | Version | Licences |", "|---|---|---|", *rows]
    (folder / "LICENSES.md").write_text("\n".join([*head, *table]) + "\n")
    print(f"{len(found)} components")


def _python(packages: Path) -> Iterator[Component]:
    """The installed distributions, by name."""
    for found in sorted(distributions(path=[str(packages)]), key=lambda each: each.name.lower()):
        name = re.sub(r"[-_.]+", "-", found.name).lower()
        ref = f"pkg:pypi/{name}@{found.version}"
        yield {"type": "library", "name": name, "version": found.version, "purl": ref, "bom-ref": ref} | _stated(found)


def _stated(found: Distribution) -> Component:
    """A licence: an SPDX expression where there is one, else what the metadata says."""
    if expression := found.metadata.get("License-Expression"):
        return {"licenses": [{"expression": expression}]}
    classes = [
        line.rpartition(" :: ")[2] for line in found.metadata.get_all("Classifier") or [] if "License ::" in line
    ]
    names = classes or [
        text for text in [found.metadata.get("License", "")] if text and len(text) < 80 and "\n" not in text
    ]
    return {"licenses": [{"license": {"name": name}} for name in names or [UNKNOWN]]}


def _debian() -> Iterator[Component]:
    """The packages that dpkg has installed; none on another system."""
    if not STATUS.is_file():
        return
    system = dict(line.split("=", 1) for line in RELEASE.read_text().splitlines() if "=" in line)
    distro = f"{system.get('ID', 'debian')}-{system.get('VERSION_ID', '')}".replace('"', "")
    for entry in STATUS.read_text().split("\n\n"):
        fields = dict(re.findall(r"^(Package|Version|Architecture|Status): (.*)$", entry, re.MULTILINE))
        if fields.get("Status", "").endswith(" installed"):
            name, version, machine = fields["Package"], fields["Version"], fields["Architecture"]
            ref = f"pkg:deb/debian/{name}@{quote(version, safe='')}?arch={machine}&distro={distro}"
            named = _copyright(name) or [UNKNOWN]
            own = {"name": name, "version": version, "purl": ref, "bom-ref": ref}
            yield {"type": "library", **own, "licenses": [{"license": {"name": text}} for text in named]}


def _copyright(package: str) -> list[str]:
    """The licences that a Debian copyright file names, in fields, or in an older one by the texts that it refers to."""
    file = Path(COPYRIGHT.format(package))
    text = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
    fields = re.findall(r"^License:[ \t]*(\S[^\n]*)$", text, re.MULTILINE)
    return sorted(set(fields or re.findall(r"/usr/share/common-licenses/([A-Za-z0-9.+-]*[A-Za-z0-9+])", text)))


def _licences(component: Component) -> list[str]:
    return [entry.get("expression") or entry["license"]["name"] for entry in component["licenses"]]


if __name__ == "__main__":
    main()
