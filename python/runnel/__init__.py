"""runnel: a decode engine for language models.

>>> import runnel
>>> with runnel.Model("model.gguf") as model, runnel.Engine(model) as engine:
...     for piece in engine.generate("Once upon a time", max_tokens=100):
...         print(piece, end="", flush=True)

This package calls librunnel by ctypes; it has no compiled part. The same seed gives the same text
for every number of threads, every machine and every mix of requests. docs/PYTHON.md shows the rest.
"""

from ._native import LIBRARY_NAME, lib as _lib
from .engine import Engine
from .errors import (ArgumentError, ArgumentTypeError, BoundError, CancelledError, ClosedError, ContextError,
                     DeadlineError, DeviceError, Error, FileError, FullError, ModelError, NumericError, OutOfMemory,
                     ShapeError, StepError, UnsupportedError)
from .model import ChatTemplate, Model, Shape
from .settings import Settings
from .stream import Event, Logprob, Result, Stream, Timings

__version__: str = _lib.version().decode()
"""The version of the library."""

__all__ = ["ArgumentError", "ArgumentTypeError", "BoundError", "CancelledError", "ChatTemplate", "ClosedError",
           "ContextError", "DeadlineError", "DeviceError", "Engine", "Error", "Event", "FileError", "FullError",
           "LIBRARY_NAME", "Logprob", "Model", "ModelError", "NumericError", "OutOfMemory", "Result", "Settings",
           "Shape", "ShapeError", "StepError", "Stream", "Timings", "UnsupportedError", "__version__"]
