"""What a verb works on: objects from manifests, a profile from a configuration file, and the time of the run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple, TextIO

import msgspec

from tierwise.api.core import parse_time
from tierwise.api.errors import InputError
from tierwise.api.plurals import joined
from tierwise.cli import options
from tierwise.cli.live_state import LiveCluster, live_objects
from tierwise.cli.options import FILES, option

if TYPE_CHECKING:
    from tierwise.admission.findings import FieldFinding
    from tierwise.api.codec import Raw
    from tierwise.config.profile import Profile
    from tierwise.model.snapshot import Fault
    from tierwise.port import Objects
    from tierwise.runtime.journal import RecordedCycle
    from tierwise.scheduler.guard import Guard

__all__ = [
    "Given",
    "Inputs",
    "Manifests",
    "Source",
    "introduce",
    "load",
    "moment",
    "need",
    "not_understood",
    "profile_of",
    "tell_crashes",
    "tell_no_nodes",
    "tell_unread",
    "with_nodes",
]

_JOURNAL: Final = "journal:"
_EPOCH: Final = "2026-01-01T00:00:00Z"
_MOST: Final = 5
"""Warnings of one kind that are said before the rest is counted."""
_MESSAGE: Final = attrgetter("message")
_REST: Final = "more; tierwise validate shows them all"
_NO_NODES: Final = (
    "the manifests hold no nodes: add those of a cluster (kubectl get nodes -o yaml >nodes.yaml, then -f nodes.yaml), "
    "or try --nodes 8"
)
_WAITING: Final = "makes pods that wait: "
"""Before what else is told of a field that is not understood."""
_CHECKED: Final = 20_000
"""Objects up to which `introduce` runs admission's checks: beyond that they take seconds."""


class Given(NamedTuple):
    """Objects, profile, time and reported problems that a verb works on."""

    objects: Objects
    profile: Profile
    now: float
    told: tuple[Fault, ...] = ()
    """What was said of them on standard error, which the JSON says as well."""


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """Manifests; without them, the cluster that a kubeconfig names."""

    filenames: tuple[str, ...] = option("-f --filename FILE", f"{FILES}  [default: the cluster of the kubeconfig]")
    cluster: LiveCluster

    def objects(self, tell: Callable[[Objects], object], nodes: int | None = None) -> Objects:
        """The objects, with so many sample nodes; `tell` says on standard error what becomes of those in manifests."""
        if self.filenames:
            loaded = with_nodes(load(self.filenames), nodes)
            tell(loaded)
            return loaded
        if nodes is not None:
            raise InputError("nodes are added to manifests (-f FILE), not to a cluster", field="--nodes")
        try:
            return live_objects(self.cluster)
        except InputError as error:
            hint = "no manifests are given (-f FILE), and the cluster of the kubeconfig cannot be read"
            raise type(error)(f"{hint}: {error}") from None


class Inputs(msgspec.Struct, frozen=True, kw_only=True):
    """A source with a profile and a time."""

    source: Source
    nodes: int | None = options.nodes
    config_file: str | None = options.config
    now: float | None = options.now

    def read(self) -> Given:
        profile = profile_of(self.config_file)
        remarks = list(_without_effect(profile, self.config_file))

        def tell(loaded: Objects) -> None:
            remarks.extend((*introduce(loaded, profile.schedulers), *tell_no_nodes(loaded)))

        objects = self.source.objects(tell, self.nodes)
        return Given(objects, profile, moment(objects, self.now), tuple(remarks))


class Manifests(msgspec.Struct, frozen=True, kw_only=True):
    """Manifests that a verb works on, without a cluster."""

    filenames: tuple[str, ...] = options.filenames
    nodes: int | None = options.nodes
    config_file: str | None = options.config
    now: float | None = options.now

    def read(self, schedulers: Sequence[str] = (), *, places: bool = True) -> Given:
        """With the names of the schedulers whose pods are served; where none are given, the usual ones.

        `places` is False where nothing is placed, so that nobody lacks nodes.
        """
        profile = profile_of(self.config_file)
        objects = with_nodes(load(self.filenames), self.nodes)
        remarks = introduce(objects, schedulers or profile.schedulers, usual=not schedulers)
        if places:
            remarks += tell_no_nodes(objects)
        remarks += _without_effect(profile, self.config_file)
        return Given(objects, profile, moment(objects, self.now), remarks)


