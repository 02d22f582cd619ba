import functools
import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from fsspec.implementations.local import LocalFileSystem

from watchkeeper import clock
from watchkeeper.adapters.checkpoints.fsspec_files import Filesystems
from watchkeeper.adapters.checkpoints.listing import FsspecCheckpoints, parse_metadata
from watchkeeper.domain.values.basic import CheckpointFacts, CheckpointKind, CheckpointListing
from watchkeeper.ports.sources import Unavailable

SOON = timedelta(seconds=10)


BUCKETS = {"gs": "gcs_bucket", "s3": "s3_bucket"}


@pytest.fixture(
    params=[
        "path",
        "file",
        pytest.param("gs", marks=pytest.mark.gcs),
        pytest.param("s3", marks=pytest.mark.s3),
    ]
)
def root(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A root that does not exist yet, on every kind of store."""
    if request.param in BUCKETS:
        return f"{request.getfixturevalue(BUCKETS[request.param])}/demo/checkpoints"
    folder = str(tmp_path / "demo" / "checkpoints")
    return folder if request.param == "path" else f"file://{folder}"


@functools.cache
def writers(*_: str | None) -> Filesystems:
    """What puts and removes, one for each server: a new client of S3 takes 0.2 s to make."""
    return Filesystems(SOON)


def writer(url: str) -> Any:
    endpoints = ("STORAGE_EMULATOR_HOST", "AWS_ENDPOINT_URL")
    return writers(*(os.environ.get(name) for name in endpoints)).of(url)


def put(url: str, content: bytes) -> None:
    filesystem = writer(url)
    if not url.startswith(("gs://", "s3://")):
        filesystem.makedirs(url.rsplit("/", 1)[0], exist_ok=True)
    filesystem.pipe_file(url, content)


def put_checkpoint(
    root: str, step: int, *, temporary: bool = True, named: int | None = None
) -> None:
    put(f"{root}/step-{step}/model/shard-0.npy", b"weights")
    metadata = {"step": step if named is None else named, "is_temporary": temporary}
    put(f"{root}/step-{step}/metadata.json", json.dumps(metadata).encode())


def remove(url: str) -> None:
    writer(url).rm_file(url)


def steps(listing: CheckpointListing) -> list[int]:
    return [checkpoint.step for checkpoint in listing.checkpoints]


def complete(listing: CheckpointListing) -> list[int]:
    return [checkpoint.step for checkpoint in listing.checkpoints if checkpoint.complete]


def test_a_root_that_is_not_there_yet_gives_an_empty_listing(root: str) -> None:
    assert FsspecCheckpoints().list_checkpoints(root) == CheckpointListing(root=root)


def test_the_newest_file_below_a_root_is_found_on_every_store(root: str) -> None:
    store, output = FsspecCheckpoints(), root.rpartition("/")[0]
    assert store.newest_write(output) is None
    put_checkpoint(root, 900)
    put(f"{root}/step-1000/shard-0.npy", b"weights")
    found = store.newest_write(output)
    assert found is not None
    assert found[0].endswith("/checkpoints/step-1000/shard-0.npy")
    clock.sleep(timedelta(seconds=1.1))
    put(f"{output}/metrics.jsonl", b"{}")
    before = clock.now()
    found = store.newest_write(output)
    assert found is not None
    assert found[0].endswith("/demo/metrics.jsonl")
    assert before - timedelta(seconds=10) < found[1] < before + timedelta(seconds=2)


def test_a_store_that_gives_no_answer_does_not_say_that_nobody_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(f"{tmp_path}/demo/metrics.jsonl", b"{}")

    def down(*_: Any, **__: Any) -> Any:
        raise OSError("stale file handle")

    monkeypatch.setattr(LocalFileSystem, "ls", down)
    with pytest.raises(Unavailable, match="stale file handle"):
        FsspecCheckpoints().newest_write(f"{tmp_path}/demo")


def test_checkpoints_come_in_numeric_order(root: str) -> None:
    for step in (1000, 900, 51_376, 51_351, 0):
        put_checkpoint(root, step)
    assert steps(FsspecCheckpoints().list_checkpoints(root)) == [0, 900, 1000, 51_351, 51_376]


def test_a_complete_checkpoint_is_described_by_its_metadata(root: str) -> None:
    before = clock.now() - timedelta(seconds=2)
    put_checkpoint(root, 500, temporary=False)
    put_checkpoint(root, 600)
    permanent, temporary = FsspecCheckpoints().list_checkpoints(f"{root}/").checkpoints
    assert permanent.written_at is not None
    assert before < permanent.written_at < clock.now() + timedelta(seconds=2)
    assert permanent == CheckpointFacts(
        step=500,
        path=f"{root}/step-500",
        complete=True,
        kind=CheckpointKind.PERMANENT,
        metadata_step=500,
        written_at=permanent.written_at,
    )
    assert temporary.kind is CheckpointKind.TEMPORARY


def test_a_half_written_checkpoint_is_listed_as_incomplete(root: str) -> None:
    put_checkpoint(root, 900)
    put(f"{root}/step-1000/shard-0.npy", b"weights")
    newest = FsspecCheckpoints().list_checkpoints(root).checkpoints[-1]
    assert newest == CheckpointFacts(
        step=1000, path=f"{root}/step-1000", complete=False, reason="no metadata.json"
    )


@pytest.mark.parametrize("content", [b"", b'{"step": 1000, "is_temp', b"\x00\xff\xfe", b"[1000]"])
def test_metadata_that_can_not_be_read_is_incomplete_with_the_reason(
    root: str, content: bytes
) -> None:
    put_checkpoint(root, 900)
    put(f"{root}/step-1000/metadata.json", content)
    older, newest = FsspecCheckpoints().list_checkpoints(root).checkpoints
    assert older.complete
    assert not newest.complete
    assert newest.kind is CheckpointKind.UNKNOWN
    assert newest.reason.startswith("metadata.json")


def test_metadata_of_another_step_is_reported_for_the_rules_to_judge(root: str) -> None:
    put_checkpoint(root, 1000, named=900)
    (found,) = FsspecCheckpoints().list_checkpoints(root).checkpoints
    assert (found.step, found.metadata_step, found.complete) == (1000, 900, True)


@pytest.mark.parametrize(
    "name", ["step-", "step-x", "step-0900", "step-9.part", "best", "STEP-9", "xstep-9", "step--9"]
)
def test_folders_of_other_names_are_not_checkpoints(root: str, name: str) -> None:
    put_checkpoint(root, 900)
    put(f"{root}/{name}/metadata.json", b'{"step": 9}')
    assert steps(FsspecCheckpoints().list_checkpoints(root)) == [900]


def test_a_file_is_not_a_checkpoint(root: str) -> None:
    put_checkpoint(root, 900)
    put(f"{root}/step-1000", b"a file")
    put(f"{root}/metadata.json", b"{}")
    assert steps(FsspecCheckpoints().list_checkpoints(root)) == [900]


def test_what_another_process_changes_is_seen_at_the_next_listing(root: str) -> None:
    store = FsspecCheckpoints()
    put_checkpoint(root, 900)
    assert complete(store.list_checkpoints(root)) == [900]
    put(f"{root}/step-1000/shard-0.npy", b"weights")
    assert steps(store.list_checkpoints(root)) == [900, 1000]
    put_checkpoint(root, 1000)
    assert complete(store.list_checkpoints(root)) == [900, 1000]
    put_checkpoint(root, 1000, named=1001)
    assert store.list_checkpoints(root).checkpoints[-1].metadata_step == 1001
    remove(f"{root}/step-900/metadata.json")
    assert complete(store.list_checkpoints(root)) == [1000]


def test_many_checkpoints_are_read_at_once_and_keep_their_order(root: str) -> None:
    expected = [100 * number for number in range(1, 61)]
    for step in expected:
        put_checkpoint(root, step)
    listing = FsspecCheckpoints().list_checkpoints(root)
    assert [found.metadata_step for found in listing.checkpoints] == expected


def test_metadata_that_did_not_change_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[str] = []
    local = cast("Any", LocalFileSystem)
    real = local.cat_file

    def counted(self: Any, path: str) -> bytes:
        reads.append(path)
        content: bytes = real(self, path)
        return content

    monkeypatch.setattr(local, "cat_file", counted)
    put_checkpoint(str(tmp_path), 900)
    put(f"{tmp_path}/step-1000/metadata.json", b"half")
    store = FsspecCheckpoints()
    first = store.list_checkpoints(str(tmp_path))
    assert len(reads) == 2
    assert store.list_checkpoints(str(tmp_path)) == first
    # Only what was not complete is read again.
    assert reads[2:] == [f"{tmp_path}/step-1000/metadata.json"]


@pytest.mark.parametrize(
    ("content", "kind", "metadata_step"),
    [
        (b'{"step": 9, "is_temporary": true}', CheckpointKind.TEMPORARY, 9),
        (b'{"step": 9, "is_temporary": false}', CheckpointKind.PERMANENT, 9),
        (b'{"step": 9}', CheckpointKind.UNKNOWN, 9),
        (b'{"step": 9, "is_temporary": "no"}', CheckpointKind.UNKNOWN, 9),
        (b'{"is_temporary": true}', CheckpointKind.TEMPORARY, None),
        (b'{"step": "9"}', CheckpointKind.UNKNOWN, None),
        (b'{"step": true}', CheckpointKind.UNKNOWN, None),
        (b'{"step": 9.0}', CheckpointKind.UNKNOWN, None),
        (b'{"step": -9}', CheckpointKind.UNKNOWN, None),
        (b'{"step": 1' + b"0" * 4000 + b"}", CheckpointKind.UNKNOWN, None),
        (b'{"step": 9, "loss": NaN}', CheckpointKind.UNKNOWN, 9),
    ],
)
def test_metadata_says_kind_and_step(
    content: bytes, kind: CheckpointKind, metadata_step: int | None
) -> None:
    assert parse_metadata(content, "/out/step-9", 9) == CheckpointFacts(
        step=9, path="/out/step-9", complete=True, kind=kind, metadata_step=metadata_step
    )


@pytest.mark.parametrize(
    "content", [b"", b"{", b"null", b"[]", b'"step"', b"\xff", b"[" * 100_000, b"1" * 5000]
)
def test_metadata_that_is_no_object_is_incomplete(content: bytes) -> None:
    found = parse_metadata(content, "/out/step-9", 9)
    assert not found.complete
    assert found.reason
    assert len(found.reason) < 300


def test_a_root_that_is_a_file_is_no_answer(root: str) -> None:
    put(root, b"not a folder")
    with pytest.raises(Unavailable, match="is a file, expected a folder"):
        FsspecCheckpoints().list_checkpoints(root)


def test_a_root_below_a_file_is_no_answer(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Unavailable, match="lies below a file"):
        FsspecCheckpoints().list_checkpoints(f"{tmp_path}/file/checkpoints")


@pytest.mark.parametrize("url", ["nonsense://bucket/root", "zstd::nonsense://x"])
def test_an_unknown_kind_of_store_is_named(url: str) -> None:
    with pytest.raises(Unavailable, match="Protocol not known"):
        FsspecCheckpoints().list_checkpoints(url)


def test_times_without_a_zone_are_read_as_utc(tmp_path: Path) -> None:
    put_checkpoint(str(tmp_path), 900)
    os.utime(tmp_path / "step-900" / "metadata.json", (1_000_000_000, 1_000_000_000))
    (found,) = FsspecCheckpoints().list_checkpoints(str(tmp_path)).checkpoints
    assert found.written_at == datetime(2001, 9, 9, 1, 46, 40, tzinfo=UTC)
