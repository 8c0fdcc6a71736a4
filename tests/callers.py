"""Somebody with a token, who sends requests to the application of a test."""

import json


class Caller:
    """Sends requests to the paths that begin with a prefix."""

    def __init__(self, client, headers, prefix=""):
        self._client, self._headers, self._prefix = client, headers, prefix

    def get(self, path="", **query):
        return self._client.get(self._prefix + path, query_string=query, headers=self._headers)

    def post(self, path="", key=None, **body):
        """Send fields as JSON, in the spelling of Python, which knows NaN and any integer."""
        return self.send(path, key, data=json.dumps(body), content_type="application/json")

    def send(self, path="", key=None, **options):
        """Send a POST with the options of the test client, and an Idempotency-Key if given."""
        headers = {**self._headers, "Idempotency-Key": key} if key else self._headers
        return self._client.post(self._prefix + path, headers=headers, **options)
