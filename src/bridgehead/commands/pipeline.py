"""``bridgehead pipeline``: only the Spark side, for nodes whose pipeline is elsewhere."""

from __future__ import annotations

import asyncio
import logging

from bridgehead.pipeline.elsewhere import Elsewhere, ElsewhereSettings
from bridgehead.reach import accesses
from bridgehead.settings.model import Settings

log = logging.getLogger(__name__)


async def run(settings: Settings, stopped: asyncio.Event) -> None:
    """Until then; StartError if it cannot begin."""
    pipeline = settings.pipeline
    nodes = accesses(pipeline)
    log.info("pipeline for %s on %s", ", ".join(access.address for access in nodes), pipeline.master)
    told = ElsewhereSettings(
        data_dir=settings.data_dir,
        accesses=tuple(nodes),
        master=pipeline.master,
        conf=dict(pipeline.conf),
        max_rows=pipeline.max_rows_per_batch,
        max_bytes=pipeline.max_bytes_per_batch,
        checkpoint=pipeline.checkpoint,
        modules=str(settings.directory),
    )
    await Elsewhere(told).run(stopped)
