"""What is kept of the ledger is at every question what it would be if it were made then.

A function that looks at something which changes without an entry in the log of rows is named by this.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain, islice
from typing import Any
from unittest.mock import patch

import msgspec
import numpy as np
from tests.digest.scenes import Case, cases, conformance
from tests.support.draw import draw
from tests.support.languages import pod
from tests.support.reservations import HOUR, MINUTE, NOW, job, running
from tests.support.strategies import profile

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.errors import InputError
from tierwise.config.profile import DEFAULT, Profile
from tierwise.framework.cycle import FitCount
from tierwise.framework.kept import KeptOfLedger
from tierwise.framework.ledger import Pool
from tierwise.port import Objects
from tierwise.scheduler import cycle
from tierwise.snapshot.builder import build

KEPT = KeptOfLedger.of
OF_A_QUESTION = frozenset({"best", "known", "ask", "line", "at"})
"""Of what is kept of scores, what was found out with them the last time."""


def _shown(value: object) -> Any:
    """A value as numbers and texts that can be compared."""
    if isinstance(value, FitCount):
        return [count(pool).tolist() for pool in Pool for count in (value.rows, value.domains)]
    if isinstance(value, msgspec.Struct):
        return [_shown(getattr(value, name)) for name in value.__struct_fields__ if name not in OF_A_QUESTION]
    if isinstance(value, list):
        return [_shown(one) for one in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


def _hosts() -> Case:
    """Pods alone and gangs of two, some of which say how long they run, on hosts that are whole again some day."""
    world = draw("s0[r0[n0 n1] r1[n2 n3]]", node="gpu=8")
    busy = [*running("short", "n0", ends_in=MINUTE, each="gpu=4"), *running("long", "n2", ends_in=HOUR, each="gpu=4")]
    asks = [
        job(f"j{turn}", 1 + turn // 4, lasts=("", "1h")[turn % 2], turn=turn, each="gpu=1", soft=True)
        for turn in range(8)
    ]
    return _case([*world.manifests, *busy, *chain(*asks)])


def _drawn_to_each_other() -> Case:
    """Pods that would rather be near some and far from others of their kind."""
    term = {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "kubernetes.io/hostname"}
    preferred = [{"weight": 9, "podAffinityTerm": term}]
    prefers = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    apart = {"maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway", **term}
    rules: list[Raw] = [{"affinity": prefers}, {"topologySpreadConstraints": [apart]}]
    pods = [pod(f"p{i}", labels={"app": "ab"[i % 2]}, spec=rules[i // 3]) for i in range(6)]
    return _case([*draw("s0[r0[n0 n1] r1[n2 n3]]", node="cpu=8").manifests, *pods], profile("predicates", "nodeorder"))


def _among_each_other() -> Case:
    """Pods of two services that fill one rack after the other."""
    tolerating: Raw = {"tolerations": [{"key": "k", "operator": "Exists"}]}
    pods = [pod(f"p{i}", spec=tolerating if i % 2 else {}) for i in range(16)]
    return _case([*draw("s0[r0[n0 n1] r1[n2 n3]]", node="cpu=4").manifests, *pods])


def _case(raws: Iterable[Raw], by: Profile = DEFAULT) -> Case:
    return Case(Objects.of((codec.decode(raw), raw) for raw in raws), by, now=NOW)


def _scenes() -> Iterator[Case]:
    for _, make in (*cases(64), *islice(conformance(), 0, None, 12)):
        with suppress(InputError):  # some cases are about input that is refused
            yield make()
    yield from (_hosts(), _drawn_to_each_other(), _among_each_other())


def test_what_is_kept_is_what_is_made() -> None:
    """Whatever has been placed, evicted and rewound in between."""
    asked = Counter[str]()

    def of(kept: KeptOfLedger[Any], key: Any, *who: Any) -> Any:
        asked[kept._make.__qualname__] += kept._follow is not None and kept.last(key) is not None
        found = KEPT(kept, key, *who)
        assert _shown(kept._make(*who)) == _shown(found)
        return found

    with patch.object(KeptOfLedger, "of", of):
        for case in _scenes():
            cycle(build(case.objects, case.now, case.profile), case.profile)

    assert 6 == sum(number > 0 for number in asked.values())  # all that follows changes, again after one
