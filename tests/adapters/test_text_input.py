"""What is to be text is read whatever stands between, and a binary file is refused by name."""

import bz2
import gzip
import io
import lzma
import os
import random
import struct
import subprocess
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tests.command_line import in_this_process
from tests.every_row import every_row
from watchkeeper.adapters.text_input import NotText, is_binary, text_of

ECC = b"RuntimeError: CUDA error: uncorrectable ECC error encountered"
LOG = b"step 1 loss 2.5\nstep 2 loss 2.4\n" + ECC + b"\n"
BAR = "Epoch 3:  45%|████▌     | 90/200 [00:10<00:12, 9.0it/s]\r".encode()


def in_archive(kind: str) -> bytes:
    made = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(made, "w") as archive:
            archive.writestr("train.log", LOG)
    elif kind == "pt":
        with zipfile.ZipFile(made, "w") as archive:
            archive.writestr("model/data.pkl", LOG)
    elif kind == "tar":
        with tarfile.open(fileobj=made, mode="w") as archive:
            archive.addfile(tarfile.TarInfo("train.log"), io.BytesIO())
    else:
        np.savez(made, weights=np.ones(3))
    return made.getvalue()


def floats(count: int) -> bytes:
    chance = random.Random(7)
    return struct.pack(f"<{count}f", *(chance.gauss(0, 0.02) for _ in range(count)))


def random_bytes(count: int) -> bytes:
    return random.Random(7).randbytes(count)


@every_row(
    ("given", "what", "unpack"),
    [
        (gzip.compress(LOG), "gzip data", "zcat"),
        (bz2.compress(LOG), "bzip2 data", "bzcat"),
        (lzma.compress(LOG), "xz data", "xzcat"),
        (b"\x28\xb5\x2f\xfd\x04\x00" + random_bytes(50), "zstd data", "zstdcat"),
        (in_archive("zip"), "a zip archive", "unzip -p"),
        (in_archive("pt"), "a zip archive", ""),
        (in_archive("npz"), "NumPy arrays", ""),
        (in_archive("tar"), "a tar archive", "tar -xOf"),
        (struct.pack("<Q", 20) + b'{"a":{"dtype":"F32"}' + floats(9), "a safetensors file", ""),
        (random_bytes(400), "binary data", ""),
        (random_bytes(100_000), "binary data", ""),
        (floats(10_000), "binary data", ""),
        (bytes([1, 0, 1, 1]) * 5_000, "binary data", ""),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_binary_file_is_refused(given: bytes, what: str, unpack: str) -> None:
    with pytest.raises(NotText) as refused:
        text_of(io.BytesIO(given))
    assert (refused.value.what, refused.value.unpack) == (what, unpack)


@every_row(
    ("given", "read"),
    [
        (b"", b""),
        (b"\x03\n", b"\x03\n"),
        (b"\0" * 3_000_000 + LOG, LOG),
        (LOG + b"\0" * 3_000_000 + LOG, LOG + LOG),
        (b"\0" * 3_000_000, b""),
        (b" caf\xe9 \xb7 \x80\n" + LOG, b" caf\xe9 \xb7 \x80\n" + LOG),
        (b"\x1b[31mERROR\x1b[0m\b\b\a\n" * 50, b"\x1b[31mERROR\x1b[0m\b\b\a\n" * 50),
        (BAR * 500, BAR * 500),
        ("schrittweise gelöst, größer\n".encode("latin-1") * 90,) * 2,
        ("训练损失 step 1 loss 2.5\n".encode("gbk") * 90,) * 2,
        # What Docker's API streams: a header of 8 bytes before each line.
        (b"".join(b"\1\0\0\0\0\0\0\x10" + b"step 1 loss 2.5\n" for _ in range(99)),
         b"".join(b"\1\x10" + b"step 1 loss 2.5\n" for _ in range(99))),
        (LOG.decode().encode("utf-16"), LOG),
        ("训练损失 step 1\n".encode("utf-16") * 1, "训练损失 step 1\n".encode()),
        (b"\0\0\0\0\0\0\0\0" + b'{"step": 1}\n', b'{"step": 1}\n'),
        (b"BZh is how bzip2 begins\n", b"BZh is how bzip2 begins\n"),
    ],
    ids=range(15),
)  # fmt: skip
def test_a_log_is_read_whatever_stands_between(given: bytes, read: bytes) -> None:
    assert text_of(io.BytesIO(given)).read() == read


def test_what_comes_bit_by_bit_is_given_on_as_it_comes() -> None:
    reads, writes = os.pipe()
    with os.fdopen(reads, "rb") as source, os.fdopen(writes, "wb", buffering=0) as sink:
        sink.write(b"step 1\n")
        text = text_of(source)
        assert text.readline() == b"step 1\n"
        sink.write(b"\0\0step 2\n")
        assert text.readline() == b"step 2\n"


def test_a_tensor_s_few_control_characters_make_no_binary() -> None:
    assert not is_binary(b"\x01\x02\x03\xff\xfe" + LOG)


@pytest.mark.parametrize("words", ["triage", "progress", "triage --jsonl", "progress --jsonl",
                                   "judge --jsonl"])  # fmt: skip
def test_a_packed_log_is_refused_with_what_unpacks_it(words: str, tmp_path: Path) -> None:
    log = tmp_path / "a log.gz"
    log.write_bytes(gzip.compress(LOG))
    done = in_this_process("tools", *words.split(), str(log))
    assert (done.returncode, done.stdout) == (4, b"")
    told = done.stderr.decode().strip()
    assert (
        told == f"{log}: gzip data, expected text; try: zcat '{log}' | watchkeeper tools {words} -"
    )
    done = in_this_process("tools", *words.split(), "-", given=log.read_bytes())
    assert (done.returncode, done.stdout) == (4, b"")
    assert f"-: gzip data, expected text; try: zcat FILE | watchkeeper tools {words} -" in (
        done.stderr.decode()
    )


@pytest.mark.parametrize("words", ["triage", "progress", "triage --jsonl", "judge --jsonl"])
def test_random_bytes_are_refused_in_one_line(words: str, tmp_path: Path) -> None:
    file = tmp_path / "weights.bin"
    file.write_bytes(random_bytes(300_000))
    done = in_this_process("tools", *words.split(), str(file))
    assert (done.returncode, done.stdout) == (4, b"")
    told = f"{file}: binary data, expected text; give the log file\n"
    assert done.stderr.decode() == told


def test_a_log_that_was_cut_while_it_was_written_is_read(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    with log.open("wb") as file:
        # Sparse, as rotation leaves it: no disk, and no newline for 50 MB.
        file.truncate(50_000_000)
        file.seek(0, os.SEEK_END)
        file.write(LOG)
    done: subprocess.CompletedProcess[bytes] = in_this_process("tools", "triage", str(log))
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"3 lines" in done.stdout
    assert b"node_failure" in done.stdout
    assert b"\0" not in done.stdout
    done = in_this_process("tools", "progress", str(log))
    assert (done.returncode, done.stderr) == (0, b"")
    assert [line[:19] for line in done.stdout.splitlines()] == [
        b'{"id": 1, "step": 1',
        b'{"id": 2, "step": 2',
    ]
