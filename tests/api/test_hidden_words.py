"""What is said about accounts is shown to those alone who may see accounts, by every door."""

import itertools
import uuid

import pytest

import config
from app.batches.store import Batches
from app.core.permissions import Role
from tests import tiers
from tests.console_table import CONSOLE_DOORS, fields_of
from tests.console_table import VALUES as CONSOLE_VALUES
from tests.console_visitor import visitor
from tests.endpoint_table import DOORS, VALUES, catalogue
from tests.game import playing
from tests.tiers import some

NAME, MAIL = "Zqaccount", "zqmail@example.com"
# What was said about the account: the reason of a ban and of its entry, a note, the reasons of a
# kick and of a batch; and what an entry tells by itself, as pages and the API spell it.
BAN, WHY, NOTE, KICK, BATCH, DAYS = "zqban", "zqwhy", "zqnote", "zqkick", "zqbatch", 777
SPELLED = {"console": f"for {DAYS} days", "api": f'"Duration":{DAYS}'}
WORDS = {NAME, MAIL, BAN, WHY, NOTE, KICK, BATCH}
READ_PLAYERS = ("players.read", "players.change", "history.read", "history.undo")


@pytest.fixture
def settings(data_dir):
    """Roles are no matter of the database, so the quick one does; mails go to a folder."""
    return config.load({"QM_ENV": "testing"}, DATA_DIR=str(data_dir))


@pytest.fixture
def scene(client, world, db):
    """Return the values of the variable parts of paths, when all has been said about an account."""
    user = world.add_user(Name=NAME, Email=MAIL)
    player = world.add_player(Name=VALUES["player"])
    db.objects.insert_many(catalogue())
    manager, clerk = world.headers(*Role), world.headers(Role.API)

    def post(path, body=None, headers=manager, **more):
        answer = client.post(f"/api/v1/{path}", json=body, headers={**headers, **more})
        assert answer.status_code == 200, answer.data
        return answer.json

    post(f"users/{NAME}/admin/ban", {"duration": DAYS, "reason": BAN}, **{"X-Reason": WHY})
    post(f"users/{NAME}/notes", {"Text": NOTE})
    post(f"users/{NAME}/notes", {"Text": NOTE})
    post(f"players/{player['_id']}/notes", {"Text": "Of a player."})
    with playing(db):
        post(f"users/{NAME}/admin/kick", **{"X-Reason": KICK})
    entries = [entry["_id"] for entry in db.history.find()]
    rows = [{"Operation": "undo", "Id": id_} for id_ in entries]
    batches = [
        post("batches", {"Name": BATCH, "Reason": BATCH, "Rows": rows[1:]}),
        post("batches", {"Name": "Of who may not", "Rows": rows}, clerk),
        post("batches", {"Name": "Run", "Rows": rows[2:3]}),
    ]
    post(f"batches/{batches[2]['Id']}/advance")
    ids = [batch["Id"] for batch in batches]
    values = {"entry": entries, "batch": ids, "ended": ids, "ended_batch": ids}
    actions = [action["_id"] for action in db.actions.find()]
    return {**values, "action": actions, "user": [user["_id"]]}


def paths_of(door, usual, values):
    """Yield the path of a door for each choice of what there is."""
    choices = [values.get(name, [usual.get(name) or VALUES.get(name)]) for name in door.variables]
    for chosen in itertools.product(*choices):
        yield door.path_with({**usual, **dict(zip(door.variables, chosen, strict=True))})


def queries(values):
    """Return queries that some doors take, and that the others ignore."""
    filters = ("operation=ban", "kind=kick", "search=zqa&q=zqa&pageSize=100")
    user = f"user={values['user'][0]}"
    return (
        ["", *(f"?{one}" for one in (*filters, user))] if tiers.is_everything else ["", f"?{user}"]
    )


