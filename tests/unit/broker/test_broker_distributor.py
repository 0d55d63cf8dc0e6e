"""Whose rows are whose, in whatever order connections have sent them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.broker.distributor import clients_of

runs = st.lists(st.tuples(st.integers(1, 5), st.integers(1, 40)), min_size=1, max_size=40)
"""(connection, how many rows of it come one after the other)."""


@given(runs)
def test_every_row_has_the_client_of_its_connection(runs: list[tuple[int, int]]) -> None:
    conns = np.repeat(*(np.array(each, np.int64) for each in zip(*runs, strict=True)))
    clients = clients_of(conns, lambda conn: f"client {conn}")
    assert clients.to_pylist() == [f"client {conn}" for conn in conns]
