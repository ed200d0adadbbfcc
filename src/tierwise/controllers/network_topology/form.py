"""How the manifests of NetworkTopologies are put together: their two forms differ in what they call their lists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from tierwise.api.codec import Raw
from tierwise.api.network_aware import REGION, ZONE, KepNetworkTopology, NetworkTopology
from tierwise.api.quantity import whole
from tierwise.dialects.services import link_of
from tierwise.model.services import Link

__all__ = ["Form", "form_of"]

_DECIMAL: Final = ("k", "M", "G", "T")
_BINARY: Final = ("Ki", "Mi", "Gi", "Ti")


class Form(msgspec.Struct, frozen=True):
    """The names of the lists, from the outside in, and whether what is left of a link is written too."""

    keys: str
    origins: str
    costs: str
    writes_left: bool

    def listed(self, weight: Raw, field: str) -> dict[Link, object]:
        """A field of every pair that a set of weights lists, as written; None where it is not given."""
        return {link: entry.get(field) for link, entry in self._entries(weight)}

    def weight(self, name: str, entries: Mapping[Link, Raw]) -> Raw:
        """A set of weights, regions first, everything in alphabetical order."""
        keys: list[Raw] = []
        for key, regional in ((REGION, True), (ZONE, False)):
            origins: dict[str, list[Raw]] = {}
            for link in sorted(link for link in entries if link.regional is regional):
                origins.setdefault(link.origin, []).append(entries[link])
            listed = [{"origin": origin, self.costs: costs} for origin, costs in origins.items()]
            keys.append({"topologyKey": key, self.origins: listed})
        return {"name": name, self.keys: keys}

    def with_reserved(self, weight: Raw, taken: Mapping[Link, int]) -> Raw:
        """A copy in which every pair says what is reserved on it."""
        changed = {id(entry): self._noted(entry, taken.get(link, 0)) for link, entry in self._entries(weight)}
        keys = [
            {
                **key,
                self.origins: [
                    {**origin, self.costs: [changed.get(id(entry), entry) for entry in _dicts(origin, self.costs)]}
                    for origin in _dicts(key, self.origins)
                ],
            }
            for key in _dicts(weight, self.keys)
        ]
        return {**weight, self.keys: keys} if self.keys in weight else weight

    def _noted(self, entry: Raw, number: int) -> Raw:
        capacity = entry.get("bandwidthCapacity")
        noted = {**entry, "bandwidthAllocated": _kept(entry.get("bandwidthAllocated"), number, like=capacity)}
        if self.writes_left and isinstance(capacity, str | int | float):
            left = whole(capacity) - number
            noted["bandwidthAllocatable"] = _kept(entry.get("bandwidthAllocatable"), left, like=capacity)
        return noted

    def _entries(self, weight: Raw) -> Iterator[tuple[Link, Raw]]:
        for key in _dicts(weight, self.keys):
            for origin in _dicts(key, self.origins):
                for entry in _dicts(origin, self.costs):
                    link = link_of(
                        str(key.get("topologyKey")), str(origin.get("origin", "")), str(entry.get("destination", ""))
                    )
                    if link is not None:
                        yield link, entry


_SHIPPED: Final = Form("topologyList", "originList", "costList", writes_left=False)
_PROPOSED: Final = Form("costList", "originCosts", "costs", writes_left=True)


def form_of(topology: NetworkTopology | KepNetworkTopology) -> Form:
    """The form of a NetworkTopology."""
    return _PROPOSED if isinstance(topology, KepNetworkTopology) else _SHIPPED


def _dicts(raw: Raw, field: str) -> list[Raw]:
    found = raw.get(field)
    return [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []


def _kept(present: object, number: int, *, like: object) -> object:
    """The amount as it is written already where it says the same, else in the manner of the capacity beside it."""
    if isinstance(present, str | int | float):
        try:
            if whole(present) == number:
                return present
        except ValueError:
            pass
    return _spelled(number, str(like))


def _spelled(number: int, like: str) -> str:
    """With the largest suffix that loses nothing, of the kind that the other amount has; 200Mi beside 1Gi."""
    base, suffixes = (1024, _BINARY) if like.endswith("i") else (1000, _DECIMAL if like[-1:].isalpha() else ())
    spelled = str(number)
    for power, suffix in enumerate(suffixes, start=1):
        if number and number % base**power == 0:
            spelled = f"{number // base**power}{suffix}"
    return spelled
