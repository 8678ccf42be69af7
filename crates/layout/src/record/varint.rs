//! Numbers in as few bytes as they need: seven bits each, the last one without its highest bit. Those with a sign have
//! it in the lowest bit.

use super::error::{RecordError, Result};

const CUT: RecordError = RecordError("it ends too early");

pub(crate) fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// The difference of two numbers, whatever they are: it may wrap around.
pub(crate) fn put_difference(out: &mut Vec<u8>, from: u64, to: u64) {
    let difference = to.wrapping_sub(from) as i64;
    put(out, (difference << 1) as u64 ^ (difference >> 63) as u64);
}

pub(crate) struct Reader<'a> {
    left: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { left: bytes }
    }

    pub(crate) fn left(&self) -> &'a [u8] {
        self.left
    }

    pub(crate) fn take(&mut self, count: u64) -> Result<&'a [u8]> {
        let count = usize::try_from(count).map_err(|_| CUT)?;
        let (taken, rest) = self.left.split_at_checked(count).ok_or(CUT)?;
        self.left = rest;
        Ok(taken)
    }

    pub(crate) fn byte(&mut self) -> Result<u8> {
        self.take(1)?.first().copied().ok_or(CUT)
    }

    pub(crate) fn number(&mut self) -> Result<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(RecordError("a number is too long"))
    }

    /// What is so far from `from`.
    pub(crate) fn behind(&mut self, from: u64) -> Result<u64> {
        let number = self.number()?;
        let difference = (number >> 1) as i64 ^ -((number & 1) as i64);
        Ok(from.wrapping_add(difference as u64))
    }
}
