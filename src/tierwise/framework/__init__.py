"""Mechanism without policy: the ledger and its journal, placing kernels, extension points and how plugins combine."""
