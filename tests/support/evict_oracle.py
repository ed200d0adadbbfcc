"""Gang eviction stated naively: bundles, filters, whether a gang fits, and the cheapest victims by trying them all.

For waiting gangs whose pods are all alike, where fitting is a matter of counting. Follows the specification of gang
eviction (its phases 1 to 4 and the decided order of costs) pod by pod, in fractions; nothing is shared with `actions`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from fractions import Fraction
from functools import cached_property
from itertools import chain, combinations, groupby
from typing import TypeVar

import msgspec
from tests.support.evict_facts import Domain, Due, domains, dues, used
from tests.support.evict_world import Gang, Pod, Scene

from tierwise.api.natural import natural

__all__ = [
    "Bundle",
    "Cost",
    "Plea",
    "allowed_bundles",
    "cheapest",
    "cost_of",
    "queue_key",
    "room_for",
    "split",
    "survivors",
]

_ALIKE = Fraction(5, 100)
Item = TypeVar("Item")


class Plea(msgspec.Struct, frozen=True, dict=True):
    """A gang that wants room at one moment of a cycle: the cluster as it stands then, and the rules."""

    scene: Scene
    gang: Gang
    places: Mapping[str, str]  # where pods stand or are expected
    waits: frozenset[str]  # those of them that are only expected
    preempts: bool  # else it reclaims
    quota: str = ""
    budgets: bool = False
    gone: frozenset[str] = frozenset()  # who was evicted in this cycle before

    @cached_property
    def missing(self) -> int:
        return self.gang.minimum - sum(self.gang.path(pod) in self.places for pod in self.gang.pods)

    @cached_property
    def each(self) -> Counter[str]:
        return self.gang.pods[-1].need

    @cached_property
    def need(self) -> Counter[str]:
        return Counter({r: n * self.missing for r, n in self.each.items()})

    @cached_property
    def dues(self) -> dict[str, Due]:
        return dues(self.scene, self.quota)

    @cached_property
    def short(self) -> set[str]:
        """Resources of which some domain that could be cleared for the gang has too little, each by itself."""
        everybody = {path for local in candidates(self, self.scene.nodes).values() for path in local}
        usable = [d for d in self.searched() if self.rooms(d.nodes, everybody) >= self.missing]
        found = {
            r
            for domain in usable
            for r, n in self.each.items()
            if n and sum(max(0, self.free(node)[r] // n) for node in self.open(domain.nodes)) < self.missing
        }
        return found or {r for r, n in self.need.items() if n and r != "pods"} or {"pods"}

    def open(self, nodes: Collection[str]) -> set[str]:
        return set(nodes) - set(self.scene.cordoned)

    def free(self, node: str, gone: Collection[str] = ()) -> Counter[str]:
        """What a node has left once some pods are gone."""
        free = Counter(self.scene.has(node))
        for path, where in self.places.items():
            if where == node and path not in gone:
                free.subtract(self.scene.pods()[path][1].need)
        return free

    def rooms(self, nodes: Collection[str], gone: Collection[str]) -> int:
        """How many pods of the gang some nodes hold once others are gone."""
        frees = [self.free(node, gone) for node in self.open(nodes)]
        return sum(max(0, min(free[r] // n for r, n in self.each.items() if n)) for free in frees)

    @cached_property
    def helpful(self) -> set[str]:
        """Pods whose going makes room: for the queue, or of something that is short on a node that could be used."""
        paths = {path for local in candidates(self, self.scene.nodes).values() for path in local}
        within = self.dues[self.gang.queue].allows(
            used(self.scene, self.places, self.gang.queue), self.need, self.quota
        )
        if not within:
            return paths
        pods = self.scene.pods()
        going = {path for path in paths if not self.stays(path)}
        found = set()
        for path in paths:
            node, need = self.places[path], pods[path][1].need
            free = self.free(node)
            frees = any(need[r] and free[r] < n for r, n in self.need.items())
            if frees and self.rooms({node}, going):
                found.add(path)
        return found

    def stays(self, path: str) -> bool:
        """Whether a pod's mark protects it, even if no other pod goes."""
        gang, pod = self.scene.pods()[path]
        marked = gang.kept or pod.mark == "kept"
        return marked and not self.borrows(path, used(self.scene, self.places, gang.queue))

    def borrows(self, path: str, held: Counter[str]) -> bool:
        """Whether a pod of another queue holds what its queue has beyond what it deserves: then nothing protects it.

        Gangs of these scenes that may lose pods are all in one namespace.
        """
        gang, pod = self.scene.pods()[path]
        if not self.quota or gang.queue == self.gang.queue:
            return False
        deserved = self.dues[gang.queue].deserved
        named = [r for r in deserved if pod.need[r]]
        return not named or any(held[r] > deserved[r] for r in named)

    def share(self, amount: Mapping[str, int]) -> Fraction:
        """An amount as shares of the need, in what is short."""
        return sum((Fraction(amount[r], n) for r, n in self.need.items() if n and r in self.short), Fraction(0))

    def searched(self) -> Iterator[Domain]:
        """The domains that the gang may use; around where it stands, the widest."""
        limit = self.gang.within or 3
        if self.gang.within is None and not self.gang.soft:
            yield domains(self.scene)[-1]
            return
        stands = {self.places[path] for pod in self.gang.pods if (path := self.gang.path(pod)) in self.places}
        fitting = [d for d in domains(self.scene) if d.tier <= limit and stands <= d.nodes]
        yield from fitting if not stands else fitting[-1:]


