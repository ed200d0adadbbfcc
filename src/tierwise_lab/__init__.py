"""The laboratory: traces replayed on a virtual clock, sweeps, baselines, shared GPUs and benchmarks.

It belongs to the distribution of tierwise and is no part of the scheduler: nothing in `tierwise` imports it, images
leave it out, and its verbs are found as those of any other package, by an entry point of the group `tierwise.verbs`.
"""
