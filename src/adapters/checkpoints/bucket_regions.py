"""Asks a store in which region a bucket lies; nothing of it is kept."""

from typing import Any, cast
from urllib.parse import urlsplit

US_EAST_1 = "us-east-1"
"""Where S3's oldest buckets are: for these it answers without a region."""

EU_WEST_1 = "eu-west-1"
"""What S3 calls `EU` for buckets that were made when it had one region there."""


def gcs_region(filesystem: Any, bucket: str) -> str:
    """Return where Cloud Storage says that a bucket lies, such as `US-CENTRAL2` or `EU`."""
    info: dict[str, Any] = filesystem.info(bucket)
    return str(info.get("location") or "")


def s3_region(filesystem: Any, bucket: str) -> str:
    """Return where S3 says that a bucket lies, such as `eu-central-1`.

    Raises:
        Exception: Whatever s3fs makes of a refusal; `FileNotFoundError` for no such bucket.
    """
    name = bucket.removeprefix("s3://")
    answer = cast("dict[str, Any]", filesystem.call_s3("get_bucket_location", Bucket=name))
    endpoint = str(filesystem.s3.meta.endpoint_url)
    return region_said(str(answer.get("LocationConstraint") or ""), endpoint)


def region_said(constraint: str, endpoint: str) -> str:
    """Return the region that a location constraint of S3 means; empty where it means none.

    Other stores than Amazon's speak S3 too, and to them an empty one does not mean US East.

    >>> region_said("", "https://s3.amazonaws.com"), region_said("", "http://minio:9000")
    ('us-east-1', '')
    >>> region_said("EU", "https://s3.amazonaws.com"), region_said("US-EAST-02A", "https://cw.ai")
    ('eu-west-1', 'US-EAST-02A')
    """
    host = urlsplit(endpoint).hostname or ""
    if not constraint:
        return US_EAST_1 if host.endswith(".amazonaws.com") else ""
    return EU_WEST_1 if constraint == "EU" else constraint