def load(
    filenames: Sequence[str], faults: list[InputError] | None = None, stdin: TextIO | BinaryIO | None = None
) -> Objects:
    """The objects of all manifests; InputError where they are no use.

    With a list for `faults`, what cannot be read is put there, and the rest is read. Files that are no manifests are
    named on standard error. A hyphen means `stdin`, or for standard input; `journal:DIR@CYCLE` for what a recorded
    cycle saw.
    """
    if len(filenames) == 1 and filenames[0].startswith(_JOURNAL):
        return _recorded_objects(filenames[0].removeprefix(_JOURNAL))
    from tierwise.cli.progress import show_progress
    from tierwise.manifests.files import Remarks, read
    from tierwise.port import Objects

    remarks = Remarks(faults=faults)
    with show_progress("reading manifests") as progress:
        loaded = read(filenames, stdin or sys.stdin, progress=progress, remarks=remarks)
        objects = Objects.holding((entry.key, entry.record, entry.manifest) for entry in loaded)
    skipped = [f"{name}: left out: {what}" for name, what in remarks.left_out]
    _warn(skipped, "other file left out", "other files left out")
    return objects


def with_nodes(objects: Objects, count: int | None) -> Objects:
    """The objects with so many sample nodes, in racks and spines where no object is a HyperNode.

    Raises InputError where there are nodes already.
    """
    if count is None:
        return objects
    from tierwise.api.core import Node
    from tierwise.api.volcano import HyperNode
    from tierwise.manifests.sample_cluster import racks_and_spines, sample_nodes
    from tierwise.port import key_of_raw

    if objects.every(Node):
        raise InputError("the manifests have nodes of their own", field="--nodes")
    raws = sample_nodes(count)
    if not objects.every(HyperNode):
        raws += racks_and_spines([key_of_raw(raw).name for raw in raws])
    return objects.changed({key_of_raw(raw): raw for raw in raws})


class Told(msgspec.Struct, frozen=True):
    """Remark about objects that were read, all for one reason: faults for programs, lines for people."""

    faults: Sequence[Fault]
    lines: Sequence[str]
    most: int = _MOST
    rest: tuple[str, str] = (_REST, _REST)

    @classmethod
    def of_fields(cls, code: str, findings: Iterable[FieldFinding], words: str = "") -> Told:
        """Of fields of objects."""
        from tierwise.model.snapshot import Fault

        field_findings = list(findings)
        faults = [Fault(finding.object, code, f"{finding.path}: {finding.message}") for finding in field_findings]
        return cls(
            faults, [f"{words}{finding.object}: {finding.path}: {finding.message}" for finding in field_findings], 3
        )


def tell_unread(objects: Objects) -> tuple[Fault, ...]:
    """Say on standard error which kinds and fields are passed over, and which workloads make no pods."""
    return _tell(_unread(objects))


def _unread(objects: Objects) -> Iterator[Told]:
    from tierwise.admission import passed_over, unheard
    from tierwise.dialects.workloads import notes
    from tierwise.model.snapshot import Fault

    kinds = [Fault(kind, "NotUnderstood", text) for kind, text in not_understood(objects)]
    plural_forms = "other kind not understood", "other kinds not understood"
    yield Told(kinds, [fault.text for fault in kinds], rest=plural_forms)
    idle = [Fault(f"{key.kind} {key.path}", "WorkloadWaits", why) for key, why in notes(objects)]
    plural_forms = "other object whose pods do not start", "other objects whose pods do not start"
    yield Told(idle, [f"{fault.subject} {fault.text}" for fault in idle], rest=plural_forms)
    yield Told.of_fields("NotRead", unheard(objects))
    if len(objects) <= _CHECKED:
        yield Told.of_fields("NotRead", passed_over(objects))


def introduce(objects: Objects, schedulers: Sequence[str] = (), *, usual: bool = True) -> tuple[Fault, ...]:
    """Report pods of other schedulers than these, and objects that a cluster would have refused."""
    return _tell(_introduced(objects, schedulers, usual=usual))


