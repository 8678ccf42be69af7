//! The negotiation of mechanisms around a token of Kerberos (SPNEGO, RFC 4178), as far as one round over HTTP has it:
//! the JDK, browsers and curl wrap their first token so.
//!
//! ```text
//! 60 ┌ 06 SPNEGO                                       what a client sends first
//!    └ a0 30 ┌ a0 30 06 06 …   mechanisms, the best first
//!            ├ a1 …            flags, which nobody heeds
//!            ├ a2 04 …         the token of the first mechanism
//!            └ a3 …            a MAC, for who changes the order
//!
//! a1 30 ┌ a0 0a 01 00          it is over                what it is answered
//!       ├ a1 06 …              the first mechanism
//!       └ a2 04 …              the token that answers its token
//! ```
//!
//! Promise: nothing but Kerberos is agreed on, with the token that came along. So there is no list to protect by a MAC:
//! whoever sits in between cannot have less chosen. A client that prefers something else is refused.

/// Kerberos version 5, in DER with its head; and as Windows has written it since a mistake of 2000.
const KERBEROS: &[u8] = &[6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 1, 2, 2];
const KERBEROS_OF_WINDOWS: &[u8] = &[6, 9, 0x2a, 0x86, 0x48, 0x82, 0xf7, 0x12, 1, 2, 2];
const SPNEGO: &[u8] = &[6, 6, 0x2b, 6, 1, 5, 5, 2];

/// It is over: an `ENUMERATED` of 0.
const COMPLETED: &[u8] = &[0x0a, 1, 0];

const INITIAL: u8 = 0x60;
const SEQUENCE: u8 = 0x30;
const OCTETS: u8 = 0x04;
const fn field(number: u8) -> u8 {
    0xa0 + number
}

/// Why what came is no login by Kerberos.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NegotiationError {
    #[error("a token that is neither Kerberos' nor a negotiation (SPNEGO)")]
    Malformed,
    #[error("the client prefers another mechanism to Kerberos")]
    Mechanism,
    #[error("a negotiation without a token of Kerberos")]
    NoToken,
}

/// A client's token of Kerberos, and how it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offered<'a> {
    pub token: &'a [u8],
    /// How the client named Kerberos; `None`: the token was not wrapped.
    mechanism: Option<&'static [u8]>,
}

impl<'a> Offered<'a> {
    /// Takes what a client sent.
    pub fn read(bytes: &'a [u8]) -> Result<Self, NegotiationError> {
        let initial = whole(bytes, INITIAL)?;
        if initial.starts_with(KERBEROS) {
            return Ok(Self { token: bytes, mechanism: None });
        }
        let wrapped = initial.strip_prefix(SPNEGO).ok_or(NegotiationError::Malformed)?;
        let fields = whole(whole(wrapped, field(0))?, SEQUENCE)?;
        let (mechanisms, fields) = value(fields, field(0))?;
        let mechanisms = whole(mechanisms, SEQUENCE)?;
        let known = [KERBEROS, KERBEROS_OF_WINDOWS].into_iter().find(|known| mechanisms.starts_with(known));
        let mechanism = Some(known.ok_or(NegotiationError::Mechanism)?);
        let fields = value(fields, field(1)).map_or(fields, |(_flags, rest)| rest);
        let (token, _mac) = value(fields, field(2)).map_err(|_| NegotiationError::NoToken)?;
        Ok(Self { token: whole(token, OCTETS)?, mechanism })
    }

    /// What the client hears, with the token that answers its own; that may be empty.
    pub fn answer(&self, token: &[u8]) -> Vec<u8> {
        let Some(mechanism) = self.mechanism else { return token.to_vec() };
        let token = if token.is_empty() { Vec::new() } else { der(field(2), &[&der(OCTETS, &[token])]) };
        let fields = [&der(field(0), &[COMPLETED])[..], &der(field(1), &[mechanism]), &token];
        der(field(1), &[&der(SEQUENCE, &fields)])
    }
}

/// The content of the value that begins here, which has this tag, and what is behind it.
fn value(bytes: &[u8], tag: u8) -> Result<(&[u8], &[u8]), NegotiationError> {
    let malformed = NegotiationError::Malformed;
    let (&[first, short], rest) = bytes.split_first_chunk().ok_or(malformed)?;
    if first != tag {
        return Err(malformed);
    }
    // A token has 128 KiB at most, so lengths have three bytes at most behind their own.
    let (len, rest) = match short {
        0..=0x7f => (usize::from(short), rest),
        0x81..=0x83 => {
            let (len, rest) = rest.split_at_checked(usize::from(short - 0x80)).ok_or(malformed)?;
            (len.iter().fold(0, |len, byte| len << 8 | usize::from(*byte)), rest)
        }
        _ => return Err(malformed),
    };
    rest.split_at_checked(len).ok_or(malformed)
}

