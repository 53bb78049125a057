"""The options of the data source `crdtstream`: one table, from which they are parsed, validated and documented.

Names are those of Kafka's options where Kafka has the option, and case does not matter, as always in Spark. An error
says what is wrong and what to do. No option holds a password, because options appear in plans and logs.

`Offsets` is the value of `startingOffsets` and `endingOffsets`: EARLIEST, LATEST, or a position for each stream. A
position is a seq for each origin, inclusive; -2 stands for the earliest seq and -1 for the latest.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from crdtstream.spark.offsets import is_packed, parse_origin, unpacked

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
EARLIEST_SEQ: Final = -2
LATEST_SEQ: Final = -1
EXACTLY_ONCE: Final = "exactly-once"
AT_LEAST_ONCE: Final = "at-least-once"
ARRAY, MAP, JSON = "array", "map", "json"
PERMISSIVE, FAILFAST, DROPMALFORMED = "permissive", "failfast", "dropmalformed"
# Options of the whole query that Spark also passes to its source or sink.
OF_SPARK: Final = frozenset({"checkpointlocation", "queryname"})
# In the options of an object store, or of a catalogue.
SECRET_NAME: Final = re.compile(r"secret|password|token|credential|access[._-]?key", re.IGNORECASE)
PASSWORD_IN_URI: Final = re.compile(r"://[^/@]*:[^/@]*@")

StreamOffsets = int | dict[int, int]
Offsets = str | dict[str, StreamOffsets]


class OptionError(ValueError):
    """An option that is unknown, missing or invalid; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Option:
    """One row of the table; `default` is text, as a user would write it."""

    name: str
    default: str
    meaning: str
    parse: Callable[[str, str], Any]


def text(name: str, value: str) -> str:
    return value


