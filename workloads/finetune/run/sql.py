"""Judges a query by its result in SQLite, in tables of the row's own schema with a few invented rows."""

import random
import re
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import date, timedelta
from itertools import chain
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

# Data sets mix these. They are tried in this order when SQLite does not take a query as it stands.
DIALECTS = ("mysql", "postgres", "tsql")
# Each query runs in so many fillings of the tables, since an equal result in one may be an accident.
FILLINGS, INVENTED_ROWS = 3, 12
WORDS = ("amber", "birch", "cedar", "delta", "ember")
# Functions whose result is another one tomorrow.
UNSTEADY = re.compile(r"\b(now|current_\w+|curdate|curtime|getdate|sysdate|today|rand|random|uuid)\b", re.I)
# The first kind that fits counts, since whole numbers are numeric too.
KINDS = {
    "BOOLEAN": {exp.DType.BOOLEAN},
    "INTEGER": {*exp.DataType.INTEGER_TYPES, exp.DType.SERIAL, exp.DType.BIGSERIAL, exp.DType.YEAR},
    "REAL": exp.DataType.NUMERIC_TYPES,
    "DATE": exp.DataType.TEMPORAL_TYPES,
}
DATE_PARTS = {"YEAR": slice(0, 4), "MONTH": slice(5, 7), "DAY": slice(8, 10)}
# A model wrote the query. It may read and change the tables, which are in memory, and nothing else.
ACTIONS = ("SELECT", "READ", "FUNCTION", "RECURSIVE", "INSERT", "UPDATE", "DELETE")
ALLOWED = {getattr(sqlite3, f"SQLITE_{action}") for action in ACTIONS}
# Steps of SQLite's machine, about 50 ms. Seconds would not be the same everywhere.
MOST_STEPS, MOST_ROWS, MOST_BYTES = 1_000_000, 10_000, 100_000
CONSTANTS = exp.Literal | exp.Null | exp.Boolean
FAILURES = (sqlite3.Error, sqlite3.Warning, SqlglotError, RecursionError, StopIteration, ValueError)

RIGHT, WRONG, EMPTY, NOT_RUN = "right", "wrong", "reference_empty", "reference_not_run"


def judge(schema: str, reference: str, reply: str) -> str:
    """RIGHT or WRONG, by the rows that both queries find or change in the tables that `schema` creates.

    Equal rows count one by one. Their order counts if the reference has one. Names of columns do not count.
    EMPTY or NOT_RUN when the reference gives nothing to compare with. A count of zero is nothing, too.
    """
    try:
        tables, (query, *_) = next(_readings(schema)), next(_readings(reference))
        wanted = _wanted(query)
        fillings = [_filled(tables, wanted, random.Random(f"{schema}{at}")) for at in range(FILLINGS)]
        expected = {filling: _result(filling, reference) for filling in fillings}
    except FAILURES:
        return NOT_RUN
    if UNSTEADY.search(reference):
        return NOT_RUN
    telling = {filling: rows for filling, rows in expected.items() if any(map(any, rows))}
    compared: Any = list if query.args.get("order") else Counter
    with suppress(*FAILURES):
        results = [compared(_result(filling, reply)) for filling in telling]
        if not results:
            return EMPTY
        if results == [*map(compared, telling.values())]:
            return RIGHT
    return WRONG


def _readings(text: str) -> Iterator[list[Any]]:
    """The statements of a text in each dialect that can read it, without parts that SQLite does not have."""
    for dialect in DIALECTS:
        with suppress(SqlglotError):
            statements = [statement for statement in sqlglot.parse(text, read=dialect) if statement]
            for statement in statements:
                _replace_parts_unknown_to_sqlite(statement)
            if statements:
                yield statements


def _replace_parts_unknown_to_sqlite(statement: exp.Expr) -> None:
    # A list, since the loop changes the tree.
    for node in list(statement.walk()):
        if isinstance(node, exp.Table | exp.Column):
            node.set("db", None)
        elif isinstance(node, exp.Extract):
            node.replace(exp.Anonymous(this=node.name, expressions=[node.expression]))


def _wanted(query: exp.Expression) -> dict[str, list[Any]]:
    """The values that a query compares a column with, by the column's name. The first value passes."""
    wanted: dict[str, list[Any]] = {}
    for test in query.find_all(exp.Predicate):
        parts = [*test.walk(prune=lambda node: isinstance(node, exp.Query))]
        passing_step = 0
        if isinstance(test, exp.GT):
            passing_step = 1
        elif isinstance(test, exp.LT):
            passing_step = -1
        literals = [part.to_py() for part in parts if part.is_number or isinstance(part, CONSTANTS)]
        values = [_beside(literal, step) for step in (passing_step, 0, 1, -1) for literal in literals]
        for column in (part for part in parts if isinstance(part, exp.Column)):
            wanted.setdefault(column.name.lower(), []).extend(values)
    return wanted


