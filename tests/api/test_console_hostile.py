"""Whatever a game or a person can set is text on every page, and is no part of the page."""

from html.parser import HTMLParser
from urllib.parse import quote

import pytest

from app.core.permissions import Role
from tests.console_visitor import visitor
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
from tests.mongod import on_mongodb

TEXT = "\"><img src=x onerror=alert(1)>'{{7*7}}<script>alert(2)</script>".ljust(255, "W")
# What a name may be shortened to, where a whole one would be too long.
SHORTENED = TEXT[:50]
FIELD = TEXT.replace(".", "")
PLAYER, USER, GONE, BATCH = map(numbered_guid, range(1, 5))
SPELL, VARIABLE, QUEST, ITEM, GLOBAL = OBJECTS = [numbered_guid(10 + n) for n in range(5)]
KINDS = ("spell", "playervariable", "quest", "item", "servervariable")
ACTIONS = [numbered_guid(20 + number) for number in range(2)]
BY = {"UserId": USER, "Name": TEXT, "Key": TEXT}


def entry(subject, kind, **overrides):
    """Return an entry in which all that is told is the text."""
    changes = [
        {"Path": "Inventory.0", "Before": None, "After": {"ItemId": ITEM, "Quantity": 5}},
        {"Path": f"Variables.{TEXT}", "Before": TEXT, "After": 2**62},
        {"Path": TEXT, "Before": {TEXT: TEXT}, "After": [TEXT]},
    ]
    told = {"Reason": TEXT, "RequestId": TEXT, "Arguments": {TEXT: TEXT}, "Changes": changes}
    return make_entry({"_id": subject, "Name": TEXT}, kind, By=BY, **{**told, **overrides})


ENTRIES = [
    entry(PLAYER, "player"),
    entry(USER, "user", Operation="import"),
    entry(GLOBAL, "object", Operation="repair"),
    entry(
        *(GONE, "player"),
        Operation="delete-player",
        Changes=[{"Path": "DeletedAt", "Before": None, "After": NOW}],
    ),
]


def stored():
    """Return a player and a user with all that pages show of them, by collection."""
    later = NOW.replace(year=2099)
    note = {USER: {"At": NOW, "UserId": USER, "Name": TEXT, "Text": TEXT}}
    slots = {"0": {"ItemId": ITEM, "Quantity": 2**53}, "1": {"ItemId": TEXT, "Quantity": 7}}
    looks = dict.fromkeys(("ClassName", "MapName", "Sprite", "Face"), TEXT)
    held = {"Inventory": slots, "Bank": slots, "Spells": {"0": SPELL}, "Variables": {VARIABLE: 1}}
    player = make_player(Id=PLAYER, Name=TEXT, UserId=USER, **looks, **held, Notes=note)
    user = make_user(
        **{"_id": USER, "Name": TEXT, "Email": f"{TEXT}@example.com", "Notes": note},
        **{"IsBanned": True, "IsMuted": True},
        **dict.fromkeys(("BanReason", "BannedBy", "MuteReason", "MutedBy"), TEXT),
        Keys={
            USER: make_key(
                "",
                Name=TEXT,
                Addresses=[TEXT],
                Budget={"Items": [TEXT], "ItemsPerDay": None, "LargestQuantity": 5},
            )
        },
    )
    own = {"Name": TEXT, "Description": TEXT, FIELD: TEXT, "Nested": {"Name": [TEXT]}}
    asked = {
        **{"Subject": {"Kind": "player", "Id": PLAYER, "Name": TEXT}, "By": BY, "Taken": NOW},
        **dict.fromkeys(("Reason", "Error", "TakenBy"), TEXT),
        "Result": {FIELD: TEXT},
    }
    chat = {"Kind": "chat", "Arguments": {"Message": TEXT, "Color": None, "Target": TEXT}}
    warp = {"Kind": "warp", "Arguments": {"MapId": TEXT}}
    kind = {"Operation": "give", "Object": ITEM}
    kind |= dict.fromkeys(("Each", "Rows", "Subjects", "Total"), 1)
    told = {"Name": TEXT, "Reason": TEXT, "By": BY, "Undo": {"By": TEXT, "Item": TEXT}}
    row = {"ItemId": ITEM, "Verdict": "refused", "Why": TEXT, "Player": TEXT}
    sign_in = {"_id": TEXT, "UserId": USER, "Chain": USER, "PasswordVersion": 0, "Used": False}
    sign_in |= {"BeganAt": later, "ExpiresAt": later, "IsSession": True, "Browser": TEXT}
    return {
        **{"players": [player], "users": [user], "history": ENTRIES, "refresh_tokens": [sign_in]},
        "objects": [
            make_object(Id=id_, Type=kind, **own) for id_, kind in zip(OBJECTS, KINDS, strict=True)
        ],
        "actions": [
            make_action(_id=id_, **asked, **more)
            for id_, more in zip(ACTIONS, (chat, warp), strict=True)
        ],
        "games": [{"_id": TEXT, "LookedAt": later}],
        "batches": [make_batch(_id=BATCH, **told, Summary=[kind])],
        "batch_rows": [
            make_batch_row(player, BATCH, **row),
            make_batch_row(player, BATCH, 2, **row, Subject=None),
        ],
    }


