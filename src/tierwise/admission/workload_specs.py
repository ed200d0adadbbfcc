"""What Kubernetes' API server refuses in its own pods and workloads: one place for `validate` and the embedded cluster.

A row of `_RULES` for each kind; a kind without one is not looked at here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Final

import msgspec

from tierwise.admission.findings import Issue, error
from tierwise.admission.names import dns_subdomain, labels_and_annotations
from tierwise.admission.pod_specs import check_label_selector, check_pod_fields, check_pod_template, left_out
from tierwise.api.codec import Raw
from tierwise.api.core import LabelSelector
from tierwise.api.errors import InputError
from tierwise.api.selector import matches
from tierwise.dialects.workloads.fields import Fields
from tierwise.port import Key

__all__ = ["check_workload", "incomplete_workload"]

_LONGEST_CRON_JOB: Final = 52
_CONCURRENCY: Final = ("Allow", "Forbid", "Replace")


def check_workload(key: Key, raw: Raw) -> Iterator[Issue]:
    """Issues of an object of one of Kubernetes' own kinds that has pods."""
    rule = _RULES.get((key.group, key.kind))
    if rule is None:
        return
    fields = Fields(raw)
    try:
        yield from dns_subdomain("metadata.name", key.name)
        yield from labels_and_annotations(fields.at("metadata"))
        yield from rule(key, fields.at("spec"))
    except InputError as wrong:
        yield error(wrong.field or "spec", wrong.message)


def incomplete_workload(key: Key, raw: Raw) -> Iterator[Issue]:
    """Yield the errors of `left_out` (no image, no device limit) for the pod template in an object.

    It yields nothing where this kind has no pod template, or where the template cannot be read, which `check_workload`
    reports.
    """
    place = _PODS.get((key.group, key.kind))
    if place is not None:
        with suppress(InputError):  # `check_workload` says what is wrong with it
            yield from left_out(Fields(raw).at(*place))


def _pod(key: Key, spec: Fields) -> Iterator[Issue]:
    yield from check_pod_fields(spec)
    for container in (*spec.each("initContainers"), *spec.each("containers")):
        image = container.text("image")
        if image != image.strip():  # of templates it is not asked
            yield error(container.where("image"), f'the image "{image}" begins or ends with white space')


def _deployment(key: Key, spec: Fields) -> Iterator[Issue]:
    yield from _set(key, spec)
    kind = spec.at("strategy").text("type")
    rolling = spec.at("strategy").raw.get("rollingUpdate")
    if kind not in ("", "Recreate", "RollingUpdate"):
        yield error(
            spec.where("strategy.type"), f'strategy "{kind}" is not known: it must be Recreate or RollingUpdate'
        )
    if kind == "Recreate" and rolling is not None:
        yield error(spec.where("strategy.rollingUpdate"), "strategy Recreate has no rolling update")
    limits = spec.at("strategy", "rollingUpdate").raw
    if all(limits.get(name) in (0, "0%") for name in ("maxSurge", "maxUnavailable")):
        text = "maxSurge and maxUnavailable cannot both be 0"
        yield error(spec.where("strategy.rollingUpdate.maxUnavailable"), text)
    yield from _not_negative(spec, "revisionHistoryLimit", "progressDeadlineSeconds")


def _stateful_set(key: Key, spec: Fields) -> Iterator[Issue]:
    yield from _set(key, spec)
    order = spec.text("podManagementPolicy")
    if order not in ("", "OrderedReady", "Parallel"):
        yield error(spec.where("podManagementPolicy"), f'"{order}" must be OrderedReady or Parallel')


def _set(key: Key, spec: Fields) -> Iterator[Issue]:
    """Checks that all workloads with long-running pods share."""
    yield from _not_negative(spec, "replicas", "minReadySeconds")
    selector = spec.at("selector")
    template = spec.at("template")
    if not (selector.raw.get("matchLabels") or selector.raw.get("matchExpressions")):
        yield error(selector.path, "a selector is needed, and one that is not empty")
    else:
        yield from check_label_selector(selector)
        yield from _selects(selector, template)
    yield from _runs_on(
        key, template, claims=[claim.at("metadata").text("name") for claim in spec.each("volumeClaimTemplates")]
    )


def _controller(key: Key, spec: Fields) -> Iterator[Issue]:
    """A ReplicationController, whose selector is a plain map, by default that of its template."""
    yield from _not_negative(spec, "replicas", "minReadySeconds")
    template = spec.at("template")
    labels = template.at("metadata").texts("labels")
    if not (spec.texts("selector") or labels):
        yield error(spec.where("selector"), "a selector is needed, and one that is not empty")
    elif not spec.texts("selector").items() <= labels.items():
        yield _unselected(template)
    yield from _runs_on(key, template)


