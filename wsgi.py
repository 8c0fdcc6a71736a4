"""The application for any WSGI server; each worker process imports this after the fork."""

import config
from app import create_app
from app.batches.running import BatchWorker
from app.core import metrics
from app.http import logs
from app.http.context import SERVICES
from app.server import resources
from app.storage.background import Chores
from app.storage.events import Feed
from app.storage.schema.preparation import Preparation

resources.save_memory()
settings = config.load()
logs.configure(settings.LOG_LEVEL, settings.LOG_FORMAT)
metrics.share(settings.METRICS_DIR)
app = create_app()
for background in (Preparation, Chores, Feed, BatchWorker):
    app.extensions[SERVICES][background].begin()
