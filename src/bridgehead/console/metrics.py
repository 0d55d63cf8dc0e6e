"""Metrics over HTTP: all of them for Prometheus; some one by one, under the names of HiveMQ Edge."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, HTTPException, Response
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from bridgehead.clock import now_us, utc_text
from bridgehead.telemetry.hivemqnames import hivemq_values
from bridgehead.telemetry.metrics import NodeCollector

if TYPE_CHECKING:
    from bridgehead.telemetry.snapshot import NodeView


def metrics_router(view: NodeView) -> APIRouter:
    router = APIRouter()
    collector = NodeCollector(view)

    @router.get("/metrics")
    async def metrics() -> Response:
        text = bytearray()
        for part in collector.text():
            text += part
            await asyncio.sleep(0)  # messages go on in between
        return Response(bytes(text), media_type=CONTENT_TYPE_PLAIN_0_0_4)

    @router.get("/api/v1/metrics")
    async def names() -> dict[str, Any]:
        return {"items": [{"name": name} for name in sorted(hivemq_values(view))]}

    @router.get("/api/v1/metrics/{name}/latest")
    async def latest(name: str) -> dict[str, Any]:
        values = hivemq_values(view)
        if name not in values:
            raise HTTPException(404, f"no metric has the name {name}")
        return {"sampleTime": utc_text(now_us()), "value": values[name]}

    return router
