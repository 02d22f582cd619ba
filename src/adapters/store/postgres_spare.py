"""Extra schemas next to a ledger's: one replaced by a restore, or a copy.

The copy is one that is not in place yet. Each schema carries a comment that names its ledger,
because a name that was cut fits several ledgers.
"""

import re
from dataclasses import dataclass

import psycopg
from psycopg import sql

_NAME_KEPT = 25
"""Characters of a schema's name in the one of its kept copy, which a URL must be able to name."""

_COPY_MARK = "watchkeeper: not yet in the place of the ledger "
_KEPT_MARK = "watchkeeper: what was before a restore of the ledger "

_SCHEMAS = """SELECT nspname, obj_description(n.oid, 'pg_namespace')
FROM pg_namespace AS n
WHERE EXISTS (SELECT 1 FROM pg_class WHERE relnamespace = n.oid AND relname = 'migrations')
    AND (nspname = %s OR starts_with(nspname, %s))
ORDER BY nspname DESC"""


@dataclass(frozen=True, slots=True)
class Spare:
    """Schemas that restores left next to a ledger.

    Attributes:
        kept: Schemas of replaced ledgers, the newest first.
        copy: Schema of a copy whose restore was interrupted before it took its place; empty if
        there is no such copy.
    """

    kept: tuple[str, ...]
    copy: str


def kept_name(schema: str, stamp: str) -> str:
    """Return the name under which a replaced ledger is kept."""
    return f"{schema[:_NAME_KEPT]}_before_{stamp}"


def copy_name(schema: str) -> str:
    """Return the name under which a copy is looked at before it takes a ledger's place."""
    return f"{schema}_restoring"


def copy_comment(schema: str) -> sql.Composed:
    """Return the statement that marks a copy."""
    return comment(copy_name(schema), f"{_COPY_MARK}{schema}")


def kept_comment(schema: str, kept: str) -> sql.Composed:
    """Return the statement that marks a replaced ledger."""
    return comment(kept, f"{_KEPT_MARK}{schema}")


def comment(schema: str, text: str | None) -> sql.Composed:
    """Return the statement that sets or removes a schema's comment."""
    return sql.SQL("COMMENT ON SCHEMA {} IS {}").format(sql.Identifier(schema), sql.Literal(text))


def rename(schema: str, to: str) -> sql.Composed:
    """Return the statement that renames a schema."""
    return sql.SQL("ALTER SCHEMA {} RENAME TO {}").format(
        sql.Identifier(schema), sql.Identifier(to)
    )


def drop(schema: str) -> sql.Composed:
    """Return the statement that removes a schema with all that is in it, if it is there."""
    return sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(schema))


def spare(connection: psycopg.Connection[tuple[object, ...]], schema: str) -> Spare:
    """Find the schemas that restores of a ledger left.

    Raises:
        psycopg.Error: The server refused.
    """
    beginning = kept_name(schema, "")
    digits = re.compile(rf"{re.escape(beginning)}\d+_\d+")
    kept, copy = list[str](), ""
    for name, said in connection.execute(_SCHEMAS, (copy_name(schema), beginning)).fetchall():
        if said == f"{_COPY_MARK}{schema}":
            copy = str(name)
        # Earlier versions left no comment.
        elif said == f"{_KEPT_MARK}{schema}" or (said is None and digits.fullmatch(str(name))):
            kept.append(str(name))
    return Spare(tuple(kept), copy)


def reported_missing(found: Spare, schema: str) -> str:
    """Return where the schemas of a missing ledger are; empty if there are no such schemas."""
    if not found.kept:
        return ""
    newest, *older = found.kept
    more = f", and older ones in {', '.join(older)}" if older else ""
    return (
        f"A restore moved the previous ledger into the schema {newest}{more}, and nothing "
        "replaced it. Continue with `watchkeeper ledger restore FILE`, or put it back with "
        f"`ALTER SCHEMA {newest} RENAME TO {schema}`. For an empty ledger, name another "
        "schema."
    )


def reported_copy(found: Spare) -> str:
    """Return a sentence on the copy of an interrupted restore; empty if there is no copy."""
    if not found.copy:
        return ""
    return (
        "a restore was interrupted before it changed anything: its unused copy is in the "
        f"schema {found.copy}; run `watchkeeper ledger restore FILE` again, or remove the "
        f"copy with `DROP SCHEMA {found.copy} CASCADE`"
    )
