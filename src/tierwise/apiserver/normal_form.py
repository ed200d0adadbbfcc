"""Kubernetes' own kinds as its API server keeps them: canonical quantities, and secrets without plain text.

Clients with types rely on it: Kubernetes' Python client refuses a bare number where a quantity belongs. Custom
resources stay as they were written, as they do there.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from functools import cache

from tierwise.api.codec import Raw
from tierwise.api.quantity import canonical
from tierwise.apiserver.protobuf import by_name, message_of, messages
from tierwise.port import Key

__all__ = ["normal"]


def normal(key: Key, raw: Raw) -> Raw:
    """An object as it is kept; itself where nothing changes."""
    message = message_of(key.group, key.kind)
    if message is None:
        return raw
    normalized = _normal(raw, message)
    assert isinstance(normalized, dict)
    if (key.group, key.kind) == ("", "Secret"):
        return _encoded(normalized)
    return normalized


def _encoded(secret: Raw) -> Raw:
    """A secret whose `stringData` has become `data`, where it counts for more than what was there."""
    plain = secret.get("stringData")
    if not isinstance(plain, dict):
        return secret
    data_before = secret.get("data")
    data = dict(data_before) if isinstance(data_before, dict) else {}
    data |= {name: base64.b64encode(str(text).encode()).decode() for name, text in plain.items()}
    return {name: value for name, value in secret.items() if name != "stringData"} | {"data": data}


def _normal(value: object, message: str) -> object:
    if not isinstance(value, dict):
        return value
    changed: Raw = {}
    for name, (inner, several, mapped) in _with_quantities(message).items():
        held = value.get(name)
        if held is None:
            continue
        if several and isinstance(held, list):
            new: object = [_one(item, inner) for item in held]
        elif mapped and isinstance(held, dict):
            new = {place: _one(item, inner) for place, item in held.items()}
        elif several or mapped:
            continue  # not what belongs here, as the reader will say
        else:
            new = _one(held, inner)
        if new != held:
            changed[name] = new
    return {**value, **changed} if changed else value


def _one(value: object, kind: str) -> object:
    if kind != "quantity":
        return _normal(value, kind)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return value
    try:
        return canonical(value)
    except ValueError:
        return value  # the reader says what is wrong with it


@cache
def _with_quantities(message: str) -> Mapping[str, tuple[str, bool, bool]]:
    """Return, by field name, (type, is a list, is a map) of each field of a message that is a quantity or holds one
    somewhere inside. The type is "quantity" or the name of the inner message.
    """
    return {
        name: (field.type, field.many, field.mapped)
        for name, field in by_name(message).items()
        if field.type == "quantity" or field.type in _holders()
    }


@cache
def _holders() -> frozenset[str]:
    """The messages that have a quantity somewhere inside."""
    messages_holding: set[str] = set()
    while True:
        new_holders = {
            name
            for name in messages()
            if name not in messages_holding
            and any(field.type == "quantity" or field.type in messages_holding for field in by_name(name).values())
        }
        if not new_holders:
            return frozenset(messages_holding)
        messages_holding |= new_holders
