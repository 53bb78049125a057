"""The process around the node: figures that only the runtime knows, and what commands request from it."""

from __future__ import annotations


class About:
    """Figures of the process, which the runtime fills in. `clients_possible` is how many clients the limit of open
    files allows; 0 if that is not known. `certificates` are the ports that speak TLS, and the second since 1970 at
    which the certificate of each ends.
    """

    __slots__ = (
        "certificates",
        "clients_possible",
        "commit",
        "commit_date",
        "cpu_system_s",
        "cpu_user_s",
        "memory_bytes",
        "memory_peak_bytes",
        "process_id",
        "run_id",
        "system_bytes",
    )

    def __init__(self) -> None:
        self.certificates: dict[str, int] = {}
        self.clients_possible = 0
        self.commit = ""
        self.commit_date = ""
        self.process_id = 0
        self.run_id = ""
        self.memory_bytes = 0
        self.memory_peak_bytes = 0
        self.system_bytes = 0
        self.cpu_user_s = 0.0
        self.cpu_system_s = 0.0


class AclFile:
    """A request to read the ACL file, or to write `text` into it, if that is not None. When it is `done`, `text` is
    what was read, or `failure` says why that did not work.
    """

    __slots__ = ("done", "failure", "text")

    def __init__(self, text: bytes | None) -> None:
        self.text = text
        self.done = False
        self.failure = ""

    def end(self, text: bytes, failure: str) -> None:
        self.text, self.failure, self.done = text, failure, True


class Requests:
    """What commands request from the runtime, besides checkpoints (saving.py): writing the settings to their file
    (`rewrite`), reading or writing the ACL file (`acl`), and a clean stop (`stop`), without a checkpoint before it
    (`stop_at_once`), or without handing over to peers (`stop_alone`).
    """

    __slots__ = ("acl", "rewrite", "rewrite_failure", "stop", "stop_alone", "stop_at_once")

    def __init__(self) -> None:
        self.rewrite = False
        # Why the settings could not be written the last time; empty if they were.
        self.rewrite_failure = ""
        self.acl: list[AclFile] = []
        self.stop = False
        self.stop_at_once = False
        self.stop_alone = False

    def rewritten(self, failure: str) -> None:
        """The settings were written to their file, or the reason why not."""
        self.rewrite = False
        self.rewrite_failure = failure
