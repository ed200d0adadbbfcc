"""Hypothetical changes of a cluster: nodes that come or go, other quotas, other jobs, another profile.

A change takes a `Scenario` (objects, profile, and amendments of what a cycle sees) and returns another one; nothing
that exists is touched. `sim.what_if` runs a scenario with and without its changes; the command line and the pages read
changes with the functions here. What is asked about and does not exist is an InputError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

import msgspec
from msgspec.structs import replace

from tierwise.api.codec import Object, Raw
from tierwise.api.core import Node, Pod
from tierwise.api.errors import InputError, suggestion
from tierwise.api.koordinator import ClusterNetworkTopology
from tierwise.api.manifest import manifest, members
from tierwise.api.merge_patch import merged
from tierwise.api.natural import natural
from tierwise.api.plurals import count, joined, verb
from tierwise.api.quantity import amount
from tierwise.api.volcano import HyperNode
from tierwise.config.profile import PluginChoice, Profile
from tierwise.dialects.koordinator.network_topology import default_topology, read_layers
from tierwise.dialects.language import NotOurs
from tierwise.dialects.languages import declares_one, declaring, whose
from tierwise.dialects.volcano.discovery import SOURCE_LABEL
from tierwise.dialects.volcano.hypernodes import declare
from tierwise.explain.naming import belongs_to, full_name
from tierwise.model.job import Constraint, Job, Policy, SubJob
from tierwise.model.snapshot import Snapshot
from tierwise.model.topology import HYPERNODES, ROOT
from tierwise.model.tree import Declared
from tierwise.port import Key, Objects, key_of_raw
from tierwise.scheduler import check_profile
from tierwise.scheduler.effects import pod_key
from tierwise.sim.cluster.driver import Amend
from tierwise.snapshot.builder import Reader, build

__all__ = [
    "QUOTAS",
    "Change",
    "Scenario",
    "add_domains",
    "add_nodes",
    "constraint_text",
    "cordon",
    "delete_job",
    "drain",
    "evict_pods",
    "job_named",
    "levels",
    "remove",
    "set_constraint",
    "set_priority",
    "set_quota",
    "submit",
    "switch_plugin",
    "uncordon",
    "use_profile",
]

_MOST: Final = 10_000
"""Nodes that one change may add."""
_HOSTNAME: Final = "kubernetes.io/hostname"
_CONDITIONS: Final = "node.kubernetes.io/"
_CLASS: Final = "tierwise-what-if"
QUOTAS: Final = ("capability", "deserved", "guarantee")
"""The amounts of a queue that can be set."""


class Scenario(msgspec.Struct, frozen=True, dict=True):
    """A cluster at one moment, how it is scheduled, and what cycles see otherwise than its objects say."""

    objects: Objects
    profile: Profile
    now: float
    amendments: tuple[Amend, ...] = ()
    notes: tuple[str, ...] = ()  # what changes bring with them that no comparison of jobs shows
    schedulers: frozenset[str] | None = None  # whose pods are served; None: those of the usual names

    def amend(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with all amendments."""
        for amendment in self.amendments:
            snapshot = amendment(snapshot)
        return snapshot

    def snapshot(self) -> Snapshot:
        """Snapshot that a cycle would see; it is read once."""
        return self._snapshot

    @cached_property
    def _snapshot(self) -> Snapshot:
        return self.amend(build(self.objects, self.now, self.profile, schedulers=self.schedulers))

    def reader(self) -> Reader:
        """A reader for runs of the scheduler."""
        return Reader(self.profile, schedulers=self.schedulers)

    def with_objects(self, puts: Mapping[Key, Raw], deletes: Iterable[Key] = ()) -> Scenario:
        return replace(self, objects=self.objects.changed(puts, deletes))

    def noted(self, *notes: str) -> Scenario:
        return replace(self, notes=(*self.notes, *notes))

    def amended(self, amendment: Amend) -> Scenario:
        return replace(self, amendments=(*self.amendments, amendment))


class Change(msgspec.Struct, frozen=True):
    """One change: what it is, for people, and the scenario with it.

    `apply` raises an InputError where the change is about something that does not exist.
    """

    text: str
    apply: Callable[[Scenario], Scenario]


# -- nodes and domains


