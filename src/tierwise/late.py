"""Modules that are run when something of them is first used, though they are imported at the top of a file.

Most clusters have no devices, no volumes of their own and gangs in one language; a start pays for what its objects ask
for. A module that is listed here is imported as a module (`from tierwise.dialects.kubernetes import devices`); the
first look into it (`devices.Planner`) runs it. So types and layers are checked as everywhere. What is listed must do
nothing for others when it is run, such as registering something; whoever needs a name of it at once, runs it.
"""

import sys
from importlib.machinery import ModuleSpec, PathFinder
from threading import RLock
from types import ModuleType
from typing import Any, Final

__all__ = ["LATE", "install"]

LATE: Final = frozenset(
    f"tierwise.{room}.{name}"
    for room, names in (
        ("actions.placement", "assign cells limits mixtures quanta"),
        ("dialects.kubernetes", "devices volumes"),
        ("dialects.workloads", "grove kubeflow kubernetes ray sets"),
        ("model", "devices"),
        ("plugins.elastic_quota", "tree"),
        ("plugins.kubernetes", "claim_writes"),
        ("snapshot", "selector_shares"),
    )
    for name in names.split()
)

_OF_THE_IMPORT: Final = frozenset(("__class__", "__file__", "__loader__", "__name__", "__package__", "__spec__"))


class _Module(ModuleType):
    """A module that has not been run, or is about to be."""

    def __getattribute__(self, name: str) -> Any:
        if name not in _OF_THE_IMPORT:
            self.__loader__.run(self)  # type: ignore[union-attr]
        return ModuleType.__getattribute__(self, name)


class _Loader:
    """Leaves a module as it was found; `run` is what its own loader would have done at once."""

    def __init__(self, own: Any) -> None:
        self._own = own
        self._lock = RLock()  # another thread waits for the end; what runs may look into itself
        self._begun = False

    def create_module(self, spec: ModuleSpec) -> None:
        """Any module will do."""

    def exec_module(self, module: ModuleType) -> None:
        module.__class__ = _Module

    def run(self, module: ModuleType) -> None:
        with self._lock:
            if not self._begun:
                self._begun = True
                self._own.exec_module(module)
                module.__class__ = ModuleType


class _Finder:
    """Finds what is listed, as it is found otherwise."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if name in LATE else None
        if spec is not None:
            spec.loader = _Loader(spec.loader)  # type: ignore[assignment]
        return spec


def install() -> None:
    """Find the modules that are listed, from now on."""
    sys.meta_path.insert(0, _Finder)
