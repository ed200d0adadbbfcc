"""The auditor: checks, by counting, what must hold in any cluster that tierwise schedules.

It reads objects only and shares no code with the scheduler except the records, so that a bug in one is not repeated in
the other; what languages there are, and where their checks are, it takes from their records. Slow and plain on purpose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from tierwise.audit.amounts import amounts
from tierwise.audit.gathered import gathered
from tierwise.audit.nodes import devices, neighbours, nodes, support, volumes
from tierwise.audit.pods import Finding
from tierwise.audit.quotas import queues, quotas
from tierwise.audit.sets import sets
from tierwise.audit.topology import topology
from tierwise.dialects.language import NotOurs, loaded
from tierwise.dialects.languages import LANGUAGES
from tierwise.port import Objects

__all__ = ["Finding", "audit"]


def audit(objects: Objects) -> list[Finding]:
    """Everything that is wrong, rule by rule."""
    checks_of_languages = []
    for language in LANGUAGES.values():
        if not isinstance(language.check, NotOurs):
            checks_of_languages.append(loaded(language.check))
    declaring = {name: (language.declares[0], language.named) for name, language in LANGUAGES.items()}
    checks: tuple[Callable[[Objects], Iterable[Finding]], ...] = (
        nodes,
        support,
        neighbours,
        volumes,
        devices,
        *checks_of_languages,
        topology,
        partial(sets, languages=declaring),
        amounts,
        gathered,
        queues,
        quotas,
    )
    return [finding for check in checks for finding in check(objects)]
