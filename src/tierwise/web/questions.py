"""Questions of the kind "what if", answered in processes of their own: this is what runs in them.

The server starts one process (`python -m tierwise.web.questions`), which reads clusters and forks for each question:
the fork has the cluster, needs no imports, and ends with its channel. So a question ends when the one who asked is
gone, several are answered side by side, and nothing that one of them does is seen by another or by the server. Frames
are a length and msgpack; the channel of a fork comes with the frame that asks for it.
"""

from __future__ import annotations

import os
import queue
import resource
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal, cast

import msgspec
from msgspec.structs import replace

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.errors import InputError
from tierwise.config.profile import Profile
from tierwise.explain.board import Board
from tierwise.explain.comparison import LeastChange, least_change_wire
from tierwise.explain.disruption import Drainable, drainable_wire
from tierwise.explain.eta import EtaReport, etas_wire
from tierwise.explain.text.schedule import Run
from tierwise.port import Key, Objects
from tierwise.sim.answers.dry_run import RefusedDryRunError, dry_run, manifests_of
from tierwise.sim.answers.facts import cluster_facts, starts
from tierwise.sim.answers.help import help_for
from tierwise.sim.forecast.eta import back_again, etas
from tierwise.sim.forecast.in_time import SECONDS, OutOfTime, least_in_time, limit_processor_time
from tierwise.sim.what_if.change_texts import read_change
from tierwise.sim.what_if.changes import Change, Scenario, submit
from tierwise.sim.what_if.drainable import drainable
from tierwise.sim.what_if.least_change import BRIEF
from tierwise.sim.what_if.runs import WhatIf, prepared, what_if, what_if_wire
from tierwise.snapshot.builder import Reader
from tierwise.web.views import ASKS, RunView

__all__ = ["Frame", "Put", "Question", "Scene", "received", "sent"]

_CPU: Final = 300
"""Seconds of a processor that a fork may use in all, with what pages ask of its board later."""

_SCENES: Final = 4
"""Clusters that are held."""

_NICE: Final = 5
"""Questions give way to the server, and to a scheduler in it."""

_PAUSE: Final = 0.2
"""Seconds between two words about how far it is, at least."""

_DRAINS: Final = 50
"""Domains that could be drained of which pages are told, the cheapest."""

_TOO_LONG: Final = 1 << 31
_HEAD: Final = struct.Struct(">Q")


class Question(msgspec.Struct, frozen=True):
    """Question to answer: changes as pairs of kind and text, and the name of a job ("" for all) or of a tier.

    `facts`, `starts`, `help` and `dry-run` are those of users of one namespace, see `sim.answers`.
    """

    kind: Literal["what-if", "least", "eta", "drainable", "facts", "starts", "help", "dry-run"]
    job: str = ""
    changes: tuple[tuple[str, str], ...] = ()
    manifests: Mapping[str, bytes] = {}
    together: int = 0  # domains that are drained at a time
    namespace: str = ""  # of a dry run
    queues: tuple[str, ...] = ()  # that the one who asks for a dry run may get


class Put(msgspec.Struct, frozen=True, array_like=True):
    """An object: its manifest as JSON, without the kind where that is what tierwise would call it."""

    group: str
    kind: str
    path: str
    raw: bytes


class Scene(msgspec.Struct, frozen=True):
    """A cluster by its number, as what differs from another one (0 for an empty one)."""

    number: int
    base: int
    puts: Sequence[Put]
    deletes: Sequence[tuple[str, str, str]]
    profile: bytes
    now: float
    schedulers: frozenset[str] | None


class Frame(msgspec.Struct, frozen=True):
    """Message of the server: a cluster, or a question about one."""

    scene: Scene | None = None
    question: Question | None = None
    about: int = 0


def sent(channel: socket.socket, frame: object, fds: Sequence[int] = ()) -> None:
    """Send a frame, with a channel where one goes along."""
    body = msgspec.msgpack.encode(frame)
    socket.send_fds(channel, [_HEAD.pack(len(body))], fds)
    channel.sendall(body)


def received(channel: socket.socket) -> tuple[bytes, list[int]] | None:
    """The next frame; None where the other end is gone."""
    head, fds, _, _ = socket.recv_fds(channel, _HEAD.size, 1)
    while head and len(head) < _HEAD.size:
        head += channel.recv(_HEAD.size - len(head))
    if not head:
        return None
    (length,) = _HEAD.unpack(head)
    assert length < _TOO_LONG
    body = bytearray()
    while len(body) < length:
        part = channel.recv(min(1 << 20, length - len(body)))
        if not part:
            return None
        body += part
    return bytes(body), fds


# One question, in a fork.


class _Teller:
    """Tells how far a question is, now and then."""

    def __init__(self, tell: Callable[[Raw], None]) -> None:
        self._tell = tell
        self._told = time.monotonic() - 1.0

    def __call__(self, text: str, part: Callable[[], Raw] | None = None) -> None:
        now = time.monotonic()
        if now - self._told >= _PAUSE:
            self._told = now
            self._tell({"progress": text, **({"part": part()} if part is not None else {})})


