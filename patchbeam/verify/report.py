"""What a verification has found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

About = Literal["manifest", "mixer", "shards", "stored", "records", "layout", "index", "order", "sources"]

ABOUT: dict[About, str] = {
    "manifest": "the manifest can be read, and its parts agree",
    "mixer": "the mixer can be read, and agrees with the manifest",
    "shards": "every shard is there and no other, with its number of records",
    "stored": "size, CRC-32C and gzip profile of every file",
    "records": "the framing of every record and the CRCs of its length and its data",
    "layout": "features of every record: names, kinds, lengths",
    "index": "places and counts in the index against the gzip members",
    "order": "pixels that neighbouring patches share are the same in both",
    "sources": "patches read again from the sources are the same, byte for byte",
}
"""What is looked at, in the order of a report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong.

    Attributes:
        about: what was looked at.
        text: what is wrong, with the values.
        file: path of the file.
        record: number of the record in its file, from 0.
        byte: where the record starts in the uncompressed file.
        stored_byte: where the damage starts in the file as it is stored, when it is compressed.
        patch: number of the patch.
    """

    about: About
    text: str
    file: str | None = None
    record: int | None = None
    byte: int | None = None
    stored_byte: int | None = None
    patch: int | None = None

    @property
    def place(self) -> str:
        """Where it is, for people: ``file, record 3, byte 4096``."""
        parts = [
            text
            for text, value in (
                (self.file, self.file),
                (f"record {self.record}", self.record),
                (f"byte {self.byte}", self.byte),
                (f"stored byte {self.stored_byte}", self.stored_byte),
                (f"patch {self.patch}", self.patch),
            )
            if value is not None and text is not None
        ]
        return ", ".join(parts)

    def to_json(self) -> dict[str, Any]:
        """Returns it as plain values; keys without a value are left out."""
        values = {
            "about": self.about,
            "file": self.file,
            "record": self.record,
            "byte": self.byte,
            "storedByte": self.stored_byte,
            "patch": self.patch,
            "text": self.text,
        }
        return {key: value for key, value in values.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardFacts:
    """What one shard is found to be.

    Attributes:
        path: of the file.
        form: ``plain``, ``indexed`` (gzip members that can be sought) or ``gzip``.
        records: whole records.
        size_bytes: bytes before compression, as far as they could be read.
        stored_bytes: bytes of the file.
        crc32c: of the stored bytes, base64.
    """

    path: str
    form: str
    records: int
    size_bytes: int
    stored_bytes: int
    crc32c: str

    def to_json(self) -> dict[str, Any]:
        """Returns them as plain values."""
        return {
            "path": self.path,
            "form": self.form,
            "records": self.records,
            "uncompressedBytes": self.size_bytes,
            "storedBytes": self.stored_bytes,
            "crc32c": self.crc32c,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The result of a verification.

    Attributes:
        prefix: of the export.
        shards: in order; those that are missing are left out.
        checked: what was looked at → how much of it, for instance ``64 records``.
        skipped: what was not looked at → why.
        findings: what is wrong, in the order of :data:`ABOUT` and then of the files.
    """

    prefix: str
    shards: tuple[ShardFacts, ...]
    checked: dict[About, str]
    skipped: dict[About, str]
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings

    def to_json(self) -> dict[str, Any]:
        """Returns the report as ``patchbeam verify --json`` prints it."""
        return {
            "prefix": self.prefix,
            "ok": self.ok,
            "checked": dict(self.checked),
            "skipped": dict(self.skipped),
            "findings": [finding.to_json() for finding in self.findings],
            "shards": [shard.to_json() for shard in self.shards],
        }
