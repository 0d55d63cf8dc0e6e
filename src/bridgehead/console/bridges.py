"""The bridges over HTTP: list, add, change, remove, start, stop, restart. Paths and bodies are those of HiveMQ Edge."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from fastapi import APIRouter, Body, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException

from bridgehead.errors import ConflictError, NotThereError, RefusedError, SettingsError, StartError

if TYPE_CHECKING:
    from bridgehead.node.management import Management

PENDING_FOR: Final = 2000
"""Milliseconds after which a client may look whether what it asked for has come to be: here it has, before the answer."""

Document = Annotated[dict[str, Any], Body()]
Purge = Annotated[bool, Query()]


class Command(BaseModel):
    """What a bridge is to do."""

    model_config = ConfigDict(extra="forbid")

    command: Literal["START", "STOP", "RESTART"]


class _WithProblems(APIRoute):
    """What cannot be done is a problem document."""

    def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]
        handle = super().get_route_handler()

        async def handler(request: Request) -> Response:
            try:
                return await handle(request)
            except NotThereError as error:
                return problem(404, "BridgeNotFound", "Bridge not found", str(error))
            except ConflictError as error:
                return problem(400, "BridgeFailedSchemaValidation", "The bridge exists", str(error), [("id", str(error))])
            except RequestValidationError as error:
                faults = [(".".join(map(str, each["loc"])), str(each["msg"])) for each in error.errors()]
                return problem(400, "InvalidQueryParameter", "The request cannot be understood", "see errors", faults)
            except (HTTPException, RecursionError):  # what is no text, and what is nested without end
                faults = [("body", "is not JSON that can be read, or nested too deeply")]
                return problem(400, "InvalidQueryParameter", "The request cannot be understood", "see errors", faults)
            except (RefusedError, StartError, OSError) as error:
                return problem(409, "ChangeRefused", "Nothing was changed", str(error))
            except SettingsError as error:
                kind = "InvalidQueryParameter" if request.method == "PUT" else "BridgeFailedSchemaValidation"
                return problem(400, kind, "The bridge cannot be used", str(error), error.faults)

        return handler


def problem(status: int, kind: str, title: str, detail: str, faults: list[tuple[str, str]] | None = None) -> JSONResponse:
    """``faults``: places and what is wrong there. Values never appear: they may be secrets."""
    errors = [{"parameter": path, "detail": text} for path, text in faults or []]
    body = {"type": kind, "title": title, "detail": detail, "status": status, "code": kind, "errors": errors}
    return JSONResponse(body, status_code=status, media_type="application/problem+json")


def bridges_router(management: Management) -> APIRouter:
    api = APIRouter(prefix="/api/v1/management", route_class=_WithProblems)

    @api.get("/bridges")
    async def listed() -> dict[str, Any]:
        return {"items": management.listed()}

    @api.post("/bridges")
    async def add(document: Document, purge: Purge = False) -> Response:
        await management.add(document, purge=purge)
        return Response()

    @api.get("/bridges/status")
    async def statuses() -> dict[str, Any]:
        return {"items": management.statuses()}

    @api.get("/bridges/{bridge}")
    async def shown(bridge: str) -> dict[str, Any]:
        return management.shown(bridge)

    @api.put("/bridges/{bridge}")
    async def replace(bridge: str, document: Document, purge: Purge = False) -> Response:
        await management.replace(bridge, document, purge=purge)
        return Response()

    @api.delete("/bridges/{bridge}")
    async def remove(bridge: str, purge: Purge = False) -> Response:
        await management.remove(bridge, purge=purge)
        return Response()

    @api.get("/bridges/{bridge}/connection-status")
    async def status(bridge: str) -> dict[str, Any]:
        return management.status(bridge)

    @api.put("/bridges/{bridge}/status")
    async def tell(bridge: str, told: Command) -> dict[str, Any]:
        does = {"START": management.start, "STOP": management.stop, "RESTART": management.restart}
        await does[told.command](bridge)
        return {"status": "PENDING", "type": "bridge", "identifier": bridge, "callbackTimeoutMillis": PENDING_FOR}

    @api.post("/reload", response_model=None)
    async def reload() -> dict[str, Any] | Response:
        try:
            found = await management.reload()
        except SettingsError as error:
            return problem(400, "ConfigurationInvalid", "The file cannot be followed", str(error), error.faults)
        bridges = found.bridges
        return {
            "added": bridges.added,
            "changed": bridges.changed,
            "removed": bridges.removed,
            "kept": bridges.kept,
            "atNextStart": found.at_next_start,
        }

    return api
