"""Reads topology sources from outside (files, manifests, a fabric manager) and passes them to the readers of
`discovery`.

Called by the command line, and by `runtime.topology_sources` on a cluster. The only part of discovery that does I/O;
failures are an InputError or a `FetchError` with a one-line message.
"""
