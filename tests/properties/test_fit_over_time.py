"""From when on domains hold a gang: the count for all domains at once is that of one domain and moment at a time."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.depth import size
from tests.support.draw import draw

from tierwise.framework.fit_over_time import earliest_fit
from tierwise.model.shape import plain_shape
from tierwise.port import Objects
from tierwise.snapshot.builder import build

TREE = draw("s0[r0[n0 n1] r1[n2 n3 n4]] s1[r2[n5] n6] n7", node="gpu=8")


@given(data=st.data())
@settings(max_examples=size(60, 2000))
def test_every_domain_at_once_is_one_after_the_other(data: st.DataObject) -> None:
    """The earliest group by domain equals the first one after which a plain count finds room."""
    from tierwise.api import codec

    snapshot = build(Objects.of((codec.decode(raw), raw) for raw in TREE.manifests), 0.0)
    topology, nodes = snapshot.topology, len(snapshot.nodes)
    number = st.integers(0, 8)
    free = np.array([data.draw(st.lists(number, min_size=nodes, max_size=nodes)) for _ in range(2)], dtype=np.int64)
    tasks = data.draw(
        st.lists(st.tuples(st.integers(0, nodes - 1), st.integers(1, 4), st.tuples(number, number)), max_size=12)
    )
    rows = np.array([row for row, _, _ in tasks], dtype=np.int64)
    group = np.array([when for _, when, _ in tasks], dtype=np.int64)
    amounts = np.array([both for _, _, both in tasks], dtype=np.int64).reshape(-1, 2).T
    usable = np.array(data.draw(st.lists(st.integers(0, 1), min_size=nodes, max_size=nodes)), dtype=np.int64)
    shape = plain_shape(0, np.array(data.draw(st.sampled_from([(1, 2), (3, 0), (0, 4), (2, 2)]))), namespace="default")
    need = data.draw(st.integers(1, 12))

    found = earliest_fit(topology, shape, need, free, (rows, group, amounts), usable, 4)

    for domain in range(len(topology)):
        expected = 5
        for after in range(5):
            have = free.copy()
            for row, when, both in tasks:
                have[:, row] += np.array(both) if when <= after else 0
            room = sum(
                int(min(have[r, row] // shape.request[r] for r in shape.asked)) * int(usable[row])
                for row in range(topology.start[domain], topology.end[domain])
            )
            if room >= need:
                expected = after
                break
        assert expected == int(found[domain]), topology.name[domain]
