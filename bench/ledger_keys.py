"""What the index of keys costs an append on PostgreSQL.

    uv run python -m bench.ledger_keys --pairs 2000 --keys 200000

Two ledgers on one server, alike but for the index, take the same appends in turn: one check with
its key. Once as durable as in production, once without fsync, where only the server's work counts.
"""

import argparse
import json
import random
import statistics
import time
from uuid import uuid4

import psycopg

from bench.ledger_postgres import bare, server_of_ours
from bench.ledger_world import CHECK, payload
from watchkeeper.adapters.store.postgres import PostgresStore, open_postgres
from watchkeeper.adapters.store.postgres_address import parse_address
from watchkeeper.ports.event_store import Write

INDEX = "keys_in_order"


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pairs", type=int, default=2000)
    parser.add_argument("--keys", type=int, default=200_000, help="in each ledger at the start")
    options = parser.parse_args()
    found: dict[str, dict[str, float]] = {}
    for fsync in (True, False):
        with server_of_ours(fsync=fsync) as url:
            found["fsync" if fsync else "no fsync"] = compared(url, options.pairs, options.keys)
    print(json.dumps(found, indent=2))


def compared(url: str, pairs: int, keys: int) -> dict[str, float]:
    """Append to both in turn; return medians in ms, and the median of the ratios of blocks."""
    there, gone = made(url, "there", keys), made(url, "gone", keys)
    with psycopg.connect(bare(url), autocommit=True) as connection:
        connection.execute(f"DROP INDEX gone.{INDEX}".encode())
        connection.execute("VACUUM ANALYZE")
        connection.execute("CHECKPOINT")
    states, order = payload().checks, random.Random(7)
    took: dict[str, list[float]] = {"with": [], "without": []}
    with there, gone:
        for number in range(pairs):
            event, key = (CHECK, states[number % len(states)]), uuid4().hex
            both = [("with", there), ("without", gone)]
            order.shuffle(both)
            for name, store in both:
                start = time.perf_counter()
                store.append([Write("run/a", number, (event,))], key=key)
                took[name].append(time.perf_counter() - start)
    block = max(pairs // 20, 1)
    ratios = [
        sum(took["with"][at : at + block]) / sum(took["without"][at : at + block])
        for at in range(0, pairs, block)
    ]
    return {
        "with_ms": round(1000 * statistics.median(took["with"]), 4),
        "without_ms": round(1000 * statistics.median(took["without"]), 4),
        "ratio_of_medians": round(
            statistics.median(took["with"]) / statistics.median(took["without"]), 3
        ),
        "ratio": round(statistics.median(ratios), 3),
        "ratio_least": round(min(ratios), 3),
        "ratio_most": round(max(ratios), 3),
    }


def made(url: str, schema: str, keys: int) -> PostgresStore:
    """Make a ledger with so many keys."""
    store = open_postgres(parse_address(f"{bare(url)}#{schema}"), create=True)
    with psycopg.connect(bare(url), autocommit=True) as connection:
        connection.execute(
            f"INSERT INTO {schema}.keys SELECT md5(n::text), '', '{{}}', n "
            f"FROM generate_series(1, {keys}) AS n".encode()
        )
        # As if their events were there; positions only grow.
        connection.execute(f"UPDATE {schema}.counter SET position = {keys}".encode())
    return store


if __name__ == "__main__":
    main()
