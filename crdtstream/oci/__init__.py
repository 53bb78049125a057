"""An HTTP gateway that speaks the API of OCI Streaming, version 20180418, on the region's partitioned streams.

It needs the extra `oci` and is imported only where a port is given. `engine` is what it asks of the region; times,
signatures, cursors, limits and models are pure; `app` and `server` are the edges. Reference: docs/oci.md.
"""