class Bundle(msgspec.Struct, frozen=True):
    gang: Gang
    pods: tuple[str, ...]
    safe: bool
    worth: Fraction  # what it frees here per what it destroys anywhere
    cost: Fraction  # what it destroys anywhere, as shares of the need; 0 where it is safe


# -- bundles


def candidates(plea: Plea, nodes: Collection[str]) -> dict[str, list[str]]:
    """Running pods on these nodes that the purpose lets go, by gang."""
    found: dict[str, list[str]] = {}
    for path, (gang, pod) in plea.scene.pods().items():
        if path not in plea.places or not pod.stands or pod.on not in nodes or gang.key == plea.gang.key:
            continue
        same = gang.queue == plea.gang.queue
        mine = same and gang.priority < plea.gang.priority
        theirs = not same and plea.scene.queue(gang.queue).reclaimable
        if mine if plea.preempts else theirs:
            found.setdefault(gang.key, []).append(path)
    return found


def split(plea: Plea, gang: Gang, local: Iterable[str], refused: Collection[str] = ()) -> tuple[list[str], list[str]]:
    """What a gang can spare of its pods here, and its core, each in the order in which they would go."""
    pods = {gang.path(pod): pod for pod in gang.pods}
    ordered = sorted(local, key=lambda path: (path in refused, *_pod_key(plea, gang, path, pods[path])))
    ready = [pod for path, pod in pods.items() if path in plea.places and path not in plea.waits]
    surplus = len(ready) - gang.minimum
    if surplus < 0:
        return ordered, []
    binding = sum(gang.roles.values()) <= gang.minimum
    roles = Counter(pod.role for pod in ready)
    slack = {role: roles[role] - least for role, least in gang.roles.items()} if binding else {}
    parts = Counter(pod.part for pod in ready if pod.part)
    spare_parts = sum(n >= gang.size for n in parts.values()) - gang.whole
    safe, core = [], []
    for path in ordered:
        pod = pods[path]
        breaks = bool(gang.size and pod.part) and parts[pod.part] == gang.size
        if surplus <= 0 or slack.get(pod.role, 1) <= 0 or (breaks and gang.whole and spare_parts <= 0):
            core.append(path)
            continue
        safe.append(path)
        surplus -= 1
        spare_parts -= breaks
        parts[pod.part] -= 1
        if pod.role in slack:
            slack[pod.role] -= 1
    return safe, core


def _pod_key(plea: Plea, gang: Gang, path: str, pod: Pod) -> tuple[object, ...]:
    """Those that help first, that cover more, lower priority, smaller, younger, by name; marked ones last."""
    covered = Counter({r: min(pod.need[r], n) for r, n in plea.need.items()})
    helps = path in plea.helpful
    return (
        plea.stays(path),
        not helps,
        -plea.share(covered),
        pod.priority,
        plea.share(pod.need),
        -pod.created,
        natural(path),
    )


def _bundles(plea: Plea, nodes: Collection[str], refused: Collection[str]) -> list[Bundle]:
    pods = plea.scene.pods()
    found = []
    for key, local in candidates(plea, nodes).items():
        gang = plea.scene.gang(key)
        held = sum((p.need for p in gang.pods if _ready(plea, gang.path(p))), Counter())
        for whole, safe in zip(split(plea, gang, local, refused), (True, False), strict=True):
            group = [path for path in whole if path in plea.helpful] if safe else whole
            freed = sum((pods[path][1].need for path in group), Counter())
            gain = plea.share({r: min(freed[r], n) for r, n in plea.need.items()})
            cost = plea.share(held)
            if group:
                worth = Fraction(0) if safe or not cost else gain / cost
                found.append(Bundle(gang, tuple(group), safe, worth, Fraction(0) if safe else cost))
    return _sorted(plea, found)


def _ready(plea: Plea, path: str) -> bool:
    return path in plea.places and path not in plea.waits


