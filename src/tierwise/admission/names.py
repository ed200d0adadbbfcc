"""Names that Kubernetes accepts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod
from typing import Final

from tierwise.admission.findings import Issue, error, warning
from tierwise.api.core import LabelSelector, ObjectMeta
from tierwise.api.eviction_terms import parse_terms
from tierwise.api.ladder import FORM as LADDER_FORM
from tierwise.api.ladder import LADDER, parse_ladder
from tierwise.api.pattern import FORMS, PATTERN, parse_pattern
from tierwise.api.repair import parse_repair
from tierwise.api.sizes import SIZES, parse_sizes
from tierwise.dialects.workloads.fields import Fields

__all__ = [
    "LONGEST_LABEL",
    "LONGEST_NAME",
    "check",
    "check_ladder",
    "check_repair",
    "check_sizes",
    "check_terms",
    "dns_label",
    "dns_subdomain",
    "label_selector",
    "label_value",
    "labels_and_annotations",
    "qualified_name",
]


# The annotations that say how the ranks of a job talk to each other, and how long it holds out for a close place.


def check(meta: ObjectMeta, ranks: int) -> Iterator[Issue]:
    """Issues of the annotations on an object with so many pods."""
    yield from check_ladder(meta)
    yield from check_sizes(meta)
    yield from check_terms(meta)
    yield from check_repair(meta)
    text = meta.annotations.get(PATTERN)
    if text is None:
        return
    path = f"metadata.annotations[{PATTERN}]"
    pattern = parse_pattern(text)
    if pattern is None:
        yield error(path, f'"{text}" is not a pattern: {FORMS}')
    elif pattern.grid and ranks and prod(size for _, size in pattern.grid) != ranks:
        yield warning(path, f"the grid {text} has another number of places than there are pods, {ranks}")


def check_ladder(meta: ObjectMeta) -> Iterator[Issue]:
    """An error where the steps of a ladder cannot be read: the gang would wait for ever."""
    text = meta.annotations.get(LADDER)
    if text is not None and parse_ladder(text) is None:
        yield error(f"metadata.annotations[{LADDER}]", f'"{text}" is no ladder: {LADDER_FORM}')


def check_sizes(meta: ObjectMeta) -> Iterator[Issue]:
    """An error where the sizes of a gang cannot be read: it would wait for ever."""
    if SIZES in meta.annotations:
        yield from _unread(parse_sizes(meta.annotations[SIZES]))


def check_terms(meta: ObjectMeta) -> Iterator[Issue]:
    """An error where what an object says of its eviction cannot be read."""
    yield from _unread(parse_terms(meta.annotations))


def check_repair(meta: ObjectMeta) -> Iterator[Issue]:
    """An error where what an object says of the loss of nodes cannot be read."""
    yield from _unread(parse_repair(meta.annotations))


def _unread(problem: object) -> Iterator[Issue]:
    """An error where a sentence was found in place of what annotations say."""
    if isinstance(problem, str):
        key, _, why = problem.removeprefix("annotation ").partition(": ")
        yield error(f"metadata.annotations[{key}]", why)


LONGEST_LABEL: Final = 63
LONGEST_NAME: Final = 253
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_WORD: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_MOST_ANNOTATIONS: Final = 256 * 1024
_NAMED: Final = (
    'the name "{}" must consist of lower-case letters, {}, start and end with a letter or digit, and have at most '
    "{} characters"
)
_WITH_VALUES: Final = frozenset({"In", "NotIn"})
_WITHOUT_VALUES: Final = frozenset({"Exists", "DoesNotExist"})


def dns_label(path: str, name: str) -> Iterator[Issue]:
    """An error where a name is no DNS label: lower-case letters, digits and "-"."""
    if len(name) > LONGEST_LABEL or not _LABEL.fullmatch(name):
        yield error(path, _NAMED.format(name, 'digits and "-"', LONGEST_LABEL))


def dns_subdomain(path: str, name: str) -> Iterator[Issue]:
    """An error where a name is no DNS subdomain: labels with dots between them."""
    if len(name) > LONGEST_NAME or not _SUBDOMAIN.fullmatch(name):
        yield error(path, _NAMED.format(name, 'digits, "-" and "."', LONGEST_NAME))


def qualified_name(path: str, name: str) -> Iterator[Issue]:
    """An error where the key of a label, a taint or a resource is none: a word, perhaps with a domain before it."""
    domain, slash, word = name.rpartition("/")
    if len(word) > LONGEST_LABEL or not _WORD.fullmatch(word):
        text = f'the name "{name}" must be letters, digits, "-", "_" and "." between letters or digits, at most'
        yield error(path, f"{text} {LONGEST_LABEL} characters, perhaps with a domain and a slash before it")
    elif slash:
        yield from dns_subdomain(path, domain)


def label_value(path: str, value: str) -> Iterator[Issue]:
    """An error where a text is no value of a label."""
    if value and (len(value) > LONGEST_LABEL or not _WORD.fullmatch(value)):
        text = f'the value "{value}" must be letters, digits, "-", "_" and "." between letters or digits, at most'
        yield error(path, f"{text} {LONGEST_LABEL} characters")


def labels_and_annotations(meta: Fields) -> Iterator[Issue]:
    """Errors for labels and annotations of an object or template that the API server would refuse."""
    for key, value in meta.texts("labels").items():
        yield from qualified_name(meta.where("labels"), key)
        yield from label_value(f"{meta.where('labels')}.{key}", value)
    size = 0
    for key, value in meta.texts("annotations").items():
        yield from qualified_name(meta.where("annotations"), key.lower())
        size += len(key.encode()) + len(value.encode())
    if size > _MOST_ANNOTATIONS:
        yield error(meta.where("annotations"), f"{size} bytes are more than the {_MOST_ANNOTATIONS} that are allowed")


def label_selector(path: str, selector: LabelSelector | None) -> Iterator[Issue]:
    """Errors for the requirements of a selector that the API server would refuse."""
    for index, requirement in enumerate(selector.match_expressions if selector else ()):
        where = f"{path}.matchExpressions[{index}]"
        if not requirement.key:
            yield error(f"{where}.key", "the key is empty")
        if requirement.operator in _WITH_VALUES and not requirement.values:
            yield error(f"{where}.values", f"operator {requirement.operator} needs values")
        elif requirement.operator in _WITHOUT_VALUES and requirement.values:
            yield error(f"{where}.values", f"operator {requirement.operator} takes no values")
        elif requirement.operator not in _WITH_VALUES | _WITHOUT_VALUES:
            yield error(f"{where}.operator", f'operator "{requirement.operator}" is not known')
