"""Rings on uplinks: a ring sends one flow through the uplink of each leaf that has some and not all of its pods.

How congested an uplink is, is therefore a count. A gang without sub-groups is one ring. One with sub-groups is a ring
for each of them, and one that joins them. What stands in no hyperNode stands in no leaf.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tierwise.model.arrays import EMPTY, Ints, distinct
from tierwise.model.topology import ROOT

__all__ = ["uplinks"]


def uplinks(leaf: Ints, parts: Sequence[Ints]) -> Ints:
    """The leaves whose uplinks the rings of a gang pass, each as often as one of its rings does.

    `parts` has the rows of each sub-group, or of the gang as a whole, and `leaf` the innermost domain of each row.
    """
    touched = [distinct(leaf[rows]) for rows in parts if len(rows)]
    if len(touched) > 1:
        touched.append(distinct(np.concatenate(touched)))
    wide = [leaves for leaves in touched if len(leaves) > 1]
    if not wide:
        return EMPTY
    passed: Ints = np.concatenate(wide)
    inside: Ints = passed[passed != ROOT]
    return inside
