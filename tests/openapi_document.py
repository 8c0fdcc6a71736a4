"""The OpenAPI document of the service, for tests that are made from it."""

import config
from app import create_app
from app.http.openapi.docs_page import SPECIFICATION
from app.storage.client import Storage
from tests.applications import service


def make_app():
    """Return an application that knows its routes and no database."""
    app = create_app(config.load({"QM_ENV": "testing"}, MONGODB_URI="mongodb://localhost"))
    service(app, Storage).close()
    return app


APP = make_app()
SPEC = APP.extensions[SPECIFICATION]()


def with_responses(operation):
    """Return an operation with the responses that it shares with others."""
    shared = SPEC["components"]["responses"]
    found = {
        status: shared[response["$ref"].rpartition("/")[2]] if "$ref" in response else response
        for status, response in operation["responses"].items()
    }
    return {**operation, "responses": found}


# By operation id: the path, the method, and the operation.
OPERATIONS = {
    operation["operationId"]: (path, method, with_responses(operation))
    for path, item in SPEC["paths"].items()
    for method, operation in item.items()
}
