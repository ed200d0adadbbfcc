"""Kubernetes-shaped records, their decoding with field paths, quantities and selectors; knows no scheduling."""
