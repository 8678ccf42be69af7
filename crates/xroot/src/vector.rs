//! Vector reads: many pieces of open files by one request.
//!
//! ```text
//! request body, and head of each piece in the answer, 16 B each        answer
//! ┌───────────┬────────┬────────────┐                                  ┌──────┬──────┬──────┬──────┬─
//! │ handle 4 B│ len i32│ offset i64 │                                  │ head │ data │ head │ data │ …
//! └───────────┴────────┴────────────┘                                  └──────┴──────┴──────┴──────┴─
//! ```
//!
//! Pieces come back in the order in which they were asked for, in parts that are cut between two of them.

use crate::answer;
use crate::codes::ErrorCode;
use crate::frame::{ResponseHeader, StreamId};
use crate::handles::Handle;
use crate::limits::{ELEMENT_LEN_MAX, PART_LEN_MAX, VECTOR_COUNT_MAX, VECTOR_LEN_MAX};
use crate::refusal::Refusal;

/// A piece of an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element {
    pub handle: Handle,
    pub len: u32,
    pub offset: u64,
}

impl Element {
    pub const LEN: usize = 16;

    fn decode(bytes: [u8; Self::LEN]) -> Result<Self, Refusal> {
        let [h0, h1, h2, h3, l0, l1, l2, l3, offset @ ..] = bytes;
        let (len, offset) = (i32::from_be_bytes([l0, l1, l2, l3]), i64::from_be_bytes(offset));
        let len = u32::try_from(len).ok().filter(|len| *len <= ELEMENT_LEN_MAX);
        let (Some(len), Ok(offset)) = (len, u64::try_from(offset)) else {
            let text = format!("an element of a read vector may have 0 to {ELEMENT_LEN_MAX} bytes, from 0 on");
            return Err(Refusal::new(ErrorCode::ArgInvalid, text));
        };
        Ok(Self { handle: Handle::decode([h0, h1, h2, h3]), len, offset })
    }

    pub fn encode(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..4].copy_from_slice(&self.handle.encode());
        bytes[4..8].copy_from_slice(&self.len.to_be_bytes());
        bytes[8..].copy_from_slice(&self.offset.to_be_bytes());
        bytes
    }

    fn framed_len(self) -> usize {
        Self::LEN + self.len as usize
    }
}

/// Bytes of the longest request.
pub(crate) const BODY_LEN_MAX: usize = VECTOR_COUNT_MAX * Element::LEN;

/// The elements of a request: at least one. XRootD's client takes an empty answer for damage, and asks for everything
/// again on a new connection, without end.
pub(crate) fn parse(body: &[u8]) -> Result<Vec<Element>, Refusal> {
    let (heads, rest) = body.as_chunks::<{ Element::LEN }>();
    if heads.is_empty() || !rest.is_empty() {
        return Err(Refusal::new(ErrorCode::ArgInvalid, "the read vector is no list of elements"));
    }
    if heads.len() > VECTOR_COUNT_MAX {
        return Err(Refusal::new(ErrorCode::ArgTooLong, format!("a read vector may have {VECTOR_COUNT_MAX} elements")));
    }
    let elements = heads.iter().map(|head| Element::decode(*head)).collect::<Result<Vec<_>, _>>()?;
    let len: u64 = elements.iter().map(|element| element.framed_len() as u64).sum();
    if len > VECTOR_LEN_MAX {
        return Err(Refusal::new(ErrorCode::ArgTooLong, format!("a read vector may have {VECTOR_LEN_MAX} bytes")));
    }
    Ok(elements)
}

/// The bytes of an element, and where they go.
#[derive(Debug)]
pub struct ElementRead<'a> {
    pub handle: Handle,
    pub offset: u64,
    pub dest: &'a mut [u8],
}

/// Elements that are answered together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VectorPart<'a> {
    elements: &'a [Element],
    is_last: bool,
}

impl<'a> VectorPart<'a> {
    /// Elements in parts, each about as long as is read at a time, or one element. At least one part, which may be
    /// empty.
    pub fn all(elements: &'a [Element]) -> impl Iterator<Item = Self> {
        let mut rest = Some(elements);
        std::iter::from_fn(move || {
            let elements = rest.take()?;
            let mut len = ResponseHeader::LEN;
            let fits = |element: &&Element| {
                len += element.framed_len();
                len <= PART_LEN_MAX
            };
            let count = elements.iter().take_while(fits).count().max(1).min(elements.len());
            let (now, later) = elements.split_at(count);
            rest = Some(later).filter(|later| !later.is_empty());
            Some(Self { elements: now, is_last: later.is_empty() })
        })
    }

