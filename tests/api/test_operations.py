"""One declaration, one change: by the API, a form, a row of a batch, a command or an approval."""

import inspect
import json

import pytest

from app.approvals.kinds import kinds
from app.auth.api_keys import new_secret
from app.cli.accounts import api, user
from app.cli.intents import EXECUTABLE, run
from app.cli.keys import key
from app.cli.staff import staff
from app.console.forms.declared import Form
from app.core.operations import all_operations
from app.core.permissions import Permission, Role
from app.users.moderation import LIFT
from app.users.passwords import Passwords
from app.users.staff.operations import REVOKE_ROLE
from tests.applications import service
from tests.callers import Caller
from tests.console_table import CONSOLE_DOORS, fields_of
from tests.console_visitor import Visitor, page_of
from tests.endpoint_table import DOORS, ENTRY, OWN_KEY, PASSWORD, SELF, USER, VALUES, shape_of
from tests.factories import make_key, make_role, make_user, with_keys
from tests.scene import set_scene

GROUPS = {group.name: group for group in (api, staff, user, key)}
# What commands of their own execute, with the arguments of the command.
COMMANDS = {
    "grant-role": ["api", "grant", USER, "api"],
    "revoke-role": ["api", "revoke", USER, "api"],
    "erase": ["user", "erase", USER, "--confirm", USER],
    "create-key": ["key", "create", USER, "another", "players.read"],
}
# The arguments where those of the body are not all.
ARGUMENTS = {
    "undo": {"id": ENTRY},
    "set-variable": {"variable_id": VALUES["variable"], "value": 1},
    "reset-sign-in": {"Email": ""},
}
# The arguments of the command run, where they are not those of the body.
RUN = {
    "set-variable": {"variableid": VALUES["variable"], "value": 1},
    "grant-role": {"Role": "api"},
    "link-company-account": {"Subject": "4711"},
    "revoke-role": {"Role": "API"},
    "revoke-key": {"Id": OWN_KEY},
    "rotate-key": {"Id": OWN_KEY},
}
# What a form needs beside the fields of the table, or instead of them.
FIELDS = {"change-role": {"ItemsPerDay": ""}, "revoke-key": {"confirm": "own"}}
# Nobody executes these through a declaration: files, the game, sign-ins and owners do.
BY_OTHERS = {
    *("create-by-company", "import", "renew-recovery-codes", "repair", "set-group-roles"),
    *("set-up-second-factor", "switch-off-second-factor", "use-recovery-code"),
}


@pytest.fixture
def backend_uri():
    """None of this is a matter of the database, so the quick one does."""
    return "mongomock://localhost"


@pytest.fixture
def scene(app, db, world):
    """Return what stores the scene anew, with somebody who may do everything."""
    stored = service(app, Passwords).hash(PASSWORD)

    def store():
        set_scene(db, stored)
        everything = make_role("everything", *(one.value for one in Permission))
        db.roles.insert_one(everything)
        people = [make_user(roles=Role, Name=name, Roles=["everything"]) for name in (SELF, "Peer")]
        db.users.insert_many(
            [with_keys(people[0], **{OWN_KEY: make_key(new_secret(), Name="own")}), people[1]]
        )
        return people

    return store


def door_of(operation):
    """Return the door of the first route of an operation."""
    route = next(iter(operation.routes.values()), None)
    wanted = route and (route.method, shape_of(route.path))
    return next((door for door in DOORS if door.shape == wanted and "self" not in door.route), None)


def form_of(app, operation):
    """Return the door of the form of an operation, if there is one."""
    for rule in app.url_map.iter_rules():
        parts = getattr(inspect.unwrap(app.view_functions[rule.endpoint]), "args", ())
        form = next((part for part in parts if isinstance(part, Form)), None)
        if form and form.operation is operation and not form.name.endswith(("again", "partial")):
            shape = ("POST", shape_of(rule.rule))
            return next(door for door in CONSOLE_DOORS if door.shape == shape)
    return None


