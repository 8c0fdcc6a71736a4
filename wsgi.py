from app import create_app
from app.http.stores import PARTS
from app.storage.preparation import Preparation

app = create_app()
app.extensions[PARTS][Preparation].begin()
