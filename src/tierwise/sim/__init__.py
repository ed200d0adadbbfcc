"""Clusters that are not there: one that lives, questions of what if and when, and plans of defragmentation."""
