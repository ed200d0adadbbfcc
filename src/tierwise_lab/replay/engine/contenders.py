"""What a replay compares: profiles of tierwise, and baselines.

`best-fit` and `random` run in the same cycle with the same gang rules; what differs is how nodes are ranked, and that
nothing looks at the tree. `volcano` has the scores of Volcano's own plugins. The others are simple rules (`baselines`)
in place of the cycle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.api.repair import OnNodeLoss
from tierwise.config.actions import EVICTING
from tierwise.config.failed_starts import failed_start_rules
from tierwise.config.profile import DEFAULT, PluginChoice, Profile
from tierwise.config.reservations import OFF, reservation_rules
from tierwise.framework.declaration import takes_part
from tierwise.framework.extension import Arguments, Ask, CycleView, Factory, ScoreEffect, Scorer
from tierwise.framework.registry import extended
from tierwise.model.arrays import Bools, Floats
from tierwise.model.failed_starts import FailedStart, StartMemory
from tierwise.plugins import PLUGINS
from tierwise_lab.replay.engine.baselines import RULES

__all__ = ["BUILT_IN", "SIMPLE", "Contender", "plugins"]


_SWARM_STARTS, _SWARM_SECONDS = 5, 300.0
"""SwarmKit's `maxFailures` and `monitorFailures`: a node with so many of a service within so long is used last."""
_NOBODY_SUSPECTS = 1 << 30


class Contender(msgspec.Struct, frozen=True):
    """A profile under a name; one that is not aware does not see the tree."""

    name: str
    profile: Profile
    aware: bool = True
    spares: int = 0  # that every gang of several pods declares; pods by themselves may borrow them
    rule: str = ""  # of the baselines, which decides in place of the cycle
    five_in_five: bool = False  # of failed starts it knows what SwarmKit does: five of a job on a node in five minutes

    def with_spares(self, number: int) -> Contender:
        """A copy of this contender that keeps so many spares for each gang."""
        repair = (PluginChoice("repair", {"maxSpares": number}),)
        return replace(self, spares=number, profile=replace(self.profile, tiers=(*self.profile.tiers, repair)))

    @property
    def evicts(self) -> bool:
        return bool(self.spares) or not EVICTING.isdisjoint(self.profile.actions)

    @property
    def replaces(self) -> bool:
        """Whether gangs keep their place when a host fails, and wait for replacements."""
        return OnNodeLoss.REPLACE.value in self.profile.listed("repair", "onNodeLoss")

    @property
    def counts_usage(self) -> bool:
        """Whether it shares by usage of the past: cycles count that also where nobody waits."""
        return not self.rule and any(choice.name == "fairshare" for choice in self.profile.plugins())

    @property
    def reserves(self) -> bool:
        return reservation_rules(self.profile).mode != OFF

    @property
    def remembers(self) -> bool:
        """Whether it has a record of failed starts."""
        return bool(failed_start_rules(self.profile).namespace)

    def memory(self, starts: Sequence[FailedStart], now: float) -> StartMemory | None:
        """The memory of the starts that have failed so far; None where it keeps no record."""
        if not self.remembers:
            return None
        rules = failed_start_rules(self.profile)
        if not self.five_in_five:
            return StartMemory(rules.namespace, rules.half_life, rules.owners, tuple(starts))
        recent = [start for start in starts if start.at > now - _SWARM_SECONDS]
        number = Counter((start.gang, start.node) for start in recent)
        often = tuple(start for start in recent if number[start.gang, start.node] >= _SWARM_STARTS)
        return StartMemory(rules.namespace, rules.half_life, _NOBODY_SUSPECTS, often)

    @property
    def counts_rings(self) -> bool:
        """Whether it goes by who stands in which leaf."""
        return any(plugin.arguments.get("rings") for plugin in self.profile.plugins() if plugin.name == "patience")

    @property
    def foresees(self) -> bool:
        """Whether it goes by when what runs will end."""
        plugins = {plugin.name for plugin in self.profile.plugins()}
        return not self.rule and (self.reserves or not plugins.isdisjoint(("patience", "places")))


