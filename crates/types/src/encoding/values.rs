//! Numbers, texts, lists, and the types of this crate.

use super::{DecodeError, Encoded, Input};
use crate::id::{BlockId, ContainerId, Epoch, Generation, InodeId, NodeId, PipelineId};
use crate::path::FsPath;
use crate::time::Millis;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Items that room is made for before they are read. Few lists have more; for others it grows as they come.
const ITEM_COUNT_RESERVED: usize = 16;

macro_rules! numbers {
    ($($type:ident: $bits:literal),*) => {
        $(impl Encoded for $type {
            #[inline]
            fn encode(&self, out: &mut Vec<u8>) {
                let mut rest = *self;
                while rest >= 0x80 {
                    out.push(rest as u8 | 0x80);
                    rest >>= 7;
                }
                out.push(rest as u8);
            }

            #[inline]
            fn decode(input: &mut Input<'_>) -> Result<Self, DecodeError> {
                if let Some(number) = short_number(input) {
                    return $type::try_from(number).map_err(|_| DecodeError::Range);
                }
                let mut number: $type = 0;
                for shift in (0..$bits).step_by(7) {
                    let (byte, rest) = input.bytes.split_first().ok_or(DecodeError::End)?;
                    input.bytes = rest;
                    let digits = $type::from(*byte & 0x7f);
                    number |= digits << shift;
                    if number >> shift != digits {
                        return Err(DecodeError::Range);
                    }
                    if *byte < 0x80 {
                        return Ok(number);
                    }
                }
                Err(DecodeError::Range)
            }
        })*
    };
}

numbers!(u16: 16, u32: 32, u64: 64, u128: 128);

/// A number of at most 56 bits, read without a step for each of its bytes. `None`: it is longer, or the input ends so
/// soon that it may be; nothing is taken then.
#[inline]
fn short_number(input: &mut Input<'_>) -> Option<u64> {
    // Most are small.
    if let Some((first @ 0..0x80, rest)) = input.bytes.split_first() {
        input.bytes = rest;
        return Some(u64::from(*first));
    }
    let eight = u64::from_le_bytes(*input.bytes.first_chunk()?);
    let last = !eight & 0x8080_8080_8080_8080;
    if last == 0 {
        return None;
    }
    let len = last.trailing_zeros() / 8 + 1;
    input.bytes = &input.bytes[len as usize..];
    // Groups of seven bits move together: in pairs, in fours, all of them.
    let sevens = eight & 0x7f7f_7f7f_7f7f_7f7f & (u64::MAX >> (64 - 8 * len));
    let pairs = sevens & 0x007f_007f_007f_007f | (sevens & 0x7f00_7f00_7f00_7f00) >> 1;
    let fours = pairs & 0x0000_3fff_0000_3fff | (pairs & 0x3fff_0000_3fff_0000) >> 2;
    Some(fours & 0x0fff_ffff | (fours & 0x0fff_ffff_0000_0000) >> 4)
}

impl Encoded for usize {
    fn encode(&self, out: &mut Vec<u8>) {
        (*self as u64).encode(out);
    }

    fn decode(input: &mut Input<'_>) -> Result<Self, DecodeError> {
        u64::decode(input)?.try_into().map_err(|_| DecodeError::Range)
    }
}

/// One byte, so that bytes in a list are as they are.
impl Encoded for u8 {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(*self);
    }

    #[inline]
    fn decode(input: &mut Input<'_>) -> Result<Self, DecodeError> {
        input.take(1).map(|bytes| bytes[0])
    }
}

/// As the unsigned number of the same bits: where one may be negative, it hardly ever is.
impl Encoded for i32 {
    fn encode(&self, out: &mut Vec<u8>) {
        self.cast_unsigned().encode(out);
    }

    fn decode(input: &mut Input<'_>) -> Result<Self, DecodeError> {
        u32::decode(input).map(u32::cast_signed)
    }
}

impl Encoded for bool {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        out.push((*self).into());
    }

    #[inline]
    fn decode(input: &mut Input<'_>) -> Result<Self, DecodeError> {
        match u8::decode(input)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(DecodeError::Range),
        }
    }
}

impl Encoded for String {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        self.len().encode(out);
        out.extend_from_slice(self.as_bytes());
    }

    #[inline]
    fn decode(input: &mut Input<'_>) -> Result<Self, DecodeError> {
        input.text().map(str::to_owned)
    }
}

