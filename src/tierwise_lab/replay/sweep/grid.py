"""A grid of replays: axes of settings, and a cell for every combination of their values.

    axes:
      topology: {rails: "synthetic:spines=1,leaves=4,hosts=32", racks: "synthetic:spines=3,leaves=6,hosts=6+7+9"}
      load: [0.85, 0.95]
      profile: [default, tree]
      seed: [1, 2, 3, 4, 5, 6]
    base: {trace: "synthetic:jobs=500"}
    baseline: tree

An axis is a setting of a replay (an option of `tierwise simulate` without its dashes), with a list of values, or with
names for them. Cells are made one by one: a grid of ten thousand costs what it says, and no more.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from math import prod
from typing import Any

import msgspec

from tierwise.api.errors import InputError, suggestion
from tierwise.api.yaml_text import documents
from tierwise_lab.replay.spec import ReplaySpec

__all__ = ["PROFILE", "SEED", "Cell", "Grid", "read_grid"]

PROFILE, SEED = "profile", "seed"


class Cell(msgspec.Struct, frozen=True):
    """One combination: its number in the grid, the names of its values by axis, and what is to be replayed."""

    number: int
    names: dict[str, str]
    spec: ReplaySpec


class Grid(msgspec.Struct, frozen=True):
    """The values of every axis by their names, what all cells share, and the profile that others are compared with."""

    axes: dict[str, dict[str, Any]]
    base: dict[str, Any]
    baseline: str

    def __len__(self) -> int:
        return prod(map(len, self.axes.values()))

    def __iter__(self) -> Iterator[Cell]:
        for number, names in enumerate(product(*self.axes.values())):
            values_chosen = dict(zip(self.axes, names, strict=True))
            yield Cell(number, values_chosen, self._spec(values_chosen))

    def _spec(self, names: Mapping[str, str]) -> ReplaySpec:
        raw = {**self.base, **{axis: self.axes[axis][name] for axis, name in names.items()}}
        if isinstance(raw.get(PROFILE), str):
            raw[PROFILE] = [raw[PROFILE]]
        try:
            spec = msgspec.convert(raw, ReplaySpec)
        except msgspec.ValidationError as error:
            raise InputError(str(error), field="axes") from None
        if len(spec.profile) != 1:
            raise InputError("a cell has one profile: several are an axis", field=PROFILE)
        return spec

    @property
    def digest(self) -> str:
        """One word for what the cells are."""
        return hashlib.sha256(msgspec.json.encode([self.axes, self.base], order="sorted")).hexdigest()

    def check(self) -> None:
        """InputError where a value of an axis cannot be one."""
        first_values = {axis: next(iter(values)) for axis, values in self.axes.items()}
        for axis, values in self.axes.items():
            for name in values:
                self._spec({**first_values, axis: name})


def read_grid(data: bytes, file: str) -> Grid:
    """The grid in a YAML text; InputError with its field where it cannot be one."""
    raw = next((document for document, _ in documents(data, file=file) if document is not None), None)
    try:
        return _grid(raw)
    except InputError as error:
        raise error.inside(file=file) from None


def _grid(raw: object) -> Grid:
    if not isinstance(raw, dict) or not isinstance(raw.get("axes"), dict) or not raw["axes"]:
        raise InputError("a grid has axes: settings with the values of each", field="axes")
    base = raw.get("base") or {}
    _check_names(raw, base)
    axes = {axis: _named(axis, values) for axis, values in raw["axes"].items()}
    profiles = axes.get(PROFILE) or {"": ""}
    baseline = str(raw.get("baseline") or next(reversed(profiles)))
    if PROFILE in axes and baseline not in profiles:
        near = suggestion(baseline, profiles)
        raise InputError(f"{baseline} is none of the profiles: {', '.join(profiles)}{near}", field="baseline")
    grid = Grid(axes, base, baseline)
    grid.check()
    return grid


def _check_names(raw: dict[Any, Any], base: Iterable[object]) -> None:
    """InputError for a field that no grid has, or an axis that is no setting of a replay."""
    settings = [field.encode_name for field in msgspec.structs.fields(ReplaySpec)]
    fields = Grid.__struct_fields__
    for field in raw:
        if field not in fields:
            text = f"is not a field of a grid ({', '.join(fields)}){suggestion(str(field), fields)}"
            raise InputError(text, field=str(field))
    for place, axes in (("axes", raw["axes"]), ("base", base)):
        for axis in axes:
            if axis not in settings:
                text = f"no setting of a replay; known are {', '.join(settings)}{suggestion(str(axis), settings)}"
                raise InputError(text, field=f"{place}.{axis}")


def _named(axis: str, values: object) -> dict[str, Any]:
    """Values by name; those of a list are named as they are written."""
    named = {str(value): value for value in values} if isinstance(values, list) else values
    if not isinstance(named, dict) or not named:
        raise InputError("a list of values is expected, or values by name", field=f"axes.{axis}")
    if isinstance(values, list) and len(named) < len(values):
        raise InputError("a value is given twice", field=f"axes.{axis}")
    return {str(name): value for name, value in named.items()}
