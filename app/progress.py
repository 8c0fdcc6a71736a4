"""A progress bar for long commands, shown on a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click


@contextmanager
def progress(label: str, length: int) -> Iterator[Callable[[int], None]]:
    """Yield a function that advances the bar by a number of steps."""
    hidden = not sys.stderr.isatty()
    with click.progressbar(
        length=length, label=label, file=sys.stderr, hidden=hidden, update_min_steps=100
    ) as bar:
        yield bar.update
