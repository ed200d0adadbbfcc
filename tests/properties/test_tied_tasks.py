"""A gang that affinity ties to one place starts exactly when a place holds it, counted node by node."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.affinity import HOST, ZONE, tied, zoned
from tests.support.draw import allocate, draw, placed

FREE = st.lists(st.tuples(st.integers(1, 9), st.sampled_from(["", "a", "b", "c"])), min_size=1, max_size=6)


@settings(max_examples=max(20, settings().max_examples // 4))
@given(FREE, st.integers(1, 5), st.integers(1, 3), st.sampled_from([HOST, ZONE]))
def test_yes_exactly_when_a_place_holds_it(nodes: list[tuple[int, str]], tasks: int, each: int, key: str) -> None:
    """All pods stand in one place; and one that is large enough is never missed."""
    names = [f"n{i}" for i in range(len(nodes))]
    zones = {name: zone for name, (_, zone) in zip(names, nodes, strict=True) if zone}
    world = draw(" ".join(names), nodes={name: f"cpu={cpu}" for name, (cpu, _) in zip(names, nodes, strict=True)})
    home = {name: name for name in names} if key == HOST else zones
    room: dict[str, int] = {}
    for name, (cpu, _) in zip(names, nodes, strict=True):
        if name in home:
            room[home[name]] = room.get(home[name], 0) + cpu // each

    used = placed(allocate(zoned(world, zones), tied("g", tasks, f"cpu={each}", key)), "g")

    assert (sum(used.values()) == tasks) == (max(room.values(), default=0) >= tasks)
    assert len({home[name] for name in used}) <= 1
