"""The catalogue of a running service: a change of it reaches every worker."""

import http.client
import itertools
import json

from app.demo.names import guid
from tests.factories import numbered_guid
from tests.system.programs import exchange, run, serving, wait_until

RELIC = numbered_guid(1)
GIVES = 8


def test_a_stack_limit_reaches_all_workers(tmp_path, database):
    players = (guid("player", index) for index in itertools.count())
    with serving(tmp_path, "--demo", WORKERS="2", **database) as server:
        token = run(tmp_path, "token", "demo", **database).stdout.strip()
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

        def ask(method, path, body=None):
            # A new connection each time, which either worker may accept.
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
            status, _, answer = exchange(connection, method, path, body, headers)
            assert status == 200, answer
            return json.loads(answer)

        def stacks():
            """Give two to somebody new, and return in which stacks they are."""
            path = f"/api/v1/players/{next(players)}/items"
            ask("POST", f"{path}/give", json.dumps({"itemid": RELIC, "quantity": 2}))
            slots = ask("GET", f"{path}/inventory")
            return [slot["Quantity"] for slot in slots if slot["ItemId"] == RELIC]

        assert [stacks() for _ in range(GIVES)] == [[2]] * GIVES
        file = tmp_path / "objects.jsonl"
        relic = {"Id": RELIC, "Type": "item", "Name": "Relic", "StackLimit": 1.0}
        file.write_text(json.dumps(relic))
        assert run(tmp_path, "import", "objects", str(file), **database).returncode == 0
        wait_until(lambda: [stacks() for _ in range(GIVES)] == [[1, 1]] * GIVES)
        assert ask("GET", f"/api/v1/gameobjects/item/{RELIC}")["Name"] == "Relic"