def _introduced(objects: Objects, schedulers: Sequence[str], *, usual: bool) -> Iterator[Told]:
    from itertools import groupby

    from tierwise.admission import refused, unserved
    from tierwise.model.snapshot import Fault
    from tierwise.snapshot.builder import SCHEDULER_NAMES

    yield from _unread(objects)
    unserved_here = sorted(unserved(objects, SCHEDULER_NAMES.union(schedulers) if usual else schedulers), key=_MESSAGE)
    for text, group in groupby(unserved_here, key=_MESSAGE):
        subjects = [finding.object for finding in group]
        line = f"{joined(subjects)}: {text} ({len(subjects)} in all)" if len(subjects) > 1 else f"{subjects[0]}: {text}"
        yield Told([Fault(subject, "NotServed", text) for subject in subjects], [line])
    if len(objects) > _CHECKED:
        text = f"admission was not checked, for there are {len(objects)} objects: tierwise validate does it"
        yield Told([], [text])
        return
    errors = [finding for finding in refused(objects) if finding.path != "apiVersion"]  # these were named by kind
    yield Told.of_fields("Refused", errors, "admission would refuse ")


def _tell(every: Iterable[Told]) -> tuple[Fault, ...]:
    """Say it on standard error, each thing once; all that was said."""
    by_name: dict[tuple[str, str], Fault] = {}
    for remark in every:
        named = [(fault.subject, fault.text.removeprefix(_WAITING)) for fault in remark.faults]
        lines = remark.lines
        if len(lines) == len(named):  # one for each, not one for all
            lines = [line for line, name in zip(lines, named, strict=True) if name not in by_name]
        _warn(lines, *remark.rest, limit=remark.most)
        for name, fault in zip(named, remark.faults, strict=True):
            by_name.setdefault(name, fault)
    return tuple(by_name.values())


def tell_no_nodes(objects: Objects) -> tuple[Fault, ...]:
    """Say on standard error how nodes are added, where there are none."""
    from tierwise.api.core import Node
    from tierwise.model.snapshot import Fault

    if objects.every(Node):
        return ()
    return _tell([Told([Fault("Node", "NoNodes", _NO_NODES)], [_NO_NODES])])


def tell_crashes(guard: Guard) -> None:
    """Say on standard error which objects were set aside."""
    from tierwise.cli.main import report_error

    for crash in guard.crashes:
        report_error(f"{crash.fault.subject}: {crash.text}")


def not_understood(objects: Objects) -> Iterator[tuple[str, str]]:
    """Each kind of which objects are left out, and what is said of them."""
    from collections import Counter

    from tierwise.admission import NO_CONCERN, known_as
    from tierwise.api.codec import Unknown, api_group, kind_of
    from tierwise.dialects.workloads import ELSEWHERE, understood

    unread = (objects.record(key) for key in objects if not understood(key.group, key.kind))
    kinds = (
        msgspec.structs.replace(kind_of(record), namespaced=True) for record in unread if isinstance(record, Unknown)
    )
    for kind, number in Counter(kinds).most_common():
        if (kind.api_version, kind.name) in NO_CONCERN:
            continue
        many = f"{number} objects of kind" if number > 1 else "1 object of kind"
        are, were = ("are", "were") if number > 1 else ("is", "was")
        shown = f"{many} {kind.name} ({kind.api_version})"
        instead = ELSEWHERE.get((api_group(kind.api_version), kind.name))
        if instead is not None:
            why = f"its controller, which makes pods, does not run here; give {instead}"
            yield kind.name, f"{shown} {were} left out: {why}"
        else:
            yield kind.name, f"{shown} {are} not understood{known_as(kind)} and {were} left out"


def moment(objects: Objects, stated: float | None) -> float:
    """The time of the run: as given, else of the look at the objects, else the newest in them, else a fixed one.

    What statuses say counts too: an export of an old cluster was made long after its objects were.
    """
    from tierwise.api.eviction_terms import status_time
    from tierwise.manifests.saved import saved_at

    time = stated if stated is not None else saved_at(objects)
    if time is not None:
        return time
    metas = (record.metadata for key in objects if (record := objects.record(key)) is not None)
    times = {time for meta in metas for time in (meta.creation_timestamp, meta.deletion_timestamp) if time}
    times_of_objects = [parse_time(time) for time in times]
    times_of_objects += filter(None, map(status_time, set(_in_statuses(objects))))
    return max(times_of_objects, default=parse_time(_EPOCH))