def word_of(value):
    return value if isinstance(value, str) else json.dumps(value)


def ways_of(app, operation):
    """Yield the ways to execute an operation, each with what does it for somebody and a peer."""
    door = door_of(operation)
    body = ARGUMENTS.get(operation.name, (door and door.body) or {})
    subject = VALUES.get(door.variables[0], "") if door and door.variables else USER

    def by_api(somebody, _):
        somebody(f"{door.method} {door.path.removeprefix('/api/')}", door.body)

    def by_form(somebody, _):
        browser = Visitor(app)
        browser.user = somebody.user
        browser.begin_session()
        form = form_of(app, operation)
        path = form.path_with({"one": OWN_KEY}).removeprefix("/console")
        answer = browser.post(path, **{**fields_of(form), **FIELDS.get(operation.name, {})})
        assert answer.status_code in (200, 303), page_of(answer)

    def by_row(somebody, _):
        fields = {} if operation.is_undo else {"Player": subject}
        row = {**fields, "Operation": operation.name, **operation.history_arguments(body)}
        batch = somebody("POST v1/batches", {"Rows": [row]}).json["Id"]
        assert somebody(f"POST v1/batches/{batch}/advance").json["Done"] == 1

    def by_command(*_):
        group, *arguments = COMMANDS[operation.name]
        done = app.test_cli_runner().invoke(GROUPS[group], arguments)
        assert done.exit_code == 0, done.output

    def by_run(*_):
        name = next(name for name, one in EXECUTABLE.items() if one is operation)
        given = RUN.get(operation.name, body).items()
        values = [f"{argument}={word_of(value)}" for argument, value in given]
        whom = SELF if operation.name in ("revoke-key", "rotate-key") else subject or "-"
        app.config["PUBLIC_URL"] = app.config["OPENID_ISSUER"] = "https://qm.example.com"
        done = app.test_cli_runner().invoke(run, [name, whom, *values])
        assert done.exit_code == 0, (done.output, done.exception)

    def by_approval(somebody, peer):
        wanted = {"Operation": operation.name, "Subject": subject, "Arguments": body}
        asked = somebody("POST v1/approvals", {**wanted, "Reason": "Asked for."}).json["Id"]
        assert peer(f"POST v1/approvals/{asked}/approve").json["State"] == "done"

    if door:
        yield by_api
    if operation.needs and form_of(app, operation):
        yield by_form
    if operation.batch:
        yield by_row
    if operation.name in COMMANDS:
        yield by_command
    if operation in EXECUTABLE.values():
        yield by_run
    if kinds().get(operation.name):
        yield by_approval


def test_every_operation_has_a_case(app):
    without = {one.name for one in all_operations() if not list(ways_of(app, one))}
    assert without == BY_OTHERS


@pytest.mark.parametrize(
    "operation", [*all_operations()], ids=lambda one: f"{one.name} {one.subject}"
)
def test_every_way_to_execute_an_operation_makes_the_same_change(
    app, client, world, scene, db, operation
):
    made = {}
    for way in ways_of(app, operation):
        people = scene()
        callers = [Caller(client, world.headers(user=one), "/api/", one) for one in people]
        if operation in LIFT.values():
            callers[0](f"POST v1/users/{USER}/admin/{operation.name[2:]}", {"duration": 7})
        if operation is REVOKE_ROLE:
            app.test_cli_runner().invoke(api, ["grant", USER, "api"])
        way(*callers)
        (entry,) = db.history.find({"Operation": operation.name, "_id": {"$ne": ENTRY}}).limit(1)
        roots = sorted({change["Path"].partition(".")[0] for change in entry["Changes"]})
        made[way.__name__] = (entry["Subject"]["Kind"], sorted(entry["Arguments"]), roots)
    assert len({str(facts) for facts in made.values()}) <= 1, made