def add_nodes(number: int, like: str) -> Change:
    """More nodes like one, in the domains that it is in."""

    def apply(scenario: Scenario) -> Scenario:
        _check_number(number)
        objects = scenario.objects
        _nodes_named(scenario, like, domains=False)
        raw = _raw(objects, Key("", "Node", "", like))
        names = _fresh(like, number, objects.every(Node))
        puts = {Key("", "Node", "", name): _copy_of_node(raw, name, {}) for name in names}
        return _in_domains(scenario, puts, dict.fromkeys(names, like))

    return Change(f"add {count(number, 'node')} like {like}, beside it", apply)


def add_domains(number: int, like: str) -> Change:
    """More domains like one (racks, leaves, spines), with as many nodes, below the same parent."""

    def apply(scenario: Scenario) -> Scenario:
        _check_number(number)
        for _ in range(number):
            scenario = _with_domain(scenario, like)
        return scenario

    whose_nodes = "its" if number == 1 else "their"
    return Change(f"add {count(number, 'domain')} like {like}, with {whose_nodes} nodes", apply)


def _with_domain(scenario: Scenario, like: str) -> Scenario:
    """The scenario with one more domain like another."""
    objects = scenario.objects
    snapshot = scenario.snapshot()
    inside = _domain_nodes(snapshot, like)
    if not inside:
        raise InputError(f"domain {like} has no nodes, so there is nothing to copy")
    suffix = _suffix(like, {*snapshot.topology.index, *objects.every(HyperNode)})
    _check_number(len(inside))
    keys = _topology_keys(objects, snapshot)
    values_inside = _values_inside(objects, keys, set(inside))
    puts: dict[Key, Raw] = {}
    copied: dict[str, str] = {}
    for name in inside:
        new = f"{name}{suffix}"
        labels = {key: f"{value}{suffix}" for key, value in values_inside.get(name, {}).items()}
        puts[Key("", "Node", "", new)] = _copy_of_node(_raw(objects, Key("", "Node", "", name)), new, labels)
        copied[new] = name
    return _grown(scenario, puts, copied, like, suffix)


def remove(name: str) -> Change:
    """A node gone, or a domain with all its nodes; the pods that ran there start again, as their owners have it."""

    def apply(scenario: Scenario) -> Scenario:
        nodes = _nodes_named(scenario, name)
        puts, lost, daemons = _displaced(scenario.objects, nodes)
        gone = [*lost, *daemons, *(Key("", "Node", "", node) for node in nodes)]
        return scenario.with_objects(puts, gone).noted(*_lost(lost))

    return Change(f"remove {name}", apply)


def drain(name: str) -> Change:
    """A node, or all nodes of a domain, cordoned; their pods but those of DaemonSets start again elsewhere."""

    def apply(scenario: Scenario) -> Scenario:
        nodes = _nodes_named(scenario, name)
        puts, lost, _ = _displaced(scenario.objects, nodes)
        puts |= _cordoned(scenario.objects, nodes, cordoned=True)
        return scenario.with_objects(puts, lost).noted(*_lost(lost))

    return Change(f"drain {name}", apply)


def cordon(name: str, *, cordoned: bool = True) -> Change:
    """A node, or all nodes of a domain, that take no new pods; those that run there stay."""

    def apply(scenario: Scenario) -> Scenario:
        return scenario.with_objects(_cordoned(scenario.objects, _nodes_named(scenario, name), cordoned=cordoned))

    return Change(f"{'cordon' if cordoned else 'uncordon'} {name}", apply)


def uncordon(name: str) -> Change:
    """A node, or all nodes of a domain, that new pods may use again."""
    return cordon(name, cordoned=False)


def evict_pods(pods: Sequence[str]) -> Change:
    """Running pods that go, and that nothing brings back."""
    gone = [pod_key(path) for path in pods]
    return Change(f"evict {count(len(gone), 'pod')}", lambda scenario: scenario.with_objects({}, gone))


def restarts(pod: Pod) -> bool:
    """Whether an evicted pod is taken to be made again: it has an owner or a group."""
    return bool(pod.metadata.owner_references or whose(pod))


