"""Options: parsed, refused with a hint, documented."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from crdtstream.spark.options import TABLE, OptionError, Options, markdown

ROOT = Path(__file__).resolve().parents[2]


def refused(**given: str) -> str:
    with pytest.raises(OptionError) as caught:
        Options(given)
    return str(caught.value)


def test_defaults_and_case() -> None:
    options = Options({"ENDPOINTS": "eu:7201, us:7201", "streams": "a, b,a", "MAXpartitions": "7"})
    assert options["endpoints"] == ("eu:7201", "us:7201")
    assert options["streams"] == ("a", "b")
    assert options["maxPartitions"] == 7
    assert options["minPartitions"] is None
    assert options["failOnDataLoss"] is True
    assert options["startingOffsets"] is None


def test_names_with_commas_are_given_as_json() -> None:
    assert Options({"streams": '["a,b", "c"]'})["streams"] == ("a,b", "c")


def test_options_of_a_store_are_pairs_or_json() -> None:
    given = {"archive": "s3://lake/orders", "archiveStoreOptions": "AWS_REGION=eu, AWS_ENDPOINT_URL=http://a:1/?b=c"}
    assert Options(given)["archiveStoreOptions"] == {"AWS_REGION": "eu", "AWS_ENDPOINT_URL": "http://a:1/?b=c"}
    given["archiveStoreOptions"] = '{"uri": "sqlite:////a,b.db", "pool": 2}'
    assert Options(given)["archiveStoreOptions"] == {"uri": "sqlite:////a,b.db", "pool": "2"}


@pytest.mark.parametrize(
    "value", ["AWS_REGION=eu,AWS_SECRET_ACCESS_KEY=x", "s3.session-token=x", "uri=postgresql://me:x@host/lake"]
)
def test_options_of_a_store_hold_no_secret(value: str) -> None:
    told = refused(archive="s3://lake/orders", archiveStoreOptions=value)
    assert told.startswith("archiveStoreOptions holds a secret, ") and "x" not in told.split("secret, ")[1].split()[0]


def test_offsets_name_streams_and_origins() -> None:
    offsets = Options({"startingOffsets": '{"s": {"1.ab": 5, "2.1": -2}, "t": -1}'})["startingOffsets"]
    assert offsets == {"s": {1 + (0xAB << 8): 5, 2 + 256: -2}, "t": -1}


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("stream_s", "a", "stream_s is not an option of crdtstream: did you mean streams?"),
        ("subscribe", "a", "known are endpoints"),
        (
            "password",
            "x",
            "password is not an option, because plans and logs show options: use passwordFile or passwordEnv",
        ),
        ("provider", "crdtstream", "use CREATE TEMPORARY VIEW"),
        ("endpoints", "eu", "endpoints holds 'eu': write HOST:PORT"),
        ("archiveStoreOptions", "AWS_REGION", "archiveStoreOptions holds 'AWS_REGION': write NAME=VALUE, separated by"),
        ("archiveStoreOptions", "a=b", "archiveStoreOptions was given without archive: name the table, or leave"),
        ("archiveCatalog", "lake", "archiveCatalog was given without archive"),
        ("endpoints", "eu:99999", "write HOST:PORT"),
        ("failOnDataLoss", "yes", "write true or false"),
        ("minPartitions", "0", "write a number from 1 to 100000"),
        ("maxOffsetsPerTrigger", "many", "write a number from 1"),
        ("fieldsAs", "list", "write array, map or json"),
        ("delivery", "once", "write exactly-once or at-least-once"),
        ("startingOffsets", "first", "write earliest, latest, or JSON"),
        ("startingOffsets", '{"s": ', "which is not JSON"),
        ("startingOffsets", '{"s": 5}', "for all origins of a stream -2 (earliest) or -1 (latest)"),
        ("startingOffsets", '{"s": {"eu": 5}}', "'eu' is not an origin"),
        ("startingOffsets", '{"s": {"1.a": "5"}}', "'5' is not a seq"),
        ("streams", "[1]", "write a JSON list of strings"),
    ],
)
def test_what_is_wrong_is_said(name: str, value: str, why: str) -> None:
    assert why in refused(**{name: value})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("streams", "a"), ("streamsPattern", "a*")),
        (("startingOffsets", "latest"), ("startingTimestamp", "5")),
        (("endingOffsets", "latest"), ("endingTimestamp", "5")),
        (("passwordFile", "f"), ("passwordEnv", "E")),
    ],
)
def test_pairs_exclude_each_other(one: tuple[str, str], other: tuple[str, str]) -> None:
    assert f"{one[0]} and {other[0]} were both given: choose one" in refused(**dict([one, other]))


def test_bounds_that_cross_are_refused() -> None:
    assert "minPartitions is 5, but maxPartitions is 4" in refused(minPartitions="5", maxPartitions="4")


def test_the_password_is_read_where_it_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "secret"
    file.write_text("hush\n")
    options = Options({"passwordFile": str(file)})
    assert options.password() == "hush"
    assert b"hush" not in pickle.dumps(options)
    monkeypatch.setenv("BULK_PASSWORD", "hush")
    named = Options({"passwordEnv": "BULK_PASSWORD"})
    assert named.password() == "hush"
    assert b"hush" not in pickle.dumps(named)
    monkeypatch.delenv("BULK_PASSWORD")
    with pytest.raises(OptionError, match="BULK_PASSWORD, which is not set here"):
        named.password()
    assert Options({}).password() == ""


def test_files_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(
        OptionError, match=r"passwordFile .*gone cannot be read here: No such file.*on driver and workers"
    ):
        Options({"passwordFile": str(tmp_path / "gone")}).password()


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"tlsCaFile": "ca.pem"}, "tlsCaFile was given, but tls is not true: add the option tls=true"),
        ({"tls": "true", "tlsCertFile": "c.pem"}, "tlsCertFile and tlsKeyFile belong together"),
        ({"tls": "true", "tlsKeyFile": "k.pem"}, "tlsCertFile and tlsKeyFile belong together"),
        ({"tls": "yes"}, "tls is 'yes': write true or false"),
        ({"user": "ann"}, "user was given without a password: add the option passwordFile or passwordEnv"),
    ],
)
def test_access_is_whole(given: dict[str, str], why: str) -> None:
    assert why in refused(**given)


def test_what_spark_adds_for_itself_is_ignored() -> None:
    assert Options({"checkpointLocation": "/tmp/x", "queryName": "q"}).given == {}


def test_documentation_has_the_table() -> None:
    assert markdown() in (ROOT / "docs" / "spark-options.md").read_text(encoding="utf-8")
    assert len({option.name.lower() for option in TABLE}) == len(TABLE)
