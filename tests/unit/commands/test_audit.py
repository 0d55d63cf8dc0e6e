"""``bridgehead audit`` of a running node and of what a stopped one has left: whatever was tampered with does not add up."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from rocksdict import Options, Rdict

from bridgehead.app import Node
from bridgehead.commands.audit import account_of_store, audit, text_of
from bridgehead.errors import CommandError, StartError, StorageError
from bridgehead.settings.model import Settings
from bridgehead.storage.engine import Changes
from bridgehead.storage.keys import Kind
from bridgehead.storage.ledger import LEDGER, Tally
from bridgehead.storage.lock import StoreLock
from bridgehead.storage.meta import FORMAT_KEY
from bridgehead.storage.rocks import RocksEngine
from bridgehead.telemetry.audit import account, faults_of
from bridgehead.wire.packets import Puback
from making.damage import cut
from making.node import inline_node
from making.remote import Remote
from making.rows import numbered, wire_rows
from making.span import until

FILE_NATIVE = {"persistence": {"mode": "file-native"}}


async def worked(node: Node, remote: Remote) -> str:
    """Eight messages came, one of QoS 0, two of an excluded topic; two of the rest are delivered. The push route's id."""
    await node.start()
    visit = await remote.accept(receive_maximum=2)
    await visit.granted()
    others = [{"topic": "out/no/x"}, {"topic": "out/no/x"}, {"topic": "out/a", "qos": 0}]
    node.broker.publish(wire_rows(*numbered(0, 5, topic="out/a"), *others), "machine")
    push = next(name for name, route in node.view().snapshot()["routes"].items() if route["direction"] == "push")
    for publish in await visit.publishes(2):
        visit.send(Puback(publish.packet_id))
    await until(lambda: node.view().snapshot()["routes"][push]["delivered"] == 2)
    return push


@pytest.fixture
async def left(remote: Remote, tmp_path: Path) -> tuple[Settings, str]:
    """What a node has left, and its push route."""
    node = inline_node(tmp_path, remote.port, **FILE_NATIVE)
    push = await worked(node, remote)
    await remote.stop()  # else the node waits for acknowledgements before it stops
    await node.stop()
    return node.settings, push


def store_of(settings: Settings) -> Path:
    return Path(settings.data_dir) / "store"


def files_of(settings: Settings) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in Path(settings.data_dir).rglob("*") if path.is_file()}


@pytest.mark.parametrize("given", [{}, FILE_NATIVE], ids=["in-memory", "file-native"])
async def test_a_running_node_gives_both_sums_of_every_route(remote: Remote, tmp_path: Path, given: dict[str, Any]) -> None:
    node = inline_node(tmp_path, remote.port, **given)
    push = await worked(node, remote)
    console = node.settings.console.model_copy(update={"port": node.console_port})
    found = await asyncio.to_thread(audit, node.settings.model_copy(update={"console": console}))
    await remote.stop()
    await node.stop()
    assert (found["source"], found["addsUp"], found["faults"]) == ("node", True, [])
    assert found["routes"][push] == {
        "received": 8,
        "consumed": 6,
        "droppedBefore": {"excluded": 2},
        "waiting": 0,
        "entered": 6,
        "delivered": 2,
        "dropped": {},
        "deadLettered": {},
        "depth": 4,
        "transformed": {},
        "removed": False,
    }
    assert f"{push}\n  journal  received 8 = consumed 6 + dropped excluded 2 + waiting 0" in text_of(found)
    assert text_of(found).endswith("everything adds up")


async def test_a_stopped_node_is_counted_row_by_row(left: tuple[Settings, str]) -> None:
    settings, push = left
    found = account_of_store(settings, "not running")
    assert (found["source"], found["addsUp"], found["faults"]) == ("store", True, [])
    numbers = found["routes"][push]
    assert (numbers["received"], numbers["consumed"], numbers["waiting"]) == (5, 5, 0)
    assert (numbers["entered"], numbers["delivered"], numbers["depth"]) == (5, 2, 3)
    assert "  outbox   entered 5 = delivered 2 + waiting 3" in text_of(found)


async def test_counting_changes_nothing(left: tuple[Settings, str]) -> None:
    settings, _ = left
    before = account_of_store(settings, "")
    assert account_of_store(settings, "") == before


