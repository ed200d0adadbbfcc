"""Keeps two queues from taking the same room from each other in turn.

Where a queue may reclaim as soon as it keeps within deserved in one resource, and may lose as soon as it exceeds it in
one, two queues can each be in both states at once: rich in one resource, poor in another. Whatever one takes the
other may take back, for ever. Of such a pair only the queue with the smaller share takes: then the share of the taker
afterwards is below the share that the other would have after taking it back, so it does not. `capacity` uses it;
docs/decisions/0013 has the argument in full.
"""

from __future__ import annotations

import msgspec
import numpy as np

from tierwise.model.arrays import Bools, Ints
from tierwise.plugins.queue_table import ratio

__all__ = ["Turnabout"]


class Turnabout(msgspec.Struct, frozen=True):
    """The taker's side: whether its queue could lose again what it takes, and its share once it has it."""

    liable: bool
    share: float

    @classmethod
    def of(cls, would: Ints, deserved: Ints, disputed: Bools) -> Turnabout:
        """`would` is what the taker's queue would hold, `disputed` the resources that it needs and deserves some of."""
        return cls(bool((disputed & (would > deserved)).any()), ratio(would, deserved))

    def refuses(self, held: Ints, deserved: Ints, disputed: Bools) -> Bools:
        """Whose queues could take it back and have no larger share; all are (resources x victims), before the loss.

        Monotone in what is held: who is refused at some holding is refused at every smaller one.
        """
        if not self.liable:
            return np.zeros(held.shape[1], dtype=bool)
        entitled = (disputed & (held <= deserved)).any(axis=0)
        shares = np.divide(held, deserved, out=np.zeros(held.shape), where=deserved > 0).max(axis=0, initial=0.0)
        return np.asarray(entitled & (shares <= self.share))
