"""The database function for all appends: one round trip for a batch.

It first waits for an advisory lock that lasts until the commit. So positions follow the order of
commits, without gaps, and no reader passes one that is still to come. An append is fully checked
under that lock before anything of it is written. One that conflicts leaves nothing to undo and
fails alone, so a batch needs no savepoints.
"""

from dataclasses import dataclass

_PARAMETERS = """
    p_lock bigint,          -- advisory lock of those who append here
    p_channel text,         -- where a commit is announced
    -- One of each for every append of the batch:
    p_keys text[],          -- idempotency key or null
    p_digests bytea[],      -- of what was asked under the key
    p_answers text[],       -- kept under the key
    p_followers text[],     -- whose place moves in the same transaction, or null
    p_seen bigint[],        -- that place
    p_writes integer[],     -- how many of the streams below
    p_events integer[],     -- how many of the events below
    p_statuses integer[],   -- how many of the status rows below
    -- For every stream of an append:
    p_streams text[],
    p_expected bigint[],    -- its version; -1 for one that is to begin at 0
    -- For every event of an append, in order:
    p_places integer[],     -- which of the append's streams, from 1
    p_topics text[],
    p_states bytea[],
    -- For every status row of an append:
    p_runs text[],
    p_parts text[],
    p_rows text[]
"""

