"""The languages in which gangs are declared: a line for each, whose record is in its folder.

A pod that names groups in several languages belongs to that of the first one here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from typing import Any, Final

from tierwise.api.codec import Object
from tierwise.api.core import Pod
from tierwise.api.fabric import fabric_of
from tierwise.api.nvidia import ComputeDomain
from tierwise.dialects import compute_domains
from tierwise.dialects.groups import Group
from tierwise.dialects.grove import pod_gang as grove
from tierwise.dialects.kai import pod_group as kai
from tierwise.dialects.koordinator import gangs as koordinator
from tierwise.dialects.koordinator.gangs import gang_of
from tierwise.dialects.kubernetes import pod_groups as kubernetes
from tierwise.dialects.kueue import pod_sets as kueue
from tierwise.dialects.label_trees import LabelTree
from tierwise.dialects.language import Language, NotOurs, Rules, kinds, marks_of
from tierwise.dialects.pod_marks import group_of
from tierwise.dialects.scheduler_plugins import pod_group as scheduler_plugins
from tierwise.dialects.volcano import pod_group as volcano
from tierwise.model.job import Job
from tierwise.model.topology import LABELS, fabric_kind
from tierwise.port import Key, Objects

__all__ = [
    "DECLARING",
    "KOORDINATOR",
    "LANGUAGES",
    "TREES_READ",
    "VOLCANO",
    "GroupReader",
    "Language",
    "Name",
    "declares_one",
    "declaring",
    "every_group",
    "label_trees",
    "language_of",
    "named_group",
    "names",
    "plain",
    "tree_aliases",
    "whose",
]

VOLCANO: Final = volcano.LANGUAGE.name
KOORDINATOR: Final = koordinator.LANGUAGE.name

Name = tuple[str, str]
"""A language, and what its pods call a group: namespace/name."""


LANGUAGES: Final[Mapping[str, Language]] = {
    language.name: language
    for language in (
        volcano.LANGUAGE,
        koordinator.LANGUAGE,
        kubernetes.LANGUAGE,
        scheduler_plugins.LANGUAGE,
        kai.LANGUAGE,
        grove.LANGUAGE,
        kueue.LANGUAGE,
    )
}
"""By name, in the order in which they count where a pod names groups in several of them."""

_OTHERS: Final = [language for language in LANGUAGES.values() if language.name not in (VOLCANO, KOORDINATOR)]

_KEYS: Final = frozenset[str]().union(*(language.keys for language in LANGUAGES.values()))

_OF_RECORD: Final = {record: language for language in LANGUAGES.values() for record in language.declares}


def language_of(record: Object) -> Language | None:
    """The language in which an object declares a gang; None where it declares none."""
    return _OF_RECORD.get(type(record))


def declares_one(record: Object) -> Language | None:
    """Language of an object that declares exactly one gang and keeps its marks; None if it may declare several."""
    language = language_of(record)
    keeps = language.marks if language is not None and not isinstance(language.marks, NotOurs) else ()
    return language if isinstance(record, keeps) else None


DECLARING: Final = frozenset(kind for language in LANGUAGES.values() for kind in kinds(language.declares))
"""The API groups and kinds of objects that declare gangs."""

TREES_READ: Final[tuple[type[Object], ...]] = (
    *(record for language in LANGUAGES.values() for record in language.tree_reads),
    ComputeDomain,
)
"""The records that label trees, and further names of trees, follow from."""


def named_group(pod: Pod) -> Name | None:
    """The group that a pod names in one of these languages; None where it names none."""
    for language in _OTHERS:
        path = language.named(pod)
        if path:
            return language.name, path
    return None


def whose(pod: Pod) -> str:
    """Path of the gang that a pod names, in any language; "" without one."""
    path = group_of(pod) or gang_of(pod)
    if path:
        return path
    name = named_group(pod)
    return " ".join(name) if name is not None else ""


def declaring(objects: Objects, job: Job) -> Iterator[tuple[Key, Object]]:
    """The objects that declare a job: one, or those of several gangs; none where its pods do."""
    if job.declared_by is not None:
        keys = [job.declared_by]
    elif job.language == VOLCANO:
        namespace, _, name = job.key.partition("/")
        keys = [Key(VOLCANO, "PodGroup", namespace, name)]
    else:
        paths = job.gangs or (job.key,) if job.language == KOORDINATOR else ()
        gangs = (koordinator.gang_object(objects, path) for path in paths)
        keys = [key for key, _ in filter(None, gangs)]
    for key in keys:
        record = objects.record(key)
        if record is not None:
            yield key, record


def names(pod: Pod, marks: Set[str] | None = None) -> tuple[Name, ...]:
    """All that a pod says it belongs to, in the order in which it counts; its `marks` where they are at hand."""
    marks = marks_of(pod) if marks is None else marks
    if _KEYS.isdisjoint(marks):
        return ()
    gang_names: list[Name] = []
    for name, language in LANGUAGES.items():
        path = language.named(pod) if not language.keys.isdisjoint(marks) else ""
        if path:
            gang_names.append((name, path))
            if language in _OTHERS:
                break  # of these the first counts
    return tuple(gang_names)


def plain(name: Name) -> Name:
    """The group that a name is of; what follows in brackets tells apart pods that have different values of it."""
    language, path = name
    if path.endswith(")"):
        return (language, path.partition(" (")[0])
    return name


class GroupReader:
    """The groups of every language, read again as far as objects and pods have changed."""

    def __init__(self, rules: Rules = Rules()) -> None:  # noqa: B008
        self.groups: dict[Name, Group] = {}
        self._rules = rules
        self._objects = Objects()
        self._pods: dict[str, dict[str, Pod]] = {name: {} for name in LANGUAGES}
        self._woven: dict[str, dict[str, Group]] = {name: {} for name in LANGUAGES}
        self._due: set[str] = set()  # languages of which what is woven is to be read again
        self._changed: set[Name] = set()

    def find(self, name: Name) -> Group | None:
        """The group of a name."""
        return self.groups.get(name) or self.groups.get(plain(name))

    def follow_objects(self, objects: Objects) -> list[Name]:
        """Read the groups that objects now declare. Names of groups that have changed."""
        names_changed: list[Name] = []
        differing = objects.differing_types(self._objects)
        for name, language in LANGUAGES.items():
            other_kinds = differing.intersection(language.reads)
            if language.each is not None and language.declares[0] in other_kinds:
                other_kinds -= {language.declares[0]}
                names_changed += self._each(language, language.each, objects)
            if language.woven is not None and other_kinds:
                self._due.add(name)
        self._objects = objects
        self._changed.update(names_changed)
        return names_changed

    def _each(
        self, language: Language, group_of: Callable[[str, Any, Rules], Group | None], objects: Objects
    ) -> Iterator[Name]:
        record = language.declares[0]
        kinds_of = sorted(kinds((record,)))
        for path in objects.latest(self._objects, record):
            namespace, _, called = path.partition("/")
            keys = (Key(group, kind, namespace, called) for group, kind in kinds_of)
            now = next(filter(None, map(objects.record, keys)), None)
            group = group_of(path, now, self._rules) if now is not None else None
            name = (language.name, path)
            before = self.groups.get(name) if path not in self._woven[language.name] else None
            if group is None or before is None:
                self._due.add(language.name)  # it may be a part of something, or not be one any more
            if group is not None:
                self._woven[language.name].pop(path, None)
                if group != before:
                    self.groups[name] = group
                    yield name
            elif before is not None:
                del self.groups[name]
                yield name

    def called(self) -> Iterator[Name]:
        """All names that pods called when they were last looked at."""
        return ((language, path) for language, pods in self._pods.items() for path in pods)

    def follow_pods(self, first_pods: Mapping[Name, Pod | None]) -> set[Name]:
        """The names of all groups that are others since this was last asked.

        `first` are names that pods call, with the first pod of each, or None where none is left: those of them that
        may have changed.
        """
        for name, pod in first_pods.items():
            pods = self._pods[name[0]]
            if pods.get(name[1]) is not pod:
                if pod is None:
                    pods.pop(name[1], None)
                else:
                    pods[name[1]] = pod
                if self.groups.get(plain(name)) is None or plain(name)[1] in self._woven[name[0]]:
                    self._due.add(name[0])
        for called in self._due:
            self._weave(LANGUAGES[called])
        touched, self._changed, self._due = self._changed, set(), set()
        return touched

    def _weave(self, language: Language) -> None:
        if language.woven is None:
            return
        before = self._woven[language.name]
        pods = self._pods[language.name]
        now = language.woven(self._objects, dict(sorted(pods.items())), self._rules)
        for path in before.keys() | now.keys():
            if before.get(path) != now.get(path):
                self._changed.add((language.name, path))
        for path in before.keys() - now.keys():
            self.groups.pop((language.name, path), None)
        self.groups |= {(language.name, path): group for path, group in now.items()}
        self._woven[language.name] = now


def every_group(objects: Objects) -> Mapping[Name, Group]:
    """The groups of every language, under each name that pods call them by."""
    reader = GroupReader()
    reader.follow_objects(objects)
    pods = {}
    for pod in objects.every(Pod).values():
        for name in names(pod):
            pods[name] = pod
    reader.follow_pods(pods)
    return reader.groups


def tree_aliases(objects: Objects) -> dict[str, str]:
    """Further names of trees: the fabrics that their declarations say to be, by how constraints name these."""
    declared = (entry for language in LANGUAGES.values() for entry in language.tree_marks(objects))
    return {fabric_kind(name): kind for kind, meta in declared if (name := fabric_of(meta))}


def label_trees(objects: Objects) -> list[LabelTree]:
    """The trees of node labels that constraints of any language are about; keys without an order share one."""
    trees_read: list[LabelTree] = []
    for language in LANGUAGES.values():
        trees_read.extend(language.trees(objects))
    trees_read += compute_domains.trees(objects)
    keys = sorted({key for tree in trees_read if tree.bare for key in tree.keys})
    listed = [tree for tree in trees_read if not tree.bare]
    if keys:
        return [*listed, LabelTree(LABELS, tuple(keys), bare=True)]
    return listed
