//! Lines of the log that strangers can cause as often as they like: each kind has a limit of its own.

use io::LogLimit;

#[derive(Debug, Default)]
pub(crate) struct LogLimits {
    pub(crate) connection_refused: LogLimit,
    pub(crate) connection_closed: LogLimit,
    /// Of connections that did not prove what they had to.
    pub(crate) handshake_refused: LogLimit,
    /// Too many operations are under way.
    pub(crate) busy: LogLimit,
    pub(crate) write_refused: LogLimit,
    pub(crate) not_joined: LogLimit,
    pub(crate) below_lost: LogLimit,
    /// Of what a writer sent: bytes without their checksum, and no packets.
    pub(crate) unsound: LogLimit,
    pub(crate) packet_refused: LogLimit,
    /// What a reader says of bytes.
    pub(crate) found_unsound: LogLimit,
    pub(crate) layout_not_kept: LogLimit,
    /// Small blocks that others have not put.
    pub(crate) not_on_all: LogLimit,
}
