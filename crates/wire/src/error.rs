//! What can be wrong with bytes from outside. Whatever it is, the connection they came on is closed.

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    #[error("data transfer version {have}, this server supports {want}")]
    Version { have: u16, want: u16 },
    #[error("{what} of {len} bytes, at most {max} are allowed")]
    TooLong { what: &'static str, len: u64, max: u64 },
    #[error("packet with payload length {payload} and header length {header}, which no packet has")]
    PacketLength { payload: u32, header: u16 },
    #[error("packet header claims {data} bytes of data, its payload has {payload}")]
    PacketData { data: i32, payload: u32 },
    #[error("{what} cannot be read: {reason}")]
    Message { what: &'static str, reason: String },
}