def _in_statuses(objects: Objects) -> Iterator[str]:
    """Times at which a kubelet was heard of, and pods were admitted, started and ended."""
    from tierwise.api.codec import part
    from tierwise.api.core import Node, Pod
    from tierwise.port import Key

    for name in objects.every(Node):
        # Records leave out when a kubelet was heard of last, because that changes all the time.
        conditions = part(objects.raw(Key("", "Node", "", name)), "status").get("conditions")
        for condition in conditions if isinstance(conditions, list) else ():
            times = (
                (condition.get("lastHeartbeatTime"), condition.get("lastTransitionTime"))
                if isinstance(condition, dict)
                else ()
            )
            yield from (time for time in times if isinstance(time, str) and time)
    for pod in objects.every(Pod).values():
        status = pod.status
        yield from filter(
            None, (status.start_time, *(condition.last_transition_time for condition in status.conditions))
        )


def profile_of(file: str | None) -> Profile:
    """The profile in a configuration file, or the default one; what has no effect in it is said on standard error."""
    from tierwise.config.profile import DEFAULT

    if file is None:
        return DEFAULT
    if file.startswith(_JOURNAL):
        return _recorded(file.removeprefix(_JOURNAL)).scheduler.profile
    from tierwise.manifests.configuration import read_profile

    profile, where = read_profile(file)
    _warn([f"{where}: {note}" for note in profile.notes], "", limit=len(profile.notes))
    return profile


def _without_effect(profile: Profile, file: str | None) -> tuple[Fault, ...]:
    """Faults for settings of a configuration that have no effect."""
    from tierwise.model.snapshot import Fault

    return tuple(Fault(file or "the profile", "NoEffect", note) for note in profile.notes)


def need(feature: str, flag: str, *profiles: Profile) -> None:
    """Refuse an option whose feature one of the profiles switches off: what it asks for concerns the whole process."""
    if not all(profile.feature(feature) for profile in profiles):
        raise InputError(f"the feature gate {feature} is off", field=flag)


# Recorded cycles, for verbs that are given `journal:DIR@CYCLE` instead of files.


def _recorded_objects(place: str) -> Objects:
    """Objects and time of the recorded cycle `DIR@CYCLE`, for verbs that take manifests."""
    from tierwise.api import codec
    from tierwise.manifests.saved import saved, served
    from tierwise.port import Objects
    from tierwise.snapshot.builder import SCHEDULER_NAMES

    recorded = _recorded(place)
    every = (raw for key in recorded.objects if (raw := recorded.objects.raw(key)) is not None)
    scheduler_names = SCHEDULER_NAMES.union(recorded.scheduler.profile.schedulers)
    raws = [_ours(raw, scheduler_names) for raw in served(every, recorded.scheduler.schedulers)]
    return Objects.of((codec.decode(raw), raw) for raw in saved(raws, recorded.now))


def _ours(raw: Raw, scheduler_names: frozenset[str]) -> Raw:
    """A waiting pod under a name that every verb serves: it was served under its own."""
    spec = raw.get("spec")
    if raw.get("kind") != "Pod" or not isinstance(spec, dict) or spec.get("schedulerName", "") in scheduler_names:
        return raw
    if not spec.get("nodeName"):
        return {**raw, "spec": {**spec, "schedulerName": "tierwise"}}
    return raw


def _recorded(place: str) -> RecordedCycle:
    from tierwise.runtime.journal import Journal

    folder, _, number = place.rpartition("@")
    if not folder or not number.isdecimal():
        raise InputError(f'"journal:{place}" is not journal:DIR@CYCLE')
    return Journal(Path(folder)).cycle(int(number))


def _warn(texts: Sequence[str], noun: str, rests: str = "", *, limit: int = _MOST) -> None:
    from tierwise.api.plurals import count
    from tierwise.cli.main import report_error

    for text in texts[:limit]:
        report_error(f"warning: {text}")
    if len(texts) > limit:
        report_error(f"warning: and {count(len(texts) - limit, noun, rests or noun)}")
