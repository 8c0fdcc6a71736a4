from __future__ import annotations

from config.base import Settings


class Testing(Settings):
    """Cheap hashes, no caches, and no database unless a test names one."""

    ENV: str = "testing"
    TESTING: bool = True
    # Answer unexpected errors, as production does; Flask would raise them in the test client.
    PROPAGATE_EXCEPTIONS: bool = False
    SECRET_KEY: str | None = "a secret that only the tests use: 32+ long"  # noqa: S105 (not a real secret)
    MONGODB_URI: str | None = "mongomock://localhost"
    MONGODB_SELECTION_SECONDS: float = 2.0
    # A busy machine must not fail a test.
    MONGODB_OPERATION_SECONDS: float = 60.0
    AUTH_CACHE_SECONDS: float = 0.0
    TOTAL_CACHE_SECONDS: float = 0.0
    PASSWORD_CACHE_SECONDS: float = 0.0
    ARGON2_TIME_COST: int = 1
    ARGON2_MEMORY_KIB: int = 64
