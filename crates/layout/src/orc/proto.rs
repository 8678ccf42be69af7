//! Protocol buffers, as far as ORC's metadata needs them: fields by their numbers, and what is of no interest is passed
//! over.

use crate::error::{LayoutError, Result};

const CUT: LayoutError = LayoutError::Damaged("a protobuf message ends too early");
const KIND: LayoutError = LayoutError::Damaged("a protobuf message has a field of another type");

/// A value as it is on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Number(u64),
    /// A text, a message, or numbers behind each other.
    Bytes(&'a [u8]),
    /// Four or eight bytes, which nothing of interest has.
    Fixed,
}

impl<'a> Value<'a> {
    pub(crate) fn number(self) -> Result<u64> {
        if let Self::Number(number) = self { Ok(number) } else { Err(KIND) }
    }

    pub(crate) fn bytes(self) -> Result<&'a [u8]> {
        if let Self::Bytes(bytes) = self { Ok(bytes) } else { Err(KIND) }
    }

    /// Of a list of numbers, whether packed or not.
    pub(crate) fn numbers(self) -> Result<Numbers<'a>> {
        match self {
            Self::Number(number) => Ok(Numbers { first: Some(number), ..Numbers::default() }),
            Self::Bytes(bytes) => Ok(Numbers { first: None, left: bytes }),
            Self::Fixed => Err(KIND),
        }
    }
}

/// Numbers of a list, some or all. After an error there are no more.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Numbers<'a> {
    first: Option<u64>,
    left: &'a [u8],
}

impl Iterator for Numbers<'_> {
    type Item = Result<u64>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(first) = self.first.take() {
            return Some(Ok(first));
        }
        if self.left.is_empty() {
            return None;
        }
        Some(varint(&mut self.left).inspect_err(|_| self.left = &[]))
    }
}

/// The fields of a message, each with its number. After an error there are no more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a> {
    left: &'a [u8],
}

pub(crate) fn fields(message: &[u8]) -> Fields<'_> {
    Fields { left: message }
}

impl<'a> Fields<'a> {
    fn field(&mut self) -> Result<(u64, Value<'a>)> {
        let head = varint(&mut self.left)?;
        let value = match head & 7 {
            0 => Value::Number(varint(&mut self.left)?),
            1 => take(&mut self.left, 8).map(|_| Value::Fixed)?,
            2 => {
                let len = varint(&mut self.left)?;
                Value::Bytes(take(&mut self.left, len)?)
            }
            5 => take(&mut self.left, 4).map(|_| Value::Fixed)?,
            _ => return Err(KIND),
        };
        Ok((head >> 3, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Value<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.left = &[];
        }
        Some(field)
    }
}

fn take<'a>(left: &mut &'a [u8], count: u64) -> Result<&'a [u8]> {
    let count = usize::try_from(count).map_err(|_| CUT)?;
    let (taken, rest) = left.split_at_checked(count).ok_or(CUT)?;
    *left = rest;
    Ok(taken)
}

fn varint(left: &mut &[u8]) -> Result<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(left, 1)?.first().copied().ok_or(CUT)?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(number);
        }
    }
    Err(LayoutError::Damaged("a number in a protobuf message is too long"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(message: &[u8]) -> Result<Vec<(u64, Value<'_>)>> {
        fields(message).collect()
    }

    #[test]
    fn fields_are_found_by_their_numbers() {
        let message = b"\x08\x96\x01\x12\x02hi\x1d1234\x21abcdefgh\x82\xf4\x03\x03ORC";
        let found = [
            (1, Value::Number(150)),
            (2, Value::Bytes(b"hi")),
            (3, Value::Fixed),
            (4, Value::Fixed),
            (8000, Value::Bytes(b"ORC")),
        ];
        assert_eq!(read(message).unwrap(), found);
        // Cut before a field is a message, too.
        let whole = (0..message.len()).filter(|len| read(&message[..*len]).is_ok());
        assert_eq!(whole.collect::<Vec<_>>(), [0, 3, 7, 12, 21]);
    }

    #[test]
    fn what_is_no_message_is_damaged() {
        // Groups, a number of eleven bytes, a length behind all.
        for message in [
            &b"\x0b\x0c"[..],
            b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
        ] {
            assert!(read(message).is_err());
            assert_eq!(fields(message).count(), 1, "after an error nothing comes");
        }
    }

    #[test]
    fn a_list_may_be_packed() {
        let all = |value: Value<'_>| value.numbers()?.collect::<Result<Vec<_>>>();
        assert_eq!(all(Value::Bytes(b"\x01\x96\x01")), Ok(vec![1, 150]));
        assert_eq!(all(Value::Number(7)), Ok(vec![7]));
        assert!(all(Value::Bytes(b"\x01\x96")).is_err());
        assert!(all(Value::Fixed).is_err());
    }
}
