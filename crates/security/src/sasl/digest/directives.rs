//! The text of a challenge or a response: names and values.
//!
//! ```text
//! name = value , name = "value, with \" and \\" , …       white space around each, elements may be empty
//! ```

use super::error::DigestError;

/// Directives of one message. JDK's have nine at most.
const COUNT_MAX: usize = 32;

/// Directives by their names, in small letters. Each once.
pub(super) struct Directives {
    list: Vec<(String, Vec<u8>)>,
}

impl Directives {
    pub(super) fn parse(bytes: &[u8], what: &'static str, max: usize) -> Result<Self, DigestError> {
        if bytes.len() > max {
            return Err(DigestError::TooLong { what, len: bytes.len(), max });
        }
        let mut input = Input { bytes, at: 0 };
        let mut list: Vec<(String, Vec<u8>)> = Vec::new();
        loop {
            input.skip_space();
            match input.peek() {
                None => return Ok(Self { list }),
                Some(b',') => input.at += 1,
                Some(_) => {
                    let name = input.name()?;
                    if list.iter().any(|(known, _)| *known == name) {
                        return Err(DigestError::Twice { name });
                    }
                    if list.len() == COUNT_MAX {
                        return Err(input.malformed());
                    }
                    let value = input.value()?;
                    list.push((name, value));
                    input.skip_space();
                    if !matches!(input.peek(), None | Some(b',')) {
                        return Err(input.malformed());
                    }
                }
            }
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<&[u8]> {
        self.list.iter().find(|(known, _)| known == name).map(|(_, value)| &value[..])
    }

    /// A value that must be ASCII.
    pub(super) fn text(&self, name: &'static str) -> Result<Option<&str>, DigestError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        match std::str::from_utf8(value) {
            Ok(text) if text.is_ascii() => Ok(Some(text)),
            _ => Err(DigestError::Unsupported { name }),
        }
    }

    pub(super) fn required(&self, name: &'static str) -> Result<&str, DigestError> {
        self.text(name)?.ok_or(DigestError::Missing { name })
    }

    /// That a value is the one it has to be.
    pub(super) fn expect(&self, name: &'static str, want: &str) -> Result<(), DigestError> {
        if self.required(name)? == want { Ok(()) } else { Err(DigestError::Unsupported { name }) }
    }
}

/// Appends a value in quotes.
pub(super) fn put_quoted(out: &mut Vec<u8>, name: &str, value: &str) {
    put(out, name, "\"");
    for byte in value.bytes() {
        if byte == b'"' || byte == b'\\' {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out.push(b'"');
}

pub(super) fn put(out: &mut Vec<u8>, name: &str, value: &str) {
    if !out.is_empty() {
        out.push(b',');
    }
    out.extend_from_slice(name.as_bytes());
    out.push(b'=');
    out.extend_from_slice(value.as_bytes());
}

struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Input<'_> {
    fn malformed(&self) -> DigestError {
        DigestError::Malformed { at: self.at }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    /// A name and the sign behind it.
    fn name(&mut self) -> Result<String, DigestError> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_') {
            self.at += 1;
        }
        let name = String::from_utf8_lossy(&self.bytes[start..self.at]).to_ascii_lowercase();
        self.skip_space();
        if name.is_empty() || self.peek() != Some(b'=') {
            return Err(self.malformed());
        }
        self.at += 1;
        self.skip_space();
        Ok(name)
    }

    fn value(&mut self) -> Result<Vec<u8>, DigestError> {
        let mut value = Vec::new();
        if self.peek() != Some(b'"') {
            while self.peek().is_some_and(|byte| byte.is_ascii_graphic() && byte != b',' && byte != b'"') {
                value.push(self.bytes[self.at]);
                self.at += 1;
            }
            return if value.is_empty() { Err(self.malformed()) } else { Ok(value) };
        }
        self.at += 1;
        loop {
            let byte = self.peek().ok_or(self.malformed())?;
            self.at += 1;
            match byte {
                b'"' => return Ok(value),
                b'\\' => {
                    value.push(self.peek().ok_or(self.malformed())?);
                    self.at += 1;
                }
                _ => value.push(byte),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<Directives, DigestError> {
        Directives::parse(text.as_bytes(), "text", 1000)
    }

    #[test]
    fn values_are_words_or_quoted() {
        let found = parse("a=b, QOP = \"x, \\\"y\\\\\" ,,\tn-c=00000001 ").unwrap();
        assert_eq!(found.get("a"), Some(&b"b"[..]));
        assert_eq!(found.required("qop"), Ok("x, \"y\\"));
        assert_eq!(found.text("n-c"), Ok(Some("00000001")));
        assert_eq!(found.text("realm"), Ok(None));
        assert_eq!(found.required("realm"), Err(DigestError::Missing { name: "realm" }));
        assert_eq!(found.expect("a", "c"), Err(DigestError::Unsupported { name: "a" }));
    }

    #[test]
    fn malformed_texts_are_refused_where_it_shows() {
        let at = |text| match parse(text) {
            Err(DigestError::Malformed { at }) => at,
            _ => panic!("{text} is not malformed"),
        };
        assert_eq!(at("a"), 1);
        assert_eq!(at("=b"), 0);
        assert_eq!(at("a="), 2);
        assert_eq!(at("a=\"b"), 4);
        assert_eq!(at("a=\"b\\"), 5);
        assert_eq!(at("a=b c"), 4);
        assert_eq!(at("a=\"b\"c"), 5);
        let many: String = (0..40).map(|number| format!("a{number}=b,")).collect();
        assert!(matches!(parse(&many), Err(DigestError::Malformed { .. })));
        assert!(matches!(parse("a=b,A=c"), Err(DigestError::Twice { name }) if name == "a"));
        let long = Directives::parse(&[b' '; 1001], "text", 1000).err();
        assert_eq!(long, Some(DigestError::TooLong { what: "text", len: 1001, max: 1000 }));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(value in "[ -~]{0,40}", bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let mut out = Vec::new();
            put_quoted(&mut out, "one", &value);
            put(&mut out, "two", "word");
            let read = Directives::parse(&out, "text", 1000).unwrap();
            prop_assert_eq!(read.required("one"), Ok(&value[..]));
            prop_assert_eq!(read.required("two"), Ok("word"));
            let _ = Directives::parse(&bytes, "text", 1000);
        }
    }
}
