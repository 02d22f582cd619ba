"""Owner and rights of a ledger's schema, and how to give them to its copy.

A restored copy belongs to the role that restored it, and no other role has rights on it.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import psycopg

Connection = psycopg.Connection[tuple[object, ...]]

_THINGS = """WITH place AS (SELECT oid, nspowner, nspacl FROM pg_namespace WHERE nspname = %s),
things (kind, name, part, owner, acl) AS (
    SELECT 'SCHEMA', '', '', nspowner, nspacl FROM place
    UNION ALL
    SELECT CASE relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, quote_ident(relname), '',
        relowner, relacl
    FROM pg_class JOIN place ON relnamespace = place.oid
    WHERE relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
    UNION ALL
    SELECT 'TABLE', quote_ident(relname), quote_ident(attname), relowner, attacl
    FROM pg_attribute
    JOIN pg_class ON pg_class.oid = attrelid
    JOIN place ON relnamespace = place.oid
    WHERE attacl IS NOT NULL
    UNION ALL
    -- The arguments of those that refuse plain recorders name the schema, which a restore changes.
    SELECT 'ROUTINE', quote_ident(proname) || CASE
            WHEN starts_with(proname, 'es_insert_events_') THEN ''
            ELSE '(' || pg_get_function_identity_arguments(p.oid) || ')'
        END, '', proowner, proacl
    FROM pg_proc AS p JOIN place ON pronamespace = place.oid
)
SELECT kind, name, part, quote_ident(pg_get_userbyid(owner)), acl IS NOT NULL,
    CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END,
    privilege_type, is_grantable
FROM things LEFT JOIN LATERAL aclexplode(acl) ON true
ORDER BY kind <> 'SCHEMA', kind DESC, name, part, 6, privilege_type"""

_DEFAULTS = """SELECT quote_ident(pg_get_userbyid(defaclrole)), CASE defaclobjtype
    WHEN 'r' THEN 'TABLES' WHEN 'S' THEN 'SEQUENCES' WHEN 'T' THEN 'TYPES' ELSE 'ROUTINES' END,
    CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END,
    privilege_type, is_grantable
