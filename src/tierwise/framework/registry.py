"""The table of plugins by name: those of tierwise, and those of other installed packages.

A package offers plugins as entry points of the group `tierwise.plugins`. Entry points are searched when a name is not
built in, or when all plugins are listed, and are imported only when a profile names them. A plugin that cannot be
imported, has a wrong declaration or uses a name that is taken is an InputError with one line that names plugin and
package.
"""

from __future__ import annotations

import os
import sys
from collections import ChainMap
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Final

import msgspec

from tierwise import __version__
from tierwise.api.errors import InputError
from tierwise.framework.declaration import Declaration, check_plugin
from tierwise.framework.extension import MODULES, SEAM, Factory

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["GROUP", "InstalledPlugin", "Registry", "extended"]

GROUP: Final = "tierwise.plugins"

_OWN: Final = "tierwise"
_RAISED: Final = (Exception, SystemExit)  # importing a foreign module may raise anything
_SHOWN: Final = 200


class InstalledPlugin(msgspec.Struct, frozen=True):
    """Where a plugin comes from; `rivals` are other packages that offer the same name."""

    name: str
    package: str
    version: str
    target: str  # module:attribute
    rivals: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        """The package with its version."""
        return f"{self.package} {self.version}".rstrip()


class Registry(Mapping[str, Factory]):
    """Plugins by name; looking one up imports it. `reserved` are names with another meaning here."""

    def __init__(self, own_plugins: Mapping[str, str], reserved: Collection[str] = ()) -> None:
        built_in = {
            name: InstalledPlugin(name, _OWN, __version__, f"{_OWN}.{path}") for name, path in own_plugins.items()
        }
        self.built_in: Mapping[str, InstalledPlugin] = built_in  # the plugins of tierwise itself
        self._reserved = frozenset(reserved)
        self._factories: dict[str, Factory] = {}
        self._declarations: dict[str, Declaration] = {}

    @cached_property
    def others(self) -> Mapping[str, InstalledPlugin]:
        """Those of other packages."""
        entries_by_name: dict[str, list[InstalledPlugin]] = {}
        for entry in _entry_points():
            entries_by_name.setdefault(entry.name, []).append(entry)
        return {name: _first(entries) for name, entries in sorted(entries_by_name.items())}

    def __getitem__(self, name: str) -> Factory:
        factory = self._factories.get(name)
        if factory is None:
            plugin = self.built_in.get(name) or self.others[name]
            factory = self._factories[name] = _imported(plugin)
        return factory

    def __contains__(self, name: object) -> bool:
        return name in self.built_in or name in self.others

    def __iter__(self) -> Iterator[str]:
        yield from self.built_in
        yield from (name for name in self.others if name not in self.built_in)

    def __len__(self) -> int:
        return len(self.built_in.keys() | self.others.keys())

    def declaration(self, name: str) -> Declaration:
        """What a plugin declares, once it holds; InputError where it does not, or cannot be imported."""
        declaration = self._declarations.get(name)
        if declaration is None:
            plugin = self.built_in.get(name) or self.others[name]
            owners = self.owners(name)
            if len(owners) > 1:
                raise InputError(f"plugin {name}: {' and '.join(owners)} both have one of this name")
            try:
                declaration = check_plugin(name, self[name])
            except InputError as error:
                whose = "" if plugin.package == _OWN else f" ({plugin.source})"
                raise InputError(error.message + whose) from None
            self._declarations[name] = declaration
        return declaration

    @property
    def offers(self) -> Mapping[str, Declaration]:
        """What the plugins of other packages declare, checked when it is looked up."""
        return _Offers(self)

    def owners(self, name: str) -> tuple[str, ...]:
        """The packages that have a plugin of a name."""
        own_package = (f"{_OWN} {__version__}",)
        installed = self.others.get(name)
        if installed is None:
            return own_package if name in self.built_in else ()
        from tierwise.config.kube_names import RESERVED  # needed only beside other packages

        is_reserved = name in self.built_in or name in self._reserved or name in RESERVED
        return (*(own_package if is_reserved else ()), installed.source, *installed.rivals)


class _Offers(Mapping[str, Declaration]):
    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def __getitem__(self, name: str) -> Declaration:
        self._registry.others[name]  # a KeyError for those of tierwise itself
        return self._registry.declaration(name)

    def __contains__(self, name: object) -> bool:
        return name in self._registry.others

    def __iter__(self) -> Iterator[str]:
        return iter(self._registry.others)

    def __len__(self) -> int:
        return len(self._registry.others)


def extended(plugins: Mapping[str, Factory], further_plugins: dict[str, Factory]) -> Mapping[str, Factory]:
    """A table with further plugins, which also imports on lookup only."""
    return ChainMap(further_plugins, plugins)  # type: ignore[arg-type]  # it is only read


def _imported(plugin: InstalledPlugin) -> Factory:
    """The object of an entry point; InputError with one line if it cannot be imported."""
    module, _, attribute = plugin.target.partition(":")
    try:
        target: object = import_module(module)
        for part in attribute.split("."):
            target = getattr(target, part)
    except _RAISED as error:
        if plugin.package == _OWN:
            raise
        message = " ".join(f"{type(error).__name__}: {error}".split())[:_SHOWN]
        new_module = MODULES.get(getattr(error, "name", None) or "")
        message += (
            f" (its names are in {new_module} since version {SEAM} of the plugin seam)"
            if new_module is not None
            else ""
        )
        raise InputError(f"plugin {plugin.name}: {plugin.source} cannot be imported: {message}") from None
    return target  # type: ignore[return-value]  # as its declaration says, which is checked


def _first(entries: list[InstalledPlugin]) -> InstalledPlugin:
    """The entry point for a name, with the other packages that offer it."""
    winner, *rivals = entries
    return msgspec.structs.replace(winner, rivals=tuple(entry.source for entry in rivals))


def _entry_points() -> Iterator[InstalledPlugin]:
    """What packages offer, by package."""
    if not _offered():
        return
    from importlib.metadata import entry_points

    installed = sorted(entry_points(group=GROUP), key=lambda entry: (_package(entry), entry.name, entry.value))
    for entry in installed:
        package, version = _package(entry)
        yield InstalledPlugin(entry.name, package, version, entry.value.partition("[")[0].replace(" ", ""))


def _package(entry: EntryPoint) -> tuple[str, str]:
    dist = entry.dist
    if dist is not None:
        return (dist.name or "an unnamed package", dist.version or "")
    return ("an unnamed package", "")


def _offered() -> bool:
    """Whether any package names the group at all.

    Searching for a word in a few small files is a hundred times faster than importing importlib.metadata.
    """
    from pathlib import Path  # the core does without it

    needle = GROUP.encode()
    for folder in sys.path:
        try:
            names = os.listdir(folder or ".")  # noqa: PTH208 - a Path for each file takes ten times as long
        except NotADirectoryError:  # an archive: importlib.metadata looks into it
            return True
        except OSError:
            continue
        for name in names:
            if name.endswith((".dist-info", ".egg-info")):
                with suppress(OSError):
                    if needle in Path(folder, name, "entry_points.txt").read_bytes():
                        return True
    return False