def made_again(pods: Sequence[str], before: Objects) -> Change:
    """Evicted pods that wait, each as it was before; one that a controller has made again by now is left alone."""

    def apply(scenario: Scenario) -> Scenario:
        present_pods = scenario.objects.every(Pod)
        return scenario.with_objects(
            {pod_key(path): _waiting(before, pod_key(path)) for path in pods if path not in present_pods}
        )

    return Change(f"make {count(len(pods), 'evicted pod')} again", apply)


# -- queues, jobs, profiles


def set_quota(queue: str, field: str, resource: str, quantity: str) -> Change:
    """Change of a queue's amount of a resource, in any language. The field is one of `QUOTAS`."""

    def apply(scenario: Scenario) -> Scenario:
        queues = scenario.snapshot().queues
        if queue not in queues:
            fields = [f"{name}.{quota_field}" for name in queues for quota_field in QUOTAS] if "." in queue else []
            near = suggestion(queue, [*queues, *fields])
            raise InputError(f"there is no such queue{near}", obj=f"Queue {queue}")
        if field not in QUOTAS:
            raise InputError(f"{field} is none of {', '.join(QUOTAS)}{suggestion(field, QUOTAS)}", field="--quota")
        try:
            value = amount(resource, quantity)
        except ValueError as error:
            raise InputError(str(error), field="--quota") from None

        def amended(snapshot: Snapshot) -> Snapshot:
            old = snapshot.queues[queue]
            amounts = {**getattr(old, field), resource: value}
            return replace(snapshot, queues={**snapshot.queues, queue: replace(old, **{field: amounts})})

        return scenario.amended(amended)

    return Change(f"set the {field} of queue {queue} to {quantity} of {resource}", apply)


def set_priority(name: str, value: int) -> Change:
    """The priority of a job and of its pods."""

    def apply(scenario: Scenario) -> Scenario:
        job = job_named(scenario.snapshot(), name)
        class_name = f"{_CLASS}-{value}".replace("--", "-below-")
        class_manifest = manifest("scheduling.k8s.io/v1", "PriorityClass", class_name, value=value)
        puts = {Key("scheduling.k8s.io", "PriorityClass", "", class_name): class_manifest}
        spec: Raw = {"priorityClassName": class_name}
        for task in job.tasks:
            key = pod_key(task.key)
            puts[key] = merged(_raw(scenario.objects, key), {"spec": {**spec, "priority": value}})
        for key, _ in declaring(scenario.objects, job):
            group = scenario.objects.raw(key)
            if group is not None:  # else its pods declare it
                puts[key] = merged(group, {"spec": spec})
        return scenario.with_objects(puts)

    return Change(f"set the priority of {name} to {value}", apply)


def set_constraint(name: str, mode: str, tier: str = "", policy: str = "") -> Change:
    """How far apart the pods of a job, or of each sub-group of a policy of it, may be.

    The mode is hard, soft or none; where it is hard, the tier is a number or a name.
    """

    def apply(scenario: Scenario) -> Scenario:
        snapshot = scenario.snapshot()
        job = job_named(snapshot, name)
        if policy and policy not in (names := [policy_of_job.name for policy_of_job in job.policies]):
            choices = f" ({', '.join(names)})" if names else ": it has none"
            choices += suggestion(policy, names)
            raise InputError(f'"{policy}" is none of its {job.joint_word()} policies{choices}', obj=job.key)
        if mode == "hard" and not policy and (named := _by_label(scenario, snapshot, job, tier)) is not None:
            return named
        constraint = _constraint(snapshot, job, mode, tier)

        def amended(seen: Snapshot) -> Snapshot:
            jobs = (
                _constrained(job_now, policy, constraint) if job_now.key == job.key else job_now
                for job_now in seen.jobs
            )
            return replace(seen, jobs=tuple(jobs))

        return scenario.amended(amended)

    who = f"{name} ({policy})" if policy else name
    named = f", {tier}" if tier else ""
    shown = f", tier {tier}" if tier.isdigit() else named
    text = f"make the topology constraint of {who} {mode}{shown}"
    return Change(text if mode != "none" else f"take the topology constraint from {who}", apply)


