"""Rows held back: a sender's own, in order, with the acknowledgements due for them."""

from __future__ import annotations

import numpy as np

from bridgehead.link.heldrows import HeldRows
from bridgehead.session.rows import wire_batch
from bridgehead.session.stream import no_inbound_ids
from bridgehead.wire.encode import encode
from bridgehead.wire.intake import Intake, Rows
from bridgehead.wire.packets import Packet, Publish, Pubrel


def scanned(*packets: Packet, inbound: np.ndarray | None = None) -> tuple[Rows, bytes]:
    intake = Intake()
    data = b"".join(encode(packet, 4) for packet in packets)
    result = intake.scan(data, 0, len(data), 4, 7, no_inbound_ids() if inbound is None else inbound)
    return intake.take(), result.replies


def message(number: int, qos: int = 1) -> Publish:
    return Publish(f"t/{number}", b"p" * number, qos, packet_id=number if qos else 0)


def content(rows: Rows) -> list[tuple[str, bytes]]:
    batch = wire_batch(rows)
    return list(zip(batch.column("topic").to_pylist(), batch.column("payload").to_pylist(), strict=True))


def test_chosen_rows_keep_their_content_and_no_other_bytes() -> None:
    rows, _ = scanned(*(message(number) for number in range(1, 9)))
    chosen = rows.only(np.array([1, 4, 5]))
    assert content(chosen) == [("t/2", b"pp"), ("t/5", b"p" * 5), ("t/6", b"p" * 6)]
    assert len(chosen.arena) < 40
    behind = rows.only(np.array([0, 7]))
    assert content(chosen.joined(behind)) == content(chosen) + content(behind)
    assert content(rows.only(np.array([], np.int64)).joined(chosen)) == content(chosen)


def test_acknowledgements_up_to_the_first_held_row_are_due_now() -> None:
    rows, replies = scanned(message(1), message(2, qos=0), message(3, qos=2), Pubrel(9), message(4), Pubrel(8))
    held = HeldRows(rows.only(np.array([2, 3])), why="w")
    now = held.keep_replies(replies, own=rows.rows, admitted=2)
    assert now == b"\x40\x02\x00\x01"
    assert now + held.replies == replies
    more, replies = scanned(Pubrel(3), message(5))
    held.follow(more)
    assert held.keep_replies(replies, own=more.rows, admitted=0) == b"\x70\x02\x00\x03"
    assert content(held.rows) == [("t/3", b"ppp"), ("t/4", b"pppp"), ("t/5", b"ppppp")]
    assert held.replies.endswith(b"\x70\x02\x00\x08\x40\x02\x00\x05")


def test_a_repeated_qos_2_message_has_an_acknowledgement_and_no_row() -> None:
    inbound = no_inbound_ids()
    inbound[9] = 1
    rows, replies = scanned(message(1), message(9, qos=2), message(3, qos=2), inbound=inbound)
    assert len(rows.rows) == 2
    held = HeldRows(rows.only(np.array([1])), why="w")
    assert held.keep_replies(replies, own=rows.rows, admitted=1) == b"\x40\x02\x00\x01\x50\x02\x00\x09"
    assert held.replies == b"\x50\x02\x00\x03"
