from config.base import Settings


class Development(Settings):
    """Runs without configuration: with an embedded MongoDB and a generated secret."""
