"""Shapes that rules between pods bind, told apart by what a search reads of them.

Gangs that keep apart, or together, by labels of their own have unlike shapes and the same rules under other names.
Asked where a refusal of one job may speak for another (`rejection_cache`, `verdicts`); it changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tierwise.framework.cycle import Cycle
from tierwise.model.job import Shape

__all__ = ["names_of", "objections_of", "rules_digest"]


def rules_digest(cycle: Cycle, shapes: tuple[Shape, ...]) -> bytes | None:
    """Digest of what the rules between pods that bind some shapes say and count now; empty where none binds any.

    None where not all of them can be told, or where the job that is served has no steps left to find out.
    """
    if not any(map(cycle.pipeline.moving, shapes)):
        return b""
    if any(shape.volumes is not None or shape.devices is not None for shape in shapes):
        return None
    digests = cycle.refusals.rules
    order = tuple(shape.number for shape in shapes)
    digest = digests.entries().get(order)
    if digest is None:
        steps = len(shapes) * (1 + len(cycle.nodes) // 512)
        if cycle.steps.left < steps:
            return None
        cycle.steps.charge(steps)
        rules = cycle.pipeline.pod_rules(shapes)
        if rules.unstated:
            return None
        digest = (b"followed " if cycle.ledger.followed else b"") + rules.digest(order)
        digests.add(order, digest)
    return digest


def names_of(cycle: Cycle, shapes: tuple[Shape, ...]) -> Mapping[int, object] | None:
    """By number of a shape, what stands for it in a kind of gang; None where an answer depends on more.

    Usually that is the number. Where rules between pods bind one of the shapes, it is what each asks for, which nodes
    object to it for good, and what these rules say.
    """
    rules = rules_digest(cycle, shapes)
    if not rules:
        if rules is not None:
            return {shape.number: shape.number for shape in shapes}
        return None
    why = cycle.fit_counts.why
    return {shape.number: (rules, i, shape.request.tobytes(), why(shape).tobytes()) for i, shape in enumerate(shapes)}


def objections_of(cycle: Cycle, shapes: Iterable[Shape]) -> tuple[bytes, ...]:
    """Objections of the filters that move to each node, for each shape for which one does."""
    everywhere = slice(0, len(cycle.nodes))
    moving = filter(cycle.pipeline.moving, shapes)
    return tuple(cycle.pipeline.why_not_now(shape, everywhere).tobytes() for shape in moving)
