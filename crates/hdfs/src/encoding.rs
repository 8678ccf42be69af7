//! Fields of protobuf, written without a message around them: for the few answers that are long and often asked for.

/// A tag and the longest length.
pub(crate) const HEAD_LEN: usize = 1 + NUMBER_LEN_MAX;
pub(crate) const NUMBER_LEN_MAX: usize = 10;

/// Protobuf's wire types: a number, or a length and so many bytes.
pub(crate) const NUMBER: u64 = 0;
pub(crate) const LEN: u64 = 2;

pub(crate) const fn tag(field: u64, wire_type: u64) -> u64 {
    field << 3 | wire_type
}

pub(crate) fn put_field(tag: u64, bytes: &[u8], out: &mut Vec<u8>) {
    put_numbers([tag, bytes.len() as u64], out);
    out.extend_from_slice(bytes);
}

/// Seven bits a byte, the lowest first; the top bit says that more follow.
pub(crate) fn put_numbers<const N: usize>(numbers: [u64; N], out: &mut Vec<u8>) {
    for mut number in numbers {
        while number >= 0x80 {
            out.push(number as u8 | 0x80);
            number >>= 7;
        }
        out.push(number as u8);
    }
}

pub(crate) fn number_len(number: u64) -> u64 {
    u64::from((64 - (number | 1).leading_zeros()).div_ceil(7))
}

/// Puts a tag, and the length of all that follows, before what `bytes` has from [`HEAD_LEN`] on. Answers where it
/// begins.
pub(crate) fn put_head(tag: u64, bytes: &mut [u8]) -> usize {
    let mut head = Vec::with_capacity(HEAD_LEN);
    put_numbers([tag, (bytes.len() - HEAD_LEN) as u64], &mut head);
    let start = HEAD_LEN - head.len();
    bytes[start..HEAD_LEN].copy_from_slice(&head);
    start
}
