"""The verbs of Kubernetes' API on the objects of a cluster, without HTTP: what is read, written and refused.

Writes follow the order of an API server: patch, precondition, defaults, validation, admission, and the store. What the
webhook checks on a real cluster is checked here by the same functions. Called from several threads.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from tierwise.admission.node_pod import doubtful
from tierwise.admission.workload_specs import check_workload, incomplete_workload
from tierwise.api import codec, field_names
from tierwise.api.codec import Raw, part
from tierwise.api.core import Pod, PodDisruptionBudget, read_number
from tierwise.api.errors import InputError
from tierwise.api.network_aware import KEP_GROUP
from tierwise.api.selector import matches
from tierwise.apiserver import discovery
from tierwise.apiserver.apply import apply_patch, updated
from tierwise.apiserver.failures import ApiFailure, bad_request, check_bounds, conflict, expired, invalid, not_found
from tierwise.apiserver.kinds import DEFINITION, IDLE, ServedKind, of_kind
from tierwise.apiserver.namespace_limits import admitted, check_limit_range
from tierwise.apiserver.normal_form import normal
from tierwise.apiserver.patches import json_patch, merge_patch, strategic_patch
from tierwise.apiserver.protobuf import message_of, unknown_fields
from tierwise.apiserver.selectors import Selected, selector
from tierwise.apiserver.store import ServedCluster, established, meta_of
from tierwise.apiserver.structural_defaults import with_defaults
from tierwise.controllers.stamp import stamp
from tierwise.port import Key, Objects
from tierwise.runtime.review import Request, Reviewer, ReviewResponse
from tierwise.sim.cluster.controller_manager import budget_status
from tierwise.sim.cluster.endpoints import check_service
from tierwise.sim.cluster.pod_behaviour import check_habits
from tierwise.sim.cluster.store import grace

__all__ = ["EPHEMERAL", "USER_AGENT", "Answer", "ObjectApi", "Place", "number"]

EPHEMERAL: Final = "ephemeralcontainers"
USER_AGENT: Final = "user-agent"
"""Where a request's parameters hold the name of the program that asks."""

_LISTS: Final = 16
"""Lists that are read page by page at a time, at most: beyond that the oldest must be begun again."""

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST_NAME: Final = 253
_LASTING: Final = ("default", "kube-system", "kube-public", "kube-node-lease")
"""Namespaces that cannot be deleted."""

_ENDED: Final = ("Succeeded", "Failed")
_SUCCESS: Final[Raw] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_OWN_FINALIZERS: Final = ("kubernetes.io/", "foregroundDeletion", "orphan", "resource.kubernetes.io/")
"""Finalizers that Kubernetes' own controllers take off at once where nothing is left to be done."""

_IMMUTABLE: Final = {
    ("batch", "Job"): ("template", "selector", "completionMode"),
    ("apps", "Deployment"): ("selector",),
    ("apps", "ReplicaSet"): ("selector",),
    ("apps", "DaemonSet"): ("selector",),
    ("apps", "StatefulSet"): ("selector", "serviceName", "volumeClaimTemplates", "podManagementPolicy"),
}
_MUTABLE_IN_PODS: Final = ("activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds", "schedulingGates")


class Place(msgspec.Struct, frozen=True):
    """Target of a request's path: a kind in a version, optionally a namespace and one object."""

    served: ServedKind
    version: str
    namespace: str = ""
    name: str = ""

    @property
    def key(self) -> Key:
        return Key(self.served.group, self.served.kind, self.namespace if self.served.namespaced else "", self.name)

    @property
    def api_version(self) -> str:
        return self.served.api_version(self.version)

    def named(self, name: str) -> Place:
        return Place(self.served, self.version, self.namespace, name)


class Answer(msgspec.Struct, frozen=True):
    """Response to a request: body, status code, and warnings for the client."""

    body: Raw
    code: int = 200
    warnings: Sequence[str] = ()


