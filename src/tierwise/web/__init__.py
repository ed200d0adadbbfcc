"""Pages for people: a small HTTP interface to the board, and the static files that show it in a browser.

Nothing can be changed through it: it knows how to read, and so do its sources. `tierwise serve` opens it for manifests
or for a live cluster, and a running scheduler for its own last cycle, beside its metrics.
"""
