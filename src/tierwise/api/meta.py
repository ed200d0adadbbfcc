"""What all Kubernetes objects share: metadata, owners, label selectors, times.

Records are immutable and shaped like the API: attributes are the snake_case of the API's names, lists are tuples,
maps are dictionaries that must not be changed. Fields that tierwise does not know are ignored. The codec builds them
from manifests; they know no scheduling and check nothing but types.
"""

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated, Final

from msgspec import Meta, Struct

__all__ = [
    "Int",
    "LabelSelector",
    "Labels",
    "ObjectMeta",
    "OwnerReference",
    "Record",
    "Requirement",
    "format_micro_time",
    "format_time",
    "parse_time",
    "read_number",
]

Labels = dict[str, str]
_FIRST, _LAST = -62_135_596_800, 253_402_300_799  # times that can be written: years 1 to 9999

Int = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
"""An integer that fits 64 bits. Narrower limits are admission's business; this one keeps arrays from overflowing."""

# RFC 3339: the date and time parts, the fraction, and the offset.
_DIGITS: Final = 19
"""From so many digits on a number may be beyond 64 bits."""

_TIME: Final = re.compile(r"(\d{4}-\d{2}-\d{2})[Tt ](\d{2}:\d{2}:\d{2})(\.\d+)?([Zz]|[+-]\d{2}:\d{2})", re.ASCII)


class Record(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """A piece of an API object. Records form trees, never cycles, hence no garbage collection."""


class OwnerReference(Record, frozen=True):
    """The object that an object belongs to and is deleted with."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(Record, frozen=True):
    """Identity, labels and life of an object; times are the text that the API shows, "" where there is none."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: Int = 0
    creation_timestamp: str = ""
    deletion_timestamp: str = ""
    labels: Labels = {}
    annotations: Labels = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()


class Requirement(Record, frozen=True):
    """One condition on a label or field; `selector.holds` says what it means."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(Record, frozen=True):
    """Conditions on labels, all of which must hold; `selector.matches` says what it means."""

    match_labels: Labels = {}
    match_expressions: tuple[Requirement, ...] = ()


@lru_cache(maxsize=65536)
def read_number(text: str) -> int | None:
    """The whole number that a label or an annotation spells with plain digits; None where it spells none.

    What is beyond 64 bits counts as the largest: a number of thousands of digits is never computed.
    """
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()):
        return None
    size = int(digits) if len(digits) < _DIGITS else 2**63 - 1
    return -size if text.startswith("-") else size


@lru_cache(maxsize=1 << 8)
def format_time(seconds: float) -> str:
    """Seconds since the epoch as the API shows times: RFC 3339, UTC, whole seconds, at most the end of year 9999."""
    moment = datetime.fromtimestamp(min(max(int(seconds), _FIRST), _LAST), UTC)
    return moment.isoformat().replace("+00:00", "Z")


def format_micro_time(seconds: float) -> str:
    """The same with microseconds: Kubernetes' MicroTime."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


@lru_cache(maxsize=1 << 14)
def parse_time(text: str) -> float:
    """Seconds since the epoch for an RFC 3339 time; ValueError for anything else.

    Digits beyond microseconds are dropped: the API itself keeps whole seconds, or microseconds in leases.
    """
    form = _TIME.fullmatch(text)
    if form is None:
        raise ValueError(f'"{text[:40]}" is not an RFC 3339 time')
    date, clock, fraction, offset = form.groups()
    zone = "+00:00" if offset in "Zz" else offset
    try:
        moment = datetime.fromisoformat(f"{date}T{clock}{(fraction or '')[:7]}{zone}")
    except ValueError as error:
        raise ValueError(f'"{text}" is not a time: {error}') from None
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()
