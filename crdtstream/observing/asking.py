"""Asks one region over its Redis port. Whatever fails is an answer, whose `error` says why; nothing is repeated, since
a command may have been carried out although its reply was lost.

A key may have another shard than the one asked, where an address was changed meanwhile: what that answers with MOVED
is asked once more at the address which it names.

Replies are those of RESP2 as bytes: redis-py's own conversions differ between its releases.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from crdtstream.observing.access import Access

Words = Sequence[str | bytes | int]
NO_REPLY = "no answer within {:g} s"


@dataclass(frozen=True)
class RegionAnswer:
    """The reply of one region or its error; `unreachable` if it did not answer at all, `moved_to` another shard."""

    region: str
    value: Any = None
    error: str = ""
    unreachable: bool = False
    moved_to: str = ""


class RedisPort:
    """The Redis port of one region. Questions may be asked at the same time, each on a connection of its own."""

    def __init__(self, address: str, access: Access) -> None:
        # Imported only here: a region starts without it, and sooner.
        from redis.asyncio import Redis
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff

        host, _, port = address.rpartition(":")
        self._access = access
        self._moved: dict[str, RedisPort] = {}
        self.address = address
        self.name = address
        self._client: Any = Redis(
            host=host.strip("[]"),
            port=int(port),
            **access.arguments(),
            # Each question has its own deadline.
            socket_timeout=None,
            socket_connect_timeout=None,
            retry=Retry(NoBackoff(), 0),
            decode_responses=False,
            protocol=2,
        )
        self._client.response_callbacks.clear()

    async def ask(self, words: Words, timeout_s: float, late: str = "") -> RegionAnswer:
        """Ask one question; `late` is the error where there is no answer in time."""
        (answer,) = await self.ask_all([words], timeout_s, late)
        return answer

    async def ask_all(self, questions: Sequence[Words], timeout_s: float, late: str = "") -> list[RegionAnswer]:
        """Ask several questions at once; there is an answer for each."""
        ends_s = time.monotonic() + timeout_s
        answers = await self._ask_here(questions, timeout_s, late)
        return [
            await self._ask_there(answer, words, max(0.0, ends_s - time.monotonic()), late)
            if answer.moved_to
            else answer
            for answer, words in zip(answers, questions, strict=True)
        ]

    async def _ask_there(self, answer: RegionAnswer, words: Words, timeout_s: float, late: str) -> RegionAnswer:
        """Ask the shard that the answer names."""
        port = self._moved.get(answer.moved_to)
        if port is None:
            port = self._moved[answer.moved_to] = RedisPort(answer.moved_to, self._access)
        port.name = self.name
        (found,) = await port._ask_here([words], timeout_s, late)
        return found

    async def _ask_here(self, questions: Sequence[Words], timeout_s: float, late: str) -> list[RegionAnswer]:
        import redis

        try:
            async with asyncio.timeout(timeout_s):
                values = await self._send(questions)
        except redis.RedisError as error:
            return [self._failed(error)] * len(questions)
        except TimeoutError:
            text = late or NO_REPLY.format(timeout_s)
            return [RegionAnswer(self.name, error=text, unreachable=True)] * len(questions)
        except OSError as error:
            return [RegionAnswer(self.name, error=error.strerror or str(error), unreachable=True)] * len(questions)
        return [
            self._failed(value) if isinstance(value, redis.RedisError) else RegionAnswer(self.name, value)
            for value in values
        ]

    async def _send(self, questions: Sequence[Words]) -> list[Any]:
        if len(questions) == 1:
            return [await self._client.execute_command(*questions[0])]
        async with self._client.pipeline(transaction=False) as pipeline:
            for words in questions:
                pipeline.execute_command(*words)
            found: list[Any] = await pipeline.execute(raise_on_error=False)
            return found

    def _failed(self, error: Exception) -> RegionAnswer:
        import redis

        if isinstance(error, redis.exceptions.MovedError):
            text = f"MOVED {error.slot_id} {error.host}:{error.port}"
            return RegionAnswer(self.name, error=text, moved_to=text.split()[-1])
        if isinstance(error, redis.ResponseError):
            return RegionAnswer(self.name, error=str(error))
        return RegionAnswer(self.name, error=text_of_failure(error), unreachable=True)

    async def close(self) -> None:
        await self._client.aclose()
        await asyncio.gather(*[port.close() for port in self._moved.values()])


def text_of_failure(error: Exception) -> str:
    """Say why a region could not be asked, in the words of the system where it is the network."""
    cause = error.__cause__ or error.__context__
    return os.strerror(cause.errno) if isinstance(cause, OSError) and cause.errno else str(error)
