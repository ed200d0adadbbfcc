"""Slurm's hostlist expressions."""

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tierwise.discovery.hostlist import HostlistError, compress, expand, fits

NAMES = st.sets(
    st.one_of(
        st.from_regex(r"[a-z]{1,3}-?[0-9]{0,4}", fullmatch=True),
        st.from_regex(r"r[0-9]{1,2}n[0-9]{1,3}", fullmatch=True),
        st.from_regex(r"n[0-9]{1,3}-ib[0-9]?", fullmatch=True),
    ),
    max_size=30,
)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("tux0", ["tux0"]),
        ("tux[0-3,12,18-20]", ["tux0", "tux1", "tux2", "tux3", "tux12", "tux18", "tux19", "tux20"]),
        ("node[08-11]", ["node08", "node09", "node10", "node11"]),
        ("n[1-2]-ib[0-1]", ["n1-ib0", "n1-ib1", "n2-ib0", "n2-ib1"]),
        ("a1,b[2-3],c", ["a1", "b2", "b3", "c"]),
        ("n[1[0-2],20]", ["n10", "n11", "n12", "n20"]),
        ("n[9-10]x", ["n9x", "n10x"]),
        ("n[1,1,1-2]", ["n1", "n2"]),
    ],
)
def test_expressions_stand_for_names(text: str, names: list[str]) -> None:
    """Ranges keep the width of their lower end, several brackets multiply, and each name comes once."""
    assert names == expand(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("n[1-", '"[" without "]"'),
        ("n[1-2", '"[" without "]"'),
        ("n1]", '"]" without "["'),
        ("n[]", "a name is empty"),
        ("a,,b", "a name is empty"),
        ("n[3-1]", "the range 3-1 runs backwards"),
        ("n[a-c]", "is no number and no range"),
        ("n[0-99999999]", "stands for more than 262,144 names"),
        ("n[0-9][0-9][0-9][0-9][0-9][0-9]", "stands for more than 262,144 names"),
        ("n[0-99999999999999999999]", "stands for more than"),
    ],
)
def test_what_stands_for_no_names_is_refused(text: str, why: str) -> None:
    """With a reason, and without trying to hold millions of names."""
    with pytest.raises(HostlistError) as caught:
        expand(text)

    assert why in str(caught.value)


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["n2", "n1", "n3", "n10"], "n[1-3,10]"),
        (["n08", "n09", "n10"], "n[08-10]"),
        (["login", "login1", "login2"], "login,login[1-2]"),
        (["n1-ib", "n2-ib"], "n[1-2]-ib"),
        (["n1"], "n1"),
        ([], ""),
    ],
)
def test_names_become_one_expression(names: list[str], text: str) -> None:
    """Natural order, runs folded."""
    assert text == compress(names)


@given(NAMES)
def test_compressing_loses_nothing(names: set[str]) -> None:
    """What is compressed expands to the same names."""
    assert all(map(fits, names))
    assert names == set(expand(compress(names)) if names else [])


@pytest.mark.parametrize("name", ["", "a b", "a,b", "a[1]", "a=b", "a#b", 'a"b'])
def test_names_that_a_line_cannot_hold(name: str) -> None:
    """They are told before they are written."""
    assert not fits(name)


# -- beside ClusterShell, where it is installed


_OTHERS = st.lists(
    st.from_regex(r"[a-z]{1,2}(\[[0-9]{1,2}(-[0-9]{2})?(,[0-9]{1,3})?\])?[a-z]?[0-9]{0,2}", fullmatch=True),
    min_size=1,
    max_size=3,
).map(",".join)
"""Expressions; some have ranges that run backwards."""


@given(_OTHERS)
def test_expressions_mean_what_they_mean_to_clustershell(text: str) -> None:
    """What both read is the same names; padded numbers, where ClusterShell has rules of its own, are left out."""
    nodeset = pytest.importorskip("ClusterShell.NodeSet")
    try:
        theirs = set(nodeset.NodeSet(text))
    except nodeset.NodeSetException:
        return
    assume(not re.search(r"\b0\d|\[0\d|-0\d|,0\d", text))

    assert theirs == set(expand(text))


@given(NAMES)
def test_clustershell_reads_what_is_written_here(names: set[str]) -> None:
    """And what it folds is read here, as the same names."""
    nodeset = pytest.importorskip("ClusterShell.NodeSet")
    written = nodeset.NodeSet(compress(names)) if names else nodeset.NodeSet()
    folded = nodeset.NodeSet.fromlist(sorted(names))

    assert names == set(written)
    assert names == (set(expand(str(folded))) if names else set())
