"""What every elastic quota requests, may use and uses: the annotations and the status that Koordinator shows.

Called by `controllers.run`. The figures are those of the scheduler (`plugins.elastic_quota.tree`), for the resources in
a quota's max. A quota that holds more than its runtime gets a timestamp, from which `giveback` measures its delay.
"""

from __future__ import annotations

from collections.abc import Mapping

from tierwise.api import elastic_quota
from tierwise.api.codec import Raw
from tierwise.api.quantity import amount, show
from tierwise.api.volcano import Queue
from tierwise.config.arguments import flag
from tierwise.config.profile import DEFAULT, Profile
from tierwise.controllers.stamp import since
from tierwise.dialects.elastic_quota import Quotas
from tierwise.framework.ledger import Ledger
from tierwise.plugins.elastic_quota.status import Figures
from tierwise.plugins.elastic_quota.tree import QuotaTree
from tierwise.port import Effect, Objects, PatchStatus, key_of
from tierwise.snapshot.builder import Reader

__all__ = ["QuotaFigures"]


class QuotaFigures:
    """Figures of each quota, as the scheduler of a profile counts them; reads only the changes since the last call."""

    def __init__(self, profile: Profile = DEFAULT) -> None:
        self._profile = profile
        self._reader: Reader | None = None

    def reconcile(self, objects: Objects, now: float) -> list[Effect]:
        """Bring the annotations and the status of each quota up to date."""
        quotas = objects.every(elastic_quota.ElasticQuota)
        profile = self._profile
        if not quotas:
            return []
        names = Quotas(quotas, profile, objects.every(Queue))
        reader, self._reader = self._reader or Reader(profile), None  # one that breaks off half-way is not used again
        snapshot = reader.read(objects, now)
        self._reader, ledger = reader, Ledger(snapshot)
        figures = Figures(QuotaTree.of(snapshot, ledger, scale=_scales(profile)), snapshot, ledger)
        effects: list[Effect] = []
        for quota in quotas.values():
            name = names.queue_of(quota)
            if name in ledger.queue_index:
                effects += _patch(quota, name, figures, now)
        return effects


def _scales(profile: Profile) -> bool:
    """Whether minimums shrink that are more than there is to share; the plugin's word."""
    arguments = next((choice.arguments for choice in profile.plugins() if choice.name == "elasticquota"), {})
    return flag(arguments, "enableMinQuotaScale", default=True)


_FIGURES = {
    elastic_quota.RUNTIME: "runtime",
    elastic_quota.REQUEST: "request",
    elastic_quota.CHILD_REQUEST: "asked",
    elastic_quota.GUARANTEED: "guaranteed",
    elastic_quota.ALLOCATED: "allocated",
    elastic_quota.FIRM_REQUEST: "firm request",
    elastic_quota.FIRM_USED: "firm used",
}
"""The annotations of a quota, and the figure that each shows."""


def _patch(quota: elastic_quota.ElasticQuota, name: str, figures: Figures, now: float) -> list[Effect]:
    keys = tuple(quota.spec.max)
    amounts_of_annotations = {annotation: figures.of(figure, name, keys) for annotation, figure in _FIGURES.items()}
    used = figures.of("used", name, keys)
    texts = {key: elastic_quota.write_amounts(amounts) for key, amounts in amounts_of_annotations.items()}
    texts[elastic_quota.OVER_SINCE] = _since(quota, used, amounts_of_annotations[elastic_quota.RUNTIME], now)
    shown = quota.metadata.annotations
    annotations = {key: text for key, text in texts.items() if shown.get(key, "") != text}
    before = {resource: amount(resource, quantity) for resource, quantity in quota.status.used.items()}
    status: Raw = (
        {} if before == used else {"used": {resource: show(resource, used[resource]) for resource in sorted(used)}}
    )
    if status or annotations:
        return [PatchStatus(key_of(quota), status, annotations)]
    return []


def _since(quota: elastic_quota.ElasticQuota, used: Mapping[str, int], runtime: Mapping[str, int], now: float) -> str:
    """Since when it has held more than its runtime; empty where it does not."""
    over = any(used[resource] > runtime[resource] for resource in used)
    return since(quota.metadata.annotations.get(elastic_quota.OVER_SINCE, ""), now) if over else ""
