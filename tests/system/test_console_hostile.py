"""Hostile names in a real browser: whatever a game or a person can set is text, on every page."""

from urllib.parse import quote

import pytest

from tests.factories import (
    NOW,
    make_batch,
    make_batch_row,
    make_entry,
    make_key,
    make_object,
    make_player,
    make_user,
    numbered_guid,
)
from tests.game import make_action
from tests.system.console import NARROW, WIDE, Console, session_cookie
from tests.tiers import some

MARKUP = "\"><img src=x onerror=alert(1)>'{{7*7}}<script>alert(2)</script>"
TEXTS = {
    "markup of 255 letters": MARKUP.ljust(255, "W"),
    "Arabic": ("عبدالرحمن بن محمد " * 20)[:255].strip(),
}
# What a name may be shortened to, where a whole one would be too long.
SHORTENED = 50
STRANGE = "img, object, iframe, [onerror], script:not([src]), [style], base, template"


class World:
    """A player and a user, with all that pages show of them, all of it named by one text."""

    def __init__(self, text, number):
        id_ = numbered_guid(number)
        self.text = text
        note = {"At": NOW, "UserId": id_, "Name": text, "Text": text}
        self.user = make_user(
            None,
            _id=id_,
            Name=text,
            Email=f"{text}@example.com",
            Notes={id_: note},
            **dict.fromkeys(("IsBanned", "IsMuted"), True),
            **dict.fromkeys(("BanReason", "BannedBy", "MuteReason", "MutedBy"), text),
            Keys={id_: make_key("", Name=text, Addresses=[text], Budget={"Items": [text]})},
        )
        kinds = ("item", "spell", "playervariable", "servervariable", "quest")
        fields = {"Description": text, text.replace(".", ""): text, "Nested": {"Name": [text]}}
        self.objects = [
            make_object(Id=numbered_guid(number + place), Type=kind, Name=text, **fields)
            for place, kind in enumerate(kinds)
        ]
        item, spell, variable, *_ = [record["_id"] for record in self.objects]
        slots = {"0": {"ItemId": item, "Quantity": 2**53}, "1": {"ItemId": text, "Quantity": 7}}
        self.player = make_player(
            Id=id_,
            Name=text,
            UserId=id_,
            **dict.fromkeys(("ClassName", "MapName", "Sprite", "Face"), text),
            Inventory=slots,
            Bank=slots,
            Spells={"0": spell},
            Variables={variable: 2**62},
        )
        self.player["Notes"] = {id_: note}
        self.entries = [
            self._entry(self.player, "player", item),
            self._entry(self.user, "user", item, Operation="import"),
            self._entry(self.objects[3], "object", item, Operation="repair"),
            self._deletion(numbered_guid(number + 100)),
        ]
        said = {"Message": text, "Color": None, "Target": text}
        self.actions = [self._action(id_, "chat", said), self._action(id_, "warp", {"MapId": text})]
        self.game = {"_id": text, "LookedAt": NOW.replace(year=2099)}
        kind = {"Operation": "give", "Object": item}
        kind |= dict.fromkeys(("Each", "Rows", "Subjects", "Total"), 1)
        told = {"Name": text, "Reason": text, "By": {"UserId": id_, "Name": text, "Key": text}}
        self.batch = make_batch(**told, Summary=[kind], Undo={"By": text, "Item": text})
        row = {"ItemId": item, "Verdict": "refused", "Why": text, "Player": text}
        self.rows = [
            make_batch_row(self.player, self.batch["_id"], **row),
            make_batch_row(self.player, self.batch["_id"], 2, **{**row, "Subject": None}),
        ]
        owner = {"_id": text, "UserId": id_, "Chain": id_, "PasswordVersion": 0, "Used": False}
        times = dict.fromkeys(("BeganAt", "ExpiresAt"), NOW.replace(year=2099))
        self.sign_in = {**owner, **times, "IsSession": True, "Browser": text}

    def _entry(self, subject, kind, item, **overrides):
        changes = [
            {"Path": "Inventory.0", "Before": None, "After": {"ItemId": item, "Quantity": 5}},
            {"Path": f"Variables.{self.text}", "Before": self.text, "After": 2**62},
            {"Path": self.text, "Before": {self.text: self.text}, "After": [self.text]},
        ]
        named = {"By": {"UserId": None, "Name": self.text, "Key": self.text}, "Via": "cli"}
        told = {"Reason": self.text, "RequestId": self.text, "Arguments": {self.text: self.text}}
        return make_entry(subject, kind, Changes=changes, **named, **told, **overrides)

    def _action(self, id_, kind, arguments):
        """Return what the game was asked about the player, and has refused."""
        by = {"UserId": id_, "Name": self.text, "Key": self.text}
        subject = {"Kind": "player", "Id": id_, "Name": self.text}
        told = dict.fromkeys(("Reason", "Error", "TakenBy"), self.text)
        named = {"Kind": kind, "Subject": subject, "Arguments": arguments, "By": by, **told}
        return make_action(**named, Taken=NOW, Result={self.text.replace(".", ""): self.text})

    def _deletion(self, id_):
        """Return the entry of a player who is gone."""
        by = {"UserId": None, "Name": self.text, "Key": self.text}
        changes = [{"Path": "DeletedAt", "Before": None, "After": NOW}]
        told = {"Operation": "delete-player", "Changes": changes, "Reason": self.text}
        return make_entry({"_id": id_, "Name": self.text}, By=by, **told)

    def write(self, db):
        for name, documents in {
            "players": [self.player],
            "users": [self.user],
            "objects": self.objects,
            "history": self.entries,
            "refresh_tokens": [self.sign_in],
            "actions": self.actions,
            "games": [self.game],
            "batches": [self.batch],
            "batch_rows": self.rows,
        }.items():
            # Also what the service would refuse: a game may write into its database.
            db[name].insert_many(documents, bypass_document_validation=True)

    @property
    def pages(self):
        player, user = f"/players/{self.player['_id']}", f"/users/{self.user['_id']}"
        search = f"search={quote(self.text[:SHORTENED])}"
        return [
            "",
            f"/search?q={self.player['_id']}",
            f"/search?q={quote(self.text)}",
            f"/players?{search}",
            f"{player}?done={self.entries[0]['_id']}",
            *(f"{player}/{tab}" for tab in ("spells", "variables", "history", "notes")),
            f"/users?{search}",
            user,
            *(f"{user}/{tab}" for tab in ("history", "notes", "keys", "sign-ins")),
            f"/players/{self.entries[3]['Subject']['Id']}",
            "/game",
            "/chat",
            *(f"/game/{action['_id']}" for action in self.actions),
            "/batches",
            f"/batches/{self.batch['_id']}",
            "/history",
            f"/history?key={quote(self.text)}",
            *(f"/history/{entry['_id']}" for entry in self.entries),
            *(f"/catalogue/{record['Type']}?{search}" for record in self.objects[:4]),
            *(f"/catalogue/{record['Type']}/{record['_id']}" for record in self.objects[:4]),
        ]


