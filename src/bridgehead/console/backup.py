"""POST /api/v1/backup: copy the store, as it is at this moment, to a directory of this machine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from fastapi import APIRouter, HTTPException
from pydantic import BaseModel

from bridgehead.errors import CommandError

TakeBackup = Callable[[Path], Awaitable[dict[str, Any]]]


class Wanted(BaseModel):
    """Where the backup goes: a directory that does not exist yet."""

    destination: Path


def backup_router(take: TakeBackup) -> APIRouter:
    router = APIRouter()

    @router.post("/api/v1/backup")
    async def backup(wanted: Wanted) -> dict[str, Any]:
        if not wanted.destination.is_absolute():
            raise HTTPException(422, "the destination must be an absolute path")
        try:
            return await take(wanted.destination)
        except CommandError as error:
            raise HTTPException(409, str(error)) from error

    return router