_BODY = r"""
DECLARE
    v_domain CONSTANT bytea := convert_to(E'watchkeeper/event/v1\n', 'UTF8');
    v_genesis CONSTANT bytea := decode(repeat('00', 32), 'hex');
    v_writes integer := 0;      -- Of all appends before this one.
    v_events integer := 0;
    v_statuses integer := 0;
    v_begin bigint;
    v_position bigint;
    v_id bigint;
    v_version bigint;
    v_hash bytea;
    v_digest bytea;
    v_ids bigint[];             -- Of the append's streams: row id, newest version and hash.
    v_versions bigint[];
    v_hashes bytea[];
    v_row_streams bigint[];     -- Of the append's events.
    v_row_versions bigint[];
    v_row_topics bigint[];
    v_row_hashes bytea[];
    v_topic bigint;
    v_topic_name text;
    v_name bytea;
    v_number bytea;
    v_topic_bytes bytea;
    w integer;
BEGIN
    PERFORM pg_advisory_xact_lock(p_lock);
    -- From here on each statement sees what was committed before the lock was had.
    SELECT c.position INTO STRICT v_begin FROM counter AS c;
    v_position := v_begin;
    FOR a IN 1 .. cardinality(p_digests) LOOP
        outcome := NULL;
        said := NULL;
        at_version := NULL;
        at_position := NULL;
        IF p_keys[a] IS NOT NULL THEN
            SELECT k.digest, k.answer INTO v_digest, said FROM keys AS k WHERE k.key = p_keys[a];
            IF FOUND THEN
                outcome := CASE
                    WHEN octet_length(v_digest) > 0 AND octet_length(p_digests[a]) > 0
                        AND v_digest <> p_digests[a] THEN 'reused'
                    ELSE 'repeated' END;
            END IF;
        END IF;
        IF outcome IS NULL AND p_followers[a] IS NOT NULL THEN
            SELECT t.position INTO at_position FROM tracking AS t
            WHERE t.follower = p_followers[a];
            IF at_position >= p_seen[a] THEN
                outcome := 'seen';
                said := p_followers[a];
            END IF;
        END IF;
        IF outcome IS NULL THEN
            v_ids := '{}';
            v_versions := '{}';
            v_hashes := '{}';
            FOR w IN 1 .. p_writes[a] LOOP
                SELECT s.id, e.version, e.hash INTO v_id, v_version, v_hash
                FROM streams AS s LEFT JOIN LATERAL (
                    SELECT f.version, f.hash FROM events AS f
                    WHERE f.stream = s.id ORDER BY f.version DESC LIMIT 1
                ) AS e ON true
                WHERE s.name = p_streams[v_writes + w];
                IF coalesce(v_version, least(p_expected[v_writes + w], 0))
                    <> p_expected[v_writes + w] THEN
                    outcome := 'conflict';
                    said := p_streams[v_writes + w];
                    at_version := v_version;
                    EXIT;
                END IF;
                v_ids := array_append(v_ids, v_id);
                v_versions := array_append(v_versions, p_expected[v_writes + w]);
                v_hashes := array_append(v_hashes, coalesce(v_hash, v_genesis));
            END LOOP;
        END IF;
        IF outcome IS NULL THEN
            outcome := 'stored';
            v_row_streams := '{}';
            v_row_versions := '{}';
            v_row_topics := '{}';
            v_row_hashes := '{}';
            FOR e IN v_events + 1 .. v_events + p_events[a] LOOP
                w := p_places[e];
                IF v_ids[w] IS NULL THEN
                    INSERT INTO streams (id, name)
                    SELECT coalesce(max(s.id), 0) + 1, p_streams[v_writes + w] FROM streams AS s
                    RETURNING id INTO v_id;
                    v_ids[w] := v_id;
                END IF;
                IF v_topic_name IS DISTINCT FROM p_topics[e] THEN
                    v_topic_name := p_topics[e];
                    v_topic_bytes := convert_to(v_topic_name, 'UTF8');
                    SELECT t.id INTO v_topic FROM topics AS t WHERE t.name = v_topic_name;
                    IF NOT FOUND THEN
                        INSERT INTO topics (id, name)
                        SELECT coalesce(max(t.id), 0) + 1, v_topic_name FROM topics AS t
                        RETURNING id INTO v_topic;
                    END IF;
                END IF;
                v_position := v_position + 1;
                v_version := v_versions[w] + 1;
                v_name := convert_to(p_streams[v_writes + w], 'UTF8');
                v_number := convert_to(v_version::text, 'UTF8');
                v_hash := sha256(
                    v_domain || v_hashes[w]
                    || int8send(octet_length(v_name)) || v_name
                    || int8send(octet_length(v_number)) || v_number
                    || int8send(octet_length(v_topic_bytes)) || v_topic_bytes
                    || int8send(octet_length(p_states[e])) || p_states[e]
                );
                v_versions[w] := v_version;
                v_hashes[w] := v_hash;
                v_row_streams := array_append(v_row_streams, v_ids[w]);
                v_row_versions := array_append(v_row_versions, v_version);
                v_row_topics := array_append(v_row_topics, v_topic);
                v_row_hashes := array_append(v_row_hashes, v_hash);
            END LOOP;
            -- One statement for all of them: one for each would be a third of the time.
            INSERT INTO events (id, stream, version, topic, state, hash)
            SELECT v_position - p_events[a] + u.n, u.stream, u.version, u.topic, u.state, u.hash
            FROM unnest(
                v_row_streams, v_row_versions, v_row_topics,
                p_states[v_events + 1 : v_events + p_events[a]], v_row_hashes
            ) WITH ORDINALITY AS u (stream, version, topic, state, hash, n)
            ORDER BY u.n;
            at_position := CASE WHEN p_events[a] > 0 THEN v_position ELSE 0 END;
            FOR s IN v_statuses + 1 .. v_statuses + p_statuses[a] LOOP
                IF p_rows[s] = '' THEN
                    DELETE FROM status WHERE run = p_runs[s] AND part = p_parts[s];
                    CONTINUE;
                END IF;
                INSERT INTO status AS old (run, part, row)
                VALUES (p_runs[s], p_parts[s], p_rows[s])
                ON CONFLICT (run, part) DO UPDATE SET row = excluded.row
                WHERE old.row IS DISTINCT FROM excluded.row;
            END LOOP;
            IF p_keys[a] IS NOT NULL THEN
                INSERT INTO keys (key, digest, answer, position)
                VALUES (p_keys[a], p_digests[a], p_answers[a], at_position);
            END IF;
            IF p_followers[a] IS NOT NULL THEN
                INSERT INTO tracking (follower, position) VALUES (p_followers[a], p_seen[a])
                ON CONFLICT (follower) DO UPDATE SET position = excluded.position;
            END IF;
        END IF;
        v_writes := v_writes + p_writes[a];
        v_events := v_events + p_events[a];
        v_statuses := v_statuses + p_statuses[a];
        RETURN NEXT;
    END LOOP;
    IF v_position > v_begin THEN
        UPDATE counter SET position = v_position;
        PERFORM pg_notify(p_channel, '');
    END IF;
END
"""


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the database.

    Attributes:
        body: As the server keeps it.
        statement: What creates it.
        call: What calls it, with a place for each parameter, all of them binary.
    """

    body: str
    statement: str
    call: str


def _call() -> str:
    types = [
        line.partition("--")[0].split()[1].rstrip(",")
        for line in _PARAMETERS.splitlines()
        if line.strip() and not line.strip().startswith("--")
    ]
    return f"SELECT * FROM append_events({', '.join(f'%b::{kind}' for kind in types)})"


APPEND_FUNCTION = Function(
    _BODY,
    f"CREATE FUNCTION append_events({_PARAMETERS}) RETURNS TABLE (\n"
    "    outcome text,           -- stored, repeated, reused, conflict or seen\n"
    "    said text,              -- the first answer, or the stream or the follower of a conflict\n"
    "    at_version bigint,      -- of that stream, null when it is empty\n"
    "    at_position bigint      -- of the append's last event, or the follower's\n"
    f") LANGUAGE plpgsql AS $wk${_BODY}$wk$",
    _call(),
)
