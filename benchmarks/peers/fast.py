"""FastAPI as its best users would write it: pymongo's asynchronous client, orjson, no detours.

Answers are ready bytes, so nothing validates or encodes them again; the token is a dependency, the
body a Pydantic model. Served by uvicorn with uvloop and httptools.
"""

from __future__ import annotations

import unicodedata
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any
from uuid import UUID

from fastapi import Depends, FastAPI, Header, HTTPException, Query, Request, Response
from pydantic import BaseModel, Field
from pymongo import AsyncMongoClient, ReturnDocument

from benchmarks.peers import giving
from benchmarks.peers.shared import (
    CLIENT,
    DATABASE,
    NOT_SERVED,
    PAGE_SIZE,
    SECRET,
    URI,
    encode,
    given,
    inventory,
    page,
    record,
    utc_now,
)
from benchmarks.peers.tokens import is_good


async def require_token(authorization: Annotated[str, Header()] = "") -> None:
    if not is_good(authorization, SECRET):
        raise HTTPException(401)


@asynccontextmanager
async def connected(app: FastAPI) -> AsyncIterator[None]:
    async with AsyncMongoClient(URI, **CLIENT) as client:
        app.state.players = client[DATABASE]["players"]
        yield


app = FastAPI(lifespan=connected, dependencies=[Depends(require_token)])


class Gift(BaseModel):
    itemid: UUID
    quantity: int = Field(ge=1)


def answered(value: Any) -> Response:
    return Response(encode(value), media_type="application/json")


def name_key(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


async def read(request: Request, name: str, fields: dict[str, int]) -> dict[str, Any]:
    found = await request.app.state.players.find_one({"NameKey": name_key(name)}, fields)
    if found is None:
        raise HTTPException(404)
    player: dict[str, Any] = found
    return player


@app.get("/api/v1/players")
async def list_players(
    request: Request,
    number: Annotated[int, Query(alias="page", ge=0)] = 0,
    size: Annotated[int, Query(alias="pageSize", ge=1)] = PAGE_SIZE,
) -> Response:
    players = request.app.state.players
    found = players.find({}, NOT_SERVED, sort=[("NameKey", 1)], skip=number * size, limit=size)
    values = await found.to_list()
    total = await players.estimated_document_count()
    return answered(page(values, total, utc_now(), number, size))


@app.get("/api/v1/players/{name}")
async def get_player(request: Request, name: str) -> Response:
    return answered(record(await read(request, name, NOT_SERVED), utc_now()))


@app.get("/api/v1/players/{name}/items/inventory")
async def get_inventory(request: Request, name: str) -> Response:
    return answered(inventory((await read(request, name, {"Inventory": 1}))["Inventory"]))


@app.post("/api/v1/players/{name}/items/give")
async def give_item(request: Request, name: str, gift: Gift) -> Response:
    item = str(gift.itemid)
    for make in giving.TRIES:
        where, update = make(name_key(name), item, gift.quantity)
        after = await request.app.state.players.find_one_and_update(
            where, update, giving.RETURNED, return_document=ReturnDocument.AFTER
        )
        if after:
            return answered(given(after, item))
    raise HTTPException(409)
