"""The benchmarks: named, seeded workloads run through the public cycle function, and the goals they are held to.

`command` is what `tierwise bench` runs. `worlds` and `workloads` make snapshots, `measure` times cycles over them,
`reference` is the pod-by-pod scheduler that the engine is compared with, and `rows` states the goals.
"""