/// The same where nothing may be behind it.
fn whole(bytes: &[u8], tag: u8) -> Result<&[u8], NegotiationError> {
    match value(bytes, tag)? {
        (content, []) => Ok(content),
        _ => Err(NegotiationError::Malformed),
    }
}

fn der(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    let bytes = len.to_be_bytes();
    let significant = &bytes[bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len() - 1)..];
    let mut out = vec![tag];
    if len >= 0x80 {
        out.push(0x80 + significant.len() as u8);
    }
    out.extend_from_slice(significant);
    parts.iter().for_each(|part| out.extend_from_slice(part));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NTLM: &[u8] = &[6, 10, 0x2b, 6, 1, 4, 1, 0x82, 0x37, 2, 2, 10];

    fn wrapped(mechanisms: &[&[u8]], more: &[&[u8]]) -> Vec<u8> {
        let mechanisms = der(field(0), &[&der(SEQUENCE, mechanisms)]);
        let fields = [&[&mechanisms[..]], more].concat();
        der(INITIAL, &[SPNEGO, &der(field(0), &[&der(SEQUENCE, &fields)])])
    }

    fn token(bytes: &[u8]) -> Vec<u8> {
        der(field(2), &[&der(OCTETS, &[bytes])])
    }

    #[test]
    fn a_token_is_taken_out_of_its_wrapping() {
        let bare = der(INITIAL, &[KERBEROS, b"a ticket"]);
        let offered = Offered::read(&bare).unwrap();
        assert_eq!((offered.token, offered.answer(b"and mine")), (&bare[..], b"and mine".to_vec()));
        let long = vec![7; 70_000];
        for len in [0, 1, 100, 127, 128, 255, 256, 70_000] {
            let (flags, mac) = (der(field(1), &[&[3, 2, 1, 6]]), der(field(3), &[&der(OCTETS, &[b"mac"])]));
            let bytes = wrapped(&[KERBEROS, NTLM], &[&flags, &token(&long[..len]), &mac]);
            assert_eq!(Offered::read(&bytes).unwrap().token, &long[..len], "{len}");
        }
    }

    /// As MIT's library answers the JDK.
    #[test]
    fn the_answer_says_that_it_is_over() {
        let mechanism = |bytes: &[u8]| Offered::read(bytes).unwrap().answer(b"ok");
        let answer = mechanism(&wrapped(&[KERBEROS], &[&token(b"t")]));
        let head = [0xa1, 0x1a, 0x30, 0x18, 0xa0, 3, 0x0a, 1, 0, 0xa1, 0x0b];
        assert_eq!(answer, [&head[..], KERBEROS, &[0xa2, 4, 4, 2], b"ok"].concat());
        let of_windows = mechanism(&wrapped(&[KERBEROS_OF_WINDOWS, KERBEROS], &[&token(b"t")]));
        assert_eq!(of_windows, [&head[..], KERBEROS_OF_WINDOWS, &[0xa2, 4, 4, 2], b"ok"].concat());
        let silent = Offered::read(&wrapped(&[KERBEROS], &[&token(b"t")]).clone()).unwrap().answer(b"");
        assert_eq!(silent, [&[0xa1, 0x14, 0x30, 0x12], &head[4..], KERBEROS].concat());
    }

    #[test]
    fn what_is_no_login_is_named() {
        let refused = |bytes: &[u8]| Offered::read(bytes).unwrap_err();
        assert_eq!(refused(&wrapped(&[NTLM, KERBEROS], &[&token(b"t")])), NegotiationError::Mechanism);
        assert_eq!(refused(&wrapped(&[KERBEROS], &[])), NegotiationError::NoToken);
        assert_eq!(refused(b"NTLMSSP\0\x01"), NegotiationError::Malformed);
        assert_eq!(refused(b""), NegotiationError::Malformed);
        let whole = wrapped(&[KERBEROS], &[&token(b"t")]);
        for len in 0..whole.len() {
            assert!(Offered::read(&whole[..len]).is_err(), "{len}");
        }
        assert_eq!(refused(&[&whole[..], b"x"].concat()), NegotiationError::Malformed);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(at in any::<prop::sample::Index>(), byte in any::<u8>(), rest in any::<Vec<u8>>()) {
            let mut bytes = wrapped(&[KERBEROS, NTLM], &[&token(b"a ticket")]);
            let at = at.index(bytes.len());
            bytes[at] = byte;
            for bytes in [&bytes[..], &rest, &[&bytes[..at], &rest].concat()] {
                if let Ok(offered) = Offered::read(bytes) {
                    prop_assert!(offered.token.len() <= bytes.len());
                }
            }
        }
    }
}