class _Cluster(msgspec.Struct, frozen=True):
    """A cluster that questions are about; a fork has what was read of it before."""

    objects: Objects
    scenario: Scenario | None
    reader: Reader | None = None  # which has read the scenario
    fault: str = ""  # why there is none

    @classmethod
    def of(cls, scene: Scene, base: Objects) -> _Cluster:
        objects = _objects(scene, base)
        try:
            profile = msgspec.json.decode(scene.profile, type=Profile)
            scenario = prepared(objects, profile, scene.now, scene.schedulers)
        except InputError as error:
            return cls(objects, None, fault=str(error))
        reader = scenario.reader()
        reader.read(scenario.objects, scenario.now)
        scenario.snapshot()
        return cls(objects, scenario, reader)


def _least(cluster: _Cluster, scenario: Scenario, question: Question, tell: _Teller) -> Raw:
    """The ways that start a job now, each told when it is found."""

    def told(answer_name: str, runs: int, progress: Callable[[], LeastChange]) -> None:
        tell(f"trying to {answer_name}, {runs} runs so far", lambda: least_change_wire(progress()))

    return least_change_wire(least_in_time(scenario, question.job, BRIEF, told, cluster.reader))


def _eta(scenario: Scenario, question: Question, tell: _Teller) -> Raw:
    """When jobs start, first by one run ahead, then by more of them."""
    report_so_far: Raw = {}
    names = (question.job,) if question.job else ()

    def ran(report: EtaReport, number: int) -> None:
        nonlocal report_so_far
        report_so_far = etas_wire(report)
        tell(f"{report.runs} of {number} runs ahead", lambda: report_so_far)

    try:
        return etas_wire(etas(scenario, names=names, report_progress=ran))
    except OutOfTime:
        if not report_so_far:
            raise InputError(f"no run ahead has ended in {SECONDS} s of a processor") from None
        return {**report_so_far, "stopped": f"stopped after {SECONDS} s of a processor: more runs would say more"}


def _drainable(scenario: Scenario, question: Question, tell: _Teller) -> Raw:
    """Cost of draining each domain: all are counted at first, then the cheapest are tried."""
    latest: Raw = {}

    def known(answer_so_far: Drainable) -> None:
        nonlocal latest
        tried = sum(drain.waits is not None for drain in answer_so_far.drains)
        latest = _drains_wire(answer_so_far)
        tell(f"{tried} of {len(answer_so_far.drains)} tried", lambda: latest)

    try:
        result = drainable(scenario, question.job, together=question.together, effort=BRIEF, report_progress=known)
        return _drains_wire(result)
    except OutOfTime:
        return {**latest, "stopped": f"stopped after {SECONDS} s of a processor: the others are counted, and not tried"}


def _drains_wire(drainable_nodes: Drainable) -> Raw:
    return {
        **drainable_wire(replace(drainable_nodes, drains=drainable_nodes.drains[:_DRAINS])),
        "count": len(drainable_nodes.drains),
    }


def _change(question: Question, kind: str, text: str) -> Change:
    if kind != "submit":
        return read_change(kind, text)
    return submit(manifests_of(question.manifests[text]), "the text")


def _what_if(cluster: _Cluster, scenario: Scenario, question: Question, tell: _Teller) -> WhatIf:
    changes = [_change(question, kind, text) for kind, text in question.changes]
    return what_if(scenario, changes, lambda which, cycle: tell(f"{which}: cycle {cycle + 1}"), cluster.reader)


def _back(result: WhatIf) -> Mapping[str, str] | None:
    """For how long gangs that restart are too small, where that is known in time."""
    try:
        return back_again(result.changed, result.restarts, result.started)
    except OutOfTime:
        return None


def _for_tenants(cluster: _Cluster, scenario: Scenario, question: Question) -> object:
    """The answer to a question of users of one namespace, or the facts that serve all of them."""
    if question.kind == "facts":
        return cluster_facts(scenario, cluster.reader)
    if question.kind == "starts":
        return starts(scenario)
    if question.kind == "help":
        return help_for(scenario, question.job, question.job.partition("/")[2], cluster.reader)
    text = question.manifests[""]
    try:
        return dry_run(scenario, question.namespace, text, frozenset(question.queues), cluster.reader)
    except RefusedDryRunError as error:
        return {"refused": str(error)}


def _view(scenario: Scenario, result: WhatIf) -> RunView:
    after = result.after
    run = Run(after.reports, after.after(scenario.now), scenario.profile, after.evictions, after.complaints())
    return RunView(Board(run), mode="manifests", title=f"what if: {', '.join(result.changes)}")


