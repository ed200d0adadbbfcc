"""Plugins of other packages: found by their entry points, imported when they are named, refused in one line."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tierwise import __version__
from tierwise.api.errors import InputError
from tierwise.framework.registry import Registry
from tierwise.plugins import PLUGINS

SOUND = """
import msgspec
from tierwise.framework.declaration import takes_part
from tierwise.framework.extension import Gate


class Given(msgspec.Struct):
    most: int = 3


@takes_part(Gate, arguments=Given)
class Mine:
    def __init__(self, arguments, view):
        self.arguments = arguments

    def admit(self, job):
        return None


class Silent:
    def __init__(self, arguments, view):
        pass
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of packages, as pip leaves it."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith("acme"):
            del sys.modules[name]


def install(site: Path, package: str, entries: str, code: str = SOUND, module: str = "acme") -> None:
    """A package with plugins."""
    (site / f"{module}.py").write_text(code)
    info = site / f"{package.replace('-', '_')}-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(f"[tierwise.plugins]\n{entries}\n")


def table(*own: str) -> Registry:
    """A fresh table: each looks at what is installed once."""
    return Registry({name: f"plugins.{name}:{name.title()}" for name in own}, reserved=("capability",))


def refused(name: str, *own: str) -> str:
    """What is said of a plugin that cannot be used."""
    with pytest.raises(InputError) as caught:
        table(*own).declaration(name)
    return str(caught.value)


def test_a_plugin_of_another_package_is_found(site: Path) -> None:
    """With its package, its version, its points and its arguments."""
    install(site, "acme-plugins", "mine = acme:Mine")
    found = table("gang")

    assert "mine" in found
    assert ["gang", "mine"] == list(found)
    assert 2 == len(found)
    assert "acme-plugins 1.2" == found.others["mine"].source
    assert ("Gate",) == found.declaration("mine").names
    assert ("most",) == found.declaration("mine").argument_names
    assert "Mine" == getattr(found["mine"], "__name__", "")
    assert ["mine"] == list(found.offers)
    assert 1 == len(found.offers)
    assert found.offers.get("gang") is None
    assert found.offers.get("nobody") is None


def test_nothing_is_imported_before_it_is_named(site: Path) -> None:
    """Listing what there is runs no code of others."""
    install(site, "acme-plugins", "mine = acme:Mine", "raise RuntimeError('no licence')")

    assert ["gang", "mine"] == list(table("gang"))


@pytest.mark.parametrize(
    ("code", "entries", "text"),
    [
        ("raise RuntimeError('no\\nlicence')", "mine = acme:Mine", "cannot be imported: RuntimeError: no licence"),
        ("import sys; sys.exit('bye')", "mine = acme:Mine", "cannot be imported: SystemExit: bye"),
        ("def x(:", "mine = acme:Mine", "cannot be imported: SyntaxError"),
        (SOUND, "mine = acme:Nobody", "cannot be imported: AttributeError"),
        (SOUND, "mine = acme_missing:Mine", "cannot be imported: ModuleNotFoundError"),
        (
            "from tierwise.model.reason import Reason",
            "mine = acme:Mine",
            "cannot be imported: ModuleNotFoundError: No module named 'tierwise.model.reason' (its names are in",
        ),
        (SOUND, "mine = acme", "cannot be imported: AttributeError"),
    ],
)
def test_a_package_that_cannot_be_imported_is_named(site: Path, code: str, entries: str, text: str) -> None:
    """One line with plugin, package and error."""
    install(site, "acme-plugins", entries, code)

    assert f"plugin mine: acme-plugins 1.2 {text}" in refused("mine")


def test_a_wrong_declaration_names_the_package(site: Path) -> None:
    """The checks are those of every plugin."""
    install(site, "acme-plugins", "mine = acme:Silent")

    said = "plugin mine: Silent declares no extension point: takes_part above its class does (acme-plugins 1.2)"
    assert said == refused("mine")


@pytest.mark.parametrize("name", ["gang", "capability", "PrioritySort", "BalancedAllocation"])
def test_a_name_that_is_taken_here_is_refused(site: Path, name: str) -> None:
    """Whether of a plugin, or of one that a KubeSchedulerConfiguration may name: both packages are named."""
    install(site, "acme-plugins", f"{name} = acme:Mine")

    said = f"plugin {name}: tierwise {__version__} and acme-plugins 1.2 both have one of this name"
    assert said == refused(name, "gang")


def test_a_name_without_effect_is_free(site: Path) -> None:
    """Somebody else may do what tierwise does not."""
    install(site, "acme-plugins", "Peaks = acme:Mine")

    assert ("Gate",) == table("gang").declaration("Peaks").names


def test_a_name_that_two_packages_have_is_refused(site: Path) -> None:
    """Which of them was meant, nobody knows; both are named."""
    install(site, "acme-plugins", "mine = acme:Mine")
    install(site, "other-plugins", "mine = acme_other:Mine", module="acme_other")

    assert "plugin mine: acme-plugins 1.2 and other-plugins 1.2 both have one of this name" == refused("mine")


def test_a_name_that_nobody_has_is_a_key_error(site: Path) -> None:
    """As of any table."""
    with pytest.raises(KeyError):
        table("gang")["nobody"]
    with pytest.raises(KeyError):
        table("gang").declaration("nobody")


def test_the_core_looks_at_no_packages() -> None:
    """Who names no plugin of others pays nothing for them: importlib.metadata alone takes longer than numpy's tenth."""
    code = (
        "import sys, tierwise.scheduler, tierwise.plugins as p\n"
        "assert 'binpack' in p.PLUGINS and p.PLUGINS['binpack']\n"
        "print({'importlib.metadata', 'pathlib'} & set(sys.modules), 'others' in vars(p.PLUGINS))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)

    assert "set() False\n" == done.stdout


def test_an_archive_on_the_path_is_looked_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Packages may come in one; nothing is missed for the sake of speed."""
    import zipfile

    with zipfile.ZipFile(tmp_path / "site.zip", "w") as archive:
        archive.writestr("acme_zipped.py", SOUND)
        archive.writestr("acme-3.dist-info/METADATA", "Metadata-Version: 2.1\nName: acme\nVersion: 3\n")
        archive.writestr("acme-3.dist-info/entry_points.txt", "[tierwise.plugins]\nzipped = acme_zipped:Mine\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site.zip"))

    assert ("Gate",) == table().declaration("zipped").names


def test_the_table_knows_its_own() -> None:
    """Every built-in plugin says where it comes from."""
    assert {"tierwise"} == {plugin.package for plugin in PLUGINS.built_in.values()}
