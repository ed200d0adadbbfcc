"""What is known of the jobs that may lose tasks."""

from __future__ import annotations

import numpy as np

from tierwise.model.running import JobColumns


def test_a_job_that_falls_as_one_can_spare_no_task() -> None:
    """However many it has above its minimum; below it such a job is as broken as any other."""
    ready, minimum = np.array([4, 4, 1, 1]), np.array([2, 2, 2, 2])
    together = np.array([False, True, False, True])
    nothing = np.zeros(4, dtype=np.int64)
    jobs = JobColumns(nothing, nothing, np.zeros(4), minimum, together, np.zeros(4, dtype=bool), np.arange(5))

    assert [2, 0, -1, -1] == jobs.surplus(ready).tolist()
