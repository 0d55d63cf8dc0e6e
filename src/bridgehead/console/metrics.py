"""GET /metrics, for Prometheus."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter, Response
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from bridgehead.telemetry.metrics import NodeCollector

if TYPE_CHECKING:
    from bridgehead.telemetry.snapshot import NodeView


def metrics_router(view: NodeView) -> APIRouter:
    router = APIRouter()
    collector = NodeCollector(view)

    @router.get("/metrics")
    async def metrics() -> Response:
        return Response(collector.text(), media_type=CONTENT_TYPE_PLAIN_0_0_4)

    return router
