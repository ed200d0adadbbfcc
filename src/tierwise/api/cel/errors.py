"""What can be wrong with an expression: in itself, or with the values that it was given."""

__all__ = ["CelError", "CompileError", "EvaluationError", "NotSupportedError", "TooMuchWorkError"]


class CelError(Exception):
    """An expression gives no answer."""


class CompileError(CelError):
    """It cannot be read, names something that does not exist, or its types do not go together: no server takes it."""


class NotSupportedError(CompileError):
    """An API server may take it, but it is not evaluated here."""


class EvaluationError(CelError):
    """It went wrong on these values: a missing key, types that do not go together, too much work."""


class TooMuchWorkError(EvaluationError):
    """It was given up: another device would take as long."""
