//! A message behind its length: protobuf's varint, then that many bytes.
//!
//! Both go out in one write: some clients misread a length that arrives in a TCP segment of its own.

use crate::error::WireError;
use prost::Message;

/// A length fits five bytes of varint (2³⁵ > any limit here); longer ones are nonsense.
const LENGTH_LEN_MAX: usize = 5;

/// Finds the first message in `bytes`: its own bytes, and how many bytes it takes with its length.
/// `None` means that more bytes must come.
pub fn split<'a>(bytes: &'a [u8], what: &'static str, max: usize) -> Result<Option<(&'a [u8], usize)>, WireError> {
    let Some((len, start)) = length(bytes, what, max)? else { return Ok(None) };
    Ok(bytes.get(start..start + len).map(|message| (message, start + len)))
}

/// Reads the length alone: the message's bytes, and where they start. `None` means that more bytes must come.
pub fn length(bytes: &[u8], what: &'static str, max: usize) -> Result<Option<(usize, usize)>, WireError> {
    let mut len = 0u64;
    for (place, byte) in bytes.iter().take(LENGTH_LEN_MAX).enumerate() {
        len |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return if len <= max as u64 {
                Ok(Some((len as usize, place + 1)))
            } else {
                Err(WireError::TooLong { what, len, max: max as u64 })
            };
        }
    }
    if bytes.len() < LENGTH_LEN_MAX { Ok(None) } else { Err(WireError::TooLong { what, len, max: max as u64 }) }
}

/// Appends `message` behind its length.
pub fn put(message: &impl Message, out: &mut Vec<u8>) {
    out.reserve(LENGTH_LEN_MAX + message.encoded_len());
    message.encode_length_delimited(out).expect("a vector grows");
}

/// Decodes a whole message, undelimited.
pub fn decode<M: Message + Default>(bytes: &[u8], what: &'static str) -> Result<M, WireError> {
    M::decode(bytes).map_err(|error| WireError::Message { what, reason: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_long_length_is_refused_before_its_bytes_come() {
        assert_eq!(split(&[0x80], "op", 1000), Ok(None));
        assert_eq!(split(&[0xe9, 0x07], "op", 1000), Err(WireError::TooLong { what: "op", len: 1001, max: 1000 }));
        assert_eq!(length(&[0xe8, 0x07], "op", 1000), Ok(Some((1000, 2))));
        assert!(split(&[0xff; 9], "op", 1000).is_err());
        assert_eq!(split(&[0, 9], "op", 1000), Ok(Some((&[][..], 1))));
    }

    proptest! {
        #[test]
        fn what_was_put_is_found_again(text in ".{0,300}", more in proptest::collection::vec(any::<u8>(), 0..9)) {
            let mut bytes = Vec::new();
            put(&text, &mut bytes);
            let whole = bytes.len();
            for short in 0..whole {
                prop_assert_eq!(split(&bytes[..short], "text", 4096), Ok(None));
            }
            bytes.extend(more);
            let (message, len) = split(&bytes, "text", 4096).unwrap().unwrap();
            prop_assert_eq!(len, whole);
            prop_assert_eq!(decode::<String>(message, "text").unwrap(), text);
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..12)) {
            let _ = split(&bytes, "x", 100);
        }
    }
}
