"""The languages in which gangs are declared by objects of their own, besides Volcano's and Koordinator's.

A language is a module of its own folder: what its pods name (`named`), and what the objects behind these names say
(`read`). A pod that names groups in several languages belongs to that of the first one here; Volcano's and
Koordinator's come before all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from tierwise.api.codec import Object
from tierwise.api.core import Pod
from tierwise.dialects.groups import Group
from tierwise.dialects.koordinator.gangs import gang_of
from tierwise.dialects.scheduler_plugins import pod_group as scheduler_plugins
from tierwise.dialects.volcano.annotations import group_of
from tierwise.port import Objects

__all__ = ["LANGUAGES", "Language", "Name", "named_group", "read_languages", "whose"]

Name = tuple[str, str]
"""A language, and what its pods call a group: namespace/name."""


class Language(Protocol):
    """What is asked of a language."""

    @property
    def LANGUAGE(self) -> str:  # noqa: N802 - modules are languages
        """The API group that it is called by."""

    @property
    def READS(self) -> tuple[type[Object], ...]:  # noqa: N802
        """The records that its groups follow from."""

    def named(self, pod: Pod) -> str:
        """The group that a pod names, as namespace/name; empty where it names none."""

    def read(self, objects: Objects) -> dict[str, Group]:
        """Every group by what its pods call it; one that has several names stands under each."""

    def sub_group(self, pod: Pod) -> str:
        """The sub-group of a pod, "" where it is in none."""


LANGUAGES: Final[Mapping[str, Language]] = {language.LANGUAGE: language for language in (scheduler_plugins,)}


def named_group(pod: Pod) -> Name | None:
    """The group that a pod names in one of these languages; None where it names none."""
    for language in LANGUAGES.values():
        path = language.named(pod)
        if path:
            return language.LANGUAGE, path
    return None


def whose(pod: Pod) -> str:
    """What a pod says that it belongs to, in any language; empty where it names nothing."""
    found = group_of(pod) or gang_of(pod)
    if found:
        return found
    name = named_group(pod)
    return " ".join(name) if name is not None else ""


def read_languages(objects: Objects, known: Mapping[Name, Group], at: Objects) -> dict[Name, Group]:
    """Every group of every language; what was `known` of objects that have not changed since is taken over."""
    found: dict[Name, Group] = {}
    for name, language in LANGUAGES.items():
        if objects.alike(at, *language.READS):
            found |= {key: group for key, group in known.items() if key[0] == name}
        else:
            found |= {(name, path): group for path, group in language.read(objects).items()}
    return found
