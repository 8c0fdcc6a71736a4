"""All cells of the bench."""

from __future__ import annotations

from benchmarks.batch_cells import BATCH_CELLS
from benchmarks.cells import CELLS
from benchmarks.console_cell import CONSOLE_CELLS
from benchmarks.history_cells import HISTORY_CELLS

BENCH_CELLS = (*CELLS, HISTORY_CELLS[0], *BATCH_CELLS, *CONSOLE_CELLS)
