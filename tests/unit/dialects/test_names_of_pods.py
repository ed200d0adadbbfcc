"""Only languages of which a pod has a key are asked for its group."""

from __future__ import annotations

from itertools import combinations, product

import pytest

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.core import Pod
from tierwise.dialects.language import IN_SPEC
from tierwise.dialects.languages import KOORDINATOR, LANGUAGES, VOLCANO, Name, names

KEYS = sorted(key for language in LANGUAGES.values() for key in language.keys)
WORKLOAD: Raw = {"workloadRef": {"name": "w", "podGroup": "g"}}
GROUP: Raw = {"schedulingGroup": {"podGroupName": "g"}}


def _pod(labels: dict[str, str], annotations: dict[str, str], spec: Raw) -> Pod:
    meta = {"name": "p", "namespace": "d", "labels": labels, "annotations": annotations}
    found = codec.decode({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [], **spec}})
    assert isinstance(found, Pod)
    return found


def _asked_everywhere(pod: Pod) -> tuple[Name, ...]:
    """What all languages say, the first two and the first of the others."""
    found = [(name, language.named(pod)) for name, language in LANGUAGES.items()]
    first = [entry for entry in found if entry[1] and entry[0] in (VOLCANO, KOORDINATOR)]
    others = [entry for entry in found if entry[1] and entry[0] not in (VOLCANO, KOORDINATOR)]
    return (*first, *others[:1])


@pytest.mark.parametrize("spec", [{}, GROUP, WORKLOAD], ids=["marks", "group", "workload"])
def test_a_pod_is_in_the_groups_that_every_language_would_say(spec: Raw) -> None:
    """Whichever two of the keys it has, among its labels, its annotations, or both."""
    pairs = combinations(("app", "gang.scheduling.koordinator.sh/min-available", *KEYS), 2)
    for (one, other), (labelled, annotated) in product(pairs, product((True, False), repeat=2)):
        labels = {key: "2" for key, there in ((one, labelled), (other, annotated)) if there and key != IN_SPEC}
        annotations = {key: "2" for key in (one, other) if key not in labels and key != IN_SPEC}
        pod = _pod(labels, annotations, spec)

        assert _asked_everywhere(pod) == names(pod)