    pub fn is_last(&self) -> bool {
        self.is_last
    }

    /// Bytes of the whole response.
    pub fn frame_len(&self) -> usize {
        ResponseHeader::LEN + self.elements.iter().map(|element| element.framed_len()).sum::<usize>()
    }

    /// Writes the heads into a frame of [`Self::frame_len`] bytes, and says what belongs between them.
    pub fn prepare(&self, stream: StreamId, frame: &'a mut [u8]) -> Vec<ElementRead<'a>> {
        assert_eq!(frame.len(), self.frame_len());
        answer::seal(stream, self.is_last, frame);
        let mut rest = &mut frame[ResponseHeader::LEN..];
        let mut reads = Vec::with_capacity(self.elements.len());
        for element in self.elements {
            let (head, behind) = rest.split_at_mut(Element::LEN);
            head.copy_from_slice(&element.encode());
            let (dest, behind) = behind.split_at_mut(element.len as usize);
            reads.push(ElementRead { handle: element.handle, offset: element.offset, dest });
            rest = behind;
        }
        reads
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(elements: &[(u32, i32, i64)]) -> Vec<u8> {
        let one = |(handle, len, offset): &(u32, i32, i64)| {
            [&Handle(*handle).encode()[..], &len.to_be_bytes(), &offset.to_be_bytes()].concat()
        };
        elements.iter().flat_map(one).collect()
    }

    #[test]
    fn a_vector_is_held_against_its_limits() {
        let code = |elements: &[(u32, i32, i64)]| parse(&body(elements)).err().map(|refusal| refusal.code);
        assert_eq!(code(&[]), Some(ErrorCode::ArgInvalid));
        assert_eq!(code(&[(0, 0, 0), (1, ELEMENT_LEN_MAX as i32, i64::MAX)]), None);
        assert_eq!(code(&[(0, -1, 0)]), Some(ErrorCode::ArgInvalid));
        assert_eq!(code(&[(0, 1, -1)]), Some(ErrorCode::ArgInvalid));
        assert_eq!(code(&[(0, ELEMENT_LEN_MAX as i32 + 1, 0)]), Some(ErrorCode::ArgInvalid));
        assert_eq!(code(&vec![(0, 1, 0); VECTOR_COUNT_MAX]), None);
        assert_eq!(code(&vec![(0, 1, 0); VECTOR_COUNT_MAX + 1]), Some(ErrorCode::ArgTooLong));
        assert_eq!(code(&vec![(0, ELEMENT_LEN_MAX as i32, 0); 1025]), Some(ErrorCode::ArgTooLong));
        assert_eq!(parse(&body(&[(0, 1, 0)])[1..]).err().map(|refusal| refusal.code), Some(ErrorCode::ArgInvalid));
    }

    #[test]
    fn pieces_stand_behind_their_heads_in_the_order_asked() {
        let elements = parse(&body(&[(1, 3, 10), (0, 0, 5), (1, 2, 0)])).unwrap();
        let part = VectorPart::all(&elements).next().unwrap();
        let mut frame = vec![0; part.frame_len()];
        for (number, read) in (1..).zip(part.prepare(StreamId([0, 9]), &mut frame)) {
            read.dest.fill(number);
        }
        let heads = elements.iter().map(|element| element.encode()).collect::<Vec<_>>();
        let wanted = [&[0, 9, 0, 0, 0, 0, 0, 53][..], &heads[0], &[1; 3], &heads[1], &heads[2], &[3; 2]].concat();
        assert_eq!(frame, wanted);
    }

    #[test]
    fn parts_have_whole_elements_and_all_of_them() {
        let lens = [400_000, 700_000, 2_000_000, 5, 5, 1_000_000];
        let elements = parse(&body(&lens.map(|len| (0, len, 0)))).unwrap();
        let parts: Vec<_> = VectorPart::all(&elements).collect();
        let counts: Vec<_> = parts.iter().map(|part| (part.elements.len(), part.is_last)).collect();
        assert_eq!(counts, [(1, false), (1, false), (1, false), (3, true)]);
        assert!(parts.iter().all(|part| part.frame_len() <= ELEMENT_LEN_MAX as usize + 24));
        let empty: Vec<_> = VectorPart::all(&[]).map(|part| (part.frame_len(), part.is_last)).collect();
        assert_eq!(empty, [(8, true)]);
    }
}
