"""Scheduling policies of the Acme site."""
