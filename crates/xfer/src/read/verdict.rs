//! What a reader says at the end: whether it verified what it got.
//!
//! It is optional: a reader that goes away is as good as one that is content, but its connection carries nothing more.

use hdfs::proto::ClientReadStatusProto;
use types::{ChecksumKind, ChecksumSpec};
use wire::{Status, WireError, delimited};

/// Two bytes and a length, as all clients send it; the rest is room for fields that some client may add.
const LEN_MAX: usize = 64;

/// All came, and agreed with its checksums if it had any.
pub(super) fn good(spec: ChecksumSpec) -> Vec<u8> {
    let status = if spec.kind == ChecksumKind::Null { Status::SUCCESS } else { Status::CHECKSUM_OK };
    let mut bytes = Vec::new();
    delimited::put(&ClientReadStatusProto { status: status.0.into() }, &mut bytes);
    bytes
}

/// The verdict at the beginning of `bytes`, and how many bytes it takes. `None`: more must come.
pub(super) fn take(bytes: &[u8]) -> Result<Option<(i32, usize)>, WireError> {
    let Some((message, len)) = delimited::split(bytes, "read status", LEN_MAX)? else { return Ok(None) };
    let verdict: ClientReadStatusProto = delimited::decode(message, "read status")?;
    Ok(Some((verdict.status, len)))
}
