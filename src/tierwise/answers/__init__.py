"""Answers for users who may see one namespace: a versioned API over TLS, beside the scheduler.

Who asks is found by a TokenReview and what they may see by a SubjectAccessReview. The questions are worked out in
processes of their own (`web.workers`); nothing can be changed through this API.
"""
