"""The dead letters over HTTP: list, send again, drop."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from fastapi import APIRouter, HTTPException, Query
from pydantic import BaseModel, ConfigDict, Field, model_validator

from bridgehead.errors import RefusedError

if TYPE_CHECKING:
    from bridgehead.storage.deaddesk import DeadLetterDesk


T = TypeVar("T")


class Chosen(BaseModel):
    """Which dead letters: of one route or any, by their ids, or all."""

    model_config = ConfigDict(extra="forbid", strict=True)

    route: str | None = None
    ids: list[Annotated[int, Field(ge=0, lt=2**63)]] | None = None
    all: bool = False

    @model_validator(mode="after")
    def one_of_both(self) -> Chosen:
        if self.all == (self.ids is not None):
            raise ValueError("say either ids or all")
        return self


def router(desk: DeadLetterDesk) -> APIRouter:
    api = APIRouter(prefix="/api/v1/deadletters")

    @api.get("")
    async def listed(route: str | None = None, limit: Annotated[int, Query(ge=1, le=100_000)] = 1000) -> dict[str, Any]:
        return _or_refused(lambda: desk.listed(route, limit))

    @api.post("/resend")
    async def resend(chosen: Chosen) -> dict[str, int]:
        return {"resent": _or_refused(lambda: desk.resend(chosen.route, chosen.ids))}

    @api.post("/drop")
    async def drop(chosen: Chosen) -> dict[str, int]:
        return {"dropped": _or_refused(lambda: desk.drop(chosen.route, chosen.ids))}

    return api


def _or_refused(do: Callable[[], T]) -> T:
    try:
        return do()
    except RefusedError as error:
        raise HTTPException(409, str(error)) from error
