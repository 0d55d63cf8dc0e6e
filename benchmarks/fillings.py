"""What payloads are filled with, behind the 16 bytes of time and sequence.

What is stored is squeezed, so the content of payloads matters: zeros would cost next to nothing.  A filling is a pool of bytes,
the same in every run, from which each message takes the next ones, over and over.
"""

import random
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

POOL_BYTES: Final = 1 << 20
"""Far more than what LZ4 looks back on (64 KiB), little enough to stay in a processor's cache."""

SEED: Final = 20_261_116


def telemetry(chance: random.Random) -> bytes:
    """JSON as devices send it: the keys repeat, the numbers are others in every message."""
    return "".join(_readings(chance)).encode()


def noise(chance: random.Random) -> bytes:
    """What cannot be squeezed at all, like pictures or what was squeezed or encrypted before."""
    return chance.randbytes(POOL_BYTES)


FILLINGS: Final[dict[str, Callable[[random.Random], bytes]]] = {"telemetry": telemetry, "noise": noise}
DEFAULT: Final = "telemetry"


@cache
def pool(filling: str) -> NDArray[np.uint8]:
    return np.frombuffer(FILLINGS[filling](random.Random(SEED)), np.uint8)[:POOL_BYTES].copy()


def shares(whole: NDArray[np.uint8], parts: int, each: int) -> list[NDArray[np.uint8]]:
    """A part of the pool for every connection, so that no two ever send the same; a message takes `each` bytes."""
    bounds = [whole.size * index // parts for index in range(parts + 1)]
    if each * 2 > whole.size // parts:
        raise ValueError(f"payloads of {each:,} bytes do not differ within {whole.size // parts:,} bytes of filling")
    return [whole[start:end] for start, end in pairwise(bounds)]


def _readings(chance: random.Random) -> Iterator[str]:
    """Of three kinds of machines in no order, until a pool is full."""
    made, clock = 0, 1_794_787_200_000
    while made < POOL_BYTES:
        clock += chance.randrange(1, 40)
        reading = chance.choice((_press, _pump, _meter))(chance, clock)
        made += len(reading)
        yield reading


def _press(chance: random.Random, clock: int) -> str:
    return (f'{{"device":"press-{chance.randrange(40):02}","ts":{clock},"temperature":{chance.gauss(71, 4):.2f},'
            f'"pressure":{chance.gauss(182, 9):.1f},"strokes":{chance.randrange(10**6)},"state":"{_state(chance)}"}}')


def _pump(chance: random.Random, clock: int) -> str:
    return (f'{{"device":"pump-{chance.randrange(40):02}","ts":{clock},"flow":{chance.gauss(12, 2):.3f},'
            f'"rpm":{chance.gauss(1450, 30):.0f},"vibration":{chance.expovariate(20):.4f},"state":"{_state(chance)}"}}')


def _meter(chance: random.Random, clock: int) -> str:
    volts = ",".join(f"{chance.gauss(230, 2):.1f}" for _ in range(3))
    return (f'{{"device":"meter-{chance.randrange(40):02}","ts":{clock},"voltage":[{volts}],'
            f'"power":{chance.gauss(8_200, 700):.1f},"energy":{chance.randrange(10**9) / 1000:.3f}}}')


def _state(chance: random.Random) -> str:
    return chance.choices(("running", "idle", "fault"), (90, 9, 1))[0]
