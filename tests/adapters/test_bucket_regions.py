"""Where a bucket lies, as real stores tell it: Cloud Storage's emulator and moto's S3."""

import pytest

from tests.gcs import place_bucket
from tests.s3 import place_s3_bucket
from watchkeeper.adapters.checkpoints.listing import FsspecCheckpoints
from watchkeeper.ports.sources import Unavailable


@pytest.mark.gcs
def test_cloud_storage_says_where_a_bucket_is(gcs_bucket: str) -> None:
    assert FsspecCheckpoints().region_of(f"{gcs_bucket}/run/checkpoints") == "us"
    place_bucket(gcs_bucket, "EUROPE-WEST4")
    assert FsspecCheckpoints().region_of(gcs_bucket) == "europe-west4"


@pytest.mark.gcs
def test_a_bucket_of_cloud_storage_that_is_not_there_is_in_no_region(gcs_bucket: str) -> None:
    with pytest.raises(Unavailable, match="404"):
        FsspecCheckpoints().region_of(f"{gcs_bucket}-absent/run")


@pytest.mark.s3
@pytest.mark.parametrize(
    ("made_in", "said"), [("", ""), ("eu-central-1", "eu-central-1"), ("EU", "eu-west-1")]
)
def test_s3_says_where_a_bucket_is(s3_bucket: str, made_in: str, said: str) -> None:
    url = s3_bucket
    if made_in:
        url = place_s3_bucket(s3_bucket, made_in)
    assert FsspecCheckpoints().region_of(f"{url}/run/checkpoints") == said


@pytest.mark.s3
def test_a_bucket_that_is_not_there_is_in_no_region(s3_bucket: str) -> None:
    with pytest.raises(Unavailable, match="the bucket does not exist"):
        FsspecCheckpoints().region_of(f"{s3_bucket}-absent/run")