def _sorted(plea: Plea, found: list[Bundle]) -> list[Bundle]:
    """Safe first; then priority (preempt) or queue (reclaim), efficiency in steps, priority, youngest, name."""
    steps: dict[int, int] = {}
    step, top, last = 0, Fraction(0), None
    for bundle in sorted(found, key=lambda b: (_group(plea, b), -b.worth)):
        if _group(plea, bundle) != last or top - bundle.worth >= _ALIKE:
            step, top, last = step + 1, bundle.worth, _group(plea, bundle)
        steps[id(bundle)] = step
    return sorted(
        found, key=lambda b: (_group(plea, b), steps[id(b)], b.gang.priority, -b.gang.created, natural(b.gang.key))
    )


def _group(plea: Plea, bundle: Bundle) -> tuple[object, ...]:
    """Bundles of an earlier group go before any of a later one."""
    rank = (bundle.gang.priority,) if plea.preempts else queue_key(plea, bundle.gang.queue)
    return (not bundle.safe, *rank)


def queue_key(plea: Plea, name: str) -> tuple[object, ...]:
    """The least important queue loses first, then the one furthest above what it deserves."""
    held, due = used(plea.scene, plea.places, name), plea.dues[name]
    shares = [Fraction(held[r]) / n for r, n in due.deserved.items() if n]
    priority = plea.scene.queue(name).priority
    if plea.quota == "proportion":
        return (priority, -max(shares, default=Fraction(0)))
    return (priority, -max(shares), 0) if shares else (priority, Fraction(-1), -1)


# -- filters


def allowed_bundles(plea: Plea, nodes: Collection[str]) -> list[Bundle]:
    """The bundles that the filters leave: safe ones shrink to what may go, a core goes whole or not at all.

    A core that is refused is as if it were not there. Where a pod that a gang could spare is refused, the gang spares
    another of its core instead.
    """
    kept_back: set[str] = set()
    while True:
        found = _bundles(plea, nodes, kept_back)
        with_core = {bundle.gang.key for bundle in found if not bundle.safe}
        while True:
            go = survivors(plea, [path for bundle in found for path in bundle.pods])
            refused = next((b for b in found if not b.safe and not go.issuperset(b.pods)), None)
            if refused is None:
                break
            found.remove(refused)
        left = {p for b in found if b.safe and b.gang.key in with_core for p in b.pods if p not in go}
        if left <= kept_back:
            break
        kept_back |= left
    kept = []
    for bundle in found:
        going = tuple(path for path in bundle.pods if path in go)
        if going and (bundle.safe or len(going) == len(bundle.pods)):
            kept.append(Bundle(bundle.gang, going, bundle.safe, bundle.worth, bundle.cost))
    return _sorted(plea, kept)


def survivors(plea: Plea, ordered: list[str]) -> set[str]:
    """System pods are out; marks, budgets and quotas count over the rest, in order, each on its own."""
    pods = plea.scene.pods()
    rest = [path for path in ordered if not _system(*pods[path]) and not plea.stays(path)]
    return set(_unmarked(plea, rest)) & set(_within_budgets(plea, rest)) & set(_within_quota(plea, rest))


def _system(gang: Gang, pod: Pod) -> bool:
    return pod.mark == "critical" or gang.namespace == "kube-system"


def _exposed(plea: Plea, ordered: list[str], guarded: Callable[[str], bool]) -> set[str]:
    """Guarded pods whose queue holds more than it deserves when their turn comes."""
    held: dict[str, Counter[str]] = {}
    found = set()
    for path in ordered:
        gang, pod = plea.scene.pods()[path]
        has = held.setdefault(gang.queue, used(plea.scene, plea.places, gang.queue))
        if guarded(path) and not plea.borrows(path, has):
            continue
        found.add(path)
        has.subtract(pod.need)
    return {path for path in found if guarded(path)}


def _unmarked(plea: Plea, ordered: list[str]) -> Iterator[str]:
    def marked(path: str) -> bool:
        gang, pod = plea.scene.pods()[path]
        return gang.kept or pod.mark == "kept"

    exposed = _exposed(plea, ordered, marked)
    yield from (path for path in ordered if path in exposed or not marked(path))


def _within_budgets(plea: Plea, ordered: list[str]) -> Iterator[str]:
    pods, budgets = plea.scene.pods(), plea.scene.budgets if plea.budgets else ()
    left = {budget: budget.allowed - sum(budget.covers(*pods[path]) for path in plea.gone) for budget in budgets}
    exposed = _exposed(plea, ordered, lambda path: any(budget.covers(*pods[path]) for budget in budgets))
    for path in ordered:
        over = [budget for budget in budgets if budget.covers(*pods[path])]
        if path in exposed or all(left[budget] > 0 for budget in over):
            left |= {budget: left[budget] - 1 for budget in over}
            yield path


