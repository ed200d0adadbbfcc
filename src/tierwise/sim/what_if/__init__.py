"""What would happen if: a cluster with and without changes, and the least change that makes a job start."""
