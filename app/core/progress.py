"""The progress of long commands: a bar on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

LINE_SECONDS = 5.0


@contextmanager
def progress(label: str, length: int) -> Iterator[Callable[[int], None]]:
    """Yield a function that advances the progress by a number of steps."""
    if not sys.stderr.isatty():
        yield _lines(label, length)
        return
    with click.progressbar(
        length=length, label=label, file=sys.stderr, update_min_steps=100
    ) as bar:
        yield bar.update


def _lines(label: str, length: int) -> Callable[[int], None]:
    """Return a function that prints the progress; work that ends quickly prints no line."""
    done, next_line = 0, time.monotonic() + LINE_SECONDS

    def advance(steps: int) -> None:
        nonlocal done, next_line
        done += steps
        if time.monotonic() >= next_line:
            next_line = time.monotonic() + LINE_SECONDS
            of = f" of {length:,} ({done / length:.0%})" if length else ""
            click.echo(f"{label}: {done:,}{of}", err=True)

    return advance