@pytest.fixture(scope="module", params=some(TEXTS, 1))
def world(request):
    number = 1000 * (1 + list(TEXTS).index(request.param))
    return World(TEXTS[request.param], number)


@pytest.fixture(scope="module")
def server(serve, world):
    names = {"GAME_NAME": world.text, "ENVIRONMENT_NAME": world.text}
    with serve("--demo", "--workers", "1", **names) as server:
        world.write(server.db)
        yield server


@pytest.fixture(scope="module")
def session(server):
    return session_cookie(server.base)


@pytest.fixture
def console(browser, server, session):
    return Console(browser, server, session)


def assert_harmless(console, world, where):
    """Look at a page: the text is there as text, nothing came of it, and nothing sticks out."""
    console.resize(NARROW)
    assert console.all(STRANGE) == [], where
    assert console.overflow() <= 0, where
    assert world.text[:SHORTENED] in shown(console, "main"), where
    console.resize(WIDE)
    assert console.overflow() <= 0, where
    assert [fault for fault in console.severe() if "Failed to load resource" not in fault] == []


def shown(console, selector):
    script = "return document.querySelector(arguments[0]).innerText"
    return console.browser.execute_script(script, selector)


def test_whatever_a_game_or_a_person_can_set_is_text_on_every_page(console, world):
    for path in some(world.pages, 8):
        console.open(path)
        assert_harmless(console, world, path)
    assert shown(console, ".env") == f"{world.text} \N{MIDDLE DOT} {world.text}"


def test_what_somebody_types_is_text_where_it_is_refused(console, world):
    player, user = f"/players/{world.player['_id']}", f"/users/{world.user['_id']}"
    refused = [
        (player, "give", "itemid"),
        (f"{player}/spells", "teach", "spellid"),
        (f"{player}/variables", "set-variable", "variableid"),
        (user, "email", "new"),
        (f"{user}/keys", "create-key", "Addresses"),
        (f"{user}/keys", f"revoke-{world.user['_id']}", "confirm"),
        (f"{user}/sign-ins", "sign-out", "confirm"),
    ]
    # Nearly a name: what may have been meant is offered.
    text = world.text[:-1]
    for path, form, field in some(refused):
        console.open(path)
        console.send(form, **{field: text})
        assert_harmless(console, world, path)
        assert console.value(f"{form}-{field}") == text


def test_suggestions_are_text(console, world):
    console.open("/health")
    console.one("#find").send_keys(world.text[:12])
    console.one(".find .options li")
    assert_harmless_options(console)
    console.open(f"/players/{world.player['_id']}")
    console.one("#give-itemid").send_keys(world.text[:12])
    console.one(".field .options li")
    assert_harmless_options(console)


def assert_harmless_options(console):
    assert console.all(STRANGE) == []
    console.resize(NARROW)
    assert console.overflow() <= 0