def _by_label(scenario: Scenario, snapshot: Snapshot, job: Job, tier: str) -> Scenario | None:
    """The group with a label of nodes as its level that no group has named yet; None where it is no such change.

    Languages that name labels have trees of those that are named: another one comes with the object that names it.
    """
    key = job.declared_by
    record = scenario.objects.record(key) if key is not None else None
    language = declares_one(record) if record is not None else None
    tiers = levels(snapshot, Constraint(hard=True, kind=job.constraint.kind if job.constraint else snapshot.kind))
    if (
        key is None
        or language is None
        or isinstance(language.level, NotOurs)
        or any(tier in (str(number), name) for number, name in tiers)
    ):
        return None
    if not any(tier in node.metadata.labels for node in scenario.objects.every(Node).values()):
        return None
    raw = scenario.objects.raw(key)
    return scenario.with_objects({key: merged(raw, language.level(tier))}) if raw is not None else None


def _constraint(snapshot: Snapshot, job: Job, mode: str, tier_text: str) -> Constraint | None:
    old = [job.constraint, *(policy.constraint for policy in job.policies)]
    kind = next((constraint_found.kind for constraint_found in old if constraint_found is not None), snapshot.kind)
    if mode != "hard":
        if mode == "soft":
            return Constraint(hard=False, kind=kind)
        return None
    tiers = levels(snapshot, Constraint(hard=True, kind=kind))
    for tier, name in tiers:
        if tier_text in (str(tier), name):
            # A number means the same in every tree of hyperNodes; other languages name their levels.
            by_name = kind != HYPERNODES
            return Constraint(hard=True, tier=None if by_name else tier, tier_name=name, kind=kind)
    shown = ", ".join(f"{tier} ({name})" if name else str(tier) for tier, name in tiers)
    near = suggestion(tier_text, [name for _, name in tiers if name])
    raise InputError(f"{tier_text} is none of its tiers: {shown or 'there are none'}{near}", obj=job.key)


def _constrained(job: Job, name: str, constraint: Constraint | None) -> Job:
    """A job with another constraint, or with one for the sub-groups of the policy of a name."""

    def policy(old: Policy) -> Policy:
        if old.name == name:
            return replace(old, constraint=constraint)
        return old

    def sub(old: SubJob) -> SubJob:
        mine = job.policies[old.policy].name == name if old.policy >= 0 else not name
        return replace(old, constraint=constraint) if mine else old

    subs = tuple(map(sub, job.subs))
    if name:
        return replace(job, policies=tuple(map(policy, job.policies)), subs=subs)
    gather = job.gather
    if gather is not None:
        within = (constraint.tier_name,) if constraint is not None and constraint.hard else ()
        gather = replace(gather, within=within)
    return replace(job, constraint=constraint, subs=subs, gather=gather)


def submit(objects: Sequence[tuple[Object, Raw]], source: str) -> Change:
    """Objects created, or put in place of those with the same names."""
    puts = {key_of_raw(raw): (record, raw) for record, raw in objects}

    def apply(scenario: Scenario) -> Scenario:
        return replace(scenario, objects=scenario.objects.updated(puts, (), scenario.objects.version + 1))

    return Change(f"submit {count(len(objects), 'object')} of {source}", apply)


def delete_job(name: str) -> Change:
    """A job gone, with its pods."""

    def apply(scenario: Scenario) -> Scenario:
        job = job_named(scenario.snapshot(), name)
        gone = [pod_key(task.key) for task in job.tasks]
        owners = (owner for key in gone for owner in _owners(scenario.objects, key))
        groups = [key for key, _ in declaring(scenario.objects, job)]
        owners_of_groups = (owner for key in groups for owner in _owners(scenario.objects, key))
        return scenario.with_objects({}, dict.fromkeys([*gone, *groups, *owners, *owners_of_groups]))

    return Change(f"delete {name}", apply)


def switch_plugin(name: str, arguments: Mapping[str, object] | None = None) -> Change:
    """A plugin of the profile switched on with arguments, or off where these are None."""

    def apply(scenario: Scenario) -> Scenario:
        profile = scenario.profile
        names = [choice.name for choice in profile.plugins()]
        if arguments is None and name not in names:
            raise InputError(f"the profile has no plugin {name}{suggestion(name, names)}", field="--without-plugin")
        other_tiers = tuple(tuple(choice for choice in tier if choice.name != name) for tier in profile.tiers)
        added = ((PluginChoice(name, arguments),),) if arguments is not None else ()
        return replace(scenario, profile=check_profile(replace(profile, tiers=(*filter(None, other_tiers), *added))))

    return Change(f"switch plugin {name} {'on' if arguments is not None else 'off'}", apply)


