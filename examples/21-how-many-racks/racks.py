"""How many racks of which size does a trace need, if 95 of 100 jobs are to start within an hour?

Racks are halved and doubled until the fewest that do are known: a handful of replays for each size instead of a grid.

    python examples/21-how-many-racks/racks.py --trace synthetic:jobs=300,largest=128,gap=30 --hosts 4 8 16 --hours 1
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from tierwise_lab.replay.spec import ReplaySpec, replay

MOST = 256


def wait(trace: str, racks: int, hosts: int) -> float | None:
    """Seconds within which 95 of 100 jobs start; None where a job is larger than all racks together."""
    found = replay(ReplaySpec(topology=f"synthetic:spines=1,leaves={racks},hosts={hosts}", trace=trace)).outcomes[0]
    return None if found["jobs"]["refused"] else found["times"]["wait_seconds"]["p95"]


def fewest(trace: str, hosts: int, seconds: float) -> tuple[int, float] | None:
    """The fewest racks of so many hosts that do, and the wait with them; None where the most are too few."""
    tried: dict[int, float | None] = {}

    def enough(racks: int) -> bool:
        tried[racks] = wait(trace, racks, hosts)
        return (found := tried[racks]) is not None and found <= seconds

    racks = 1
    while not enough(racks):
        if racks == MOST:
            return None
        racks *= 2
    low = racks // 2  # too few, or none
    while racks - low > 1:
        middle = (low + racks) // 2
        low, racks = (low, middle) if enough(middle) else (middle, racks)
    return racks, tried[racks] or 0.0


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a line for each size of racks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trace", required=True)
    parser.add_argument("--hosts", type=int, nargs="+", default=[4, 8, 16])
    parser.add_argument("--hours", type=float, default=1.0)
    given = parser.parse_args(arguments)
    print("hosts of a rack  racks  hosts  95 % start within")
    for hosts in given.hosts:
        found = fewest(given.trace, hosts, 3600 * given.hours)
        if found is None:
            print(f"{hosts:15}  more than {MOST}")
        else:
            print(f"{hosts:15}  {found[0]:5}  {found[0] * hosts:5}  {found[1] / 60:.0f} min")


if __name__ == "__main__":
    main()
