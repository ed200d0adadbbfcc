"""Reading a cluster's objects into the snapshot of a cycle, anew or following what changed."""
