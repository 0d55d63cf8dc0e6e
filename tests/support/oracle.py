"""The oracle: it hands out messages, takes down what was promised and what came, and judges after the calm.

An acknowledgement makes delivery an obligation. Judged for each topic: every obligation met; nothing that was never handed out;
every payload as it was; in order, by the first time that each came; doubles only at QoS 1, and no more of them than
packets that were seen to be sent again; at QoS 2 none, but for those that the caller has seen somebody else send as new. One
exception to order: of QoS 2, as many may come late as packets of their handshakes vanished from connections that went on,
which no network does.
"""

from __future__ import annotations

import threading
import zlib
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

MIXED_SIZES = (0, 10, 100, 300, 3000)


@dataclass
class Topic:
    """What the oracle knows of one topic; messages are numbered from 0."""

    name: str
    qos: int
    handed_out: int = 0
    acknowledged: set[int] = field(default_factory=set)

    def payload(self, number: int) -> bytes:
        """The same for the same number: whoever has it changed is found out."""
        head = b"%d|" % number
        filler = b"%08x" % zlib.crc32(b"%s|%d" % (self.name.encode(), number))
        size = MIXED_SIZES[number % len(MIXED_SIZES)]
        return head + filler + b"." * size


@dataclass(frozen=True)
class Tally:
    """Messages handed out, acknowledged ones that did not come, and times that one came again."""

    handed_out: int = 0
    lost: int = 0
    doubled: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.handed_out + other.handed_out, self.lost + other.lost, self.doubled + other.doubled)


class Oracle:
    """One for a whole run; publishers of different threads may share it."""

    def __init__(self) -> None:
        self.topics: dict[str, Topic] = {}
        self._lock = threading.Lock()

    def topic(self, name: str, qos: int) -> Topic:
        with self._lock:
            return self.topics.setdefault(name, Topic(name, qos))

    def hand_out(self, topic: Topic, count: int) -> list[tuple[int, bytes]]:
        """The next so many messages of a topic: number and payload."""
        with self._lock:
            first = topic.handed_out
            topic.handed_out += count
        return [(number, topic.payload(number)) for number in range(first, first + count)]

    def acknowledged(self, topic: Topic, numbers: list[int]) -> None:
        with self._lock:
            topic.acknowledged.update(numbers)

    def missing(self, came: dict[str, list[bytes]]) -> dict[str, list[int]]:
        """Obligations that are not met yet, by topic; QoS 0 makes none."""
        result = {}
        for topic in self.topics.values():
            if topic.qos and (lost := topic.acknowledged - {_number(one) for one in came.get(topic.name, [])}):
                result[topic.name] = sorted(lost)
        return result

    def tallies(self, came: dict[str, list[bytes]]) -> dict[str, Tally]:
        """What became of the messages of each topic."""
        missing = self.missing(came)
        result = {}
        for name, topic in self.topics.items():
            numbers = [_number(one) for one in came.get(name, [])]
            result[name] = Tally(topic.handed_out, len(missing.get(name, [])), len(numbers) - len(set(numbers)))
        return result

    def judge(
        self,
        came: dict[str, list[bytes]],
        resent: dict[str, int] | None = None,
        late: dict[str, int] | None = None,
        as_new: Collection[bytes] = (),
    ) -> list[str]:
        """Everything that is wrong with what came; what may be resent or late by the first level of a topic.

        ``as_new``: payloads of QoS 2 that somebody beside the node sent once more as if they were new, each as often as here.
        """
        faults = [f"{name}: {len(lost)} lost, the first {lost[0]}" for name, lost in self.missing(came).items()]
        faults += [f"{name}: nobody sent this" for name in came if name not in self.topics]
        doubled: dict[str, int] = {}
        for topic in self.topics.values():
            payloads = came.get(topic.name, [])
            numbers = [_number(payload) for payload in payloads]
            known = range(topic.handed_out)
            for number, payload in zip(numbers, payloads, strict=True):
                if number not in known or payload != topic.payload(number):
                    faults.append(f"{topic.name}: invented or changed: {payload[:40]!r}")
            first_times = list(dict.fromkeys(numbers))
            way = topic.name.split("/")[0]
            behind = _behind(first_times)
            if len(behind) > (late or {}).get(way, 0) * (topic.qos == 2):
                at = first_times.index(behind[0])
                around = first_times[max(at - 3, 0) : at + 3]
                faults.append(f"{topic.name}: {len(behind)} out of order, the first in {around}")
            doubles = len(numbers) - len(first_times)
            if topic.qos != 1 and doubles:
                allowed = Counter(payload for payload in as_new if topic.qos == 2)
                again = Counter(payloads) - Counter(set(payloads)) - allowed
                if again:
                    first = min(map(_number, again))
                    faults.append(f"{topic.name}: {again.total()} doubled at QoS {topic.qos}, the first {first}")
            elif topic.qos == 1:
                doubled[way] = doubled.get(way, 0) + doubles
        for way, count in doubled.items():
            if resent is not None and count > resent.get(way, 0):
                faults.append(f"{way}: {count} doubled, but only {resent.get(way, 0)} sent again")
        return faults


def sums_that_do_not_hold(status: dict[str, Any]) -> list[str]:
    """The two sums of the ledger, for every route of a node's status."""
    faults = []
    admitted = entered = 0
    for name, route in status["routes"].items():
        admitted += route["received"] - sum(route["droppedBefore"].values())
        entered += route["entered"]
        if route["entered"] != route["delivered"] + sum(route["dropped"].values()) + route["depth"]:
            faults.append(f"route {name}: the outbox does not add up: {route}")
    waiting = sum(log["waiting"] for log in status["journal"].values())
    if admitted != entered + waiting:
        faults.append(f"the journal does not add up: {admitted} came in, {entered} went out, {waiting} wait")
    return faults


def _behind(numbers: list[int]) -> list[int]:
    """Those that came after a greater one."""
    greatest, result = -1, []
    for number in numbers:
        if number < greatest:
            result.append(number)
        greatest = max(greatest, number)
    return result


def _number(payload: bytes) -> int:
    head = payload.split(b"|", 1)[0]
    return int(head) if head.isdigit() else -1
