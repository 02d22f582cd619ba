"""Moto's S3 server, started as a process of its own: `s3.py PORT [OBJECTS]`.

With OBJECTS its bucket `large` holds so many from the start, in ten step folders below
`run/checkpoints` and a tenth of them loose beside these. Uploading 100,000 takes five minutes.
"""

import functools
import logging
import sys

from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from moto.s3.models import s3_backends
from werkzeug.serving import run_simple

OBJECT = b"weights!"
FOLDERS = 9


def fill(objects: int) -> None:
    """Put objects straight into the server's memory."""
    backend = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
    # Moto goes through all objects for every page. What is put here does not change.
    vars(backend)["list_objects"] = functools.cache(backend.list_objects)
    backend.create_bucket("large", "us-east-1")
    root = "run/checkpoints"
    loose = objects // (FOLDERS + 1)
    for number in range(loose):
        backend.put_object("large", f"{root}/loose-{number:06}.npy", OBJECT)
    for number in range(objects - loose - FOLDERS):
        step = 1000 * (number % FOLDERS + 1)
        backend.put_object("large", f"{root}/step-{step}/shard-{number:06}.npy", OBJECT)
    for folder in range(FOLDERS):
        step = 1000 * (folder + 1)
        content = f'{{"step": {step}, "is_temporary": false}}'.encode()
        backend.put_object("large", f"{root}/step-{step}/metadata.json", content)


def main() -> None:
    """Serve until a signal ends it."""
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    port, objects = int(sys.argv[1]), int(sys.argv[2])
    if objects:
        fill(objects)
    app = DomainDispatcherApplication(create_backend_app)
    run_simple("127.0.0.1", port, app, threaded=True)


if __name__ == "__main__":
    main()
