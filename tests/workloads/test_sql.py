"""Queries are judged by what they find, with queries such as the data sets of the SQL recipes have."""

from collections import Counter
from pathlib import Path

import pytest

HEADS = "CREATE TABLE head (name VARCHAR, state VARCHAR, age INTEGER)"
MARKS = "CREATE TABLE marks (a INT, b INT, c INT, d INT, e INT)"
TEAMS = "CREATE TABLE table_1 (points INTEGER, team VARCHAR, year VARCHAR)"
ORDERS = "CREATE TABLE orders (id INT PRIMARY KEY, sold DATE, price FLOAT, paid BOOLEAN)"
GOODS = "CREATE TABLE goods (id INT AUTO_INCREMENT, name VARCHAR(50), kind ENUM('wool', 'silk'), price INT);"
MILLS = """
CREATE TABLE mill (mill_id INT PRIMARY KEY, name VARCHAR(50) NOT NULL, region VARCHAR(50));
INSERT INTO mill (mill_id, name, region) VALUES (1, 'North Mill', 'North'), (2, 'South Mill', 'South');
CREATE TABLE timber (id SERIAL, mill_id INT REFERENCES mill(mill_id), volume DECIMAL(10,2), sold DATE);
"""
PETS = "CREATE TABLE student (id VARCHAR, name VARCHAR); CREATE TABLE has_pet (id VARCHAR, kind VARCHAR)"
QUERIES = [
    (HEADS, "SELECT COUNT(*) FROM head WHERE age > 56"),
    (HEADS, "SELECT name, state, age FROM head ORDER BY age"),
    (HEADS, "SELECT name FROM head WHERE state <> 'California'"),
    (MARKS, "SELECT a FROM marks WHERE a > 50 AND b > 70 AND c < -3 AND d > 90 AND e < 0"),
    (HEADS, "SELECT DISTINCT state FROM head WHERE age BETWEEN 30 AND 40"),
    (TEAMS, 'SELECT SUM(points) FROM table_1 WHERE team = "ferrari" AND year > 1999'),
    (TEAMS, 'SELECT MAX(points) FROM table_1 WHERE team = "ferrari" AND year < 1999'),
    (TEAMS, "SELECT team FROM table_1 GROUP BY team HAVING COUNT(*) > 1"),
    (TEAMS, "SELECT team FROM table_1 GROUP BY team ORDER BY COUNT(*) DESC LIMIT 1"),
    (PETS, "SELECT name FROM student WHERE NOT id IN (SELECT id FROM has_pet WHERE kind = 'cat')"),
    (PETS, "SELECT T1.name FROM student AS T1 JOIN has_pet AS T2 ON T1.id = T2.id WHERE T2.kind = 'dog'"),
    (
        MILLS,
        "SELECT m.name, SUM(t.volume) AS total FROM timber t JOIN mill m ON t.mill_id = m.mill_id "
        "WHERE m.region = 'North' AND YEAR(t.sold) = 2022 GROUP BY m.name ORDER BY total DESC;",
    ),
    (MILLS, "SELECT EXTRACT(MONTH FROM sold) AS m, AVG(volume) FROM timber GROUP BY m;"),
    (ORDERS, "SELECT TOP 3 id FROM orders WHERE price > 20 ORDER BY price DESC;"),
    (ORDERS, "SELECT COUNT(*) FROM orders WHERE sold BETWEEN '2021-01-01' AND '2021-12-31' AND paid = TRUE;"),
    (ORDERS, "SELECT COUNT(*) FROM orders WHERE sold >= '2023-01-01' AND sold < '2023-04-01';"),
    (ORDERS, "UPDATE orders SET price = price * 1.1 WHERE paid = FALSE;"),
    (ORDERS, "DELETE FROM orders WHERE id = 42;"),
    (ORDERS, "INSERT INTO orders (id, price) VALUES (7, 12.5);"),
    (f"CREATE SCHEMA shop; {GOODS}", "SELECT g.name FROM shop.goods g WHERE g.name LIKE '%yarn%';"),
    (GOODS, "SELECT CONCAT(name, ' ', kind) FROM goods WHERE kind ILIKE 'wool%' ORDER BY id;"),
    (GOODS, "SELECT name, RANK() OVER (PARTITION BY kind ORDER BY price DESC) FROM goods;"),
    (GOODS, "WITH best AS (SELECT MAX(price) AS p FROM goods) SELECT name FROM goods, best WHERE price = p;"),
    (GOODS, "SELECT id FROM goods WHERE kind IS NULL;"),
    (GOODS, "SELECT id, CASE WHEN price > 99 THEN 'dear' ELSE 'cheap' END FROM goods WHERE kind = 'silk';"),
]


