"""History of the running service: entries come to the list of all, whoever dies on the way."""

import os
import signal

from tests.factories import guid
from tests.system.programs import wait_until, workers_of

PLAYERS = 20


def test_what_killed_and_ended_workers_had_not_moved_comes_to_the_list_of_all(serve):
    item = guid()
    with serve("--demo", LOG_LEVEL="WARNING") as server:
        server.sign_in()
        page = server.json("GET", f"/api/v1/players?pageSize={PLAYERS}")
        players = [player["Id"] for player in page["Values"]]

        def give_to_all():
            for player in players:
                path = f"/api/v1/players/{player}/items/give"
                server.json("POST", path, {"itemid": item, "quantity": 1})

        def told():
            return len(server.json("GET", f"/api/v1/history?item={item}&pageSize=100")["Values"])

        give_to_all()
        wait_until(lambda: told() == PLAYERS)
        give_to_all()
        former = workers_of(server)
        for worker in former:
            os.kill(worker, signal.SIGKILL)
        server.wait_for_replaced(former, 2)
        wait_until(server.is_ready)
        wait_until(lambda: told() == 2 * PLAYERS)
        assert server.db.history.count_documents({"Objects": item}) == 2 * PLAYERS
        give_to_all()
        server.send_signal(signal.SIGTERM)
        server.wait(120)
        # A worker that ends moves its entries, as many as MongoDB takes within a second: on a busy
        # machine, perhaps only one of the two does. What it leaves is in journals.
        assert server.db.history.count_documents({"Objects": item}) > 2 * PLAYERS
        for player in server.db.players.find({"_id": {"$in": players}}):
            moved = server.db.history.count_documents(
                {"Subject.Id": player["_id"], "Objects": item}
            )
            assert moved == 3 or (moved == 2 and len(player["Journal"]) == 1), player["_id"]
