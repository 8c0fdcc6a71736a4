from config.base import Settings


class Production(Settings):
    """Refuses to start without a SECRET_KEY and a MONGODB_URI."""

    ENV: str = "production"
    LOG_FORMAT: str = "json"
