"""The guard at the door. Whom it lets in where is tried in test_doors."""

import pytest
from flask import Flask

from app.auth import guard
from app.auth.callers import Callers
from app.core.permissions import Role
from app.database import COLLECTIONS
from app.http.api import Blueprint, UnguardedView
from app.storage.client import Storage
from tests.applications import replace_service, service


def test_a_blueprint_refuses_a_view_without_a_role():
    blp = Blueprint("Things", __name__)
    with pytest.raises(UnguardedView, match="/things"):
        blp.route("/things")(lambda: "open")


def test_an_application_with_an_unguarded_view_does_not_start():
    app = Flask("leaky")
    app.add_url_rule("/leak", "leak", lambda: "open")
    with pytest.raises(UnguardedView, match="no role decorator"):
        guard.check_every_view(app)


def test_a_view_without_a_permission_does_not_start():
    with pytest.raises(UnguardedView, match="needs a permission"):
        guard.required("users.read")


@pytest.mark.parametrize("seconds", [0.0, 5.0])
def test_a_change_of_roles_counts_within_the_cache_time(app, client, world, seconds):
    now = 100.0
    shapes = {plan.name: plan.shape for plan in COLLECTIONS}
    replace_service(app, Callers(service(app, Storage), shapes, seconds, lambda: now))
    user = world.add_user(roles=(Role.API,))
    headers = world.headers(user=user)

    def status():
        return client.get("/api/v1/players", headers=headers).status_code

    assert status() == 200
    world.db.users.update_one({"_id": user["_id"]}, {"$set": {"Power.Api": False}})
    assert status() == (200 if seconds else 403)
    now += seconds
    assert status() == 403
    world.db.refresh_tokens.delete_many({})
    now += seconds
    assert status() == 401
