"""The ACL file: read at the start and by ACL LOAD, replaced atomically by ACL SAVE. No shard of several replaces it, so
they also read it on SIGHUP.

It must exist before the first start, and may be empty, as in Redis: a region whose file is missing would be open to
everyone. Only its owner may read a file that ACL SAVE creates.
"""

from __future__ import annotations

from pathlib import Path

import structlog

from crdtstream.commands.catalogue import CATALOGUE
from crdtstream.commands.table import TABLE
from crdtstream.connections.access import adopt_users, replace_users
from crdtstream.connections.acl.user import User
from crdtstream.connections.acl.users import RulesError, users_of
from crdtstream.connections.context import Context
from crdtstream.connections.process import AclFile
from crdtstream.settings.config import Config, ConfigError
from crdtstream.settings.rewriting import replace_file

assert TABLE  # the catalogue is filled with it

logger = structlog.get_logger()


def read_users(config: Config) -> dict[bytes, User]:
    """The users of the file, none without one; raises ConfigError."""
    path = config.aclfile
    if not path:
        return {}
    try:
        return users_of(Path(path).read_bytes(), path, CATALOGUE.named)
    except OSError as error:
        hint = (
            ": create it, empty at first, readable for this user only" if isinstance(error, FileNotFoundError) else ""
        )
        raise ConfigError(f"the ACL file {path} cannot be read: {error.strerror}{hint}") from error
    except RulesError as error:
        raise ConfigError(f"the ACL file cannot be used: {error.text}") from error


def load_users(context: Context) -> None:
    """Take over the users of the file at the start."""
    config = context.settings.config
    if config.aclfile:
        adopt_users(context, read_users(config))


class SharedUsers:
    """The file that several shards read, and none of them writes: SIGHUP has them read what has changed in it. Users
    that ACL SETUSER has made last until then, or until the end.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._seen = self._text()

    def _text(self) -> bytes:
        path = self._context.settings.config.aclfile
        try:
            return Path(path).read_bytes() if path else b""
        except OSError:
            return b""

    def reload(self) -> None:
        """A wrong file changes nothing."""
        config, text = self._context.settings.config, self._text()
        if config.shards == 1 or not config.aclfile or text == self._seen:
            return
        try:
            users = read_users(config)
        except ConfigError as error:
            logger.warning("acl-file-failed", what="opening", file=config.aclfile, reason=str(error))
        else:
            replace_users(self._context, None, users)
            self._seen = text


def perform(request: AclFile, path: str) -> None:
    """Read or write the file for a command."""
    try:
        if request.text is None:
            request.end(Path(path).read_bytes(), "")
        else:
            replace_file(Path(path), request.text)
            request.end(b"", "")
    except OSError as error:
        what = "opening" if request.text is None else "writing"
        reason = f"Error loading ACLs, opening file '{path}': {error.strerror or error}"
        logger.warning("acl-file-failed", what=what, file=path, reason=error.strerror or str(error))
        request.end(b"", reason)


def perform_all(requests: list[AclFile], path: str) -> None:
    for request in requests:
        perform(request, path)
    requests.clear()
