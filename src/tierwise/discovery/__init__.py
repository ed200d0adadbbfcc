"""Topology discovery: what sites write down about their networks, as one form of tree, and that tree as hyperNodes.

One pure reader for each source (`slurm_conf`, `slurm_yaml`, `labels`, `topograph`, `host_map`, `ufm`,
`from_hypernodes`) gives a `Discovered`: a `Tree` and remarks about the text. `naming` gives its domains names,
`manifests` writes them as hyperNodes, and `changes` tells two sets of hyperNodes apart. Nothing here opens a file or a
connection: `fetch` does.
"""
