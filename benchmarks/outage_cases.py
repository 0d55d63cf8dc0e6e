"""The scenarios of an outage, and what became of them."""

from dataclasses import dataclass

from benchmarks.plants import UNBOUNDED

OURS = ("inline", "spark")
NOT_MEASURED = "not measured here"   # how an error begins that is not the system's
GATHER = 0.0003   # seconds between reads of both tools, see docs/benchmarks.md


@dataclass(frozen=True)
class Case:
    key: str
    title: str
    messages: int
    qos: int
    systems: tuple[str, ...] = ("mosquitto", *OURS)
    payload: int = 100
    limit: int = UNBOUNDED     # of the queue
    catastrophe: str = ""      # while the remote is away: "kill" (kill -9) or "power"
    gather: float = GATHER


@dataclass(frozen=True)
class Outcome:
    case: str
    system: str
    error: str | None = None
    sent: int = 0                 # and acknowledged, where the QoS has acknowledgements
    arrived: int = 0
    lost: int = 0
    doubled: int = 0
    reordered: int = 0
    publish_seconds: float = 0.0  # while the remote was away
    drain_seconds: float = 0.0    # from the CONNECT at the remote to the last arrival
    rss_before: int = 0           # bytes, before the outage
    rss_half: int = 0             # the peak in the first half of the outage
    rss_end: int = 0              # the peak in the second half
    rss_peak: int = 0

    @property
    def measured(self) -> bool:
        return not (self.error or "").startswith(NOT_MEASURED)

    @property
    def drained_per_second(self) -> float:
        return self.arrived / self.drain_seconds if self.drain_seconds else 0.0


CASES = [
    Case("hour", "72,000 messages at QoS 2: an hour's outage at 20 a second", 72_000, 2),
    Case("large", "100,000 messages of 200 bytes at QoS 2", 100_000, 2, payload=200),
    Case("flood", "a flood of 3,000,000 messages at QoS 0, of which 100,000 are to be kept", 3_000_000, 0, limit=100_000),
    *(Case(f"kill-{qos}", f"4,000 messages at QoS {qos}, then kill -9", 4_000, qos, catastrophe="kill") for qos in (1, 2)),
    *(Case(f"power-{qos}", f"4,000 messages at QoS {qos}, then a loss of power", 4_000, qos, catastrophe="power")
      for qos in (1, 2)),
    Case("backlog", "a backlog of 1,000,000 messages at QoS 1", 1_000_000, 1, systems=("inline", "inline-memory")),
]
