"""Clients that generators make of the OpenAPI document: they compile, sign in, and give an item."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from app.http.examples import ITEM, PLAYER
from app.http.fields import DEMO_PASSWORD_HASH as PASSWORD
from tests.openapi_document import OPERATIONS

PYTHON = f"""
import importlib, pkgutil, sys

import made
from made import AuthenticatedClient, Client
from made.api.credentials import create_token
from made.api.players import give_item
from made.models import Failure, Given, GiveItemArgs, Token, TokenArgs, TokenArgsGrantType

for module in pkgutil.walk_packages(made.__path__, "made."):
    importlib.import_module(module.name)

base = sys.argv[1]
signed_in = TokenArgs(TokenArgsGrantType.PASSWORD, username="demo", password="{PASSWORD}")
token = create_token.sync(client=Client(base), body=signed_in)
assert isinstance(token, Token), token
client = AuthenticatedClient(base, token.access_token)
gift = GiveItemArgs("{ITEM}", quantity=3)
given = give_item.sync("{PLAYER}", client=client, body=gift, idempotency_key="python")
again = give_item.sync("{PLAYER}", client=client, body=gift, idempotency_key="python")
assert isinstance(given, Given) and again == given, again
refused = give_item.sync("Nobody", client=client, body=gift)
assert isinstance(refused, Failure), refused
print(given.quantity.total, refused.message)
"""
TYPESCRIPT = f"""
import {{ createToken, giveItem, type Failure, type Given }} from "./made";
import {{ client }} from "./made/client.gen";

declare const process: {{ argv: string[] }};

async function main() {{
  client.setConfig({{ baseUrl: process.argv[2] }});
  const signedIn = {{ grant_type: "password", username: "demo", password: "{PASSWORD}" }} as const;
  const token = await createToken({{ body: signedIn, throwOnError: true }});
  client.setConfig({{ auth: token.data.access_token }});
  const body = {{ itemid: "{ITEM}", quantity: 3 }};
  const headers = {{ "Idempotency-Key": "typescript" }};
  const path = {{ lookupKey: "{PLAYER}" }};
  const given = await giveItem({{ path, body, headers, throwOnError: true }});
  const again = await giveItem({{ path, body, headers, throwOnError: true }});
  const total: number = (given.data satisfies Given).quantity.total;
  if (again.data.quantity.total !== total) throw new Error("given twice");
  const refused = await giveItem({{ path: {{ lookupKey: "Nobody" }}, body }});
  console.log(total, (refused.error as Failure).Message);
}}

main();
"""
OPENAPI_TS, TSC, NODE = (shutil.which(name) for name in ("openapi-ts", "tsc", "node"))
BESIDE_PYTHON = str(Path(sys.executable).parent)
# How many of the item the player has now, and why nobody else has any.
SAID = r"[1-9]\d* No player with name 'Nobody'\.\n"


def run(*command, folder):
    """Run a program in a folder, and return what it said."""
    # The generator for Python calls ruff, which is installed beside it.
    environment = {**os.environ, "PATH": os.pathsep.join([BESIDE_PYTHON, os.environ["PATH"]])}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def snake_case(name):
    return re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", name)


def test_a_client_in_python_signs_in_and_gives(demo, tmp_path):
    made = tmp_path / "made"
    document = f"{demo.base}/api/openapi.json"
    generate = ("openapi-python-client", "generate", "--url", document, "--output-path", made)
    run(*generate, "--meta", "none", "--fail-on-warning", folder=tmp_path)
    modules = {path.stem for path in (made / "api").glob("*/*.py")} - {"__init__"}
    assert modules == {snake_case(name) for name in OPERATIONS}
    said = run(sys.executable, "-W", "error", "-c", PYTHON, demo.base, folder=tmp_path)
    assert re.fullmatch(SAID, said)


@pytest.mark.skipif(
    not (OPENAPI_TS and TSC and NODE),
    reason="openapi-ts or TypeScript is not installed: "
    "npm install --global @hey-api/openapi-ts@0.85 typescript@5",
)
def test_a_client_in_typescript_compiles_signs_in_and_gives(demo, tmp_path):
    made, program = tmp_path / "made", tmp_path / "program.ts"
    run(OPENAPI_TS, "--input", f"{demo.base}/api/openapi.json", "--output", made, folder=tmp_path)
    functions = re.findall(r"^export const (\w+) = <", (made / "sdk.gen.ts").read_text(), re.M)
    assert sorted(functions) == sorted(OPERATIONS)
    program.write_text(TYPESCRIPT)
    language = ("--strict", "--target", "es2022", "--lib", "es2022,dom,dom.iterable")
    run(TSC, *language, "--module", "nodenext", "--skipLibCheck", program, folder=tmp_path)
    said = run(NODE, program.with_suffix(".js"), demo.base, folder=tmp_path)
    assert re.fullmatch(SAID, said)
