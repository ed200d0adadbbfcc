"""Mechanism without policy: the ledger and its undo log, placing kernels, extension points and how plugins combine."""