def use_profile(profile: Profile, source: str) -> Change:
    """Another profile."""
    return Change(f"use the configuration in {source}", lambda scenario: replace(scenario, profile=profile))


# -- what changes are about


def job_named(snapshot: Snapshot, name: str) -> Job:
    """The job that people call so: by its pod group, by what the group was made for, or by a pod on its own."""
    path = name if "/" in name else f"default/{name}"
    for matches in (lambda job: job.key == path, lambda job: belongs_to(job, path), lambda job: _lone(job, path)):
        job = next((job for job in snapshot.jobs if matches(job)), None)
        if job is not None:
            return job
    near = suggestion(path, set(map(full_name, snapshot.jobs)))
    raise InputError(f"there is no such job{near}", obj=f"PodGroup {path}")


def _lone(job: Job, path: str) -> bool:
    return job.lone and any(task.key == path for task in job.tasks)


def levels(snapshot: Snapshot, constraint: Constraint) -> list[tuple[int, str]]:
    """The tiers of the tree that a constraint is about, the tightest first, with their names."""
    alternate = snapshot.alternate_topology(constraint)
    topology = alternate.topology if alternate is not None else snapshot.topology
    names = {tier: name for name, tier in topology.tier_names.items()}
    root = int(topology.tier[ROOT])
    return [(tier, names.get(tier, "")) for tier in topology.at_tier if tier != root]


def constraint_text(constraint: Constraint | None) -> str:
    """A constraint in a word or two: "tier 1 (rack)", "no limit"."""
    if constraint is None or not constraint.hard:
        return "no limit"
    if constraint.tier is None:
        return constraint.tier_name
    return f"tier {constraint.tier}" + (f" ({constraint.tier_name})" if constraint.tier_name else "")


def _owners(objects: Objects, key: Key) -> Iterator[Key]:
    record = objects.record(key)
    for owner in record.metadata.owner_references if record is not None else ():
        owner_key = Key(owner.api_version.rpartition("/")[0], owner.kind, key.namespace, owner.name)
        if objects.record(owner_key) is not None:
            yield owner_key
            yield from _owners(objects, owner_key)


def _raw(objects: Objects, key: Key) -> Raw:
    raw = objects.raw(key)
    if raw is None:
        raise InputError("there is no such object", obj=str(key))
    return raw


def _check_number(number: int) -> None:
    if not 0 < number <= _MOST:
        raise InputError(f"{number} is not between 1 and {_MOST}")


def _nodes_named(scenario: Scenario, name: str, *, domains: bool = True) -> list[str]:
    """The node of that name, the nodes of the domain of that name on any tree, or those with a label KEY=VALUE."""
    nodes = scenario.objects.every(Node)
    if name in nodes:
        return [name]
    label, equals, value = name.partition("=")
    if domains and equals:
        matching_nodes = [node for node, record in nodes.items() if record.metadata.labels.get(label) == value]
        if matching_nodes:
            return matching_nodes
        raise InputError(f"no node has the label {name}")
    snapshot = scenario.snapshot()
    if domains and name in snapshot.topology.index:
        return _domain_nodes(snapshot, name)
    for alternate in snapshot.alternate_topologies.values() if domains else ():
        if name in alternate.topology.index:
            rows = alternate.rows[alternate.topology.span(alternate.topology.index[name])]
            return [snapshot.nodes.names[row] for row in rows.tolist()]
    names = [*nodes, *(snapshot.topology.index if domains else ())]
    what = "node or domain" if domains else "node"
    raise InputError(f"there is no {what} {name}{suggestion(name, names)}")


def _domain_nodes(snapshot: Snapshot, name: str) -> list[str]:
    topology = snapshot.topology
    if name not in topology.index:
        raise InputError(f"there is no domain {name}{suggestion(name, topology.index)}")
    return list(snapshot.nodes.names[topology.span(topology.index[name])])


