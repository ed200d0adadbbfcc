"""Amounts of a domain that the pods in it share, such as power and cooling, and what a pod is charged of them.

Administrators say them: of one hyperNode by `tierwise.io/amounts`, a JSON list; of all domains of a tier in the
arguments of the plugin `amounts`. Both are read here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from tierwise.api.core import Record
from tierwise.api.errors import InputError
from tierwise.api.quantity import LARGEST, canonical, milli, ratio

__all__ = ["AMOUNTS", "MOST", "Amount", "AmountEntry", "Charge", "parse_amounts", "read_amounts", "shown"]

AMOUNTS: Final = "tierwise.io/amounts"
"""On a hyperNode, as JSON: what the pods in it share."""

MOST: Final = 16
"""Amounts of one hyperNode, and of one profile."""
_CHARGES: Final = 32
_NAME: Final = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_FORM: Final = (
    '[{"name": "power", "amount": "40k", "charges": [{"resource": NAME, "each": QUANTITY, "nodes": LABELS}]}]'
)


class Charge(Record, frozen=True, forbid_unknown_fields=True):
    """The charge of a pod for each unit of a resource that it asks for, on nodes with these labels."""

    resource: str
    each: str | int | float
    nodes: dict[str, str] = {}  # none: on all nodes

    def of(self, units: int, per_unit: int) -> int:
        """The charge in thousandths, rounded up, for an amount of the resource in its counted unit."""
        number, denominator = ratio(self.each)
        return min(-(-units * number * 1000 // (denominator * per_unit)), LARGEST)


class AmountEntry(Record, frozen=True, forbid_unknown_fields=True):
    """One amount as it is written: of a hyperNode, or, with tiers, of all domains of these."""

    name: str
    amount: str | int | float | None = None
    charges: tuple[Charge, ...] = ()
    tiers: dict[str, str | int | float] = {}


class Amount(msgspec.Struct, frozen=True):
    """How much the pods of a domain share."""

    name: str
    limit: int  # in thousandths
    charges: tuple[Charge, ...] = ()  # none: those that the profile gives for the name


def parse_amounts(text: str) -> tuple[Amount, ...] | str:
    """The amounts of a hyperNode's annotation, or what is wrong with it."""
    try:
        entries = msgspec.json.decode(text, type=tuple[AmountEntry, ...]) if text.strip() else ()
    except msgspec.DecodeError as error:
        return f"it must be a JSON list such as {_FORM}: {error}"
    if len(entries) > MOST:
        return f"{len(entries)} amounts are more than the {MOST} that a hyperNode may have"
    amounts: list[Amount] = []
    for i, entry in enumerate(entries):
        fault = _fault(entry) or _own_fault(entry)
        if not fault and any(entry.name == other.name for other in amounts):
            fault = f'name: "{entry.name}" is there twice'
        if fault:
            return f"[{i}].{fault}"
        assert entry.amount is not None
        amounts.append(Amount(entry.name, milli(entry.amount), entry.charges))
    return tuple(amounts)


def read_amounts(raw: object) -> tuple[AmountEntry, ...]:
    """The amounts of a profile; InputError with the field where they cannot be read."""
    if raw is None:
        return ()
    if not isinstance(raw, Sequence) or isinstance(raw, str) or len(raw) > MOST:
        raise InputError(f"expected a list of at most {MOST} amounts")
    entries, names = list[AmountEntry](), set[str]()
    for i, text in enumerate(raw):
        entry = _read(text)
        if not isinstance(entry, str) and entry.name in names:
            entry = f'name: "{entry.name}" is there twice'
        if isinstance(entry, str):
            raise InputError(f"[{i}]: {entry}")
        names.add(entry.name)
        entries.append(entry)
    return tuple(entries)


def _read(raw: object) -> AmountEntry | str:
    """An amount of a profile, or what is wrong with it."""
    try:
        entry = msgspec.convert(raw, AmountEntry)
    except msgspec.ValidationError as error:
        return str(error)
    fault = _fault(entry)
    if fault:
        return fault
    if entry.amount is not None:
        return "amount: a profile gives amounts by tier, in tiers"
    for tier, quantity in entry.tiers.items():
        if _no_amount(quantity):
            return f"tiers[{tier}]: {_no_amount(quantity)}"
    return entry


def shown(thousandths: int) -> str:
    """An amount as people write it."""
    return canonical(f"{thousandths}m")


def _own_fault(entry: AmountEntry) -> str:
    """Error text for an amount that a hyperNode gives of itself; "" if it is valid."""
    if entry.tiers:
        return "tiers: a hyperNode gives an amount of itself alone"
    if entry.amount is None:
        return "amount: it is missing"
    fault = _no_amount(entry.amount)
    return f"amount: {fault}" if fault else ""


def _fault(entry: AmountEntry) -> str:
    """Error text for the name and the charges of an amount; "" if they are valid."""
    if not re.fullmatch(_NAME, entry.name):
        return f'name: "{entry.name[:64]}" cannot be the name of an amount'
    if len(entry.charges) > _CHARGES:
        return f"charges: {len(entry.charges)} are more than the {_CHARGES} that an amount may have"
    for i, charge in enumerate(entry.charges):
        if not charge.resource:
            return f"charges[{i}].resource: it is empty"
        fault = _no_amount(charge.each)
        if fault:
            return f"charges[{i}].each: {fault}"
    return ""


def _no_amount(quantity: str | float) -> str:
    """Why a quantity is no amount of at least 0; "" if it is one."""
    try:
        number, _ = ratio(quantity)
    except ValueError as error:
        return str(error)
    return "" if number >= 0 else f'"{quantity}" is less than 0'