def boolean(name: str, value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise OptionError(f"{name} is {value!r}: write true or false")
    return value.lower() == "true"


def at_least(minimum: int, maximum: int = 2**63 - 1) -> Callable[[str, str], int]:
    def parse(name: str, value: str) -> int:
        number = int(value) if value.strip().lstrip("-").isdecimal() else minimum - 1
        if not minimum <= number <= maximum:
            raise OptionError(f"{name} is {value!r}: write a number from {minimum} to {maximum}")
        return number

    return parse


def one_of(*words: str) -> Callable[[str, str], str]:
    def parse(name: str, value: str) -> str:
        if value.lower() not in words:
            raise OptionError(f"{name} is {value!r}: write {', '.join(words[:-1])} or {words[-1]}")
        return value.lower()

    return parse


def mode(name: str, value: str) -> str:
    if value.lower() == DROPMALFORMED:
        raise OptionError(
            f"{name} is {value}, which loses entries without a word: leave {name} out, and filter by the column"
            " columnNameOfCorruptRecord"
        )
    return one_of(PERMISSIVE, FAILFAST)(name, value)


def names(name: str, value: str) -> tuple[str, ...]:
    """Parse names separated by commas, or a JSON list for names that contain a comma."""
    if value.lstrip().startswith("["):
        listed = from_json(name, value)
        if not all(isinstance(each, str) for each in listed):
            raise OptionError(f'{name} is {value!r}: write a JSON list of strings, such as ["a","b"]')
    else:
        listed = [each.strip() for each in value.split(",")]
    return tuple(dict.fromkeys(each for each in listed if each))


def store_options(name: str, value: str) -> dict[str, str]:
    """Parse NAME=VALUE separated by commas, or a JSON object for values that contain a comma."""
    if value.lstrip().startswith("{"):
        found = {key: str(each) for key, each in from_json(name, value).items()}
    else:
        found = dict(pair(name, each.strip()) for each in value.split(",") if each.strip())
    for key, each in found.items():
        if SECRET_NAME.search(key) or PASSWORD_IN_URI.search(each):
            raise OptionError(
                f"{name} holds a secret, {key}, and plans and logs show options: set it in the environment of driver"
                " and workers, or in pyiceberg's settings"
            )
    return found


def pair(name: str, value: str) -> tuple[str, str]:
    key, equals, rest = value.partition("=")
    if not equals:
        raise OptionError(f"{name} holds {value!r}: write NAME=VALUE, separated by commas, or a JSON object")
    return key, rest


def addresses(name: str, value: str) -> tuple[str, ...]:
    found = names(name, value)
    for address in found:
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise OptionError(
                f"{name} holds {address!r}: write HOST:PORT of the bulk port of each region, separated by commas"
            )
    return found


def from_json(name: str, value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError as error:
        raise OptionError(f"{name} is {value!r}, which is not JSON: {error}") from None


def offsets(name: str, value: str) -> Offsets:
    """Parse earliest, latest, or JSON: {"stream": {"origin": seq}}, {"stream": -2}."""
    if value.lower() in (EARLIEST, LATEST):
        return value.lower()
    form = f'{name} is {value!r}: write earliest, latest, or JSON such as {{"stream": {{"1.ab12": 42}}}}'
    if not value.lstrip().startswith("{"):
        raise OptionError(form)
    parsed = from_json(name, value)
    if is_packed(parsed):
        return dict(unpacked(parsed))
    return {stream: stream_offsets(form, position) for stream, position in parsed.items()}


def stream_offsets(form: str, position: object) -> StreamOffsets:
    if isinstance(position, dict):
        try:
            return {parse_origin(origin): seq_of(form, seq) for origin, seq in position.items()}
        except ValueError as error:
            raise OptionError(f"{form}; {error}") from None
    if position not in (EARLIEST_SEQ, LATEST_SEQ):
        raise OptionError(f"{form}; for all origins of a stream -2 (earliest) or -1 (latest)")
    return seq_of(form, position)


def seq_of(form: str, seq: object) -> int:
    if not isinstance(seq, int) or isinstance(seq, bool) or not EARLIEST_SEQ <= seq < 2**63:
        raise OptionError(f"{form}; {seq!r} is not a seq")
    return seq


MILLISECONDS: Final = at_least(1, 86_400_000)

TABLE: Final = (
    Option(
        "endpoints",
        "",
        "HOST:PORT of the bulk port of each region, or of its shard 0, separated by commas; required",
        addresses,
    ),
    Option(
        "region",
        "",
        "number or name of the region that is asked first, and the one that a sink publishes at; "
        "without it the first of `endpoints`",
        text,
    ),
    Option("database", "0", "number of the database", at_least(0, 2**32 - 1)),
    Option("streams", "", "streams to read, separated by commas, or a JSON list; this or `streamsPattern`", names),
    Option("streamsPattern", "", "streams to read, as a pattern of Redis's `KEYS`, also those that come later", text),
    Option(
        "startingOffsets",
        "",
        "where a new query begins: `earliest` (default of a batch), `latest` (default of a streaming query), or JSON "
        '`{"stream": {"origin": seq}}` (entries after the seq; -2 for earliest, -1 for latest); what it does not name '
        "begins at earliest",
        offsets,
    ),
    Option(
        "endingOffsets",
        "latest",
        "where a batch ends, in the form of `startingOffsets`; what it does not name ends at latest",
        offsets,
    ),
    Option("startingTimestamp", "", "instead of `startingOffsets`: entries with an ID from this ms on", at_least(0)),
    Option("endingTimestamp", "", "instead of `endingOffsets`: entries with an ID below this ms", at_least(0)),
    Option("maxOffsetsPerTrigger", "", "most entries of one micro-batch, shared by streams and origins", at_least(1)),
    Option("minPartitions", "", "at least so many tasks, where there are as many entries", at_least(1, 100_000)),
    Option("maxPartitions", "", "at most so many tasks", at_least(1, 100_000)),
    Option(
        "failOnDataLoss",
        "true",
        "whether a query fails when entries were trimmed, or deleted with their stream, before it read them; `false` "
        "logs them",
        boolean,
    ),
    Option(
        "failOnMissingStream",
        "false",
        "whether a query fails when a stream of `streams` exists nowhere, or `streamsPattern` finds none; "
        "`false` logs it",
        boolean,
    ),
    Option(
        "fieldsAs",
        ARRAY,
        "column `fields`: `array` of structs (all fields, in order), `map` (loses order) or `json` (text)",
        one_of(ARRAY, MAP, JSON),
    ),
    Option(
        "payloadSchema",
        "",
        "what fields of entries become columns with types: DDL such as `order BIGINT, item STRING`, or a file on the "
        "driver with the schema of one field, `*.json` (JSON Schema), `*.avsc` (Avro), `*.desc`, `*.pb` or `*.binpb` "
        "(descriptor set of Protobuf); a sink writes such columns ([Payloads](spark-payloads.md))",
        text,
    ),
    Option(
        "payloadField",
        "",
        "the field that holds the payload: `payload` if `payloadSchema` is a file; with DDL, a field with JSON",
        text,
    ),
    Option("payloadColumn", "", "one column for the whole payload, as a struct; without it each member has one", text),
    Option("payloadMessage", "", "the Protobuf message, with its package, if the file has several", text),
    Option(
        "payloadOlderSchemas",
        "",
        "Avro: files with the schemas of older payloads, separated by commas; a payload names its own by the "
        "fingerprint of a single object",
        names,
    ),
    Option(
        "mode",
        "PERMISSIVE",
        "`PERMISSIVE`: what does not fit `payloadSchema` is null, and a column says why; `FAILFAST` fails the query",
        mode,
    ),
    Option(
        "columnNameOfCorruptRecord",
        "_corrupt_record",
        "with `payloadSchema`: the column that says what is wrong with an entry, null if nothing is",
        text,
    ),
    Option(
        "archive",
        "",
        "a table that `archive --table` has written, read together with what the regions have beyond it "
        "([one DataFrame](spark-tables.md#a-table-and-its-live-tail-as-one-dataframe))",
        text,
    ),
    Option(
        "archiveCatalog",
        "",
        "with `archive`: the catalogue of the Iceberg table, by its name in pyiceberg's settings on the driver, as "
        "`--catalog` names it",
        text,
    ),
    Option(
        "archiveStoreOptions",
        "",
        "with `archive`: what `--store-option` gives, NAME=VALUE separated by commas, or a JSON object; no keys, which "
        "driver and workers have in their environment",
        store_options,
    ),
    Option("includeMetadata", "false", "adds the columns `region`, `id_ms`, `id_seq` and `region_read`", boolean),
    Option(
        "requestTimeoutMs", "30000", "deadline of each call; a long read is continued by another call", MILLISECONDS
    ),
    Option("fetchOffset.numRetries", "3", "how often a call is repeated when no region answers it", at_least(0, 1000)),
    Option("fetchOffset.retryIntervalMs", "1000", "pause before a call is repeated, doubled each time", MILLISECONDS),
    Option(
        "discoveryIntervalMs",
        "100",
        "how long regions are not asked again for new entries, streams and origins",
        at_least(0),
    ),
    Option("user", "", "user of the bulk ports whose password is sent; without it `default`", text),
    Option("passwordFile", "", "file on driver and workers with the password of the bulk ports, in one line", text),
    Option("passwordEnv", "", "environment variable on driver and workers with the password", text),
    Option(
        "tls", "false", "whether the bulk ports are reached over TLS; endpoints by names in their certificates", boolean
    ),
    Option(
        "tlsCaFile",
        "",
        "PEM file on driver and workers with the authority of the bulk ports, if not the system's",
        text,
    ),
    Option(
        "tlsCertFile", "", "PEM file on driver and workers with the certificate that is shown to the bulk ports", text
    ),
    Option("tlsKeyFile", "", "PEM file on driver and workers with its private key", text),
    Option("ackGroup", "", "consumer group that acknowledges what a streaming query has committed", text),
    Option("stream", "", "sink: the stream of all rows, where they have no column `stream`", text),
    Option(
        "delivery",
        EXACTLY_ONCE,
        "sink: `exactly-once` stages rows and publishes each batch once, `at-least-once` adds them as they come",
        one_of(EXACTLY_ONCE, AT_LEAST_ONCE),
    ),
    Option(
        "txnAppId",
        "",
        "sink: name under which batches are published once; a streaming query's default is its ID, a batch's a new one",
        text,
    ),
    Option(
        "skipPublished",
        "false",
        "sink: leave out a batch whose number is not above the last one published under its name, whatever its rows "
        "are; "
        "`false` leaves it out if that number was published with the same rows, and otherwise fails",
        boolean,
    ),
    Option(
        "deadLetterStream",
        "",
        "sink: the stream of rows with something in `columnNameOfCorruptRecord`, which keep their column `fields`; "
        "without it such a row fails the write",
        text,
    ),
    Option("skipLowerIds", "false", "sink: leave out rows with an ID that is not above all in its stream", boolean),
    Option("txnVersion", "", "sink, batch only: number of this write under `txnAppId`, which must rise", at_least(0)),
)
BY_KEY: Final = {option.name.lower(): option for option in TABLE}
# An option that CREATE TABLE adds.
OF_TABLES: Final = "provider"
TLS_FILES: Final = ("tlsCaFile", "tlsCertFile", "tlsKeyFile")
SECRETS: Final = ("password", "requirepass", "auth", "secret")


class Options:
    """The user's options, validated and parsed: `options["maxPartitions"]`, None without a value and a default."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self.given = {key.lower(): str(value) for key, value in given.items() if key.lower() not in OF_SPARK}
        for key in self.given:
            refuse_unknown(key)
        self._values = {option.name: self._parsed(option) for option in TABLE}
        self._refuse_pairs()
        self._refuse_half_tls()

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def _parsed(self, option: Option) -> Any:
        value = self.given.get(option.name.lower(), "") or option.default
        return option.parse(option.name, value) if value else None

    def _refuse_pairs(self) -> None:
        for one, other in (
            ("streams", "streamsPattern"),
            ("startingOffsets", "startingTimestamp"),
            ("passwordFile", "passwordEnv"),
        ):
            if self[one] is not None and self[other] is not None:
                raise OptionError(f"{one} and {other} were both given: choose one")
        for name in ("startingTimestamp", "endingTimestamp"):
            if self["archive"] is not None and self[name] is not None:
                raise OptionError(f"archive and {name} were both given: leave {name} out, and filter by timestamp")
        for name in ("archiveCatalog", "archiveStoreOptions"):
            if self[name] is not None and self["archive"] is None:
                raise OptionError(f"{name} was given without archive: name the table, or leave {name} out")
        if self["endingTimestamp"] is not None and "endingoffsets" in self.given:
            raise OptionError("endingOffsets and endingTimestamp were both given: choose one")
        least, most = self["minPartitions"], self["maxPartitions"]
        if least and most and least > most:
            raise OptionError(f"minPartitions is {least}, but maxPartitions is {most}: raise the maximum")

    def _refuse_half_tls(self) -> None:
        for name in TLS_FILES:
            if self[name] and not self["tls"]:
                raise OptionError(f"{name} was given, but tls is not true: add the option tls=true")
        if bool(self["tlsCertFile"]) != bool(self["tlsKeyFile"]):
            raise OptionError("tlsCertFile and tlsKeyFile belong together: give both or none")
        if self["user"] and not (self["passwordFile"] or self["passwordEnv"]):
            raise OptionError("user was given without a password: add the option passwordFile or passwordEnv")

    def need(self, name: str) -> Any:
        if not self[name]:
            raise OptionError(f"{name} is missing: {BY_KEY[name.lower()].meaning}")
        return self[name]

    def check_reader(self, streaming: bool) -> None:
        """Validate the options of a reader. Spark passes it none for CREATE TABLE ... USING crdtstream
        OPTIONS (...).
        """
        self.need("endpoints")
        if not self["streams"] and not self["streamsPattern"]:
            raise OptionError(
                "neither streams nor streamsPattern was given: name the streams to read. Spark does not pass the "
                "options of CREATE TABLE to a reader; use CREATE TEMPORARY VIEW or spark.read"
            )
        ending = [name for name in ("endingOffsets", "endingTimestamp") if name.lower() in self.given]
        if streaming and ending:
            raise OptionError(f"{ending[0]} is for batches, because a streaming query has no end: leave it out")
        if not streaming and self["startingOffsets"] == LATEST:
            raise OptionError("startingOffsets is latest, so a batch would read nothing: name an earlier position")
        if not streaming and self["endingOffsets"] == EARLIEST:
            raise OptionError("endingOffsets is earliest, so a batch would read nothing: name a later position")
        if self["deadLetterStream"]:
            raise OptionError(
                "deadLetterStream is for sinks: a reader has corrupt entries as rows; give it to the sink"
            )
        if self["ackGroup"] and not streaming:
            raise OptionError("ackGroup is for streaming queries: after a batch use crdtstream.spark.ack.advance")

    def check_writer(self, streaming: bool) -> None:
        self.need("endpoints")
        if streaming and self["txnVersion"] is not None:
            raise OptionError("txnVersion is for batches, because a streaming query numbers its own: leave it out")
        if not streaming and (self["txnAppId"] is None) != (self["txnVersion"] is None):
            raise OptionError("txnAppId and txnVersion belong together: give both, or neither to write without a name")

    def password(self) -> str:
        """Read the password where it is used, so that no plan contains it; empty if none is configured."""
        if self["passwordFile"]:
            return self.read("passwordFile").decode().strip("\r\n")
        if self["passwordEnv"]:
            if self["passwordEnv"] not in os.environ:
                raise OptionError(
                    f"passwordEnv names {self['passwordEnv']}, which is not set here: set it on driver and workers"
                )
            return os.environ[self["passwordEnv"]]
        return ""

    def read(self, name: str) -> bytes:
        """The file that an option names; raises OptionError."""
        path = self[name]
        try:
            return Path(path).read_bytes()
        except OSError as error:
            text = f"{name} {path} cannot be read here: {error.strerror}; it has to be on driver and workers"
            raise OptionError(text) from None


def refuse_unknown(key: str) -> None:
    if key in BY_KEY:
        return
    if key == OF_TABLES:
        raise OptionError(
            "a table cannot use crdtstream, because Spark does not pass the options of CREATE TABLE to a reader: "
            "use CREATE TEMPORARY VIEW, or spark.read"
        )
    if key in SECRETS:
        raise OptionError(
            f"{key} is not an option, because plans and logs show options: use passwordFile or passwordEnv"
        )
    near = get_close_matches(key, BY_KEY, n=1, cutoff=0.5)
    hint = f"did you mean {BY_KEY[near[0]].name}?" if near else f"known are {', '.join(o.name for o in TABLE)}"
    raise OptionError(f"{key} is not an option of crdtstream: {hint}")


def markdown() -> str:
    """Return the options as a Markdown table."""
    lines = ["| option | default | meaning |", "|---|---|---|"]
    for option in TABLE:
        default = f"`{option.default}`" if option.default else ""
        lines.append(f"| `{option.name}` | {default} | {option.meaning} |")
    return "\n".join(lines)
