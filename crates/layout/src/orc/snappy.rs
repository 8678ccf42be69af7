//! Snappy's blocks: literals, and copies of what was written before.
//!
//! ```text
//!  len ─ varint ┬ element ┬ element …
//!               └ tag: its lowest two bits say which ─┬ 0  literal: length in the tag, or in 1 to 4 bytes behind it
//!                                                     ├ 1  copy: 4 to 11 bytes, 11 bits of distance
//!                                                     ├ 2  copy: 1 to 64 bytes, 16 bits of distance
//!                                                     └ 3  copy: 1 to 64 bytes, 32 bits of distance
//! ```
//!
//! It is written here because no crate of the workspace has it, and metadata needs no speed.

use crate::decoders::DAMAGED;
use crate::error::Result;

pub(super) fn snappy(block: &[u8], len_max: usize, out: &mut Vec<u8>) -> Result<()> {
    let mut left = block;
    let len = usize::try_from(varint(&mut left)?).ok().filter(|len| *len <= len_max).ok_or(DAMAGED)?;
    let begin = out.len();
    while let Some((tag, rest)) = left.split_first() {
        left = rest;
        let wide = usize::from(tag >> 2);
        let room = len - (out.len() - begin);
        let (copied, distance) = match tag & 3 {
            0 => {
                let count = match wide {
                    0..60 => wide,
                    _ => number(&mut left, wide - 59)?,
                };
                // At most 32 bits, so one more is none too many.
                let literal = take(&mut left, count + 1)?;
                if literal.len() > room {
                    return Err(DAMAGED);
                }
                out.extend_from_slice(literal);
                continue;
            }
            1 => (4 + (wide & 7), (wide >> 3) << 8 | number(&mut left, 1)?),
            2 => (1 + wide, number(&mut left, 2)?),
            _ => (1 + wide, number(&mut left, 4)?),
        };
        if copied > room || distance == 0 || distance > out.len() - begin {
            return Err(DAMAGED);
        }
        // Byte by byte: a copy may reach into itself.
        for _ in 0..copied {
            let byte = out.len().checked_sub(distance).and_then(|at| out.get(at)).copied();
            out.push(byte.ok_or(DAMAGED)?);
        }
    }
    if out.len() - begin == len { Ok(()) } else { Err(DAMAGED) }
}

fn take<'a>(left: &mut &'a [u8], count: usize) -> Result<&'a [u8]> {
    let (taken, rest) = left.split_at_checked(count).ok_or(DAMAGED)?;
    *left = rest;
    Ok(taken)
}

/// Of one to four bytes, little-endian.
fn number(left: &mut &[u8], len: usize) -> Result<usize> {
    Ok(take(left, len)?.iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte)))
}

/// Of 32 bits.
fn varint(left: &mut &[u8]) -> Result<u64> {
    let mut number = 0;
    for shift in (0..35).step_by(7) {
        let byte = take(left, 1)?.first().copied().ok_or(DAMAGED)?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(number);
        }
    }
    Err(DAMAGED)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(block: &[u8]) -> Result<Vec<u8>> {
        // Behind what is there already, of which no copy may be made.
        let mut out = b"before".to_vec();
        snappy(block, 1000, &mut out)?;
        assert!(out.starts_with(b"before"));
        Ok(out.split_off(6))
    }

    #[test]
    fn literals_and_copies_are_put_together() {
        assert_eq!(plain(b"\x00").unwrap(), b"");
        assert_eq!(plain(b"\x05\x10hello").unwrap(), b"hello");
        // A length behind the tag, of one byte.
        assert_eq!(plain(b"\x05\xf0\x04hello").unwrap(), b"hello");
        // Copies by each kind: 5 bytes from 5 back; 4 from 1 back, which reaches into itself.
        assert_eq!(plain(b"\x0a\x10hello\x05\x05").unwrap(), b"hellohello");
        assert_eq!(plain(b"\x09\x10hello\x01\x01").unwrap(), b"helloooo\x6f");
        assert_eq!(plain(b"\x08\x10hello\x0a\x04\x00").unwrap(), b"helloell");
        assert_eq!(plain(b"\x08\x10hello\x0b\x04\x00\x00\x00").unwrap(), b"helloell");
    }

    #[test]
    fn what_does_not_fit_is_damaged() {
        for block in [
            &b""[..],
            b"\xff\xff\xff\xff\xff\xff",
            // Longer than the bound, longer than it says, shorter.
            b"\xe9\x07\x10hello",
            b"\x04\x10hello",
            b"\x06\x10hello",
            b"\x06\x10hel",
            // Copies from before the begin, from nowhere, and past the end.
            b"\x0a\x10hello\x05\x06",
            b"\x0a\x10hello\x05\x00",
            b"\x09\x10hello\x05\x05",
            b"\x0a\x10hello\x05",
        ] {
            assert!(plain(block).is_err(), "{block:?}");
        }
    }
}