def words_in(answers, enough=None):
    """Return which of the words were told, and by which door; no path that is asked holds one.

    If some words are enough, no more answers are asked for when these were told.
    """
    found = {}
    for path, answer in answers:
        with answer:
            text = answer.get_data(as_text=True).casefold()
        told = (*WORDS, *SPELLED.values())
        found |= {word: path for word in told if word.casefold() in text}
        if enough and found.keys() >= enough:
            break
    return found


def api_answers(client, headers, values):
    """Ask all doors of the API, first those that change nothing."""
    for door in sorted(DOORS, key=lambda door: door.method != "GET"):
        if "/oauth/" in door.route:
            continue  # They are about tokens, and would end that of the caller.
        for path in paths_of(door, VALUES, values):
            for query in queries(values) if door.method == "GET" else ("",):
                options = {"method": door.method, "json": door.body, "headers": headers}
                yield f"{door.method} {path}{query}", client.open(path + query, **options)


def console_answers(browser, values):
    """Open all pages and send all forms of the console, first what changes nothing."""
    token = browser.token()
    # By these, a page tells what the form before it has done.
    done = [*values["entry"], *(f"action:{action}" for action in values["action"])]
    marks = some([f"?done={mark}" for mark in done if "player" not in mark], 2)
    for door in sorted(CONSOLE_DOORS, key=lambda door: door.method != "GET"):
        if door.route.endswith("/sign-out"):
            continue
        for path in paths_of(door, CONSOLE_VALUES, values):
            short = path.removeprefix("/console")
            if door.method == "GET":
                for query in (*queries(values), *marks):
                    yield f"GET {path}{query}", browser.get(short + query)
            else:
                hidden = {"token": token, "key": str(uuid.uuid4())}
                yield f"POST {path}", browser.send(short, {**hidden, **fields_of(door)})


ROLES = list(Role)


@pytest.mark.parametrize("door", ["console", "api"])
@pytest.mark.parametrize(
    ("roles", "may_see"),
    some([(ROLES[:1], False), (ROLES, True), (ROLES[:2], True)], 2),
    ids=lambda value: value[-1].value if isinstance(value, list) else None,
)
def test_what_is_said_about_accounts_is_for_those_who_may_see_them(
    app, client, world, scene, db, roles, may_see, door
):
    with playing(db):
        if door == "console":
            answers = console_answers(visitor(app, world, *roles), scene)
        else:
            answers = api_answers(client, world.headers(*roles), scene)
        expected = {*WORDS, SPELLED[door]} if may_see else set()
        found = words_in(answers, expected)
    assert found.keys() >= expected if may_see else found == {}


def test_a_key_without_the_scope_is_told_nothing_about_accounts(client, world, scene, db):
    with playing(db):
        headers = world.key_headers(*READ_PLAYERS)
        assert words_in(api_answers(client, headers, scene)) == {}


@pytest.mark.parametrize("roles", [ROLES[:2], ROLES], ids=["users.query", "all"])
def test_rows_about_accounts_are_hidden_while_a_batch_is_planned(
    app, client, world, scene, db, monkeypatch, roles
):
    somebody, headers = visitor(app, world, *roles), world.headers(*roles)
    complete, answers = Batches.complete, []

    def look_and_complete(self, batch, *args, **options):
        for path in (f"/batches/{batch['_id']}", f"/batches/{batch['_id']}.csv"):
            answers.append((path, somebody.get(path)))
        path = f"/api/v1/batches/{batch['_id']}/rows"
        answers.append((path, client.get(path, headers=headers)))
        return complete(self, batch, *args, **options)

    monkeypatch.setattr(Batches, "complete", look_and_complete)
    rows = [{"Operation": "undo", "Id": id_} for id_ in scene["entry"]]
    planned = client.post("/api/v1/batches", json={"Rows": rows}, headers=world.headers(*ROLES))
    assert planned.status_code == 200
    is_hidden = roles != ROLES
    assert {answer.status_code for _, answer in answers} == {403 if is_hidden else 200}
    assert (NAME in words_in(answers)) is not is_hidden
