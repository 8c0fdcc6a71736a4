from config.base import Settings


class Development(Settings):
    """Runs out of the box: an embedded MongoDB and a secret of its own."""