def _compared(scenario: Scenario, result: WhatIf, back: Mapping[str, str] | None = None) -> Raw:
    """The answer as the page draws it: counts instead of pods, and which domains these leave for which."""
    wire = what_if_wire(result, back)
    snapshots = scenario.snapshot(), result.after.after(scenario.now)

    def home(node: str) -> str:
        for seen in snapshots:
            if node in seen.nodes.row:
                return seen.topology.name[int(seen.topology.leaf[seen.nodes.row[node]])]
        return ""

    flows: dict[tuple[str, str, bool], int] = {}
    for entry, change in zip(cast("list[dict[str, Any]]", wire["jobs"]), result.comparison.jobs, strict=True):
        before, then = (side.pods if side is not None else {} for side in (change.before, change.after))
        moved = [pod for pod, node in before.items() if then.get(pod, node) != node]
        entry |= {"name": change.name, "moved": len(moved), "stopped": len(before.keys() - then.keys())}
        for pod in before.keys() | then.keys():
            if before.get(pod) != then.get(pod):
                from_home, to_home = (home(side[pod]) if pod in side else "" for side in (before, then))
                flows[from_home, to_home, change.ran] = flows.get((from_home, to_home, change.ran), 0) + 1
        for state in filter(None, (entry["before"], entry["after"])):
            state["pods"] = len(state["pods"])  # the page draws places, and asks for pods one job at a time
    found_flows = sorted(flows.items(), key=lambda item: -item[1])[:200]
    return {**wire, "flows": [[*between, pods] for between, pods in found_flows]}


def _messages(cluster: _Cluster, question: Question, tell: Callable[[Raw], None]) -> RunView | None:
    """Work a question out, and tell; the board that pages may ask about, where there is one."""
    teller = _Teller(tell)
    view = None
    scenario = cluster.scenario
    try:
        if scenario is None:
            raise InputError(cluster.fault)
        with limit_processor_time():
            if question.kind == "what-if":
                outcome = _what_if(cluster, scenario, question, teller)
                if any(loss.below for loss in outcome.restarts):
                    tell({"progress": "for how long they wait", "part": _compared(scenario, outcome)})
                answer = _compared(scenario, outcome, _back(outcome))
                view = _view(scenario, outcome)
            elif question.kind == "drainable":
                answer = _drainable(scenario, question, teller)
            elif question.kind == "least":
                answer = _least(cluster, scenario, question, teller)
            elif question.kind == "eta":
                answer = _eta(scenario, question, teller)
            else:
                answer = msgspec.to_builtins(_for_tenants(cluster, scenario, question))
        tell({"answer": answer})
    except InputError as error:
        tell({"fault": str(error)})
    except OutOfTime:
        tell({"fault": f"it is not worked out in {SECONDS} s of a processor"})
    return view


def _fork(cluster: _Cluster, question: Question, channel: socket.socket) -> None:
    """Body of a fork: answer its question, and those of pages about its board, until its channel is closed."""
    asks: queue.SimpleQueue[tuple[str, str, dict[str, str]]] = queue.SimpleQueue()

    def listen() -> None:
        with suppress(OSError):
            while (frame := received(channel)) is not None:
                asks.put(msgspec.msgpack.decode(frame[0], type=tuple[str, str, dict[str, str]]))
        os._exit(0)  # nobody waits for the answer

    threading.Thread(target=listen, daemon=True).start()
    view = _messages(cluster, question, lambda message: sent(channel, message))
    while view is not None:
        path, name, query = asks.get()
        try:
            body = ASKS[path](view, name, query)
            sent(channel, {"body": body.body if body is not None else b""})
        except InputError as error:
            sent(channel, {"body": b"", "refused": str(error)})


# The process that reads clusters, and forks.


def _objects(scene: Scene, base: Objects) -> Objects:
    puts = {}
    for put in scene.puts:
        raw = cast("Raw", msgspec.json.decode(put.raw))
        if "apiVersion" not in raw:
            version = codec.version_of(put.group, put.kind)
            raw = {"apiVersion": f"{put.group}/{version}" if put.group else version, "kind": put.kind, **raw}
        puts[Key.at(put.group, put.kind, put.path)] = raw
    return base.changed(puts, [Key.at(*path) for path in scene.deletes])


def _frames(control: socket.socket) -> Iterator[tuple[Frame, list[int]]]:
    while (message := received(control)) is not None:
        yield msgspec.msgpack.decode(message[0], type=Frame), message[1]


def main(control: socket.socket) -> None:
    """Read clusters and fork for questions, until the server is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server ends it
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    os.nice(_NICE)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")  # where memory is short, they go first
    clusters: dict[int, _Cluster] = {}
    for frame, fds in _frames(control):
        if frame.scene is not None:
            base = clusters.get(frame.scene.base)
            clusters[frame.scene.number] = _Cluster.of(frame.scene, base.objects if base is not None else Objects())
            while len(clusters) > _SCENES:
                del clusters[next(iter(clusters))]
        elif frame.question is not None:
            with socket.socket(fileno=fds[0]) as channel:
                if os.fork() == 0:
                    _ended(control, clusters[frame.about], frame.question, channel)


def _ended(control: socket.socket, cluster: _Cluster, question: Question, channel: socket.socket) -> None:
    """The whole life of a fork."""
    try:
        control.close()
        resource.setrlimit(resource.RLIMIT_CPU, (_CPU, _CPU))
        _fork(cluster, question, channel)
    except BaseException as error:  # noqa: BLE001 - whatever it is, somebody waits for a word of it
        with suppress(OSError):
            sent(channel, {"fault": f"the question failed: {type(error).__name__}: {error}"})
    finally:
        os._exit(0)


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