class ObjectApi:
    """Objects of one cluster for clients."""

    JSON_PATCH: Final = "application/json-patch+json"
    MERGE_PATCH: Final = "application/merge-patch+json"
    STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
    APPLY: Final = "application/apply-patch+yaml"

    def __init__(self, cluster: ServedCluster) -> None:
        self.cluster = cluster
        self._reviewer = Reviewer(cluster.read)
        self._pages: OrderedDict[str, tuple[Sequence[Raw], int]] = OrderedDict()

    # Reading.

    def get(self, place: Place) -> Raw:
        """One object."""
        return self.shown(place, self._held(place))

    def list(self, place: Place, query: Mapping[str, str], *, every_form: bool = False) -> Raw:
        """Objects of a kind in natural order, all or a page of them.

        `every_form` is for people, who see those of the same kind's other form, too: the two share their short names.
        """
        limit = number(query, "limit")
        token = query.get("continue", "")
        if token:
            items, version = self._page(token)
        else:
            is_selected = self.selected(place, query)
            entries, version = self.cluster.all(place.served.group, place.served.kind)
            other_form = _OTHER_FORM.get((place.served.group, place.served.kind)) if every_form else None
            if other_form is not None:
                entries = [*entries, *self.cluster.all(*other_form)[0]]
            items = []
            for key, raw in entries:
                if _within(place, key) and is_selected(raw):
                    items.append(self.shown(place, raw))
        meta: Raw = {"resourceVersion": str(version)}
        if limit and len(items) > limit:
            meta |= {"continue": self._keep(items[limit:], version), "remainingItemCount": len(items) - limit}
            items = items[:limit]
        return {"kind": f"{place.served.kind}List", "apiVersion": place.api_version, "metadata": meta, "items": items}

    def selected(self, place: Place, query: Mapping[str, str]) -> Selected:
        """Which objects a request means, by its selectors."""
        return selector(place.served.kind, query.get("labelSelector", ""), query.get("fieldSelector", ""))

    def _keep(self, remaining: Sequence[Raw], version: int) -> str:
        token = secrets.token_urlsafe(12)
        with self.cluster.lock:
            self._pages[token] = remaining, version
            while len(self._pages) > _LISTS:
                self._pages.popitem(last=False)
        return token

    def _page(self, token: str) -> tuple[Sequence[Raw], int]:
        with self.cluster.lock:
            page = self._pages.pop(token, None)
        if page is None:
            raise expired("The provided continue parameter is too old: list from the beginning")
        return page

    def shown(self, place: Place, raw: Raw) -> Raw:
        """An object in the version that was asked for, with what an API server adds where nothing is said."""
        if place.key.kind == "Node" and not place.key.group:
            raw = self._reported(raw)
        return _in_version(place, _defaulted(place.served, raw))

    def _reported(self, node: Raw) -> Raw:
        """A node with what its kubelet reports again and again: what it is, and that it still holds."""
        meta = meta_of(node)
        status = part(node, "status")
        lease = self.cluster.raw(Key("coordination.k8s.io", "Lease", "kube-node-lease", str(meta.get("name")))) or {}
        born = meta.get("creationTimestamp")
        heartbeat = str(part(lease, "spec").get("renewTime") or born)[:19].rstrip("Z") + "Z"
        listed = status.get("conditions")
        heard = [
            {"lastTransitionTime": born, "lastHeartbeatTime": heartbeat, **condition}
            if isinstance(condition, dict)
            else condition
            for condition in (listed if isinstance(listed, list) else ())
        ]
        info = {**_NODE_INFO, **{field: meta.get("uid") for field in ("machineID", "systemUUID", "bootID")}}
        info |= part(status, "nodeInfo")
        return {**node, "status": {**status, "nodeInfo": info} | ({"conditions": heard} if heard else {})}

    def _held(self, place: Place) -> Raw:
        raw = self.cluster.raw(place.key)
        if raw is None:
            raise not_found(place.served.resource, place.name)
        return raw

    # Writing.

    def create(self, place: Place, raw: Raw, query: Mapping[str, str]) -> Answer:
        """A new object."""
        meta = dict(meta_of(raw))
        if not meta.get("name") and meta.get("generateName"):
            meta["name"] = f"{meta['generateName']}{''.join(secrets.choice(_LETTERS) for _ in range(5))}"
        name = meta.get("name")
        if not isinstance(name, str) or not name:
            raise invalid(place.served.kind, "", [("metadata.name", "name or generateName is required")])
        for field in ("uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "generation"):
            meta.pop(field, None)
        place = place.named(name)
        fresh = {**raw, "metadata": meta}
        with self.cluster.lock:
            if self.cluster.raw(place.key) is not None:
                text = f'{place.served.resource} "{name}" already exists'
                details: Raw = {"name": name, "group": place.served.group, "kind": place.served.plural}
                raise ApiFailure(409, "AlreadyExists", text, details)
            self._check_namespace(place)
            return self._write(place, fresh, None, query, code=201, by=_manager(query))

    def update(self, place: Place, raw: Raw, query: Mapping[str, str], sub: str = "") -> Answer:
        """A whole object in place of the present one; or its status alone."""
        with self.cluster.lock:
            old = self._held(place)
            return self._write(place, _kept(place, raw, old, sub), old, query, by="" if sub else _manager(query))

    def patch(self, place: Place, patch: object, kind: str, query: Mapping[str, str], sub: str = "") -> Answer:
        """An object with a patch; server-side apply makes it where there is none."""
        with self.cluster.lock:
            old = self.cluster.raw(place.key)
            if kind == self.APPLY and isinstance(patch, dict):
                return self._apply(place, patch, old, query, sub)
            if old is None:
                raise not_found(place.served.resource, place.name)
            new = _patched(place, _in_version(place, old), patch, kind)
            return self._write(place, _kept(place, new, old, sub), old, query, by="" if sub else _manager(query))

    def debug(self, place: Place, change: Callable[[Raw], object], query: Mapping[str, str]) -> Answer:
        """A pod with further containers that somebody looks around with, as `change` makes them."""
        with self.cluster.lock:
            old = self._held(place)
            new = change(_in_version(place, old))
            if not isinstance(new, dict):
                raise bad_request("a patch leaves no object")
            debugged = _debugged(place, new, old, self.cluster.now)
            return self._write(place, debugged, old, query, by=_manager(query), sub=EPHEMERAL)

    def debug_patch(self, place: Place, patch: object, kind: str, query: Mapping[str, str]) -> Answer:
        """A pod with further containers, as a patch of any kind has them."""
        return self.debug(place, lambda old: _patched(place, old, patch, kind), query)

    def _apply(self, place: Place, patch: Raw, old: Raw | None, query: Mapping[str, str], sub: str) -> Answer:
        applied = apply_patch(
            place.served,
            old,
            normal(place.key, _identified(place, patch)),
            manager=query.get("fieldManager", ""),
            force=query.get("force") == "true",
            api_version=place.api_version,
            now=stamp(self.cluster.now),
        )
        meta = {**meta_of(applied), "name": place.name}
        if old is not None:
            return self._write(place, _kept(place, {**applied, "metadata": meta}, old, sub), old, query)
        if sub:
            raise not_found(place.served.resource, place.name)
        self._check_namespace(place)
        return self._write(place, {**applied, "metadata": meta}, None, query, code=201)

    def _write(
        self,
        place: Place,
        raw: Raw,
        old: Raw | None,
        query: Mapping[str, str],
        code: int = 200,
        *,
        by: str = "",
        sub: str = "",
    ) -> Answer:
        """Check an object, and put it into the store; the caller holds the lock.

        `by` is who owns from now on what it changes, "" where that is noted already, and `sub` the part written to.
        """
        served = place.served
        key = place.key
        check_bounds(raw)
        raw = normal(key, _identified(place, raw))
        if served.definition is not None:
            raw = with_defaults(served.definition.schema, raw)
        _check_precondition(place, raw, old)
        warnings = _unknown_fields(place, raw, old, query)
        if old is None:
            _check_name(place)
            raw = _begun(served, raw)
            warnings = [*warnings, *_idle(served, raw)]
        elif sub != EPHEMERAL:
            _check_change(place, raw, old)
        raw, more_warnings = self._admitted(place, raw, old)
        _check_readable(place, raw)
        if (key.group, key.kind) == ("", "Pod") and old is None:
            warnings = [*warnings, *(f"{issue.path}: {issue.message}" for issue in doubtful(codec.decode(raw)))]
        if old is None or part(raw, "spec") != part(old, "spec"):
            _check_workload(place, raw)
        if old is None:
            raw = admitted(self.cluster.read(), key, raw)
        if by:
            now = stamp(self.cluster.now)
            raw = updated(served, old, raw, by=by, sub=sub, api_version=place.api_version, now=now)
        if _dry(query):
            return Answer(self.shown(place, self.cluster.preview(key, raw)), code, (*warnings, *more_warnings))
        stored = self.cluster.put(key, raw)
        meta = meta_of(stored)
        if old is not None and meta.get("deletionTimestamp") and not _finalizers(stored) and not _holds_node(stored):
            self._let_go(place)
        return Answer(self.shown(place, stored), code, (*warnings, *more_warnings))

    def _admitted(self, place: Place, raw: Raw, old: Raw | None) -> tuple[Raw, Sequence[str]]:
        """Defaults and checks of tierwise's webhook, for the kinds that it is asked about on a real cluster."""
        if place.served.definition is None:
            return raw, ()
        operation = "CREATE" if old is None else "UPDATE"
        request = Request("", operation, place.key.namespace, object=raw, old_object=old)
        patch = self._reviewer.mutate(request).patch
        changed = json_patch(raw, list(patch)) if patch else raw
        assert isinstance(changed, dict)
        response = self._reviewer.validate(Request("", operation, place.key.namespace, object=changed, old_object=old))
        if not response.allowed:
            raise _denied(place, response)
        return changed, response.warnings

    def _check_namespace(self, place: Place) -> None:
        if not place.served.namespaced:
            return
        raw = self.cluster.raw(Key("", "Namespace", "", place.namespace))
        if raw is None:
            raise not_found("namespaces", place.namespace)
        if meta_of(raw).get("deletionTimestamp"):
            text = f"unable to create new content in namespace {place.namespace} because it is being terminated"
            raise ApiFailure(403, "Forbidden", text)

    # Deleting.

    def delete(self, place: Place, options: Raw, query: Mapping[str, str]) -> Answer:
        """Let an object go, with all that it owns; a pod on a node gets its time."""
        merged_options = {**query, **{name: value for name, value in options.items() if value is not None}}
        with self.cluster.lock:
            raw = self._held(place)
            required = options.get("preconditions")
            for field in ("uid", "resourceVersion") if isinstance(required, dict) else ():
                meant = required.get(field) if isinstance(required, dict) else None
                if meant and meant != meta_of(raw).get(field):
                    raise conflict(place.served.resource, place.name, f"the {field} in the precondition is another")
            if place.served.definition is not None:
                response = self._reviewer.validate(Request("", "DELETE", place.key.namespace, old_object=raw))
                if not response.allowed:
                    raise _denied(place, response)
            if _dry(merged_options):
                return Answer(self.shown(place, raw))
            return self._delete(place, raw, merged_options)

    def _delete(self, place: Place, raw: Raw, options: Mapping[str, object]) -> Answer:
        now = self.cluster.now
        key = place.key
        patience = _grace_period(options)
        if options.get("propagationPolicy") == "Orphan":
            self._orphan(raw)
        if key.kind == "Pod" and _holds_node(raw) and patience != 0:
            if not meta_of(raw).get("deletionTimestamp"):
                pod: Pod = codec.decode(raw)
                seconds = grace(pod) if patience is None else min(patience, grace(pod))
                marks = {"deletionTimestamp": stamp(now + seconds), "deletionGracePeriodSeconds": seconds}
                raw = self.cluster.put(key, {**raw, "metadata": {**meta_of(raw), **marks}})
            return Answer(self.shown(place, raw))
        if (key.group, key.kind) == ("", "Namespace") and key.name in _LASTING:
            raise ApiFailure(
                403, "Forbidden", f'namespaces "{key.name}" is forbidden: this namespace may not be deleted'
            )
        if (key.group, key.kind) == ("", "Namespace") or _finalizers(raw):
            status = {"status": {**part(raw, "status"), "phase": "Terminating"}} if key.kind == "Namespace" else {}
            meta = {"deletionTimestamp": stamp(now), "deletionGracePeriodSeconds": 0, **meta_of(raw)}
            return Answer(self.shown(place, self.cluster.put(key, {**raw, **status, "metadata": meta})))
        self._let_go(place)
        if key.kind in _SHOWN_AS_THEY_GO and place.served.definition is None:
            return Answer(self.shown(place, raw))
        done: Raw = {
            "name": place.name,
            "group": key.group,
            "kind": place.served.plural,
            "uid": meta_of(raw).get("uid"),
        }
        return Answer({**_SUCCESS, "details": done})

    def delete_all(self, place: Place, options: Raw, query: Mapping[str, str]) -> Answer:
        """Delete every object at the place that the query's selectors select, and answer with a Success status.

        It skips objects that are gone already (404); any other ApiFailure stops it, and the objects before it stay
        deleted.
        """
        is_selected = self.selected(place, query)
        entries, _ = self.cluster.all(place.served.group, place.served.kind)
        for key, raw in entries:
            if _within(place, key) and is_selected(raw):
                object_place = Place(place.served, place.version, key.namespace, key.name)
                try:
                    self.delete(object_place, options, query)
                except ApiFailure as error:
                    if error.code != 404:  # it is gone already
                        raise
        return Answer(_SUCCESS)

    def _let_go(self, place: Place) -> None:
        """Remove an object, and let go what it owned."""
        key = place.key
        uid = meta_of(self.cluster.raw(key) or {}).get("uid")
        self.cluster.drop(key)
        for dependent in _dependents(self.cluster.read(), str(uid)):
            raw = self.cluster.raw(dependent)
            dependent_kind = of_kind(dependent.group, dependent.kind)
            if raw is not None and dependent_kind is not None:
                below = Place(dependent_kind, dependent_kind.versions[0], dependent.namespace, dependent.name)
                self._delete(below, raw, {})

    def _orphan(self, raw: Raw) -> None:
        uid = meta_of(raw).get("uid")
        for dependent in _dependents(self.cluster.read(), str(uid)):
            below = self.cluster.raw(dependent) or {}
            owners = meta_of(below).get("ownerReferences")
            owners_left = (
                [owner for owner in owners if isinstance(owner, dict) and owner.get("uid") != uid]
                if isinstance(owners, list)
                else []
            )
            self.cluster.put(dependent, {**below, "metadata": {**meta_of(below), "ownerReferences": owners_left}})

    # Sub-resources.

    def bind(self, place: Place, binding: Raw) -> Answer:
        """A pod on a node, as another scheduler would say it."""
        node = part(binding, "target").get("name")
        if not isinstance(node, str) or not node:
            raise invalid("Binding", place.name, [("target.name", "Required value")])
        with self.cluster.lock:
            raw = self._held(place)
            bound = part(raw, "spec").get("nodeName")
            if bound or meta_of(raw).get("deletionTimestamp"):
                why = f"pod {place.name} is already assigned to node {bound}" if bound else "it is being deleted"
                raise conflict("pods/binding", place.name, why)
            notes = meta_of(binding).get("annotations")
            patch: Raw = {"spec": {"nodeName": node}, "status": {"nominatedNodeName": None}}
            new = merge_patch(raw, patch | ({"metadata": {"annotations": notes}} if notes else {}))
            assert isinstance(new, dict)
            self.cluster.put(place.key, new)
        return Answer(_SUCCESS, 201)

    def evict(self, place: Place, eviction: Raw, query: Mapping[str, str]) -> Answer:
        """As deleting, where the budgets that a pod is under allow it."""
        with self.cluster.lock:
            pod: Pod = codec.decode(self._held(place))
            objects = self.cluster.read()
            counted = pod.status.phase not in ("", "Pending", *_ENDED) and not pod.metadata.deletion_timestamp
            for budget in objects.every(PodDisruptionBudget).values() if counted else ():
                same_namespace = (budget.metadata.namespace or "default") == place.namespace
                if same_namespace and matches(budget.spec.selector, pod.metadata.labels):
                    status = budget_status(budget, objects.every(Pod).values())
                    if status["disruptionsAllowed"] == 0:
                        raise _too_many(budget.metadata.name, status)
            self.delete(place, part(eviction, "deleteOptions"), query)
        return Answer(_SUCCESS, 201)

    def scale(self, place: Place) -> Raw:
        """How many replicas there are, and shall be."""
        return _scale(place, self._held(place))

    def rescale(self, place: Place, change: Callable[[Raw], object], query: Mapping[str, str]) -> Answer:
        """Another number of replicas, from what `change` makes of the present scale."""
        with self.cluster.lock:
            old = self._held(place)
            scale = change(_scale(place, old))
            spec = scale.get("spec") if isinstance(scale, dict) else None
            replicas = spec.get("replicas", 0) if isinstance(spec, dict) else None
            if not isinstance(replicas, int) or isinstance(replicas, bool) or replicas < 0:
                text = f"{replicas!r} is not a number of replicas"
                raise invalid("Scale", place.name, [("spec.replicas", text)])
            version = meta_of(scale if isinstance(scale, dict) else {}).get("resourceVersion")
            meta = {**meta_of(old), "resourceVersion": version or meta_of(old).get("resourceVersion")}
            new = {**_in_version(place, old), "metadata": meta, "spec": {**part(old, "spec"), "replicas": replicas}}
            answer = self._write(place, new, old, query, by=_manager(query), sub="scale")
        return Answer(_scale(place, answer.body), warnings=answer.warnings)


def number(query: Mapping[str, str], name: str) -> int:
    """A number of a request, 0 where it says none; 400 where it cannot be read."""
    text = query.get(name, "") or "0"
    if not (text.isascii() and text.isdigit()):
        raise bad_request(f'{name}: "{text[:300]}" is not a number')
    return int(text[:18])


def _dry(options: Mapping[str, object]) -> bool:
    """Whether a request is only tried; 400 where it asks for a part of it."""
    stages = options.get("dryRun")
    if stages and stages not in ("All", ["All"]):
        raise bad_request(f'dryRun: Unsupported value: {stages!r}: supported values: "All"')
    return bool(stages)


def _grace_period(options: Mapping[str, object]) -> int | None:
    """The seconds that a request gives a pod to terminate; None where it leaves that to the pod."""
    grace = options.get("gracePeriodSeconds")
    if grace is None:
        return None
    seconds = read_number(str(grace)) if isinstance(grace, int | str) else None
    if seconds is None or not 0 <= seconds < 10**9:
        raise bad_request(f"gracePeriodSeconds: {str(grace)[:300]!r} is not a number of seconds")
    return seconds


_OTHER_FORM: Final = {
    form: counterpart
    for kind, group in (
        ("AppGroup", "appgroup.diktyo.x-k8s.io"),
        ("NetworkTopology", "networktopology.diktyo.x-k8s.io"),
    )
    for form, counterpart in (((group, kind), (KEP_GROUP, kind)), ((KEP_GROUP, kind), (group, kind)))
}
"""Kinds that exist as the network-aware plugins ship them and as their proposal has them, with the same short name."""


def _manager(query: Mapping[str, str]) -> str:
    """Who writes, by its own word or by that of its program."""
    return query.get("fieldManager") or query.get(USER_AGENT) or "unknown"


def _within(place: Place, key: Key) -> bool:
    return (not place.namespace or key.namespace == place.namespace) and place.name in ("", key.name)


def _patched(place: Place, old: Raw, patch: object, kind: str) -> Raw:
    match kind:
        case ObjectApi.JSON_PATCH:
            new = json_patch(old, patch)
        case ObjectApi.MERGE_PATCH:
            new = merge_patch(old, patch)
        case ObjectApi.STRATEGIC_PATCH if place.served.definition is None and isinstance(patch, dict):
            new = strategic_patch(old, patch)
        case _:
            text = f"the body of the request was in an unknown format - {kind} is not supported for this kind"
            raise ApiFailure(415, "UnsupportedMediaType", text)
    if not isinstance(new, dict):
        raise bad_request("a patch leaves no object")
    if not meta_of(new).get("name"):
        raise invalid(place.served.kind, place.name, [("metadata.name", "field is immutable")])
    return new


def _debugged(place: Place, new: Raw, old: Raw, now: float) -> Raw:
    """The pod with further containers that somebody looks around with: those that are there stay, and those run."""
    before, after = (part(raw, "spec").get("ephemeralContainers") for raw in (old, new))
    there, wanted = (listed if isinstance(listed, list) else [] for listed in (before, after))
    if wanted[: len(there)] != there:
        text = "existing ephemeral containers may not be removed or changed"
        raise invalid("Pod", place.name, [("spec.ephemeralContainers", f"Forbidden: {text}")])
    causes = [
        (f"spec.ephemeralContainers[{index}].{field}", "Forbidden: cannot be set for an Ephemeral Container")
        for index, container in enumerate(wanted)
        for field in _NOT_EPHEMERAL
        if isinstance(container, dict) and container.get(field)
    ]
    if causes:
        raise invalid("Pod", place.name, causes)
    status = part(old, "status")
    if status.get("phase") == "Running":
        shown = status.get("ephemeralContainerStatuses")
        told = [*shown] if isinstance(shown, list) else []
        state = {"state": {"running": {"startedAt": stamp(now)}}, "ready": False, "restartCount": 0}
        for container in wanted[len(told) :]:
            image = container.get("image", "")
            told.append({"name": container.get("name", ""), "image": image, "imageID": image, **state})
        status = {**status, "ephemeralContainerStatuses": told}
    return {**old, "spec": {**part(old, "spec"), "ephemeralContainers": wanted}, "status": status}


_NOT_EPHEMERAL: Final = ("ports", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "resources")


def _kept(place: Place, new: Raw, old: Raw, sub: str) -> Raw:
    """Object with the changes that the path allows: the status at its own path, everything else elsewhere."""
    if sub == "status":
        meta = {**meta_of(old), "resourceVersion": meta_of(new).get("resourceVersion")}
        notes = {field: meta_of(new)[field] for field in ("managedFields",) if field in meta_of(new)}
        if place.served.kind == "Pod":  # schedulers annotate with the status
            notes |= {"annotations": meta_of(new)["annotations"]} if "annotations" in meta_of(new) else {}
        status = new.get("status", {})
        if place.served.kind == "Node" and isinstance(status, dict):
            status = _as_kubelet(status, part(old, "status"))
        return {**_in_version(place, old), "metadata": {**meta, **notes}, "status": status}
    if not place.served.status:
        return new
    result = {name: value for name, value in new.items() if name != "status"}
    if "status" in old:
        return {**result, "status": old["status"]}
    return result


def _as_kubelet(status: Raw, before: Raw) -> Raw:
    """A node's status with what its kubelet does about it: extended resources of its capacity become allocatable.

    That is how people advertise a resource that no device plugin has: they patch the capacity alone.
    """
    capacity = part(status, "capacity")
    old_capacity = part(before, "capacity")
    old_allocatable = part(status, "allocatable")
    had = part(before, "allocatable")
    changed = {}
    for name in {**old_capacity, **capacity}:
        if "/" in name and capacity.get(name) != old_capacity.get(name) and old_allocatable.get(name) == had.get(name):
            changed[name] = capacity.get(name)
    if not changed:
        return status
    allocatable = {name: value for name, value in {**old_allocatable, **changed}.items() if value is not None}
    return {**status, "allocatable": allocatable}


_MAPS: Final = ("labels", "annotations")


def _in_version(place: Place, raw: Raw) -> Raw:
    if raw.get("apiVersion") == place.api_version:
        return raw
    return {**raw, "apiVersion": place.api_version}


def _identified(place: Place, raw: Raw) -> Raw:
    """An object that is what its path says; 400 where it claims to be something else. Empty maps say nothing."""
    meta = {field: value for field, value in meta_of(raw).items() if value != {} or field not in _MAPS}
    kind = raw.get("kind", place.served.kind)
    version = raw.get("apiVersion", place.api_version)
    if kind != place.served.kind or version not in [
        place.served.api_version(version_name) for version_name in place.served.versions
    ]:
        text = f"{version} {kind} in the data does not match the expected {place.api_version} {place.served.kind}"
        raise bad_request(text)
    if meta.get("name", place.name) != place.name:
        raise bad_request(
            f"the name of the object ({meta.get('name')}) does not match the name on the URL ({place.name})"
        )
    if place.served.namespaced:
        if meta.get("namespace", place.namespace) not in ("", None, place.namespace):
            text = f"the namespace of the object ({meta['namespace']}) does not match the namespace on the URL"
            raise bad_request(f"{text} ({place.namespace})")
        meta["namespace"] = place.namespace
    return {**raw, "apiVersion": version, "kind": kind, "metadata": {"name": place.name, **meta}}


def _check_name(place: Place) -> None:
    """A new object is called what Kubernetes lets it be called."""
    strict = place.served.group != "rbac.authorization.k8s.io"  # whose names may hold almost anything
    if strict and (len(place.name) > _LONGEST_NAME or _NAME.fullmatch(place.name) is None):
        text = (
            f'Invalid value: "{place.name[:300]}": a lowercase RFC 1123 subdomain must consist of lower case '
            "alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character"
        )
        raise invalid(place.served.kind, place.name[:300], [("metadata.name", text)])


def _check_precondition(place: Place, raw: Raw, old: Raw | None) -> None:
    meta = meta_of(raw)
    before = meta_of(old or {})
    for field in ("resourceVersion", "uid") if old is not None else ():
        if meta.get(field) and meta[field] != before.get(field):
            why = "the object has been modified; please apply your changes to the latest version and try again"
            raise conflict(place.served.resource, place.name, why)


def _unknown_fields(place: Place, raw: Raw, old: Raw | None, query: Mapping[str, str]) -> Sequence[str]:
    """Fields that the kind does not have: refused, told or passed over, as the request asks; kept in any case."""
    mode = query.get("fieldValidation") or "Warn"
    if mode == "Ignore":
        return ()
    before = dict(_unheard(place.served, old or {}))
    texts = [text for path, text in _unheard(place.served, raw) if path not in before]
    if texts and mode == "Strict":
        about = f'{place.served.kind} in version "{place.version}" cannot be handled'
        raise bad_request(f"{about}: strict decoding error: {', '.join(texts)}")
    return texts


def _unheard(served: ServedKind, raw: Raw) -> Iterator[tuple[str, str]]:
    """Path and message of every field that a kind does not have."""
    unheard_fields = list(field_names.unheard(raw, served.group, served.kind))
    for path, message in unheard_fields:
        yield path, message.replace(f'"{path.rpartition(".")[2]}"', f'"{path}"', 1)
    name = message_of(served.group, served.kind)
    if name is not None and not unheard_fields:
        body = {field: value for field, value in raw.items() if field not in ("apiVersion", "kind")}
        for path in unknown_fields(body, name):
            yield path, f'unknown field "{path}"'


def _begun(served: ServedKind, raw: Raw) -> Raw:
    """A new object, of which nothing is reported yet; nodes report themselves, and volumes stand for what is there."""
    if not served.status or served.kind in ("Node", "PersistentVolume"):
        return raw
    fresh = {name: value for name, value in raw.items() if name != "status"}
    if (served.group, served.kind) in (("", "Pod"), ("", "PersistentVolumeClaim")):
        return {**fresh, "status": {"phase": "Pending"}}
    if (served.group, served.kind) == DEFINITION:
        return established(fresh)
    if (served.group, served.kind) == ("", "Service"):
        return {**fresh, "spec": _addressed(raw), "status": {"loadBalancer": {}}}
    if (served.group, served.kind) == ("", "Namespace"):
        labels = {**part(meta_of(raw), "labels"), "kubernetes.io/metadata.name": meta_of(raw).get("name")}
        return {**fresh, "metadata": {**meta_of(raw), "labels": labels}, "status": {"phase": "Active"}}
    return fresh


def _defaulted(served: ServedKind, raw: Raw) -> Raw:
    """An object with what clients count on and its author does not say, as an API server adds it; it is not kept."""
    kind = (served.group, served.kind)
    if kind == ("", "Secret"):
        return raw if "type" in raw else {**raw, "type": "Opaque"}
    missing = _DEFAULTS.get(kind)
    spec = raw.get("spec")
    if missing is None or not isinstance(spec, dict) or missing.keys() <= spec.keys():
        return raw
    return {**raw, "spec": {**missing, **spec}}


_DEFAULTS: Final[Mapping[tuple[str, str], Raw]] = {
    ("", "Pod"): {"restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "securityContext": {}},
    ("apps", "Deployment"): {
        "replicas": 1,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
    },
    ("", "ReplicationController"): {"replicas": 1},
    ("apps", "ReplicaSet"): {"replicas": 1},
    ("batch", "CronJob"): {"concurrencyPolicy": "Allow", "suspend": False},
    ("apps", "StatefulSet"): {
        "replicas": 1,
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
    },
    ("apps", "DaemonSet"): {
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    },
}
"""Fields of specs without which commands of kubectl refuse to go on, or crash."""


_NODE_INFO: Final = {
    "architecture": "amd64",
    "containerRuntimeVersion": "simulated://1",
    "kernelVersion": "simulated",
    "kubeProxyVersion": "",
    "kubeletVersion": discovery.version()["gitVersion"],
    "operatingSystem": "linux",
    "osImage": "simulated by tierwise",
}


_SHOWN_AS_THEY_GO: Final = frozenset(
    {
        *("Pod", "PersistentVolume", "PersistentVolumeClaim", "ResourceQuota", "Service", "ServiceAccount"),
        *("StorageClass", "CSIDriver", "CSINode", "VolumeAttachment"),
        *("ResourceClaim", "ResourceClaimTemplate", "DeviceClass", "ResourceSlice"),
    }
)
"""Kinds whose deletion Kubernetes answers with the object, as its OpenAPI says; that of others with a Status."""


def _idle(served: ServedKind, raw: Raw) -> Iterator[str]:
    """Warnings for a client about an object that will have no effect."""
    if served.kind in IDLE:
        yield f"{served.plural} are kept, and nothing acts on them here"
    if (served.group, served.kind) == DEFINITION:
        spec = part(raw, "spec")
        group = str(spec.get("group", ""))
        kind = str(part(spec, "names").get("kind", ""))
        if of_kind(group, kind) is None:
            yield f"the definition is kept, and objects of kind {kind} are not served: tierwise does not know it"


def _addressed(service: Raw) -> Raw:
    """Service with its defaults filled in: type, address and node ports. Nothing listens at them."""
    spec = {"type": "ClusterIP", "sessionAffinity": "None", **part(service, "spec")}
    mark = hashlib.sha256(f"{meta_of(service).get('namespace')}/{meta_of(service).get('name')}".encode()).digest()
    if spec["type"] != "ExternalName" and not spec.get("clusterIP"):
        address = f"10.96.{mark[0]}.{1 + mark[1] % 254}"
        spec |= {"clusterIP": address, "clusterIPs": [address]}
    ports = spec.get("ports")
    outside = spec["type"] in ("NodePort", "LoadBalancer")
    if isinstance(ports, list):
        base_port = 30_000 + int.from_bytes(mark[2:4], "big") % 2_500
        spec["ports"] = [
            {"protocol": "TCP", "targetPort": port.get("port")}
            | ({"nodePort": base_port + index} if outside else {})
            | port
            if isinstance(port, dict)
            else port
            for index, port in enumerate(ports)
        ]
    return spec


def _check_change(place: Place, raw: Raw, old: Raw) -> None:
    """Fields that stay as they were when the object was made."""
    spec = part(raw, "spec")
    before = part(old, "spec")
    kind = (place.served.group, place.served.kind)
    wrong = [field for field in _IMMUTABLE.get(kind, ()) if spec.get(field) != before.get(field)]
    if wrong:
        raise invalid(place.served.kind, place.name, [(f"spec.{field}", "field is immutable") for field in wrong])
    new_spec, old_spec = (part(_defaulted(place.served, manifest), "spec") for manifest in (raw, old))
    if kind == ("", "Pod") and _fixed(new_spec) != _fixed(old_spec):
        allowed = ", ".join(f"spec.{field}" for field in ("containers[*].image", *_MUTABLE_IN_PODS))
        raise invalid(
            "Pod", place.name, [("spec", f"Forbidden: pod updates may not change fields other than {allowed}")]
        )


def _fixed(spec: Raw) -> Raw:
    """Fields of a pod's spec that may not change."""
    mutable_free = {name: value for name, value in spec.items() if name not in _MUTABLE_IN_PODS}
    for field in ("containers", "initContainers"):
        items = mutable_free.get(field)
        if isinstance(items, list):
            mutable_free[field] = [{**item, "image": ""} if isinstance(item, dict) else item for item in items]
    return mutable_free


def _check_readable(place: Place, raw: Raw) -> None:
    """Nothing gets into the store that the rest of the program could not read."""
    try:
        record = codec.decode(raw)
        check_habits(Objects.of([(record, raw)]))
        match place.key:
            case Key("", "Service"):
                check_service(raw)
            case Key("", "LimitRange"):
                check_limit_range(raw)
            case _:
                pass
    except InputError as error:
        raise invalid(place.served.kind, place.name, [(error.field or "", error.message)]) from None


def _check_workload(place: Place, raw: Raw) -> None:
    """Pods and workloads as Kubernetes wants them, its own templates included."""
    issues = [*check_workload(place.key, raw), *incomplete_workload(place.key, raw)]
    causes = [(issue.path, issue.message) for issue in issues]
    if causes:
        raise invalid(place.served.kind, place.name, causes)


def _denied(place: Place, response: ReviewResponse) -> ApiFailure:
    """ApiFailure for a webhook's refusal; clients show only the causes of invalid objects, so each error is a cause."""
    text = f'admission webhook "tierwise" denied the request: {"; ".join(response.errors)}'
    reasons = {400: "BadRequest", 403: "Forbidden"}
    if response.code in reasons:
        return ApiFailure(response.code, reasons[response.code], text)
    causes = [_cause(error) for error in response.errors]
    return ApiFailure(422, "Invalid", text, invalid(place.served.kind, place.name, causes).details)


def _cause(error: str) -> tuple[str, str]:
    """The field that an error begins with, and the rest of it."""
    field, _, message = error.partition(": ")
    if message and " " not in field:
        return (field, message)
    return ("", error)


def _too_many(budget: str, status: Raw) -> ApiFailure:
    needs = f"The disruption budget {budget} needs {status['desiredHealthy']} healthy pods"
    cause = {"reason": "DisruptionBudget", "message": f"{needs} and has {status['currentHealthy']} currently"}
    text = "Cannot evict pod as it would violate the pod's disruption budget."
    return ApiFailure(429, "TooManyRequests", text, {"causes": [cause]})


def _finalizers(raw: Raw) -> list[str]:
    """Finalizers that other controllers must remove before the object is deleted."""
    finalizers = meta_of(raw).get("finalizers")
    if isinstance(finalizers, list):
        return [str(finalizer) for finalizer in finalizers if not str(finalizer).startswith(_OWN_FINALIZERS)]
    return []


def _holds_node(raw: Raw) -> bool:
    ended = part(raw, "status").get("phase") in _ENDED
    return raw.get("kind") == "Pod" and bool(part(raw, "spec").get("nodeName")) and not ended


def _dependents(objects: Objects, uid: str) -> Iterable[Key]:
    """Objects that no one but the owner of a uid owns."""
    dependents = []
    for key in objects:
        record = objects.record(key)
        owners = record.metadata.owner_references if record is not None else ()
        if owners and all(owner.uid == uid for owner in owners):
            dependents.append(key)
    return dependents


def _scale(place: Place, raw: Raw) -> Raw:
    meta = meta_of(raw)
    spec = part(raw, "spec")
    labels = part(part(spec, "selector"), "matchLabels")
    replicas = spec.get("replicas", 1)
    shared = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {field: meta[field] for field in shared if field in meta},
        "spec": {"replicas": replicas},
        "status": {
            "replicas": part(raw, "status").get("replicas", 0),
            "selector": ",".join(f"{key}={value}" for key, value in labels.items()),
        },
    }
