//! The bytes that open a connection, a request and a response.

use crate::codes::ResponseStatus;

/// Chosen by the client for a request, and in all responses to it: by this they are told apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StreamId(pub [u8; 2]);

/// How every connection begins, 20 bytes: five numbers, of which the last two are 4 and 2012.
pub(crate) const GREETING: [u8; 20] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 7, 220];

/// The 24 bytes that open every request. Big-endian.
///
/// ```text
/// 0           2         4                                20            24
/// ┌───────────┬─────────┬────────────────────────────────┬─────────────┬──────────────┐
/// │ stream 2 B│ code u16│ parameters 16 B, by the code   │ body_len i32│ body         │
/// └───────────┴─────────┴────────────────────────────────┴─────────────┴──────────────┘
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    pub stream: StreamId,
    pub code: u16,
    pub parameters: [u8; 16],
    pub body_len: u32,
}

impl RequestHeader {
    pub const LEN: usize = 24;

    /// `None`: its length is negative, and nobody knows where the next one begins.
    pub fn decode(bytes: &[u8; Self::LEN]) -> Option<Self> {
        let [s0, s1, c0, c1, parameters @ .., l0, l1, l2, l3] = *bytes;
        let body_len = i32::from_be_bytes([l0, l1, l2, l3]);
        let body_len = u32::try_from(body_len).ok()?;
        Some(Self { stream: StreamId([s0, s1]), code: u16::from_be_bytes([c0, c1]), parameters, body_len })
    }
}

/// The 8 bytes that open every response. Big-endian.
///
/// ```text
/// 0           2           4             8
/// ┌───────────┬───────────┬─────────────┬──────────────┐
/// │ stream 2 B│ status u16│ body_len u32│ body         │
/// └───────────┴───────────┴─────────────┴──────────────┘
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseHeader {
    pub stream: StreamId,
    pub status: ResponseStatus,
    pub body_len: u32,
}

impl ResponseHeader {
    pub const LEN: usize = 8;

    pub fn encode(self) -> [u8; Self::LEN] {
        let StreamId([s0, s1]) = self.stream;
        let [c0, c1] = self.status.number().to_be_bytes();
        let [l0, l1, l2, l3] = self.body_len.to_be_bytes();
        [s0, s1, c0, c1, l0, l1, l2, l3]
    }

    /// `None`: a status that no client of ours is told.
    pub fn decode(bytes: &[u8; Self::LEN]) -> Option<Self> {
        let [s0, s1, c0, c1, l0, l1, l2, l3] = *bytes;
        let status = ResponseStatus::from_number(u16::from_be_bytes([c0, c1]))?;
        Some(Self { stream: StreamId([s0, s1]), status, body_len: u32::from_be_bytes([l0, l1, l2, l3]) })
    }
}

/// Numbers out of the parameters of a request.
pub(crate) fn u16_at(parameters: &[u8; 16], at: usize) -> u16 {
    u16::from_be_bytes(bytes_at(parameters, at))
}

pub(crate) fn i32_at(parameters: &[u8; 16], at: usize) -> i32 {
    i32::from_be_bytes(bytes_at(parameters, at))
}

pub(crate) fn i64_at(parameters: &[u8; 16], at: usize) -> i64 {
    i64::from_be_bytes(bytes_at(parameters, at))
}

/// `at` is written in the code that asks, never in what came.
pub(crate) fn bytes_at<const N: usize>(parameters: &[u8; 16], at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&parameters[at..at + N]);
    bytes
}

const _: () = assert!(RequestHeader::LEN == 2 + 2 + 16 + 4 && ResponseHeader::LEN == 2 + 2 + 4);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_it_was_written() {
        let header = ResponseHeader { stream: StreamId([1, 2]), status: ResponseStatus::OkSoFar, body_len: 70_000 };
        assert_eq!(header.encode(), [1, 2, 0x0f, 0xa0, 0, 1, 0x11, 0x70]);
        assert_eq!(ResponseHeader::decode(&header.encode()), Some(header));
        let mut bytes = [0; RequestHeader::LEN];
        bytes[2..4].copy_from_slice(&3013u16.to_be_bytes());
        bytes[23] = 5;
        assert_eq!(RequestHeader::decode(&bytes).map(|header| (header.code, header.body_len)), Some((3013, 5)));
        bytes[20] = 0x80;
        assert_eq!(RequestHeader::decode(&bytes), None);
    }
}
