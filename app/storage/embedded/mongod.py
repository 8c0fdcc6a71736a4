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

    def __init__(self, tried: list[str]) -> None:
        reasons = "; ".join(tried) or "no wheel with a server for this platform is installed"
        super().__init__(
            f"No MongoDB server can be started here ({reasons}). "
            "Set QM_MONGODB_URI to a MongoDB of yours, or QM_MONGOD to a mongod program."
        )


def find_mongod(chosen: str | None, folder: Path) -> Path:
    """Return the chosen program, else that of the wheel or of the PATH, whichever runs."""
    return first_that_runs([Path(chosen)] if chosen else _installed(), folder)


def first_that_runs(candidates: list[Path], folder: Path) -> Path:
    """Return the first program that runs here, from a copy in the folder if it must be."""
    tried: list[str] = []
    for candidate in candidates:
        program = _executable(candidate, folder)
        fault = _fault_of(program)
        if fault is None:
            return program
        tried.append(f"{candidate}: {fault}")
    raise NoMongod(tried)


def _installed() -> list[Path]:
    wheel = _wheel_program()
    on_path = shutil.which("mongod")
    return [path for path in (wheel, Path(on_path) if on_path else None) if path]


def _wheel_program() -> Path | None:
    # Looked up without importing it: the package runs code at import.
    spec = importlib.util.find_spec("fiftyone")
    for location in (spec.submodule_search_locations or []) if spec else []:
        program = Path(location) / "db" / "bin" / "mongod"
        if program.exists():
            return program
    return None


def _executable(program: Path, folder: Path) -> Path:
    """Set the executable bit, on a copy if the file belongs to another user."""
    if not program.exists() or os.access(program, os.X_OK):
        return program
    try:
        program.chmod(program.stat().st_mode | 0o755)
    except PermissionError:
        copy = folder / "mongod"
        if not copy.exists() or copy.stat().st_size != program.stat().st_size:
            shutil.copyfile(program, copy)
        copy.chmod(0o755)
        return copy
    return program


def _fault_of(program: Path) -> str | None:
    try:
        result = subprocess.run(  # nosec B603 # noqa: S603 (the operator chose or installed it)
            [str(program), "--version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return getattr(error, "strerror", None) or str(error)
    if result.returncode == 0:
        return None
    lines = (result.stderr or result.stdout).strip().splitlines()
    return lines[-1] if lines else f"it ended with {result.returncode}"
