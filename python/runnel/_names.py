"""Models by name: the program ``runnel`` knows where other programs keep them, and is asked for the path.

Private. The library reads no environment, so it does not look for models.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Optional

from . import _native as native
from .errors import FileError


def _program() -> Optional[str]:
    """The program of the library's prefix or folder, else the one of the PATH."""
    library = native.library_path()
    folder = Path(library).resolve().parent
    places = [folder / "runnel", folder.parent / "bin" / "runnel"] if os.sep in library else []
    for place in places:
        if place.is_file() and os.access(place, os.X_OK):
            return str(place)
    return shutil.which("runnel")


def _is_name(path: bytes) -> bool:
    return (bool(path) and path[:1] not in b"/.~-" and not path.endswith((b"/", b".gguf"))
            and not os.path.exists(path))


def _find(name: bytes) -> bytes:
    program = _program()
    if program is None:
        raise FileError(f"{os.fsdecode(name)}: No such file or directory; models are found by name with the program "
                        "'runnel', which is neither beside the library nor in a folder of PATH")
    try:
        done = subprocess.run([program, "models", name], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, check=False)
    except OSError as error:
        raise FileError(f"{os.fsdecode(name)}: the program that finds models by name cannot be run: {error}") from error
    if done.returncode:
        raise FileError(os.fsdecode(done.stderr).strip().removeprefix("runnel: "))
    return done.stdout.removesuffix(b"\n")


def path_of(path: Any) -> bytes:
    """The path of a file or folder, or of the model that has this name on this machine."""
    given = native.c_path("path", path)
    return _find(given) if isinstance(path, str) and _is_name(given) else given