def _cordoned(objects: Objects, nodes: Iterable[str], *, cordoned: bool) -> dict[Key, Raw]:
    """The nodes as they are when cordoned, or no longer."""
    puts: dict[Key, Raw] = {}
    for name in nodes:
        key = Key("", "Node", "", name)
        raw = merged(_raw(objects, key), {"spec": {"unschedulable": cordoned}})
        puts[key] = raw if cordoned else _without_taints(raw, f"{_CONDITIONS}unschedulable")
    return puts


def _without_taints(raw: Raw, prefix: str) -> Raw:
    """A node without the taints whose keys begin so."""
    spec = raw.get("spec")
    taints = spec.get("taints") if isinstance(spec, dict) else None
    if not isinstance(taints, list):
        return raw
    other_taints = [taint for taint in taints if not str(taint.get("key")).startswith(prefix)]
    return merged(raw, {"spec": {"taints": other_taints}})


def _displaced(objects: Objects, nodes: Iterable[str]) -> tuple[dict[Key, Raw], list[Key], list[Key]]:
    """Pods of emptied nodes: those that wait again, those that are lost, and daemons. A pod with an owner or a group is
    taken to be started again, under its name; nothing starts any other pod again.
    """
    emptied = set(nodes)
    puts: dict[Key, Raw] = {}
    lost: list[Key] = []
    daemons: list[Key] = []
    for path, pod in objects.every(Pod).items():
        if pod.spec.node_name not in emptied or pod.status.ended:
            continue
        key = pod_key(path)
        owners = pod.metadata.owner_references
        if any(owner.kind in ("DaemonSet", "Node") for owner in owners):
            daemons.append(key)
        elif pod.metadata.deletion_timestamp or not restarts(pod):
            lost.append(key)
        else:
            puts[key] = _waiting(objects, key)
    return puts, lost, daemons


def _waiting(objects: Objects, key: Key) -> Raw:
    """A running pod as it waits once it is made again."""
    raw = merged(_raw(objects, key), {"spec": {"nodeName": None}})
    return {name: value for name, value in raw.items() if name != "status"}


def _lost(pods: Sequence[Key]) -> Iterator[str]:
    if pods:
        named = joined([key.path for key in pods])
        yield f"{count(len(pods), 'pod')} without an owner or a group {verb(len(pods), 'is', 'are')} lost: {named}"


# -- copies of nodes and domains


def _fresh(name: str, number: int, used_names: Iterable[str]) -> list[str]:
    used = set(used_names)
    index = 0
    names: list[str] = []
    while len(names) < number:
        index += 1
        new = f"{name}-new-{index}"
        if new not in used:
            names.append(new)
    return names


def _suffix(name: str, used_names: Iterable[str]) -> str:
    return _fresh(name, 1, used_names)[0].removeprefix(name)


def _copy_of_node(raw: Raw, name: str, labels: Mapping[str, str]) -> Raw:
    """A new node like another one: ready, not cordoned, and without taints for conditions of the other one."""
    meta = raw["metadata"]
    assert isinstance(meta, dict)  # the codec has seen it
    raw = merged(raw, {"spec": {"unschedulable": None}, "status": {"conditions": None}})
    raw = _without_taints(raw, _CONDITIONS)
    old = dict(meta.get("labels") or {})
    host = {_HOSTNAME: name} if _HOSTNAME in old else {}
    fresh = {"name": name, "labels": {**old, **labels, **host}}
    if "annotations" in meta:
        fresh["annotations"] = meta["annotations"]
    return {**raw, "metadata": fresh}


def _topology_keys(objects: Objects, snapshot: Snapshot) -> set[str]:
    """The keys of node labels that say where a node is."""
    keys = {_HOSTNAME, *snapshot.topology.tier_names}
    layers = default_topology(objects.every(ClusterNetworkTopology))
    if layers is not None:
        keys.update(key for layer in read_layers(layers).above for key in layer.label_keys)
    for alternate in snapshot.alternate_topologies.values():
        keys.update(alternate.topology.tier_names)
    for hypernode in objects.every(HyperNode).values():
        for member in hypernode.spec.members:
            labels = member.selector.label_match
            if labels is not None:
                keys.update(labels.match_labels)
                keys.update(requirement.key for requirement in labels.match_expressions)
    return keys


