"""The commands of Redis's other data types, which this server refuses with an error that says so.

Every key here is a stream. The error begins like the one for any unknown command, so that libraries which probe for a
command recognise it.
"""

from __future__ import annotations

from typing import Final

OF_KINDS: Final = {
    "bitmaps": "bitcount bitfield bitfield_ro bitop bitpos getbit setbit",
    "geospatial indexes": (
        "geoadd geodist geohash geopos georadius georadius_ro georadiusbymember georadiusbymember_ro geosearch"
        " geosearchstore"
    ),
    "hashes": (
        "hdel hexists hexpire hexpireat hexpiretime hget hgetall hgetdel hgetex hincrby hincrbyfloat hkeys hlen hmget"
        " hmset hpersist hpexpire hpexpireat hpexpiretime hpttl hrandfield hscan hset hsetex hsetnx hstrlen httl hvals"
    ),
    "HyperLogLogs": "pfadd pfcount pfdebug pfmerge pfselftest",
    "lists": (
        "blmove blmpop blpop brpop brpoplpush lindex linsert llen lmove lmpop lpop lpos lpush lpushx lrange lrem lset"
        " ltrim rpop rpoplpush rpush rpushx"
    ),
    "scripts": "eval eval_ro evalsha evalsha_ro fcall fcall_ro",
    "sets": (
        "sadd scard sdiff sdiffstore sinter sintercard sinterstore sismember smembers smismember smove spop srandmember"
        " srem sscan sunion sunionstore"
    ),
    "sorted sets": (
        "bzmpop bzpopmax bzpopmin zadd zcard zcount zdiff zdiffstore zincrby zinter zintercard zinterstore zlexcount"
        " zmpop zmscore zpopmax zpopmin zrandmember zrange zrangebylex zrangebyscore zrangestore zrank zrem"
        " zremrangebylex zremrangebyrank zremrangebyscore zrevrange zrevrangebylex zrevrangebyscore zrevrank zscan"
        " zscore zunion zunionstore"
    ),
    "strings": (
        "append decr decrby get getdel getex getrange getset incr incrby incrbyfloat lcs mget mset msetex msetnx psetex"
        " set setex setnx setrange strlen substr"
    ),
    "values to be sorted": "sort sort_ro",
    "vector sets": ("vadd vcard vdim vemb vgetattr vinfo vismember vlinks vrandmember vrange vrem vsetattr vsim"),
}
KIND_OF: Final = {name.encode(): kind for kind, names in OF_KINDS.items() for name in names.split()}


def foreign_kind(name: bytes) -> str:
    """What a command of Redis works on that is not here; empty for any other name."""
    return KIND_OF.get(name.lower(), "")
