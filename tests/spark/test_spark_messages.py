"""The way through the message table, which transforms will stand on, moves the same rows.

That it runs at all also says that the table's Arrow form is Spark's own: Spark refuses any other.
"""

from __future__ import annotations

import pytest

from spark.test_spark_rows import (
    test_a_single_row_crosses_with_all_its_properties,
    test_payloads_of_five_megabytes_cross_in_order,
    test_rows_of_several_routes_cross_once_in_order,
)

CONF = {"spark.bridgehead.messages": "true"}

pytestmark = [pytest.mark.spark, pytest.mark.asyncio(loop_scope="module")]

__all__ = [
    "test_a_single_row_crosses_with_all_its_properties",
    "test_payloads_of_five_megabytes_cross_in_order",
    "test_rows_of_several_routes_cross_once_in_order",
]
