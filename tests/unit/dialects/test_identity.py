"""Uids of manifests that carry none."""

from __future__ import annotations

import uuid

import pytest

from tierwise.dialects.identity import made_up_uid

NAMES = uuid.UUID("6b0f3a54-4c1c-5d0e-9a53-0c1f6f1c7a11")


@pytest.mark.parametrize("name", ["train", "job-0", "zürich", "x" * 253])
def test_uids_are_those_of_version_5(name: str) -> None:
    """A job's follows from its path alone, that of anything else from its kind as well."""
    assert str(uuid.uuid5(NAMES, f"default/{name}")) == made_up_uid("Job", "default", name)
    assert str(uuid.uuid5(NAMES, f"Pod default/{name}")) == made_up_uid("Pod", "default", name)
