"""Exceptions: one for each status of the library, and for what is refused before it is called."""

from __future__ import annotations


class Error(Exception):
    """A call failed; the text names the offending value."""


class OutOfMemory(Error, MemoryError):
    """There is no memory for this."""


class FileError(Error, OSError):
    """A file cannot be read."""


class ModelError(Error):
    """The file is damaged, or is no model."""


class UnsupportedError(Error):
    """A valid model that needs something that runnel lacks."""


class ArgumentError(Error, ValueError):
    """A value is out of its range."""


class ArgumentTypeError(ArgumentError, TypeError):
    """A value is of the wrong type, or a name does not exist."""


class ClosedError(Error, ValueError):
    """The model, engine, shape or template is closed."""


class ContextError(Error, ValueError):
    """The prompt does not fit the context."""


class FullError(Error):
    """Too many requests are waiting: try later."""


class NumericError(Error, ArithmeticError):
    """No token has a finite logit, or none may come."""


class DeadlineError(Error, TimeoutError):
    """The request's timeout has passed."""


class CancelledError(Error):
    """The engine was stopped, or the request cancelled."""


class StepError(Error):
    """The backend could not compute a step."""


class DeviceError(Error):
    """The device was lost; the engine computes nothing any more."""


class BoundError(Error):
    """A request's bound on time cannot be kept."""


class ShapeError(Error):
    """No token continues the text in its shape, or too many ways lead on."""


# By number, as runnel_status.h has them.
STATUSES = (None, OutOfMemory, FileError, ModelError, UnsupportedError, ArgumentError, ContextError, FullError,
            NumericError, DeadlineError, CancelledError, StepError, DeviceError, BoundError, ShapeError, ShapeError)


def error_for(status: int, message: str) -> Error:
    """The exception of a status."""
    kind = STATUSES[status] if 0 < status < len(STATUSES) else Error
    return (kind or Error)(message)
