# SPDX-License-Identifier: Apache-2.0
"""MariaDB under a short SQL load of our own: orders and their items, in waves of sessions."""

from __future__ import annotations

import getpass
import random
import subprocess
from collections.abc import Iterator

from lab.workloads.recipe import Recipe, Session, WorkloadError

_SCHEMA = """
CREATE DATABASE shop; USE shop;
CREATE TABLE orders (id INT PRIMARY KEY, customer INT, note VARCHAR(400), total DECIMAL(10,2),
  KEY by_customer (customer)) ENGINE=InnoDB;
CREATE TABLE items (order_id INT, line INT, product INT, amount INT, PRIMARY KEY (order_id, line),
  KEY by_product (product)) ENGINE=InnoDB;
"""

# (sessions at once, statements of each)
_WAVES = ((4, 3000), (32, 1500), (8, 3000), (48, 1000), (2, 3000))


class MariaDb(Recipe):
    """mariadbd on a socket, with small buffers so that statements make most of the traffic."""

    name = "mariadb"
    title = "mariadbd under our own SQL load: waves of 2 to 48 sessions over orders and items"
    memory = "sessions, statements, sort buffers and temporary tables over caches that stay"
    packages = ("mariadb-server-core", "mariadb-client-core")
    programs = ("mariadbd", "mariadb", "mariadb-install-db")
    seconds = 40

    def prepare(self, session: Session) -> None:
        """System tables, with a root that needs no password."""
        command = [
            *("mariadb-install-db", "--no-defaults", f"--datadir={session.folder / 'data'}"),
            *("--auth-root-authentication-method=normal", "--skip-test-db"),
            *(f"--user={getpass.getuser()}", "--skip-name-resolve"),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise WorkloadError(f"mariadb-install-db failed: {done.stdout[-300:]}{done.stderr}")

    def command(self, session: Session) -> list[str]:
        """No network, no performance schema."""
        folder = session.folder
        return [
            *("mariadbd", "--no-defaults", f"--datadir={folder / 'data'}", "--skip-networking"),
            *(f"--socket={folder / 'socket'}", f"--pid-file={folder / 'pid'}"),
            *(f"--user={getpass.getuser()}", "--innodb-buffer-pool-size=64M"),
            *("--performance-schema=OFF", "--max-connections=100", "--skip-log-bin"),
            *("--innodb-flush-log-at-trx-commit=2", "--innodb-log-file-size=32M"),
            *("--tmp-table-size=32M", "--thread-cache-size=8"),
        ]

    def ready(self, session: Session) -> bool:
        """Whether it answers a statement."""
        client = _client(session, "SELECT 1")
        client.communicate()
        return client.returncode == 0

    def load(self, session: Session) -> None:
        """Fills two tables, then waves of sessions."""
        orders = session.scaled(20_000, 200)
        session.say(f"{orders:,} orders")
        _finish([_client(session, _SCHEMA + "".join(_rows(session.random(), orders)))])
        for number, (sessions, statements) in enumerate(_WAVES):
            session.say(f"wave {number + 1} of {len(_WAVES)}: {sessions} sessions")
            count = session.scaled(statements, 10)
            clients = [
                _client(session, "".join(_statements(session.random(number, s), orders, count)))
                for s in range(sessions)
            ]
            _finish(clients)


def _client(session: Session, sql: str) -> subprocess.Popen:
    """A client that reads `sql` from a file, so that no pipe holds it up."""
    file = session.folder / f"{abs(hash(sql)):x}.sql"
    file.write_text(sql)
    with file.open() as source:
        return subprocess.Popen(
            ["mariadb", "--no-defaults", f"--socket={session.folder / 'socket'}", "-uroot"],
            stdin=source,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )


def _finish(clients: list[subprocess.Popen]) -> None:
    for client in clients:
        said = client.communicate()[1]
        if client.returncode != 0:
            raise WorkloadError(f"mariadb: a session failed: {said.strip()}")


def _rows(numbers: random.Random, orders: int) -> Iterator[str]:
    for first in range(0, orders, 500):
        ids = range(first, min(first + 500, orders))
        yield "INSERT INTO orders VALUES " + ",".join(_order(numbers, i) for i in ids) + ";\n"
        lines = [f"({i},{n},{numbers.randrange(500)},{n + 1})" for i in ids for n in range(3)]
        yield "INSERT INTO items VALUES " + ",".join(lines) + ";\n"


def _order(numbers: random.Random, number: int) -> str:
    note = "n" * int(min(400, numbers.lognormvariate(4.0, 0.8)))
    return f"({number},{numbers.randrange(1000)},'{note}',{numbers.uniform(1, 900):.2f})"


def _statements(numbers: random.Random, orders: int, count: int) -> Iterator[str]:
    yield "USE shop;\n"
    for _ in range(count):
        yield _statement(numbers, orders) + ";\n"


def _statement(numbers: random.Random, orders: int) -> str:
    one = numbers.randrange(orders)
    customer, product = numbers.randrange(1000), numbers.randrange(500)
    kinds = (
        f"SELECT * FROM orders WHERE id={one}",
        f"SELECT * FROM orders WHERE customer={customer} ORDER BY total DESC LIMIT 20",
        f"SELECT o.customer, COUNT(*), SUM(i.amount) FROM orders o JOIN items i ON"
        f" o.id=i.order_id WHERE i.product={product} GROUP BY o.customer ORDER BY 3",
        f"UPDATE orders SET note=CONCAT(LEFT(note,300),'+'), total=total+1 WHERE id={one}",
        f"SELECT customer, GROUP_CONCAT(note SEPARATOR ' ') FROM orders WHERE id BETWEEN {one}"
        f" AND {one + 200} GROUP BY customer",
        f"REPLACE INTO items VALUES ({one},{numbers.randrange(9)},{product},2)",
        f"SELECT note FROM orders WHERE id BETWEEN {one} AND {one + 1000} ORDER BY note",
        f"SELECT id FROM orders WHERE customer IN (SELECT customer FROM orders WHERE id < {one}"
        f" AND note LIKE '%nnnnnn%') LIMIT 50",
    )
    return numbers.choices(kinds, weights=(8, 5, 3, 5, 1, 3, 1, 1))[0]
