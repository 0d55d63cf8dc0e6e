"""The user's transform as a DataFrame: found, run on the message table, its result looked at before a row flows.

In: a DataFrame of messages. Out: a DataFrame of the columns that the node knows, in the types it wants, and what has to be
known about the plan: whether it keeps a memory from batch to batch, and whether rows stay in order.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bridgehead.errors import TransformError
from bridgehead.pipeline.jobconfig import TransformRule

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TABLE: Final = "messages"
OFFSET: Final = "journal_offset"
ARRIVAL: Final = "received_at"

_WHOLE: Final = ("tinyint", "smallint", "int", "bigint")
_COLUMNS: Final = {
    "topic": ("string", ("string",)),
    "payload": ("binary", ("binary", "string")),
    "qos": ("int", _WHOLE),
    "retain": ("boolean", ("boolean",)),
    "received_at": ("timestamp", ("timestamp",)),
    "message_expiry": ("bigint", _WHOLE),
    "payload_format": ("int", _WHOLE),
    "content_type": ("string", ("string",)),
    "response_topic": ("string", ("string",)),
    "correlation_data": ("binary", ("binary", "string")),
    "user_properties": ("array<struct<key:string,value:string>>", ("array<struct<key:string,value:string>>",)),
    OFFSET: ("bigint", ("bigint",)),
}
"""The columns that the node knows: their type, and the types from which it can be made."""

_REQUIRED: Final = ("topic", "payload")

_NARROW: Final = frozenset({
    "Project", "Filter", "SubqueryAlias", "View", "EventTimeWatermark", "Generate",
    "MapInArrow", "MapInPandas", "WithCTE", "CTERelationDef", "CTERelationRef", "UnresolvedHint", "ResolvedHint",
    "BatchEvalPython", "ArrowEvalPython", "MapPartitions", "MapElements", "SerializeFromObject",
    "DeserializeToObject", "TypedFilter", "AppendColumns",
})  # fmt: skip
"""Nodes of a plan that keep rows in their order, and forget each batch when it is done."""

_WITHOUT_MEMORY: Final = _NARROW | {"Union", "Repartition", "RepartitionByExpression", "RebalancePartitions"}
"""Nodes that forget each batch when it is done. A node that is not known here is taken to have a memory: that
costs a checkpoint, the other mistake would cost rows."""


@dataclass(frozen=True, slots=True)
class Made:
    """What a transform makes of the message table."""

    frame: DataFrame  # the columns the node knows, those of them that the transform returns; for an archive all others too
    has_memory: bool
    in_order: bool  # rows come out as they went in, or can be sorted by their offset
    to_sort: bool
    lateness: int | None = None  # milliseconds that a watermark on arrivals waits; None: there is none, or another one


def made_by(rule: TransformRule, spark: SparkSession, messages: DataFrame, *, whole: bool = False) -> Made:
    """Run the transform on the table, a stream; TransformError says what is wrong with it or with what it returns.

    ``whole``: keep the columns that only an archive wants.
    """
    result = _result(rule, spark, messages)
    nodes = list(_streaming_nodes(result._jdf.queryExecution().analyzed()))
    if not nodes:
        raise TransformError(f"the result does not come from the table {TABLE}")
    if len({_at(node.output(), 0).exprId().id() for node in nodes if _is_source(node)}) > 1:
        raise TransformError(f"the table {TABLE} is joined with itself: what each side has read, no batch could say")
    frame = _known_columns(result, whole=whole)
    orderly = all(_is(node, _NARROW) for node in nodes)
    keeps_offset = OFFSET in frame.columns
    return Made(
        frame=frame,
        has_memory=not all(_is(node, _WITHOUT_MEMORY) for node in nodes),
        in_order=orderly or keeps_offset,
        to_sort=keeps_offset and not orderly,
        lateness=_lateness(spark, nodes),
    )


def made_of(rule: TransformRule, spark: SparkSession, messages: DataFrame, *, whole: bool = False) -> DataFrame:
    """What the transform makes of a table that stands still."""
    return _known_columns(_result(rule, spark, messages), whole=whole)


def _result(rule: TransformRule, spark: SparkSession, messages: DataFrame) -> DataFrame:
    if rule.python is not None:
        return _called(rule.python, messages, rule.options)
    messages.createOrReplaceTempView(TABLE)
    return spark.sql(text_of(rule), args=rule.options or None)


def text_of(rule: TransformRule) -> str:
    """The text of a transform: its SQL, wherever that is, or the name of its function."""
    if rule.sql_file is not None:
        return Path(rule.sql_file).read_text(encoding="utf-8")
    text = rule.sql or rule.python
    assert text is not None
    return text


def _called(name: str, messages: DataFrame, options: dict[str, Any]) -> DataFrame:
    result = function_of(name)(messages, **options)
    if not (hasattr(result, "_jdf") and hasattr(result, "schema")):
        raise TransformError(f"{name} returned {type(result).__name__}, not a DataFrame")
    return result


def function_of(name: str) -> Any:
    """The function of ``package.module:function``."""
    module, _, attribute = name.partition(":")
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and (module == error.name or module.startswith(f"{error.name}.")):
            raise TransformError(f"there is no module {module}") from error
        raise
    function = getattr(found, attribute, None)
    if function is None:
        raise TransformError(f"the module {module} has no {attribute}")
    if not callable(function):
        raise TransformError(f"{name} is no function")
    return function


def _known_columns(result: DataFrame, *, whole: bool) -> DataFrame:
    """The columns that the node knows, in its types, and the others as they are or not at all."""
    faults, chosen = [], []
    for name, (kind, accepted) in _COLUMNS.items():
        fields = [(at, field) for at, field in enumerate(result.schema.fields) if field.name.lower() == name]
        if len(fields) > 1:
            faults.append(f"there are {len(fields)} columns {name}")
        elif not fields and name in _REQUIRED:
            faults.append(f"there is no column {name}")
        elif fields:
            found = fields[0][1].dataType.simpleString()
            if found not in (*accepted, "void") or (found == "void" and name in _REQUIRED):
                faults.append(f"column {name} is {found}, not {' or '.join(accepted)}")
            chosen.append((fields[0][1].name, name, kind))
    if faults:
        raise TransformError(f"the result cannot be used: {'; '.join(faults)}")
    others = [field for field in result.schema.fields if whole and field.name.lower() not in _COLUMNS]
    kept = [f"`{field.name.replace('`', '``')}`" for field in others if field.dataType.simpleString() != "void"]
    return result.selectExpr(*(f"CAST(`{own}` AS {kind}) AS {name}" for own, name, kind in chosen), *kept)


def _streaming_nodes(plan: Any) -> Iterator[Any]:
    """The nodes of a logical plan through which messages flow."""
    if not plan.isStreaming():
        return
    yield plan
    children = plan.children()
    for at in range(children.size()):
        yield from _streaming_nodes(_at(children, at))


def _lateness(spark: Any, nodes: list[Any]) -> int | None:
    """How long watermarks on the arrival of messages wait, if all of them are: the node knows when that time has passed."""
    arrival = {
        attribute.exprId().id()
        for node in nodes
        for attribute in (_at(node.output(), at) for at in range(node.output().size()))
        if _is_source(node) and attribute.name() == ARRIVAL
    }
    watermarks = [node for node in nodes if node.nodeName() == "EventTimeWatermark"]
    if not watermarks or not all(node.eventTime().exprId().id() in arrival for node in watermarks):
        return None
    delay_of = spark._jvm.org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark.getDelayMs
    return max(int(delay_of(node.delay())) for node in watermarks)


def _is_source(node: Any) -> bool:
    """Where messages come from; a common table expression only stands for what is elsewhere in the plan."""
    return not node.children().size() and node.nodeName() != "CTERelationRef"


def _at(sequence: Any, place: int) -> Any:
    return sequence.apply(place)


def _is(node: Any, names: frozenset[str]) -> bool:
    name = node.nodeName()
    if not node.children().size():
        return True
    if name == "Join":  # with a table that stands still nothing has to be kept
        children = node.children()
        return not all(_at(children, at).isStreaming() for at in range(children.size()))
    return name in names
