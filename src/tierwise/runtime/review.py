"""Admission reviews: a request of the API server in, its answer out.

Called by the webhook for every review. Decides nothing itself: `admission` judges and completes. The other objects
of the cluster are passed in by the caller; without them, no name counts as unknown.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from tierwise.admission import FieldFinding, ReviewContext, complete, judge, judge_deletion, review_context
from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.errors import InputError
from tierwise.port import Objects, key_of_raw

__all__ = ["Request", "ReviewResponse", "Reviewer", "read_request"]

_VERSION: Final = "admission.k8s.io/v1"
_MOST_WARNINGS: Final = 8
_REASONS: Final = {400: "BadRequest", 403: "Forbidden", 422: "Invalid"}
_PLACEHOLDER: Final = "xxxxx"
"""In place of the letters that the API server adds to generateName after admission."""


class Request(msgspec.Struct, frozen=True, rename="camel"):
    """Admission request of the API server; `object` is None on deletion, `old_object` on creation."""

    uid: str
    operation: str = ""
    namespace: str = ""
    kind: dict[str, str] = {}
    object: Raw | None = None
    old_object: Raw | None = None


class _Review(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str
    kind: str
    request: Request


class ReviewResponse(msgspec.Struct, frozen=True):
    """The answer to the API server: errors deny the request, warnings are shown to its sender."""

    request: Request
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    patch: tuple[Raw, ...] = ()
    code: int = 422

    @property
    def allowed(self) -> bool:
        """Whether the object may pass."""
        return not self.errors

    def wire(self) -> Raw:
        """The answer as an AdmissionReview."""
        response: Raw = {"uid": self.request.uid, "allowed": self.allowed}
        if self.errors:
            status = {"code": self.code, "reason": _REASONS[self.code], "message": "; ".join(self.errors)}
            response["status"] = status
        if self.warnings:
            response["warnings"] = list(self.warnings[:_MOST_WARNINGS])
        if self.patch:
            response["patchType"] = "JSONPatch"
            response["patch"] = base64.b64encode(msgspec.json.encode(self.patch)).decode()
        return {"apiVersion": _VERSION, "kind": "AdmissionReview", "response": response}


def read_request(body: bytes) -> Request:
    """The request in a review; InputError where it is none."""
    try:
        review = msgspec.json.decode(body, type=_Review)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InputError(f"this is not an AdmissionReview: {error}") from None
    if (review.api_version, review.kind) != (_VERSION, "AdmissionReview"):
        raise InputError(f"{_VERSION} AdmissionReview is expected, not {review.api_version} {review.kind}")
    return review.request


class Reviewer:
    """Answers reviews with what `read` knows of the cluster at the moment."""

    def __init__(self, read_objects: Callable[[], Objects]) -> None:
        self._read = read_objects
        self._ground: ReviewContext | None = None

    def validate(self, request: Request) -> ReviewResponse:
        """Whether an object may be created, changed or deleted; whatever is there may be relabelled."""
        if request.operation == "DELETE":
            return self._validate_deletion(request)
        if request.object is None or _untouched(request):
            return ReviewResponse(request)
        raw = _named(request, request.object)
        try:
            objects = self._read().changed({(key := key_of_raw(raw)): raw})
            before = codec.decode(_named(request, request.old_object)) if request.old_object else None
        except InputError as error:
            return ReviewResponse(request, errors=(str(error),), code=400)
        self._ground = review_context(objects, self._ground)
        verdict = judge(objects, key, self._ground, before)
        return ReviewResponse(request, errors=_texts(verdict.errors), warnings=_texts(verdict.warnings))

    def _validate_deletion(self, request: Request) -> ReviewResponse:
        """Deleting again what is on its way out passes, and so does what cannot be read."""
        if request.old_object is None or codec.part(request.old_object, "metadata").get("deletionTimestamp"):
            return ReviewResponse(request)
        try:
            record = codec.decode(_named(request, request.old_object))
        except InputError:
            return ReviewResponse(request)
        errors = judge_deletion(self._read(), record).errors
        return ReviewResponse(request, errors=tuple(finding.message for finding in errors), code=403)

    def mutate(self, request: Request) -> ReviewResponse:
        """The defaults that an object leaves out, as a patch; what cannot be read is left to validation."""
        if request.object is None:
            return ReviewResponse(request)
        try:
            completed = complete(_named(request, request.object))
        except InputError:
            return ReviewResponse(request)
        written = request.object.get("spec", {})
        filled = completed.get("spec", {})
        if "spec" not in request.object and filled:
            return ReviewResponse(request, patch=({"op": "add", "path": "/spec", "value": filled},))
        return ReviewResponse(request, patch=tuple(_changes(written, filled, "/spec")))


def _untouched(request: Request) -> bool:
    """Whether an update leaves the spec alone, or is about an object on its way out: finalizers must come off."""
    new = request.object
    old = request.old_object
    if new is None:
        return True
    leaving = bool(codec.part(new, "metadata").get("deletionTimestamp"))
    return old is not None and (leaving or new.get("spec") == old.get("spec"))


def _named(request: Request, raw: Raw) -> Raw:
    """The object with the namespace it is sent to, and a name where the API server is going to make one up."""
    meta = raw.get("metadata")
    if not isinstance(meta, dict):
        return raw
    filled = dict(meta)
    if request.namespace:
        filled.setdefault("namespace", request.namespace)
    if not filled.get("name") and filled.get("generateName"):
        filled["name"] = f"{filled['generateName']}{_PLACEHOLDER}"
    return {**raw, "metadata": filled}


def _texts(findings: tuple[FieldFinding, ...]) -> tuple[str, ...]:
    return tuple(f"{finding.path}: {finding.message}" for finding in findings)


def _changes(old: object, new: object, path: str) -> Iterator[Raw]:
    """JSON patch operations that make `new` of `old`; defaults only ever add fields, or fill empty ones."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name, value in new.items():
            step = f"{path}/{name.replace('~', '~0').replace('/', '~1')}"
            if name not in old:
                yield {"op": "add", "path": step, "value": value}
            else:
                yield from _changes(old[name], value, step)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from _changes(before, after, f"{path}/{index}")
    elif old != new:
        yield {"op": "replace", "path": path, "value": new}