class Page(HTMLParser):
    """What a browser makes of a page: its text, and what only markup of ours may bring."""

    def __init__(self, text):
        super().__init__()
        self.text, self.strange = "", []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        is_strange = tag in ("img", "object", "iframe", "base", "template")
        is_strange |= tag == "script" and "src" not in given
        if is_strange or any(name.startswith("on") or name == "style" for name in given):
            self.strange.append((tag, given))

    def handle_data(self, data):
        self.text += data


@pytest.fixture
def staff(app, world, db):
    for name, documents in stored().items():
        # Also what the service would refuse: a game may write into its database.
        db[name].insert_many(documents, bypass_document_validation=True)
    app.config["GAME_NAME"] = app.config["ENVIRONMENT_NAME"] = TEXT
    return visitor(app, world, *Role)


AT_PLAYER, AT_USER, SEARCH = f"/players/{PLAYER}", f"/users/{USER}", f"search={quote(SHORTENED)}"
PAGES = [
    *("", f"/search?q={PLAYER}", f"/search?q={quote(TEXT)}", f"/players?{SEARCH}"),
    *(f"{AT_PLAYER}?done={ENTRIES[0]['_id']}", f"/players/{GONE}", f"/users?{SEARCH}", AT_USER),
    *(f"{AT_PLAYER}/{tab}" for tab in ("spells", "variables", "history", "notes")),
    *(f"{AT_USER}/{tab}" for tab in ("history", "notes", "keys", "sign-ins")),
    *("/game", "/chat", "/batches", f"/batches/{BATCH}", "/history", f"/history?key={quote(TEXT)}"),
    *(f"/game/{action}" for action in ACTIONS),
    *(f"/history/{entry['_id']}" for entry in ENTRIES),
    *(f"/catalogue/{kind}?{SEARCH}" for kind in KINDS),
    *(f"/catalogue/{kind}/{id_}" for kind, id_ in zip(KINDS, OBJECTS, strict=True)),
]


@on_mongodb
def test_whatever_a_game_or_a_person_can_set_is_text_on_every_page(staff):
    for path in PAGES:
        answer = staff.get(path)
        page = Page(answer.text)
        assert (answer.status_code, page.strange) == (200, []), path
        assert SHORTENED in page.text, path
        assert f"{TEXT} \N{MIDDLE DOT} {TEXT}" in page.text, path


@on_mongodb
def test_what_somebody_types_is_text_where_it_is_refused(staff):
    for path, form, field in (
        (AT_PLAYER, "give", "itemid"),
        (AT_PLAYER, "teach", "spellid"),
        (AT_PLAYER, "variables", "variableid"),
        (AT_USER, "email", "new"),
        (AT_USER, "keys", "Addresses"),
        (AT_USER, f"keys/{USER}/revoke", "confirm"),
        (AT_USER, "sign-out", "confirm"),
    ):
        # Nearly a name: what may have been meant is offered.
        page = Page(staff.post(f"{path}/{form}", **{field: TEXT[:-1]}).text)
        assert page.strange == [], form
        assert SHORTENED in page.text, form
