"""The worker thread that carries out started batches, even after their callers disconnect.

It acts as the account or key that started the batch, for as long as that one may still start it.
If the worker is killed, another one goes on.
"""

from __future__ import annotations

import atexit
import logging
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress

from app.auth.approval import NeedsApproval
from app.auth.callers import CallerGone, Callers
from app.auth.spending import Allowance, OverBudget, OverLimit
from app.batches.access import executor, require_run
from app.batches.running import Runner
from app.batches.store import Batches
from app.core.changes import Origin
from app.core.errors import (
    Conflict,
    PermissionMissing,
    QuartermasterError,
    RoleMissing,
    ScopeMissing,
    Unauthorized,
    Unavailable,
)
from app.core.types import Document
from app.storage.errors import DatabaseError

log = logging.getLogger("quartermaster")

# How often an idle worker looks for batches.
LOOK_SECONDS = 1.0
# How long a worker that shuts down waits for the portion that it is carrying out.
LAST_SECONDS = 2.0
# Why a batch is paused; the sentences name no person.
REASONS: dict[type[QuartermasterError], str] = {
    RoleMissing: "The account that started it no longer has the role '{0.role}'.",
    PermissionMissing: "The account that started it no longer has '{0.permission}'.",
    ScopeMissing: "The key that it was started with no longer has the scope '{0.scope}'.",
    OverBudget: "The key that it was started with has a budget now.",
    NeedsApproval: "It needs an approval now.",
    OverLimit: "It is over a limit of the account that started it ({0.field}).",
    CallerGone: "The account that started it can no longer run it: {0}.",
    Unauthorized: "The account that started it is being erased.",
}


class BatchWorker:
    def __init__(
        self,
        batches: Batches,
        runner: Runner,
        callers: Callers,
        is_ready: Callable[[], bool],
        context: Callable[[], AbstractContextManager[object]],
    ) -> None:
        self._batches = batches
        self._runner = runner
        self._callers = callers
        self._is_ready = is_ready
        # Rows look up their services in the application context.
        self._context = context
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="batches", daemon=True)

    def begin(self) -> None:
        self._thread.start()
        atexit.register(self.end)

    def end(self) -> None:
        """Stop after the current portion."""
        self._ended.set()
        self._thread.join(LAST_SECONDS)

    def _run(self) -> None:
        pause = LOOK_SECONDS
        while not self._ended.wait(pause):
            pause = LOOK_SECONDS
            try:
                if self._is_ready() and self.work():
                    pause = 0
            except (DatabaseError, Unavailable) as error:
                log.warning("Batches cannot continue, will retry: %s", error)
            except Exception:  # the thread must survive: the next try may succeed
                log.exception("Batches cannot continue, will retry.")

    def work(self) -> bool:
        """Work on each started batch for some seconds; return whether there was anything to do."""
        with self._context():
            gone_on = [self._go_on(batch) for batch in self._batches.find_waiting()]
        return any(gone_on)

    def _go_on(self, batch: Document) -> bool:
        try:
            return self._runner.carry_out(batch, *self._executor_of(batch), self._ended.is_set)
        except tuple(REASONS) as gone:
            sentence = next(text for kind, text in REASONS.items() if isinstance(gone, kind))
            why = f"{sentence.format(gone)} Somebody else can resume it."
            log.warning("The batch %s is paused. %s", batch["_id"], why)
            # Somebody else may have paused or cancelled it.
            with suppress(Conflict):
                self._batches.pause(batch["_id"], why)
            return False

    def _executor_of(self, batch: Document) -> tuple[Origin, list[Allowance]]:
        """Return who carries out a batch and what limits them; raise if they may not start it."""
        by = batch["StartedBy"]
        if by["UserId"] is None:
            # Whoever may run commands may do everything.
            return Origin(None, by["Name"], "batch"), []
        caller = self._callers.find(by["UserId"], by.get("KeyId"))
        require_run(caller, batch)
        return executor(caller, batch)
