//! What a message may take in memory, before it is decoded.

/// What one field may take when it is decoded, at most: an empty description of a datanode.
pub const FIELD_LEN: usize = 400;

/// How many fields a message has, with those inside of its own messages down to `depth`; of what is no message, those
/// up to the fault. A text may be counted as if it were a message, for some fields too many. Two bytes can be an empty
/// message in a list, which takes hundreds when it is decoded: so who bounds memory counts before that.
pub fn count(message: &[u8], depth: usize) -> usize {
    use prost::encoding::{DecodeContext, WireType, decode_key, skip_field};
    let mut rest = message;
    let mut sum = 0;
    while let Ok((tag, kind)) = decode_key(&mut rest) {
        let value = rest;
        if skip_field(kind, tag, &mut rest, DecodeContext::default()).is_err() {
            break;
        }
        sum += 1;
        if kind == WireType::LengthDelimited
            && depth > 0
            && let Some(inner) = inner(value)
        {
            sum += count(inner, depth - 1);
        }
    }
    sum
}

/// The bytes of a field that is a text or a message.
fn inner(mut value: &[u8]) -> Option<&[u8]> {
    let len = prost::decode_length_delimiter(&mut value).ok()?;
    value.get(..len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn long_lists_are_found_before_they_are_decoded() {
        assert_eq!(count(&[0x12, 0].repeat(1000), 0), 1000);
        assert_eq!((count(&[], 0), count(&[0xff; 20], 0)), (0, 0), "the second is no message");
        let nested = [&[0x0a, 4][..], &[0x12, 0, 0x12, 0], &[0x18, 0x80, 1]].concat();
        assert_eq!((count(&nested, 0), count(&nested[..7], 0)), (2, 1));
        assert_eq!((count(&nested, 1), count(&nested[..7], 1)), (4, 3));
        let deep = (0..6).fold([0x12, 0].repeat(50), |inner, _| [&[0x0a, inner.len() as u8], &inner[..]].concat());
        assert_eq!([0, 5, 6, 7].map(|depth| count(&deep, depth)), [1, 6, 56, 56]);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..12)) {
            let _ = count(&bytes, 3);
        }
    }
}
