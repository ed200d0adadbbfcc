"""Answers for users of one namespace, worked out in the questions' processes: facts of all jobs, dry runs, help."""