@pytest.mark.parametrize(("schema", "query"), QUERIES)
def test_a_reference_is_right_when_it_is_the_reply(schema: str, query: str) -> None:
    from finetune.run.sql import judge

    assert judge(schema, query, query) == "right"


def test_replies_to_other_questions_are_wrong_also_on_the_same_tables() -> None:
    from finetune.run.sql import judge

    verdicts = Counter(
        judge(schema, query, QUERIES[(at + further) % len(QUERIES)][1])
        for at, (schema, query) in enumerate(QUERIES)
        for further in (1, 2, 7)
    )
    assert verdicts == {"wrong": 3 * len(QUERIES)}


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        ("SELECT COUNT(age) AS heads FROM head WHERE 56 < age;", "right"),
        ("SELECT COUNT(*) FROM head WHERE age >= 57", "right"),
        ("SELECT COUNT(*) FROM head WHERE age >= 56", "wrong"),
        ("SELECT COUNT(*) FROM head WHERE age > 57", "wrong"),
        ("SELECT COUNT(*) FROM head", "wrong"),
        ("SELECT COUNT(DISTINCT name) FROM head WHERE age > 56", "wrong"),
        ("DELETE FROM head WHERE age > 56", "wrong"),
        ("SELECT COUNT(*) FROM head WHERE", "wrong"),
        ("I do not know.", "wrong"),
        ("", "wrong"),
        ("SELECT \0 \ud83d", "wrong"),
        ("(" * 2000, "wrong"),
    ],
)
def test_what_a_reply_finds_decides_not_how_it_is_written(reply: str, verdict: str) -> None:
    from finetune.run.sql import judge

    assert judge(*QUERIES[0], reply) == verdict


def test_the_order_of_rows_counts_where_the_reference_has_one() -> None:
    from finetune.run.sql import judge

    rows, ordered = "SELECT id FROM orders", "SELECT id FROM orders ORDER BY id"
    assert judge(ORDERS, rows, f"{ordered} DESC") == "right"
    assert judge(ORDERS, ordered, f"{ordered} DESC") == "wrong"
    assert judge(ORDERS, rows, "SELECT DISTINCT id FROM orders") == "wrong"


@pytest.mark.parametrize(
    ("query", "verdict"),
    [
        ("SELECT id FROM orders WHERE 1 = 0", "reference_empty"),
        ("SELECT COUNT(*) FROM orders WHERE 1 = 0", "reference_empty"),
        ("DELETE FROM orders WHERE 1 = 0", "reference_empty"),
        ("SELECT DATE_TRUNC('month', sold) FROM orders", "reference_not_run"),
        ("SELECT id FROM orders WHERE sold > DATE_SUB(CURDATE(), INTERVAL 1 YEAR)", "reference_not_run"),
        ("SELECT id FROM orders ORDER BY RANDOM()", "reference_not_run"),
        ("CREATE VIEW cheap AS SELECT id FROM orders", "reference_not_run"),
        ("no query", "reference_not_run"),
    ],
)
def test_a_reference_that_nothing_can_be_compared_with_is_told_apart(query: str, verdict: str) -> None:
    from finetune.run.sql import judge

    assert judge(ORDERS, query, query) == verdict


def test_a_schema_that_creates_nothing_keeps_its_row_out() -> None:
    from finetune.run.sql import judge

    assert judge("a table of heads", *QUERIES[0][1:] * 2) == "reference_not_run"


@pytest.mark.parametrize(
    "reply",
    [
        "ATTACH DATABASE '{path}' AS other",
        "VACUUM INTO '{path}'",
        "CREATE TABLE mine AS SELECT 1",
        "PRAGMA writable_schema = ON",
        "DROP TABLE head",
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT COUNT(*) FROM n",
        "SELECT zeroblob(1000000000)",
        "SELECT COUNT(*) FROM head a, head b, head c, head d, head e, head f, head g, head h",
    ],
)
def test_a_reply_that_is_up_to_something_is_wrong_and_does_nothing(
    reply: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from finetune.run.sql import judge

    monkeypatch.chdir(tmp_path)
    assert judge(*QUERIES[0], reply.format(path=tmp_path / "written")) == "wrong"
    assert not [*tmp_path.iterdir()]
