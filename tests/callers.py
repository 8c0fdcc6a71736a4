"""Somebody with a token, who sends requests to the application of a test."""

import json
from concurrent.futures import ThreadPoolExecutor


def bearer(secret):
    """Return the header of a token or a key."""
    return {"Authorization": f"Bearer {secret}"}


class Caller:
    """Sends requests to the paths that begin with a prefix."""

    def __init__(self, client, headers, prefix="", user=None):
        self.client, self.headers, self._prefix, self.user = client, headers, prefix, user

    def __call__(self, request, body=None, status=200, **headers):
        """Send a request such as "GET users/Bob"; return its answer, which must have the status.

        A status of None allows any. The names of headers have underscores.
        """
        method, _, path = request.partition(" ")
        more = {name.replace("_", "-"): value for name, value in headers.items()}
        sent = {"method": method, "json": body, "headers": {**self.headers, **more}}
        answer = self.client.open(self._prefix + path, **sent)
        is_expected = status in (None, answer.status_code)
        assert is_expected, (request, answer.status_code, answer.text[:1000])
        return answer

    def at_once(self, *requests):
        """Send requests, each with its body and maybe headers, in threads; return the answers."""

        def send(request):
            own = Caller(self.client.application.test_client(), self.headers, self._prefix)
            text, body, *headers = request
            return own(text, body, None, **dict(*headers))

        with ThreadPoolExecutor(8) as pool:
            return list(pool.map(send, requests))

    def get(self, path="", **query):
        return self.client.get(self._prefix + path, query_string=query, headers=self.headers)

    def post(self, path="", key=None, **body):
        """Send fields as JSON, in the spelling of Python, which knows NaN and any integer."""
        return self.send(path, key, data=json.dumps(body), content_type="application/json")

    def send(self, path="", key=None, **options):
        """Send a POST with the options of the test client, and an Idempotency-Key if given."""
        headers = {**self.headers, "Idempotency-Key": key} if key else self.headers
        return self.client.post(self._prefix + path, headers=headers, **options)