@takes_part(Scorer)
class RandomOrder:
    """Ranks nodes by chance: for each job an order of its own, drawn with the seed and the job's place in the trace."""

    def __init__(self, arguments: Arguments, view: CycleView) -> None:
        self._seed = int(str(arguments.get("seed", 0)))
        self._nodes = len(view.nodes)

    def effect(self, ask: Ask) -> ScoreEffect:
        """Where tasks stand changes nothing."""
        return ScoreEffect.FIXED

    def score(self, ask: Ask, span: slice, fits: Bools) -> Floats:
        """Up to 100, in the job's own order."""
        job = ask.job.owner or ask.job.key  # a pod group of the embedded cluster is named after its job
        drawn: Floats = np.random.default_rng((self._seed, int(job.rpartition("-")[2]))).random(self._nodes)
        return 100.0 * drawn[span]

    def stale(self, ask: Ask, row: int) -> slice:
        """No score changes."""
        return slice(row, row)


def plugins() -> Mapping[str, Factory]:
    """The product's plugins, and those that only a replay has."""
    return extended(PLUGINS, {"replay-random": RandomOrder})


_PROPOSE = PluginChoice("propose", {"sortBySize": True})


_REPAIR = PluginChoice("repair", {"onNodeLoss": OnNodeLoss.REPLACE.value})


def _naive(name: str, scorer: PluginChoice) -> Contender:
    tiers = ((PluginChoice("priority"), PluginChoice("gang")), (PluginChoice("predicates"), scorer))
    return Contender(name, replace(DEFAULT, tiers=tiers), aware=False)


def _with(name: str, *plugin: PluginChoice) -> Contender:
    first_tier, second = DEFAULT.tiers
    return Contender(name, replace(DEFAULT, tiers=(first_tier, (*second, *plugin))))


def _patient() -> Contender:
    """Twice the patience of the default profile."""
    tiers = tuple(
        tuple(PluginChoice("patience", {"share": 0.1}) if plugin.name == "patience" else plugin for plugin in tier)
        for tier in DEFAULT.tiers
    )
    return Contender("patient", replace(DEFAULT, tiers=tiers))


def _rings(rings: int, wait: float) -> Contender:
    """The default profile with a budget of rings on the uplink of a leaf."""
    settings: Mapping[str, object] = {"rings": rings, "wait": wait}
    tiers = tuple(
        tuple(PluginChoice("patience", settings) if plugin.name == "patience" else plugin for plugin in tier)
        for tier in DEFAULT.tiers
    )
    return Contender("rings", replace(DEFAULT, tiers=tiers))


def _reserving(mode: str) -> Contender:
    return Contender(mode, replace(DEFAULT, action_arguments={"allocate": {"reservations": mode}}))


def _remembering() -> Profile:
    """The default profile with a record of failed starts."""
    return replace(DEFAULT, action_arguments={"allocate": {"failedStarts": "replay"}})


def _volcano() -> Contender:
    """Gangs by Volcano's scores of domains, pods by its binpack and node order, with the weights that it comes with."""
    scores = (PluginChoice("predicates"), PluginChoice("nodeorder"), PluginChoice("binpack"))
    tiers = (DEFAULT.tiers[0], (*scores, PluginChoice("network-topology-aware")))
    return Contender("volcano", replace(DEFAULT, tiers=tiers))


def _ruled(name: str, _seed: int) -> Contender:
    return Contender(name, DEFAULT, rule=name)


BUILT_IN: Mapping[str, Callable[[int], Contender]] = {
    "default": lambda _seed: Contender("default", DEFAULT),
    "propose": lambda _seed: _with("propose", _PROPOSE),
    "patient": lambda _seed: _patient(),
    "rings": lambda _seed: _rings(2, 0.5),
    "repair": lambda _seed: _with("repair", _REPAIR),
    "spares": lambda _seed: _with("spares", _REPAIR).with_spares(1),
    "easy": lambda _seed: _reserving("easy"),
    "conservative": lambda _seed: _reserving("conservative"),
    "remembers": lambda _seed: Contender("remembers", _remembering()),
    "five-in-five": lambda _seed: Contender("five-in-five", _remembering(), five_in_five=True),
    "best-fit": lambda _seed: _naive("best-fit", PluginChoice("binpack")),
    "volcano": lambda _seed: _volcano(),
    **{name: partial(_ruled, name) for name in RULES},
    "random": lambda seed: _naive("random", PluginChoice("replay-random", {"seed": seed})),
}
"""Contenders by name, made with the seed of the run."""

SIMPLE = ("best-fit", *RULES)
"""The simple rules among them that a profile ought to beat."""
