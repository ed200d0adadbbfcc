"""Every field that the security model lists counts, in every language: a pair of clusters with and without it shows it.

Labels and annotations of that table are in that of the reference too, and `test_every_mark_counts.py` plays them.
"""

from __future__ import annotations

import pytest
from tests.support.documented_fields import documented_inputs, documented_keys
from tests.support.field_scenes import outcome
from tests.support.tenant_fields import FIELDS


def test_every_entry_of_the_table_has_a_pair() -> None:
    """As a label or annotation of the reference, or as a field; no field is without an entry."""
    marks = {row.key for row in documented_keys()}

    assert set(documented_inputs()) - marks == FIELDS.keys()


@pytest.mark.parametrize(("field", "way"), [(field, way) for field in FIELDS for way in FIELDS[field].ways])
def test_a_field_counts(field: str, way: str) -> None:
    """Who is bound, evicted or nominated differs."""
    without, such = FIELDS[field].pair(way)

    assert outcome(without, without.manifests).decision != outcome(such, such.manifests).decision