def _runs_on(key: Key, template: Fields, claims: list[str] | None = None) -> Iterator[Issue]:
    yield from check_pod_template(template, claims=claims or ())
    inside = template.at("spec")
    if inside.text("restartPolicy") not in ("", "Always"):
        text = f'"{inside.text("restartPolicy")}" is not for the pods of a {key.kind}, which run on: it must be Always'
        yield error(inside.where("restartPolicy"), text)
    if inside.raw.get("activeDeadlineSeconds") is not None:
        yield error(inside.where("activeDeadlineSeconds"), f"the pods of a {key.kind} run on: they have no deadline")


def _selects(selector: Fields, template: Fields) -> Iterator[Issue]:
    try:
        label_selector = msgspec.convert(selector.raw, LabelSelector)
    except msgspec.ValidationError as wrong:
        yield error(selector.path, str(wrong))
        return
    if not matches(label_selector, template.at("metadata").texts("labels")):
        yield _unselected(template)


def _unselected(template: Fields) -> Issue:
    return error(template.where("metadata.labels"), "the selector does not match these labels of the template")


def _job(key: Key, spec: Fields) -> Iterator[Issue]:
    yield from _not_negative(
        spec, "parallelism", "completions", "backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished"
    )
    template = spec.at("template")
    mode = spec.text("completionMode")
    yield from check_pod_template(template)
    policy = template.at("spec").text("restartPolicy")
    if policy not in ("OnFailure", "Never"):
        text = f'"{policy or "Always"}" is not for the pods of a {key.kind}, which end: it must be OnFailure or Never'
        yield error(template.where("spec.restartPolicy"), text)
    if mode not in ("", "NonIndexed", "Indexed"):
        yield error(spec.where("completionMode"), f'"{mode}" must be Indexed or NonIndexed')
    if mode == "Indexed" and spec.raw.get("completions") is None and spec.raw.get("parallelism") is not None:
        yield error(spec.where("completions"), "completions is missing, which completionMode: Indexed needs")
    if spec.raw.get("podFailurePolicy") is not None and policy != "Never":
        yield error(template.where("spec.restartPolicy"), "a podFailurePolicy needs restartPolicy: Never")


def _cron_job(key: Key, spec: Fields) -> Iterator[Issue]:
    if len(key.name) > _LONGEST_CRON_JOB:
        text = f"the name of a CronJob has at most {_LONGEST_CRON_JOB} characters, for its Jobs add to it"
        yield error("metadata.name", text)
    if not spec.text("schedule"):
        yield error(spec.where("schedule"), "a schedule is needed")
    if spec.text("concurrencyPolicy") not in ("", *_CONCURRENCY):
        text = f'"{spec.text("concurrencyPolicy")}" must be one of {", ".join(_CONCURRENCY)}'
        yield error(spec.where("concurrencyPolicy"), text)
    yield from _not_negative(spec, "startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit")
    yield from _job(key, spec.at("jobTemplate", "spec"))


def _not_negative(spec: Fields, *names: str) -> Iterator[Issue]:
    for name in names:
        value = spec.raw.get(name)
        if isinstance(value, int) and value < 0:
            yield error(spec.where(name), f"{name} is {value}, it must be at least 0")


_TEMPLATE: Final = ("spec", "template", "spec")
_PODS: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("", "Pod"): ("spec",),
    ("", "ReplicationController"): _TEMPLATE,
    ("apps", "Deployment"): _TEMPLATE,
    ("apps", "ReplicaSet"): _TEMPLATE,
    ("apps", "StatefulSet"): _TEMPLATE,
    ("apps", "DaemonSet"): _TEMPLATE,
    ("batch", "Job"): _TEMPLATE,
    ("batch", "CronJob"): ("spec", "jobTemplate", *_TEMPLATE),
}
"""Where each kind says what its pods are."""

_RULES: Final[Mapping[tuple[str, str], Callable[[Key, Fields], Iterator[Issue]]]] = {
    ("", "Pod"): _pod,
    ("", "ReplicationController"): _controller,
    ("apps", "Deployment"): _deployment,
    ("apps", "ReplicaSet"): _set,
    ("apps", "StatefulSet"): _stateful_set,
    ("apps", "DaemonSet"): _set,
    ("batch", "Job"): _job,
    ("batch", "CronJob"): _cron_job,
}
