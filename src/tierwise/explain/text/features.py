"""The page of `features`: the gates of a profile."""

from __future__ import annotations

from tierwise.api.codec import Raw
from tierwise.config.features import FEATURES
from tierwise.config.profile import Profile
from tierwise.explain.page import Page, Text
from tierwise.explain.tables import Cell, table

__all__ = ["feature_lines", "feature_wire"]


def feature_lines(page: Page, profile: Profile) -> list[Text]:
    """One line for each gate."""
    rows: list[list[Cell]] = [
        [name, feature.stage.value, "on" if profile.feature(name) else "off", feature.since, feature.what]
        for name, feature in FEATURES.items()
    ]
    return table(page, ("feature:16", "stage", "is", "since", "what it does~24"), rows)


def feature_wire(profile: Profile) -> Raw:
    """The feature gates and whether each is on, as JSON."""
    return {
        "features": [
            {
                "name": name,
                "stage": feature.stage.value,
                "since": feature.since,
                "default": feature.default,
                "enabled": profile.feature(name),
                "description": feature.what,
            }
            for name, feature in FEATURES.items()
        ]
    }