async def test_counting_leaves_every_file_as_it_is_and_makes_none(left: tuple[Settings, str]) -> None:
    settings, _ = left
    store_of(settings).with_name("store.lock").unlink()  # as in a copy of the store alone
    before = files_of(settings)
    assert account_of_store(settings, "")["addsUp"]
    assert files_of(settings) == before


async def test_a_store_in_use_by_a_node_that_does_not_answer_is_refused(left: tuple[Settings, str]) -> None:
    settings, _ = left
    engine = RocksEngine(store_of(settings))
    with pytest.raises(StartError, match=r"is in use by another node$"):
        account_of_store(settings, "no node answers")
    engine.close()
    assert account_of_store(settings, "no node answers")["addsUp"]


async def test_while_one_counts_others_may_count_too_and_no_node_starts(left: tuple[Settings, str]) -> None:
    settings, _ = left
    counting = StoreLock(store_of(settings), shared=True)
    assert account_of_store(settings, "")["addsUp"]
    with pytest.raises(StartError, match=r"is in use by another node$"):
        RocksEngine(store_of(settings))
    counting.release()
    RocksEngine(store_of(settings)).close()


@pytest.mark.parametrize("version", [b"5", b"7", b"99", b"xyz", b"", None])
async def test_what_a_start_refuses_for_its_format_an_audit_refuses_with_the_same_words(
    left: tuple[Settings, str], version: bytes | None
) -> None:
    settings, _ = left
    store = Rdict(str(store_of(settings)), Options(raw_mode=True))
    if version is None:
        del store[FORMAT_KEY]
    else:
        store[FORMAT_KEY] = version
    store.close()
    with pytest.raises(StartError, match=r"has the format|holds data of something else") as audited:
        account_of_store(settings, "no node answers")
    with pytest.raises(StartError) as started:
        RocksEngine(store_of(settings))
    assert str(audited.value) == str(started.value)


async def test_a_store_that_cannot_be_read_is_told_as_that_in_one_line(left: tuple[Settings, str]) -> None:
    settings, _ = left
    cut(next(store_of(settings).glob("*.sst")), 100)
    with pytest.raises(StorageError, match=r"/store cannot be read: Corruption: .* may be corrupted\.$") as told:
        account_of_store(settings, "no node answers")
    assert "\n" not in str(told.value)


async def test_a_store_that_has_lost_its_first_file_is_not_taken_for_none(left: tuple[Settings, str]) -> None:
    settings, _ = left
    (store_of(settings) / "CURRENT").unlink()
    with pytest.raises(StorageError, match=r"/store cannot be read: .*/CURRENT: No such file or directory$"):
        account_of_store(settings, "no node answers")


@pytest.mark.parametrize("number", ["received", "consumed", "entered", "delivered"])
async def test_a_counter_that_was_tampered_with_does_not_add_up(left: tuple[Settings, str], number: str) -> None:
    settings, push = left
    engine = RocksEngine(store_of(settings))
    tally = Tally.unpack(engine.state((LEDGER, push)))
    setattr(tally, number, getattr(tally, number) + 1)
    engine.write(Changes(state={(LEDGER, push): tally.pack(tally.pack_reasons())}))
    engine.close()
    found = account_of_store(settings, "")
    assert not found["addsUp"]
    assert f"does not add up: {push}: " in text_of(found)


async def test_a_ledger_that_was_taken_away_does_not_add_up(left: tuple[Settings, str]) -> None:
    settings, push = left
    engine = RocksEngine(store_of(settings))
    engine.write(Changes(state={(LEDGER, push): None}))
    engine.close()
    assert account_of_store(settings, "")["faults"] == [f"{push}: entered 0, but delivered 0 + waiting 3 = 3"]


async def test_a_batch_that_was_taken_away_does_not_add_up(left: tuple[Settings, str]) -> None:
    settings, push = left
    engine = RocksEngine(store_of(settings))
    engine.write(Changes(drops=[(("outbox", push), number) for number in engine.numbers(("outbox", push))]))
    engine.close()
    assert account_of_store(settings, "")["faults"] == [f"{push}: entered 5, but delivered 2 + waiting 0 = 2"]


