"""Where the files of a table are: on a disk, or in an object store, whose options have the names that AWS gave them.

pyarrow and pyiceberg call the same by other names; deltalake knows these.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow.fs as filesystems

from crdtstream.spark.ack import files_of

# The name for deltalake, for pyarrow, and for pyiceberg.
NAMES: Final = (
    ("AWS_ENDPOINT_URL", "endpoint_override", "s3.endpoint"),
    ("AWS_ACCESS_KEY_ID", "access_key", "s3.access-key-id"),
    ("AWS_SECRET_ACCESS_KEY", "secret_key", "s3.secret-access-key"),
    ("AWS_SESSION_TOKEN", "session_token", "s3.session-token"),
    ("AWS_REGION", "region", "s3.region"),
)


def files_at(uri: str, storage: Mapping[str, str]) -> tuple[Any, str]:
    """The file system and the path of a URI; without options it is found as pyarrow finds it."""
    chosen = {arrow: storage[name] for name, arrow, _ in NAMES if name in storage}
    if not chosen or not uri.startswith("s3://"):
        return files_of(uri)
    return filesystems.S3FileSystem(**chosen), uri.removeprefix("s3://")


def for_pyiceberg(storage: Mapping[str, str]) -> dict[str, str]:
    """The same options under the names of pyiceberg; others are handed on."""
    names = {name: iceberg for name, _, iceberg in NAMES}
    return {names.get(name, name): value for name, value in storage.items()}


def is_remote(uri: str) -> bool:
    return "://" in uri and not uri.startswith("file://")