FROM pg_default_acl, LATERAL aclexplode(defaclacl)
WHERE defaclnamespace = (SELECT oid FROM pg_namespace WHERE nspname = %s)
ORDER BY 1, 2, 3, 4"""


@dataclass(frozen=True, slots=True)
class Thing:
    """Something that rights are given on.

    Attributes:
        kind: As in GRANT: SCHEMA, TABLE, SEQUENCE or ROUTINE.
        name: Its name in the schema, quoted where it must be; empty for the schema itself.
        part: A column; empty for all of it.
    """

    kind: str
    name: str
    part: str

    def on(self, schema: str) -> str:
        """Return the kind and the whole name, as in GRANT and ALTER."""
        return f"{self.kind} {schema}.{self.name}" if self.name else f"{self.kind} {schema}"


@dataclass(frozen=True, slots=True)
class Right:
    """One right of one role. Roles are quoted where they must be."""

    role: str
    privilege: str
    may_grant: bool


@dataclass(frozen=True, slots=True)
class Rights:
    """Owner and rights of a schema and of all that is in it.

    Attributes:
        owners: The owner of each object, quoted if necessary.
        given: The rights on objects whose rights were changed; others have the server's defaults.
        defaults: Statements for objects created in it later, with `{schema}` for its name.
        comment: The schema's comment.
    """

    owners: dict[Thing, str]
    given: dict[Thing, tuple[Right, ...]]
    defaults: tuple[str, ...]
    comment: str | None


@dataclass(frozen=True, slots=True)
class Granted:
    """The result of granting rights.

    Attributes:
        roles: Roles besides the owner that have rights now, sorted.
        failed: Statements that the server refused, each with its reason.
        missing: What others had rights on, and the copy does not have.
    """

    roles: tuple[str, ...]
    failed: tuple[tuple[str, str], ...]
    missing: tuple[str, ...] = ()


def rights_of(connection: Connection, schema: str) -> Rights:
    """Read owner and rights of a schema; empty if it is missing.

    Raises:
        psycopg.Error: The server refused.
    """
    owners, given = dict[Thing, str](), defaultdict[Thing, list[Right]](list)
    for row in connection.execute(_THINGS, (schema,)).fetchall():
        kind, name, part, owner, is_set, role, privilege, may_grant = row
        thing = Thing(str(kind), str(name), str(part))
        owners[thing] = str(owner)
        if is_set:
            # No entry: even the owner's rights were revoked.
            found = given[thing]
            if privilege is not None:
                found.append(Right(str(role), str(privilege), bool(may_grant)))
    defaults = [
        f"ALTER DEFAULT PRIVILEGES FOR ROLE {owner} IN SCHEMA {{schema}} GRANT {privilege} "
        f"ON {kind} TO {role}{_option(bool(may_grant))}"
        for owner, kind, role, privilege, may_grant in connection.execute(_DEFAULTS, (schema,))
    ]
    said = connection.execute(
        "SELECT obj_description(oid, 'pg_namespace') FROM pg_namespace WHERE nspname = %s",
        (schema,),
    ).fetchone()
    text = str(said[0]) if said is not None and said[0] is not None else None
    return Rights(owners, {k: tuple(v) for k, v in given.items()}, tuple(defaults), text)


def grant_as_before(connection: Connection, schema: str, before: Rights) -> Granted:
    """Give a schema the owner and rights that another had, inside the caller's transaction.

    Raises:
        psycopg.Error: The connection was lost.
    """
    now = rights_of(connection, schema)
    here = {(thing.kind, thing.name) for thing in now.owners}
    statements = list[str]()
    for thing, owner in before.owners.items():
        if not thing.part and now.owners.get(thing, owner) != owner:
            statements.append(f"ALTER {thing.on(schema)} OWNER TO {owner}")
    for thing, rights in before.given.items():
        if (thing.kind, thing.name) in here:
            owner = before.owners[thing]
            others = {right.role for right in now.given.get(thing, ())}
            statements += _set(thing, schema, rights, {owner, "PUBLIC"} | others)
    statements += [each.format(schema=schema) for each in before.defaults]
    failed = _executed(connection, statements)
    missing = sorted({t.name for t in before.given if (t.kind, t.name) not in here})
    return Granted(_roles(rights_of(connection, schema)), failed, tuple(missing))


def grant_as_archived(connection: Connection, schema: str, statements: Iterable[str]) -> Granted:
    """Give owner and rights by the statements of an archive, inside the caller's transaction.

    Raises:
        psycopg.Error: The connection was lost.
    """
    failed = _executed(connection, statements)
    return Granted(_roles(rights_of(connection, schema)), failed)


def _set(thing: Thing, schema: str, rights: tuple[Right, ...], taken: set[str]) -> list[str]:
    on, part = thing.on(schema), f" ({thing.part})" if thing.part else ""
    statements = [] if part else [f"REVOKE ALL ON {on} FROM {', '.join(sorted(taken))}"]
    held = defaultdict[tuple[str, bool], list[str]](list)
    for right in rights:
        held[right.role, right.may_grant].append(f"{right.privilege}{part}")
    for (role, may_grant), privileges in held.items():
        statements.append(f"GRANT {', '.join(privileges)} ON {on} TO {role}{_option(may_grant)}")
    return statements


def _executed(connection: Connection, statements: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Execute statements, each by itself; return those that the server refused, and why."""
    failed = list[tuple[str, str]]()
    for statement in statements:
        try:
            with connection.transaction():
                connection.execute(statement.encode())
        except psycopg.Error as error:
            if error.sqlstate is None or connection.closed:
                raise
            why = error.diag.message_primary or str(error)
            failed.append((statement.rstrip(";"), why))
    return tuple(failed)


def _roles(rights: Rights) -> tuple[str, ...]:
    found = {
        right.role
        for thing, each in rights.given.items()
        for right in each
        if right.role not in (rights.owners[thing], "PUBLIC")
    }
    return tuple(sorted(found))


def _option(may_grant: bool) -> str:
    return " WITH GRANT OPTION" if may_grant else ""