def _values_inside(objects: Objects, keys: set[str], inside: set[str]) -> dict[str, dict[str, str]]:
    """By node of a domain, those of its labels with a value that no node outside has: they name domains within."""
    nodes = objects.every(Node)
    outside = {
        (key, value)
        for name, node in nodes.items()
        if name not in inside
        for key, value in node.metadata.labels.items()
        if key in keys
    }
    labels_inside = {}
    for name in inside:
        labels = nodes[name].metadata.labels.items()
        labels_inside[name] = {key: value for key, value in labels if key in keys and (key, value) not in outside}
    return labels_inside


def _in_domains(scenario: Scenario, puts: dict[Key, Raw], like: Mapping[str, str]) -> Scenario:
    """New nodes, each a member of the hyperNodes that another one is a member of."""
    old = {d.name: d.nodes for d in _declared(scenario.objects)}
    nodes_by_domain = {
        name: nodes | {new for new, node in like.items() if node in nodes} for name, nodes in old.items()
    }
    return _holding(scenario.with_objects(puts), nodes_by_domain)


def _holding(scenario: Scenario, nodes_by_domain: Mapping[str, frozenset[str]]) -> Scenario:
    """The scenario in which hyperNodes hold just these nodes; those whose selectors say so already are left alone."""
    objects = scenario.objects
    puts: dict[Key, Raw] = {}
    for declared in _declared(objects):
        nodes = nodes_by_domain.get(declared.name)
        if nodes is not None and declared.nodes != nodes:
            key = _hypernode_key(declared.name)
            puts[key] = merged(_raw(objects, key), {"spec": {"members": _members(declared.children, nodes)}})
    return scenario.with_objects(puts) if puts else scenario


def _grown(scenario: Scenario, puts: dict[Key, Raw], copied: Mapping[str, str], like: str, suffix: str) -> Scenario:
    """The scenario with new nodes added and hyperNodes to hold them. puts are the manifests of the nodes, copied maps
    the name of each to that of its model. The hyperNode called like is copied with all below it, each name with suffix,
    and entered in those around it. Only the nodes are added where like is no hyperNode or comes from labels.
    """
    objects = scenario.objects
    old = {declared.name: declared for declared in _declared(objects)}
    after = scenario.with_objects(puts)
    record = objects.every(HyperNode).get(like)
    if record is None or record.metadata.labels.get(SOURCE_LABEL):
        return after  # the tree follows from the labels of the nodes
    inside = _subtree(like, {name: declared.children for name, declared in old.items()})
    hypernodes: dict[Key, Raw] = {}
    for name in inside:
        raw = _raw(objects, _hypernode_key(name))
        declared = old[name]
        nodes = frozenset(new for new, node in copied.items() if node in declared.nodes)
        children = [f"{child}{suffix}" for child in declared.children if child in inside]
        new = f"{name}{suffix}"
        meta = {"name": new}
        spec = {"members": _members(children, nodes)}
        hypernodes[_hypernode_key(new)] = {**merged(raw, {"spec": spec, "status": None}), "metadata": meta}
    for name, declared in old.items():
        if like in declared.children:
            raw = _raw(objects, _hypernode_key(name))
            nodes = declared.nodes
            inside_it = _members([*declared.children, f"{like}{suffix}"], nodes)
            hypernodes[_hypernode_key(name)] = merged(raw, {"spec": {"members": inside_it}})
    after = after.with_objects(hypernodes)
    direct = {name for name, declared in old.items() if name not in inside and like not in declared.children}
    nodes_by_name = {name: old[name].nodes for name in direct}
    return _holding(after, nodes_by_name | {name: old[name].nodes for name in inside})


def _declared(objects: Objects) -> list[Declared]:
    return declare(objects.every(HyperNode).values(), objects.every(Node).values())


def _subtree(name: str, children: Mapping[str, Sequence[str]]) -> list[str]:
    names = [name]
    for inner in names:
        names += [child for child in children.get(inner, ()) if child in children and child not in names]
    return names


def _hypernode_key(name: str) -> Key:
    return Key("topology.volcano.sh", "HyperNode", "", name)


def _members(children: Iterable[str], nodes: Iterable[str]) -> list[Raw]:
    return [*members("HyperNode", children), *members("Node", sorted(nodes, key=natural))]
