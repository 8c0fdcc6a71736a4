"""Asking for approval, and approving as a colleague, in a real browser."""

from app.auth.permissions import Permission
from app.auth.shipped_roles import new_role
from app.demo.names import guid
from tests.system.conftest import with_scripts
from tests.system.console import DARK, LIGHT, NARROW, WIDE, Demo, session_cookie
from tests.tiers import some

TONIC, TONIC_ID = "Perfect Tonic of Stone", guid("item", "Perfect Tonic of Stone")
PLAYER = Demo("player", 99)


IS_CUT = """
    const button = document.querySelector("#form-give [name=ask]");
    return button.scrollWidth > button.clientWidth;
"""


def become(console, session):
    cookie = {"name": "quartermaster", "value": session, "httpOnly": True}
    place = {"url": f"{console.base}/console"}
    console.browser.execute_cdp_cmd("Network.setCookie", {**cookie, **place})


def ask_again(console, withdrawn):
    """Withdraw a request, ask twice for the same, and return the pages of both requests."""
    console.send("withdraw")
    assert "withdrawn" in console.text("h2 .mark")
    pages = []
    for _ in range(2):
        console.open(PLAYER.path)
        console.send("give", itemid=TONIC, quantity="20", reason="Lost in the crash.")
        console.press("#form-give [name=ask]")
        pages.append(console.path.removeprefix("/console"))
    return pages


@with_scripts
def test_a_colleague_approves_what_is_over_a_limit(console, demo):
    limits = {"LargestQuantity": 5, "ItemsPerDay": 100, "RowsPerBatch": 10}
    role = new_role("juniors", [one.value for one in Permission], limits)
    demo.db.roles.insert_one(role)
    for name, held in (("junior", "juniors"), ("senior", "senior-support")):
        account = ("user", "create", name, "--email", f"{name}@example.com", "--password-stdin")
        demo.command(*account, stdin="secret")
        demo.db.users.update_one({"Name": name}, {"$set": {"Roles": [held]}})
    become(console, session_cookie(demo.base, "junior", "secret"))
    console.open(PLAYER.path)
    assert "You can move 5 of an item at once; 100 of 100 items left today." in console.text()
    console.send("give", itemid=TONIC, quantity="20", reason="Lost in the crash.")
    assert "you may move 5 of an item at once, not 20" in console.text("#refusal-give")
    assert not console.browser.execute_script(IS_CUT)
    console.press("#form-give [name=ask]")
    assert console.notice == "Colleagues who may approve it see your request."
    page = console.path.removeprefix("/console")
    assert not console.all("#form-approve")
    page, other = ask_again(console, page)
    become(console, session_cookie(demo.base, "senior", "secret"))
    console.open(other)
    console.send("decline", Why="Once is enough.")
    assert console.notice == "The request was declined."
    assert "Once is enough." in console.text(".facts-list")
    console.open("/approvals")
    assert "Lost in the crash." in console.text(".entries tbody tr")
    console.bring_axe()
    for width, scheme in some([(NARROW, DARK), (WIDE, LIGHT)], 1):
        console.look(width, scheme)
        for path in ("/approvals", page):
            console.open(path)
            assert console.violations() == [], (path, width, scheme)
            assert console.overflow() <= 0, (path, width)
    console.look()
    console.open(page)
    console.press("#form-approve .do")
    assert "done" in console.text("h2 .mark")
    console.open(f"{PLAYER.path}/history")
    told = console.text(".entries tbody tr")
    assert all(part in told for part in (f"+20 {TONIC}", "junior", "approved by senior"))
