"""Who may be evicted: what victim filters say together. Every filter has a veto, whatever its place in the profile.

Filters that count victims are asked last, about those that no other protects. If no filter names victims for a purpose,
nobody is evicted for it.
"""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np

from tierwise.framework.boundary import RULES, Answer, AnyRule, Panel, Question, sealed
from tierwise.framework.extension import Preemptor, Purpose
from tierwise.model.arrays import Bools, Ints

__all__ = ["Victims", "vetoes"]

_ROUNDS: Final = 4
"""How often a filter that counts is asked again about those that it has protected."""

_SWITCH: Final = {Purpose.PREEMPT: "Preemptable", Purpose.RECLAIM: "Reclaimable"}


class _Filter(msgspec.Struct, frozen=True, eq=False):
    """A victim filter: its questions inside the boundary."""

    name: str
    answers: bool  # names victims for the purpose
    counts: bool
    prices: bool  # says what evictions cost
    protect: Answer
    protect_alone: Answer | None
    protect_whole: Answer | None

    def lets_go(self, preemptor: Preemptor, victims: Ints) -> Bools:
        return ~self.protect(preemptor, sealed(victims))  # type: ignore[no-any-return]

    def lets_go_whole(self, preemptor: Preemptor, victims: Ints, bundles: Ints) -> Bools:
        """The same, where a bundle goes whole or not at all; one that stays uses up nothing.

        What a filter says of those behind a bundle that it would break does not hold: they are asked about again.
        """
        if self.protect_whole is not None:
            return ~self.protect_whole(preemptor, sealed(victims), sealed(bundles))  # type: ignore[no-any-return]
        asked = np.ones(len(victims), dtype=bool)
        while True:
            goes = np.zeros(len(victims), dtype=bool)
            goes[asked] = self.lets_go(preemptor, victims[asked])
            broken = np.intersect1d(bundles[goes], bundles[asked & ~goes])
            if not len(broken):
                return goes
            asked &= bundles != broken[0]


def vetoes(panel: Panel, rule: AnyRule) -> Answer:
    """Every filter has a veto, counting ones last; nobody goes where none answers."""
    pricing = panel.by_plugin(RULES["lost_seconds"])
    filters: dict[Purpose, list[_Filter]] = {}
    for purpose, switch in _SWITCH.items():
        alone, whole = (panel.by_plugin(RULES[name], switch) for name in ("protect_alone", "protect_whole"))
        filters[purpose] = [
            _Filter(
                asked.name,
                answers=purpose in asked.by.answers,
                counts=asked.by.counts,
                prices=asked.by.plugin_id in pricing,
                protect=panel.guarded(rule, asked),
                protect_alone=alone.get(asked.by.plugin_id),
                protect_whole=whole.get(asked.by.plugin_id),
            )
            for asked in panel.members(rule, switch)
        ]
    return lambda preemptor: filters[preemptor.purpose]


class Victims:
    """What a pipeline says of victims."""

    _victim_filters: Question[[Preemptor], list[_Filter]]
    _acts_name_victims: bool

    def answered(self, preemptor: Preemptor) -> bool:
        """Whether some plugin names victims for the purpose; Kubernetes' preempting actions choose them without
        plugins.
        """
        if preemptor.by_pod and self._acts_name_victims:
            return True
        return any(one.answers for one in self._victim_filters(preemptor))

    def counts_victims(self, preemptor: Preemptor) -> bool:
        """Whether some filter limits the number of victims."""
        return any(one.counts for one in self._victim_filters(preemptor))

    def may_go(self, preemptor: Preemptor, victims: Ints) -> Bools:
        """Which candidates every victim filter lets go; filters that count are asked last."""
        allowed = self.named(preemptor, victims)
        allowed[allowed] = self.counted(preemptor, victims[allowed])
        return allowed

    def named(self, preemptor: Preemptor, victims: Ints) -> Bools:
        """Which candidates may be evicted before counting filters are asked; none if no filter answers."""
        if not self.answered(preemptor):
            return np.zeros(len(victims), dtype=bool)
        return self._let_go(preemptor, victims, counting=False)

    def counted(self, preemptor: Preemptor, victims: Ints) -> Bools:
        """Which of the candidates that are named every filter lets go that counts."""
        return self._let_go(preemptor, victims, counting=True)

    def _let_go(self, preemptor: Preemptor, victims: Ints, *, counting: bool) -> Bools:
        allowed = np.ones(len(victims), dtype=bool)
        for one in self._victim_filters(preemptor):
            if one.counts is counting:
                allowed &= one.lets_go(preemptor, victims)
        return allowed

    def counted_whole(self, preemptor: Preemptor, victims: Ints, bundles: Ints) -> Bools:
        """The same for bundles that go whole or not at all, by filter that keeps some: (filters x candidates)."""
        filters = [one for one in self._victim_filters(preemptor) if one.counts]
        said = [np.broadcast_to(one.lets_go_whole(preemptor, victims, bundles), len(victims)) for one in filters]
        keeping = [goes for goes in said if not goes.all()]
        return np.array(keeping, dtype=bool).reshape(len(keeping), len(victims))

    def could_go(self, preemptor: Preemptor, victims: Ints) -> Bools:
        """Which candidates every victim filter might let go, were it asked about each alone; never too few.

        Filters that count let fewer go the more they are asked about. So whoever one of them protects is asked about
        again without those that it lets go, and where it protects all that are left, it would protect each alone.
        """
        allowed = self.alone(preemptor, victims)
        for one in self._victim_filters(preemptor):
            if not one.counts or one.protect_alone is not None:
                continue
            left = np.flatnonzero(allowed)
            for _ in range(_ROUNDS):
                lets_go = one.lets_go(preemptor, victims[left])
                if not lets_go.any():
                    allowed[left] = False
                    break
                left = left[~lets_go]
        return allowed

    def alone(self, preemptor: Preemptor, victims: Ints) -> Bools:
        """The same, as far as it can be told at once: by filters that say for each alone whether they protect it."""
        allowed = self.named(preemptor, victims)
        for one in self._victim_filters(preemptor):
            if one.protect_alone is not None:
                allowed[allowed] = ~one.protect_alone(preemptor, sealed(victims[allowed]))
        return allowed

    def protected_by_price(self, preemptor: Preemptor, victims: Ints) -> Bools:
        """Candidates that plugins which price evictions protect: those that have not run for long enough."""
        protected = np.zeros(len(victims), dtype=bool)
        for one in self._victim_filters(preemptor):
            if one.prices:
                protected |= one.protect(preemptor, sealed(victims))
        return protected

    def protected_counts(self, preemptor: Preemptor, victims: Ints) -> dict[str, int]:
        """How many candidates each filter protects, to explain why nothing was evicted."""
        everyone = np.ones(len(victims), dtype=bool)
        filters = self._victim_filters(preemptor)
        return {one.name: int((everyone & ~one.lets_go(preemptor, victims)).sum()) for one in filters}
