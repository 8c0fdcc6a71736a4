from app import create_app
from app.http.context import SERVICES
from app.storage.mover import Mover
from app.storage.schema.preparation import Preparation

app = create_app()
app.extensions[SERVICES][Preparation].begin()
app.extensions[SERVICES][Mover].begin()
