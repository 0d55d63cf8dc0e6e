"""Who may be the driver of a node whose pipeline is elsewhere, and for how long."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from bridgehead.errors import RefusedError, StaleEpochError
from bridgehead.pipeline.client import NodeClient
from bridgehead.pipeline.entrance import Entrance
from bridgehead.pipeline.jobconfig import NodeJob, QueryConfig, TransformRule
from bridgehead.pipeline.lease import LeaseDesk
from bridgehead.pipeline.protocol import Action
from bridgehead.pipeline.tenant import RENEWALS, Granted, Tenant
from bridgehead.pipeline.watch import State
from bridgehead.storage.journal import SHARED
from spark.host import Host, stored_rows

PATIENCE = 30.0
SHORT = 1.0


class Leased:
    """A node whose pipeline is elsewhere."""

    def __init__(self, directory: Path, seconds: float = 60.0, entrance: Entrance | None = None) -> None:
        self.host = Host(directory, entrance=entrance or Entrance(token="t"))
        self.job = NodeJob("plant", (QueryConfig(SHARED, self.host.rules),), 1000, 1 << 20)
        self.desk = LeaseDesk(self.host.gate, self.host.service, self.job, seconds)
        self.desk.start()
        self.states: asyncio.Queue[State] = asyncio.Queue()
        self.desk.on_change = self.states.put_nowait
        self.asked: asyncio.Queue[str] = asyncio.Queue()  # who has asked for the lease
        take = self.host.service.actions[Action.LEASE]

        async def noted(told: dict[str, Any]) -> dict[str, Any]:
            self.asked.put_nowait(told["holder"])
            return await take(told)

        self.host.service.actions[Action.LEASE] = noted

    def client(self, epoch: int = 0) -> NodeClient:
        return NodeClient(self.host.service.access, epoch)

    async def take(self, holder: str, epoch: int | None = None) -> dict[str, object]:
        client = self.client()
        try:
            return await asyncio.to_thread(client.lease, holder, epoch)
        finally:
            client.close()

    async def comes_to(self, phase: str) -> State:
        async with asyncio.timeout(PATIENCE):
            while (state := await self.states.get()).phase != phase:
                continue
        return state


@pytest_asyncio.fixture
async def leased(tmp_path: Path) -> AsyncIterator[Leased]:
    leased = Leased(tmp_path)
    yield leased
    await leased.desk.stop(patience=0.0)
    await leased.host.service.stop()


@pytest_asyncio.fixture
async def brief(tmp_path: Path) -> AsyncIterator[Leased]:
    """With leases that end soon."""
    leased = Leased(tmp_path, SHORT)
    yield leased
    await leased.desk.stop(patience=0.0)
    await leased.host.service.stop()


async def test_the_holder_gets_an_epoch_and_the_job_of_the_node_and_keeps_both(leased: Leased) -> None:
    first = await leased.take("one")
    again = await leased.take("one", first["epoch"])  # type: ignore[arg-type]
    assert again["epoch"] == first["epoch"] == leased.host.gate.epoch
    assert NodeJob.from_json(first["job"]) == leased.job  # type: ignore[arg-type]
    assert leased.desk.holder == "one"
    assert leased.desk.starts == 1


async def test_a_holder_with_a_new_driver_gets_a_new_epoch(leased: Leased) -> None:
    first = await leased.take("one")
    assert (await leased.take("one", None))["epoch"] != first["epoch"]


async def test_a_second_pipeline_is_refused_with_the_name_of_the_first(leased: Leased) -> None:
    epoch = (await leased.take("one"))["epoch"]
    with pytest.raises(RefusedError, match="one holds the lease of node plant"):
        await leased.take("two")
    with pytest.raises(RefusedError, match="one holds the lease"):
        await leased.take("two", epoch)  # type: ignore[arg-type]
    assert leased.host.gate.epoch == epoch


async def test_a_holder_that_is_silent_loses_the_lease_and_whatever_it_says_then_is_refused(brief: Leased) -> None:
    epoch = (await brief.take("one"))["epoch"]
    orphan = brief.client(epoch)  # type: ignore[arg-type]
    assert "one has been silent" in (await brief.comes_to("waiting")).reason
    with pytest.raises(StaleEpochError):
        await asyncio.to_thread(orphan.begin, SHARED)
    orphan.close()
    assert (await brief.take("two"))["epoch"] != epoch
    assert brief.desk.starts == 2


async def test_a_lease_that_is_given_up_can_be_taken_at_once(leased: Leased) -> None:
    epoch = (await leased.take("one"))["epoch"]
    client = leased.client(epoch)  # type: ignore[arg-type]
    await asyncio.to_thread(client.give_up, "two", epoch, 0.0)  # not theirs to give
    assert leased.desk.holder == "one"
    await asyncio.to_thread(client.give_up, "one", epoch, 5.0)
    assert leased.desk.holder is None
    with pytest.raises(StaleEpochError):
        await asyncio.to_thread(client.begin, SHARED)
    client.close()
    await leased.take("two")


async def test_a_node_is_ready_when_the_query_of_the_holder_asks_for_rows(leased: Leased) -> None:
    assert leased.desk.state == State("waiting", "no pipeline holds the lease of this node")
    client = leased.client((await leased.take("one"))["epoch"])  # type: ignore[arg-type]
    assert leased.desk.state.phase == "starting"
    assert not leased.desk.ready
    leased.host.append(stored_rows([b"x"], ["t"], ["route"]))
    await asyncio.to_thread(client.latest, SHARED, 0, 10, 1000, 0.0)
    assert leased.desk.ready
    client.close()


async def test_giving_up_waits_until_no_batch_runs(leased: Leased) -> None:
    epoch = (await leased.take("one"))["epoch"]
    driver = leased.client(epoch)  # type: ignore[arg-type]
    leased.host.append(stored_rows([b"x"], ["t"], ["route"]))
    end = await asyncio.to_thread(driver.latest, SHARED, 0, 10, 1000, 0.0)
    giving_up = asyncio.create_task(asyncio.to_thread(leased.client().give_up, "one", epoch, 7.0))  # type: ignore[arg-type]
    # The running batch may still commit, then its query asks for the next one and gets none.
    await asyncio.to_thread(driver.plan, SHARED, 0, end)
    assert await asyncio.to_thread(driver.latest, SHARED, end, 10, 1000, 5.0) == end
    await giving_up
    assert leased.desk.holder is None
    driver.close()


async def test_a_node_that_runs_its_own_pipeline_gives_no_lease(tmp_path: Path) -> None:
    host = Host(tmp_path)
    client = NodeClient(host.service.access, 0)
    with pytest.raises(RefusedError, match="node plant gives no lease: it runs its own pipeline"):
        await asyncio.to_thread(client.lease, "one", None)
    client.close()
    await host.close()


def test_sql_in_a_file_of_the_node_is_told_as_text(tmp_path: Path) -> None:
    (tmp_path / "t.sql").write_text("SELECT 1")
    rule = TransformRule(sql_file=str(tmp_path / "t.sql"), output_mode="update")
    told = NodeJob("plant", (QueryConfig("r", (), rule),), 1, 1).to_json()
    assert NodeJob.from_json(told).queries[0].transform == TransformRule(sql="SELECT 1", output_mode="update")


# The other side


async def granted(grants: asyncio.Queue[Granted]) -> Granted:
    async with asyncio.timeout(PATIENCE):
        return await grants.get()


async def test_a_tenant_renews_its_lease_before_it_ends(brief: Leased) -> None:
    grants: asyncio.Queue[Granted] = asyncio.Queue()
    tenant = Tenant(brief.host.service.access, "one", grants.put_nowait)
    running = asyncio.create_task(tenant.run())
    first = await granted(grants)
    assert first.job == brief.job
    async with asyncio.timeout(PATIENCE):
        for _ in range(2 * RENEWALS):
            await brief.asked.get()
    assert brief.desk.holder == "one"
    assert grants.empty()
    await tenant.finish(0.0)
    await running
    assert brief.desk.holder is None


async def test_a_tenant_whose_node_is_restarted_gets_a_new_lease(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridgehead.pipeline.tenant.RETRY", 0.02)
    leased = Leased(tmp_path, SHORT)
    grants: asyncio.Queue[Granted] = asyncio.Queue()
    tenant = Tenant(leased.host.service.access, "one", grants.put_nowait)
    running = asyncio.create_task(tenant.run())
    first = await granted(grants)
    await leased.desk.stop()
    await leased.host.service.stop()
    port = int(first.access.address.rpartition(":")[2])
    again = Leased(tmp_path, SHORT, Entrance(port=port, token="t"))
    again.host.gate.epoch = first.epoch + 1000  # of another life
    assert (await granted(grants)).epoch > first.epoch + 1000
    await tenant.finish(0.0)
    await running
    await again.desk.stop()
    await again.host.service.stop()


async def test_two_tenants_take_turns(leased: Leased, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridgehead.pipeline.tenant.RETRY", 0.02)
    grants: asyncio.Queue[tuple[str, Granted]] = asyncio.Queue()
    access = dataclasses.replace(leased.host.service.access)
    tenants = {name: Tenant(access, name, lambda each, name=name: grants.put_nowait((name, each))) for name in ("one", "two")}
    running = [asyncio.create_task(tenant.run()) for tenant in tenants.values()]
    async with asyncio.timeout(PATIENCE):
        first, _ = await grants.get()
        await tenants[first].finish(0.0)
        second, _ = await grants.get()
    assert {first, second} == {"one", "two"}
    await tenants[second].finish(0.0)
    await asyncio.gather(*running)


async def test_a_holder_gets_the_next_job_with_a_new_epoch_when_the_routes_have_changed(leased: Leased) -> None:
    first = await leased.take("one")
    await leased.desk.pause(patience=0.0)
    with pytest.raises(RefusedError, match="changes its routes"):
        await leased.take("one", first["epoch"])  # type: ignore[arg-type]
    leased.desk.go_on((QueryConfig("own", leased.host.rules),))
    second = await leased.take("one", first["epoch"])  # type: ignore[arg-type]
    assert second["epoch"] != first["epoch"]
    assert [query.log for query in NodeJob.from_json(second["job"]).queries] == ["own"]  # type: ignore[arg-type]
    assert list(leased.desk.queries) == ["own"]
    old = leased.client(first["epoch"])  # type: ignore[arg-type]
    with pytest.raises(StaleEpochError):
        await asyncio.to_thread(old.begin, SHARED)
    old.close()
