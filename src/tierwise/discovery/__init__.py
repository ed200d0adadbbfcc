"""Topology discovery: reads descriptions of networks into one form of tree, and writes such a tree as hyperNodes.

One pure reader for each source (`slurm`, `labels`, `topograph`, `host_map`, `ufm`, `from_hypernodes`) returns a
`Discovered`: a `Tree` and remarks about the text. `naming` names its domains, `manifests` writes them as hyperNodes,
and `changes` compares two sets of hyperNodes. Nothing here opens a file or a connection: `fetch` does.
"""