impl<const LEN: usize> Encoded for [u8; LEN] {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }

    fn decode(input: &mut Input<'_>) -> Result<Self, DecodeError> {
        let mut bytes = [0; LEN];
        bytes.copy_from_slice(input.take(LEN as u64)?);
        Ok(bytes)
    }
}

impl<T: Encoded> Encoded for Option<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            None => out.push(0),
            Some(value) => {
                out.push(1);
                value.encode(out);
            }
        }
    }

    fn decode(input: &mut Input<'_>) -> Result<Self, DecodeError> {
        Ok(if bool::decode(input)? { Some(T::decode(input)?) } else { None })
    }

    fn absent() -> Option<Self> {
        Some(None)
    }

    fn is_absent(&self) -> bool {
        self.is_none()
    }
}

impl<T: Encoded> Encoded for Vec<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        encode_list(self.iter(), out);
    }

    fn decode(input: &mut Input<'_>) -> Result<Self, DecodeError> {
        let count = item_count(input)?;
        let mut items = Self::with_capacity(count.min(ITEM_COUNT_RESERVED));
        for _ in 0..count {
            items.push(T::decode(input)?);
        }
        Ok(items)
    }

    fn absent() -> Option<Self> {
        Some(Self::new())
    }

    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

impl<T: Encoded + Ord> Encoded for BTreeSet<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        encode_list(self.iter(), out);
    }

    fn decode(input: &mut Input<'_>) -> Result<Self, DecodeError> {
        (0..item_count(input)?).map(|_| T::decode(input)).collect()
    }
}

impl<K: Encoded + Ord, V: Encoded> Encoded for BTreeMap<K, V> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.len().encode(out);
        for (key, value) in self {
            key.encode(out);
            value.encode(out);
        }
    }

    fn decode(input: &mut Input<'_>) -> Result<Self, DecodeError> {
        (0..item_count(input)?).map(|_| Ok((K::decode(input)?, V::decode(input)?))).collect()
    }
}

fn encode_list<'a, T: Encoded + 'a>(items: impl ExactSizeIterator<Item = &'a T>, out: &mut Vec<u8>) {
    items.len().encode(out);
    for item in items {
        item.encode(out);
    }
}

/// How many items follow. Each has a byte at least, so no more are believed than there are bytes.
fn item_count(input: &mut Input<'_>) -> Result<usize, DecodeError> {
    let count = usize::decode(input)?;
    if count <= input.len() { Ok(count) } else { Err(DecodeError::End) }
}

impl<T: Encoded> Encoded for Arc<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        T::encode(self, out);
    }

    fn decode(input: &mut Input<'_>) -> Result<Self, DecodeError> {
        T::decode(input).map(Self::new)
    }
}

impl<A: Encoded, B: Encoded> Encoded for (A, B) {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
        self.1.encode(out);
    }

    fn decode(input: &mut Input<'_>) -> Result<Self, DecodeError> {
        Ok((A::decode(input)?, B::decode(input)?))
    }
}

impl<A: Encoded, B: Encoded, C: Encoded> Encoded for (A, B, C) {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
        self.1.encode(out);
        self.2.encode(out);
    }

    fn decode(input: &mut Input<'_>) -> Result<Self, DecodeError> {
        Ok((A::decode(input)?, B::decode(input)?, C::decode(input)?))
    }
}

macro_rules! as_its_number {
    ($($type:ident),*) => {
        $(impl Encoded for $type {
            #[inline]
            fn encode(&self, out: &mut Vec<u8>) {
                self.0.encode(out);
            }

            #[inline]
            fn decode(input: &mut Input<'_>) -> Result<Self, DecodeError> {
                Encoded::decode(input).map(Self)
            }
        })*
    };
}

as_its_number!(InodeId, BlockId, ContainerId, Generation, PipelineId, Epoch, NodeId, Millis);

/// Its text, which is parsed again.
impl Encoded for FsPath {
    fn encode(&self, out: &mut Vec<u8>) {
        self.as_str().len().encode(out);
        out.extend_from_slice(self.as_str().as_bytes());
    }

    fn decode(input: &mut Input<'_>) -> Result<Self, DecodeError> {
        let wrong = |error: crate::path::PathError| DecodeError::Value { of: "path", reason: error.to_string() };
        Self::parse(input.text()?).map_err(wrong)
    }
}
