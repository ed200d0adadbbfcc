"""The replay itself: events on a virtual clock and the scheduler's own cycle."""
