"""Finds a mongod program that runs on this machine."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

from app.errors import QuartermasterError


class NoMongod(QuartermasterError):
    """No mongod program runs here; the text says what was tried."""

    sentence = (
        "No MongoDB server can be started here ({tried}). "
        "Set QM_MONGODB_URI to a MongoDB of yours, or QM_MONGOD to a mongod program."
    )


def find_mongod(chosen: str | None, folder: Path) -> Path:
    """Return the chosen program, else that of the wheel or of the PATH, whichever runs."""
    faults = []
    for candidate in [Path(chosen)] if chosen else installed():
        program = executable(candidate, folder)
        try:
            subprocess.run(  # nosec B603 # noqa: S603 (the operator chose or installed it)
                [program, "--version"], capture_output=True, text=True, timeout=30, check=True
            )
        except (OSError, subprocess.SubprocessError) as error:
            said = str(getattr(error, "stderr", None) or getattr(error, "strerror", None) or error)
            faults.append(f"{candidate}: {said.strip().splitlines()[-1]}")
        else:
            return program
    raise NoMongod("; ".join(faults) or "no wheel with a server for this platform is installed")


def installed() -> list[Path]:
    # Looked up without importing it: the package runs code at import.
    spec = importlib.util.find_spec("fiftyone")
    places = spec.submodule_search_locations if spec else None
    wheel = [Path(place) / "db" / "bin" / "mongod" for place in places or ()]
    on_path = shutil.which("mongod")
    return [path for path in (*wheel, *([Path(on_path)] if on_path else [])) if path.exists()]


def executable(program: Path, folder: Path) -> Path:
    """Set the executable bit, on a copy if the file belongs to another user."""
    if not program.exists() or os.access(program, os.X_OK):
        return program
    try:
        program.chmod(0o755)
    except PermissionError:
        program = Path(shutil.copyfile(program, folder / "mongod"))
        program.chmod(0o755)
    return program