def spoil(settings: Settings, push: str) -> None:
    """Other bytes in every batch of the push route's outbox."""
    store = Rdict(str(store_of(settings)), Options(raw_mode=True))
    for key in list(store.keys()):
        if key.startswith(Kind.BATCH.value) and push.encode() in key:
            store[key] = store[key][:-1] + b"\xff"
    store.close()


async def test_a_node_that_starts_on_damage_counts_what_is_lost(
    left: tuple[Settings, str], remote: Remote, tmp_path: Path
) -> None:
    settings, push = left
    spoil(settings, push)
    node = inline_node(tmp_path, remote.port, **FILE_NATIVE)
    await node.start()
    found = account(node.view())
    await node.stop()
    assert found["faults"] == []
    numbers = found["routes"][push]
    assert (numbers["entered"], numbers["delivered"], numbers["dropped"], numbers["depth"]) == (5, 2, {"damaged": 3}, 0)
    after = account_of_store(settings, "")
    assert after["faults"] == []
    assert after["routes"][push] == numbers


async def test_a_batch_that_was_changed_is_damage(left: tuple[Settings, str]) -> None:
    settings, push = left
    spoil(settings, push)
    faults = account_of_store(settings, "")["faults"]
    assert "damaged" in faults[0]
    assert faults[1:] == [f"{push}: entered 5, but delivered 2 + waiting 0 = 2"]


async def test_messages_of_a_route_that_was_removed_are_audited_too(left: tuple[Settings, str]) -> None:
    settings, push = left
    bridge = settings.bridges[0].model_copy(update={"local_subscriptions": ()})
    found = account_of_store(settings.model_copy(update={"bridges": (bridge,)}), "")
    assert found["addsUp"]
    assert (found["routes"][push]["removed"], found["routes"][push]["depth"]) == (True, 3)
    assert f"{push} (not in the file any more)" in text_of(found)


def test_where_nothing_is_left_there_is_nothing_to_audit(tmp_path: Path) -> None:
    in_memory = inline_node(tmp_path, 1)
    with pytest.raises(CommandError, match="in-memory leaves nothing behind: there is nothing to audit"):
        account_of_store(in_memory.settings, "no node answers")
    never_ran = inline_node(tmp_path, 1).settings.model_copy(update={"data_dir": str(tmp_path / "none")})
    persistence = never_ran.persistence.model_copy(update={"mode": "file-native"})
    with pytest.raises(CommandError, match="there is no store"):
        account_of_store(never_ran.model_copy(update={"persistence": persistence}), "no node answers")


def test_every_sum_is_checked() -> None:
    good = {
        "received": 6, "consumed": 3, "droppedBefore": {"loop": 1}, "waiting": 2,
        "entered": 3, "delivered": 1, "dropped": {"expired": 1}, "deadLettered": {"refused": 1}, "depth": 0,
        "transformed": {"in": 2, "out": 2},
    }  # fmt: skip
    assert faults_of({"routes": {"r": good}, "journal": {"shared": 2}}) == []
    for name in ("received", "consumed", "waiting", "entered", "delivered", "depth"):
        wrong = {**good, name: int(str(good[name])) + 1}
        assert faults_of({"routes": {"r": wrong}, "journal": {"shared": 2}}), name
    for name in ("droppedBefore", "dropped", "deadLettered"):
        assert faults_of({"routes": {"r": {**good, name: {}}}, "journal": {"shared": 2}}), name
    assert faults_of({"routes": {"r": {**good, "transformed": {"in": 2}}}, "journal": {"shared": 2}})
    assert faults_of({"routes": {"r": good}, "journal": {"shared": 3}}) == ["journal: 3 messages wait, but 2 by route"]


async def test_an_account_is_of_one_moment(remote: Remote, tmp_path: Path) -> None:
    node = inline_node(tmp_path, remote.port)
    await node.start()
    visit = await remote.accept()
    await visit.granted()
    for _ in range(20):
        node.broker.publish(wire_rows(*numbered(0, 50, topic="out/a")), "machine")
        assert account(node.view())["addsUp"]
        await asyncio.sleep(0)
        assert account(node.view())["addsUp"]
    await remote.stop()
    await node.stop()
