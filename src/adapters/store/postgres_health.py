"""The `doctor` report on the server that holds a ledger."""

from watchkeeper.adapters.store.postgres_address import parse_address
from watchkeeper.adapters.store.postgres_link import LIMITS, Links
from watchkeeper.adapters.store.postgres_spare import reported_copy, spare
from watchkeeper.clock import Timer

_SAFE_SETTINGS = {"fsync": "on", "full_page_writes": "on"}
"""Server settings that prevent the loss of stored data when the machine crashes."""


def health(url: str) -> list[tuple[str, bool, str]]:
    """Check a server and our rights on it.

    Returns:
        For each check its name, whether it is good, and a sentence.

    Raises:
        StoreFailure: The server cannot be reached or used; the message says what to do.
    """
    address = parse_address(url)
    links = Links(address, LIMITS)
    try:
        links.prepare(create=False)
        timer = Timer()
        [(server, standby)] = links.read(
            "ask", "SELECT current_setting('server_version'), pg_is_in_recovery()", ()
        )
        answer_ms = timer.elapsed().total_seconds() * 1000
        settings = links.read(
            "ask",
            "SELECT name, setting FROM pg_settings WHERE name = ANY (%s::text[])",
            (list(_SAFE_SETTINGS),),
        )
        with links.borrowed() as connection:
            interrupted_restore = reported_copy(spare(connection, address.schema))
    finally:
        links.close()
    # An active restore locks out everybody, including us. So this one was interrupted.
    found = [("restore", False, interrupted_restore)] if interrupted_restore else []
    unsafe = [name for name, value in settings if value != _SAFE_SETTINGS[name]]
    sentence = f"PostgreSQL {server}, answers in {answer_ms:.1f} ms"
    if standby:
        sentence += "; it is a standby, which takes no writes: choose another"
        return [("server", False, sentence), *found]
    if unsafe:
        names = " and ".join(unsafe)
        sentence += f"; {names} off: a crash of its machine loses events"
        return [("server", False, sentence), *found]
    return [("server", True, sentence), *found]
