//! Hadoop's Writables: numbers of variable length, and texts.
//!
//! ```text
//! −112 … 127    the number itself, one byte
//! else          −113 … −120: 1 … 8 bytes of a positive number follow, the highest first
//!               −121 … −128: the same of a negative one, in ones' complement
//! text          its length as such a number, bytes of UTF-8
//! ```

/// Why bytes are not what they should be; the position is where it shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed {
    pub at: usize,
}

pub(crate) fn put_number(number: i64, out: &mut Vec<u8>) {
    if (-112..=127).contains(&number) {
        out.push(number as u8);
        return;
    }
    let (bits, first) = if number < 0 { (!number, -120i8) } else { (number, -112) };
    let bytes = bits.to_be_bytes();
    let len = bytes.iter().skip_while(|byte| **byte == 0).count();
    out.push((first - len as i8) as u8);
    out.extend_from_slice(&bytes[8 - len..]);
}

pub(crate) fn put_text(text: &str, out: &mut Vec<u8>) {
    put_number(text.len() as i64, out);
    out.extend_from_slice(text.as_bytes());
}

/// Bytes that were not read yet. Only the shortest form of a number is taken, so a value has one form.
pub(crate) struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let taken = self.bytes.get(self.at..).and_then(|rest| rest.get(..len)).ok_or(Malformed { at: self.at })?;
        self.at += len;
        Ok(taken)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Malformed> {
        self.take(1).map(|byte| byte[0])
    }

    pub(crate) fn number(&mut self) -> Result<i64, Malformed> {
        let at = self.at;
        let first = self.byte()?.cast_signed();
        let (len, is_negative) = match first {
            -112.. => return Ok(i64::from(first)),
            -120..=-113 => (-112 - first, false),
            _ => (-120 - first, true),
        };
        let bits = self.take(len as usize)?.iter().fold(0u64, |bits, byte| bits << 8 | u64::from(*byte));
        let number = i64::try_from(bits).map_err(|_| Malformed { at })?;
        let number = if is_negative { !number } else { number };
        let mut shortest = Vec::with_capacity(9);
        put_number(number, &mut shortest);
        if shortest.len() == 1 + len as usize { Ok(number) } else { Err(Malformed { at }) }
    }

    pub(crate) fn int(&mut self) -> Result<i32, Malformed> {
        let at = self.at;
        i32::try_from(self.number()?).map_err(|_| Malformed { at })
    }

    /// A text of at most `max` bytes.
    pub(crate) fn text(&mut self, max: usize) -> Result<&'a str, Malformed> {
        let at = self.at;
        let len = usize::try_from(self.number()?).ok().filter(|len| *len <= max).ok_or(Malformed { at })?;
        std::str::from_utf8(self.take(len)?).map_err(|_| Malformed { at })
    }

    /// So many bytes as the number before them says, at most `max`.
    pub(crate) fn bytes(&mut self, max: usize) -> Result<&'a [u8], Malformed> {
        let at = self.at;
        let len = usize::try_from(self.number()?).ok().filter(|len| *len <= max).ok_or(Malformed { at })?;
        self.take(len)
    }

    /// A text of at most `max` bytes without control characters: in a log, it must not look like two lines.
    pub(crate) fn name(&mut self, max: usize) -> Result<&'a str, Malformed> {
        let at = self.at;
        let name = self.text(max)?;
        if name.contains(char::is_control) { Err(Malformed { at }) } else { Ok(name) }
    }

    pub(crate) fn end(self) -> Result<(), Malformed> {
        if self.at == self.bytes.len() { Ok(()) } else { Err(Malformed { at: self.at }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(number: i64) -> Vec<u8> {
        let mut out = Vec::new();
        put_number(number, &mut out);
        out
    }

    #[test]
    fn numbers_are_as_hadoop_writes_them() {
        assert_eq!(bytes(127), [127]);
        assert_eq!(bytes(-112), [0x90]);
        assert_eq!(bytes(128), [0x8f, 128]);
        assert_eq!(bytes(-113), [0x87, 112]);
        assert_eq!(bytes(i64::MAX), [0x88, 0x7f, 255, 255, 255, 255, 255, 255, 255]);
        assert_eq!(bytes(i64::MIN), [0x80, 0x7f, 255, 255, 255, 255, 255, 255, 255]);
    }

    #[test]
    fn longer_forms_are_refused() {
        assert_eq!(Input::new(&[0x8f, 127]).number(), Err(Malformed { at: 0 }));
        assert_eq!(Input::new(&[0x8e, 0, 200]).number(), Err(Malformed { at: 0 }));
        assert_eq!(Input::new(&[0x88, 0xff, 0, 0, 0, 0, 0, 0, 0]).number(), Err(Malformed { at: 0 }));
        assert_eq!(Input::new(&[0x8e, 1]).number(), Err(Malformed { at: 1 }));
        assert_eq!(Input::new(&[3, b'a', b'b', b'c']).text(2), Err(Malformed { at: 0 }));
        assert_eq!(Input::new(&[2, b'a', b'\n']).name(2), Err(Malformed { at: 0 }));
        assert_eq!(Input::new(&[2, b'a', b'b']).name(2), Ok("ab"));
        assert_eq!(Input::new(&[0xff]).text(2), Err(Malformed { at: 0 }));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(number: i64, shift in 0u32..64, text in ".{0,40}") {
            let number = number >> shift;
            let mut out = bytes(number);
            put_text(&text, &mut out);
            let mut input = Input::new(&out);
            prop_assert_eq!(input.number(), Ok(number));
            prop_assert_eq!(input.text(200), Ok(&text[..]));
            prop_assert_eq!(input.end(), Ok(()));
        }
    }
}
