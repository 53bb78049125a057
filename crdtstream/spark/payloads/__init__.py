"""Payloads with a schema: what the fields of an entry mean becomes columns with types, and back.

`declared` reads the option `payloadSchema`; `plain` makes columns of fields by casts; `json_codec`, `avro_codec` and
`protobuf_codec` decode and encode one payload that a field holds; `decoding` makes columns of either, `encoding` is the
way back, for sinks.

No row is dropped: what cannot be decoded is null, the corrupt record's column says why, and the column `fields` has the
entry as it is. Without `payloadSchema` nothing of this folder is imported.
"""