def _within_quota(plea: Plea, ordered: list[str]) -> Iterator[str]:
    """No say in preemption. A queue loses while it is above its due, and never what it is guaranteed."""
    if plea.preempts:
        yield from ordered
        return
    known = plea.dues
    held = {name: used(plea.scene, plea.places, name) for name in known}
    for path in ordered:
        gang, pod = plea.scene.pods()[path]
        due, has = known[gang.queue], held[gang.queue]
        kept = all(has[r] - pod.need[r] >= n for r, n in due.guarantee.items())
        if kept and due.above(has, pod, plea.quota) and not _takes_turns(plea, due, has, pod):
            has.subtract(pod.need)
            yield path


def _takes_turns(plea: Plea, due: Due, has: Counter[str], pod: Pod) -> bool:
    """Whether the two queues could take from each other, and the reclaimer's share would not be the smaller one."""
    if plea.quota != "capacity" or not any(pod.need[r] for r in due.deserved):
        return False
    own = plea.dues[plea.gang.queue]
    would = used(plea.scene, plea.places, plea.gang.queue) + plea.need
    liable = any(plea.need[r] and would[r] > n for r, n in own.deserved.items())
    entitled = any(pod.need[r] and has[r] <= n for r, n in due.deserved.items())
    return liable and entitled and due.share(has, pod.need) <= own.share(would, plea.need)


# -- room, and the exact optimum


def room_for(plea: Plea, domain: Domain, gone: Collection[str]) -> bool:
    """Whether the gang's minimum fits inside a domain, and its queue may have it, once these pods are gone."""
    fits = 0
    for node in domain.nodes - set(plea.scene.cordoned):
        here = [path for path, where in plea.places.items() if where == node and path not in gone]
        free = Counter(plea.scene.has(node))
        for path in here:
            free.subtract(plea.scene.pods()[path][1].need)
        fits += max(0, min(free[r] // n for r, n in plea.each.items() if n))
    if fits < plea.missing:
        return False
    left = {path: node for path, node in plea.places.items() if path not in gone}
    return plea.dues[plea.gang.queue].allows(used(plea.scene, left, plea.gang.queue), plea.need, plea.quota)


class Cost(msgspec.Struct, frozen=True, order=True):
    """What an eviction costs, in the decided order."""

    highest: int  # priority broken; counts in preemption only
    broken: Fraction  # what the broken gangs held anywhere, as shares of the need
    evicted: Fraction  # what the evicted pods asked for, as shares of the need


def cost_of(plea: Plea, broken: Collection[Bundle], victims: Collection[str]) -> Cost:
    """The cost of breaking these gangs and evicting these pods."""
    highest = max((b.gang.priority for b in broken), default=-1) if plea.preempts else 0
    asked = sum((plea.scene.pods()[path][1].need for path in victims), Counter())
    return Cost(highest, sum((b.cost for b in broken), Fraction(0)), plea.share(asked))


def cheapest(plea: Plea) -> Cost | None:
    """The least cost of all choices of cores and spare pods in all domains; None where no choice makes room.

    In a domain the order of groups is a rule, not a cost: nobody of a later priority (preempt) or queue (reclaim)
    goes where the earlier ones are enough.
    """
    return min((cost for domain in plea.searched() for cost in _choices(plea, domain)), default=None)


def _choices(plea: Plea, domain: Domain) -> Iterator[Cost]:
    drawn = _drawn(plea, domain)
    cores = [b for b in drawn if not b.safe]
    spare = [path for b in drawn if b.safe for path in b.pods]
    fitting = [
        chosen
        for chosen in _subsets(cores)
        if room_for(plea, domain, {*spare, *(path for b in chosen for path in b.pods)})
    ]
    least = min((cost_of(plea, chosen, ()) for chosen in fitting), default=None)
    for chosen in fitting:
        if cost_of(plea, chosen, ()) == least:
            core = {path for b in chosen for path in b.pods}
            for more in _subsets(spare):
                if room_for(plea, domain, core | set(more)):
                    yield cost_of(plea, chosen, core | set(more))


def _drawn(plea: Plea, domain: Domain) -> list[Bundle]:
    """The bundles of as many groups, in their order, as it takes; nobody where all of them are not enough."""
    taken: list[Bundle] = []
    for _, group in groupby(allowed_bundles(plea, domain.nodes), key=lambda bundle: _group(plea, bundle)):
        if room_for(plea, domain, {path for b in taken for path in b.pods}):
            return taken
        taken += group
    return taken


def _subsets(items: list[Item]) -> Iterator[tuple[Item, ...]]:
    return chain.from_iterable(combinations(items, n) for n in range(len(items) + 1))
