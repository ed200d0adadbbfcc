"""The command line: one file per verb. No decisions are made here; heavy parts are imported inside the commands."""

import gc

# Records and reports form no cycles, and there are millions of them: with 30,000 pods the collector would take a third
# of the time that building a snapshot takes. It is set here, before modules are imported that it would look through.
gc.set_threshold(100_000, 50, 100)
