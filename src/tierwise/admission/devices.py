"""Checks of ResourceClaims, their templates and DeviceClasses, and of pods that refer to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from tierwise.admission.findings import Issue, error, warning
from tierwise.api import resource
from tierwise.api.core import Pod, PodSpec
from tierwise.port import Objects

__all__ = ["Trials", "check_pod", "check_requests", "check_selectors"]

_TRIALS: Final = 2_000_000
"""What selectors may cost together that are tried; those beyond it are only read."""


class Trials:
    """Tries selectors on a device without attributes: what costs too much there is of use nowhere."""

    def __init__(self) -> None:
        self._left = _TRIALS
        self._known: dict[str, str] = {}

    def fault(self, expression: str) -> str:
        """Error that a readable selector gave in trials, "" without one. Raises CelError if it cannot be read."""
        from tierwise.api.cel import LIMIT, EvaluationError, TooMuchWorkError, Work, selector

        compiled = selector(expression)
        if expression not in self._known and self._left >= LIMIT:
            budget, self._known[expression] = Work(self._left), ""
            try:
                compiled.matches("", resource.Device(name=""), budget)
            except TooMuchWorkError as error:
                self._known[expression] = str(error)
            except EvaluationError:
                pass  # such a device tells what it costs, and no more
            self._left = budget.left
        return self._known.get(expression, "")


def check_pod(pod: Pod, objects: Objects) -> Iterator[Issue]:
    """A pod that names claims and templates which do not exist waits for them; one that is bound has what it has."""
    if not pod.spec.node_name:
        yield from _named(pod.spec, pod.metadata.namespace or "default", objects)


def _named(spec: PodSpec, namespace: str, objects: Objects) -> Iterator[Issue]:
    by_name = objects.every(resource.ResourceClaim), objects.every(resource.ResourceClaimTemplate)
    for i, entry in enumerate(spec.resource_claims):
        path = f"spec.resourceClaims[{i}]"
        if bool(entry.resource_claim_name) is bool(entry.resource_claim_template_name):
            yield error(path, "exactly one of resourceClaimName and resourceClaimTemplateName is needed")
        for kind, name, present in (
            ("ResourceClaim", entry.resource_claim_name, by_name[0]),
            ("ResourceClaimTemplate", entry.resource_claim_template_name, by_name[1]),
        ):
            if name and f"{namespace}/{name}" not in present:
                yield warning(path, f"{kind} {name} does not exist: the pod will wait for it (ClaimNotReady)")


def check_requests(
    path: str, spec: resource.DeviceClaim, classes: Mapping[str, resource.DeviceClass], trials: Trials
) -> Iterator[Issue]:
    """A claim that asks for what is not known waits for ever, and so does each that is made from a template."""
    if not spec.requests:
        yield error(f"{path}.requests", "a claim needs at least one request")
    for i, request in enumerate(spec.requests):
        where = f"{path}.requests[{i}]"
        if (request.exactly is None) is not bool(request.first_available):
            yield error(where, "exactly one of exactly and firstAvailable is needed")
        options: list[tuple[str, resource.ExactDeviceRequest | resource.DeviceSubRequest]] = []
        if request.exactly is not None:
            options.append((f"{where}.exactly", request.exactly))
        options += [(f"{where}.firstAvailable[{j}]", option) for j, option in enumerate(request.first_available)]
        for option_path, option in options:
            if option.device_class_name not in classes:
                text = f"device class {option.device_class_name} does not exist: pods will wait for it (ClaimNotReady)"
                yield warning(f"{option_path}.deviceClassName", text)
            if option.allocation_mode not in ("", "ExactCount", "All"):
                yield error(
                    f"{option_path}.allocationMode", f'"{option.allocation_mode}" is neither ExactCount nor All'
                )
            if option.count < 0 or (option.allocation_mode == "All" and option.count):
                yield error(f"{option_path}.count", "it is for ExactCount only, and must be greater than zero")
            yield from check_selectors(f"{option_path}.selectors", option.selectors, trials)
    for i, constraint in enumerate(spec.constraints):
        if (constraint.match_attribute is None) is (constraint.distinct_attribute is None):
            yield error(f"{path}.constraints[{i}]", "exactly one of matchAttribute and distinctAttribute is needed")


def check_selectors(path: str, selectors: Sequence[resource.DeviceSelector], trials: Trials) -> Iterator[Issue]:
    """A class or a request whose selectors cannot be read chooses no device."""
    from tierwise.api.cel import CelError, NotSupportedError  # most collections have no selectors

    for i, selector_entry in enumerate(selectors):
        if selector_entry.cel is None:
            yield warning(f"{path}[{i}]", "a selector of an unknown type: pods that need it will wait")
            continue
        try:
            fault = trials.fault(selector_entry.cel.expression)
        except NotSupportedError as unread:
            fault = str(unread)
        except CelError as unread:
            yield error(f"{path}[{i}].cel.expression", str(unread))
            continue
        if fault:
            yield warning(f"{path}[{i}].cel.expression", f"{fault}: nodes with devices are refused (DevicesUnusable)")
