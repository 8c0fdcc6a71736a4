from app import create_app
from app.batches.background import BatchWorker
from app.http.context import SERVICES
from app.samples.sampler import Sampler
from app.storage.mover import Mover
from app.storage.schema.preparation import Preparation

app = create_app()
for background in (Preparation, Mover, Sampler, BatchWorker):
    app.extensions[SERVICES][background].begin()
