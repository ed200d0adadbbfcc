"""The command line: one file per verb. No decisions are made here; heavy parts are imported inside the commands."""