def _beside(value: Any, step: int) -> Any:
    """The number or day that is `step` further. For a pattern, a text that fits it."""
    if value is None or isinstance(value, bool):
        return value
    if not isinstance(value, str):
        return float(value + step) if value % 1 else int(value + step)
    with suppress(ValueError):
        return str(date.fromisoformat(value) + timedelta(days=step))
    return value.replace("%", "").replace("_", "a")


def _filled(tables: list[exp.Expression], wanted: dict[str, list[Any]], chance: random.Random) -> bytes:
    """A database with the rows that the schema inserts and invented ones, without constraints."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
        for statement in tables:
            if isinstance(statement, exp.Create) and isinstance(statement.this, exp.Schema):
                _create_table(database, statement.this, wanted, chance)
                continue
            with suppress(sqlite3.Error):
                database.execute(statement.sql("sqlite"))
        return database.serialize()


def _create_table(
    database: sqlite3.Connection, schema: exp.Schema, wanted: dict[str, list[Any]], chance: random.Random
) -> None:
    """Create the table with its columns alone, and insert invented rows."""
    name = schema.this.name
    parts = [part for part in schema.expressions if isinstance(part, exp.ColumnDef | exp.Identifier)]
    columns = {part.name: _kind(part) for part in parts}
    declared = ", ".join(f'"{column}" {kind}' for column, kind in columns.items())
    database.execute(f'CREATE TABLE "{name}" ({declared})')
    for at in range(INVENTED_ROWS):
        row = [_value(kind, wanted.get(column.lower(), []), at, chance) for column, kind in columns.items()]
        database.execute(f'INSERT INTO "{name}" VALUES ({", ".join("?" * len(row))})', row)


def _kind(column: exp.Expression) -> str:
    kind = column.args.get("kind")
    return next((name for name, types in KINDS.items() if kind and kind.is_type(*types)), "TEXT")


def _value(kind: str, wanted: list[Any], at: int, chance: random.Random) -> Any:
    """A value for the row with number `at`. The first row passes the query's tests, and some others do."""
    number = chance.randint(1, 9) if at else 1
    if wanted and (at == 0 or chance.random() < 0.6):
        value = chance.choice(wanted) if at else wanted[0]
        if kind == "DATE" and isinstance(value, int):  # the query compares a part of it
            return f"{value:04}-06-15" if value > 31 else f"2021-{min(value, 12):02}-{value:02}"
        return value
    day = f"{2019 + number % 5}-{number:02}-{chance.randint(10, 28)}"
    values = {"BOOLEAN": number % 2, "INTEGER": number, "REAL": number * 10.5, "DATE": day}
    return values.get(kind, WORDS[number % len(WORDS)])


def _result(filling: bytes, query: str) -> list[tuple[Any, ...]]:
    """The rows that a query finds, or all tables if it has changed them.

    Raises one of FAILURES if no reading of the query runs.
    """
    problem: Exception = ValueError("no query")
    spellings = (reading[0].sql("sqlite") for reading in _readings(query) if len(reading) == 1)
    for spelling in chain([query], spellings):
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
            database.deserialize(filling)
            tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master")]
            _confine(database)
            try:
                rows = _rows(database, spelling, tables)
            except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
                problem = error
                continue
            return [tuple(map(_rounded, row)) for row in rows]
    raise problem


def _rows(database: sqlite3.Connection, query: str, tables: list[str]) -> list[tuple[Any, ...]]:
    """The rows that a query finds, or those of all tables after a query that changes some."""
    rows = database.execute(query).fetchmany(MOST_ROWS)
    if not database.total_changes:
        return rows
    return [(name, *row) for name in tables for row in database.execute(f'SELECT * FROM "{name}"')]


def _confine(database: sqlite3.Connection) -> None:
    """Add the functions of DATE_PARTS, and keep a query within its limits and off the disk."""
    for name, part in DATE_PARTS.items():
        database.create_function(name, 1, lambda day, part=part: day and int(str(day)[part]))
    database.execute("PRAGMA temp_store = MEMORY")
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_BYTES)
    database.set_progress_handler(lambda: 1, MOST_STEPS)
    database.set_authorizer(lambda action, *_: int(action not in ALLOWED))


def _rounded(value: Any) -> Any:
    return round(value, 6) if isinstance(value, float) else value
