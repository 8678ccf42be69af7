//! The bytes of a file as the body of an answer, a piece at a time.

use crate::opened::Opened;
use axum::body::{Body, Bytes};
use client::{Error, RangeRead};
use futures_util::stream;
use std::ops::Range;
use std::vec;

/// Bytes that are read at a time. A guess: a round trip to a datanode near here brings as much as the socket takes.
const PIECE_LEN_MAX: u64 = 512 << 10;
/// Ranges that are read at a time: one request to each datanode.
const RANGE_COUNT_MAX: usize = 1024;

/// What an answer consists of.
#[derive(Debug)]
pub(super) struct Parts {
    ranges: Vec<Range<u64>>,
    /// Of an answer of several parts.
    frame: Option<Frame>,
}

/// `multipart/byteranges` (RFC 9110 §14.6).
#[derive(Debug)]
struct Frame {
    boundary: String,
    file_len: u64,
}

impl Frame {
    /// What comes before the bytes of a part.
    fn head(&self, range: &Range<u64>) -> String {
        let Self { boundary, file_len } = self;
        let (first, last) = (range.start, range.end - 1);
        format!(
            "\r\n--{boundary}\r\nContent-Type: application/octet-stream\r\n\
             Content-Range: bytes {first}-{last}/{file_len}\r\n\r\n"
        )
    }

    fn end(&self) -> String {
        format!("\r\n--{}--\r\n", self.boundary)
    }
}

impl Parts {
    pub(super) fn one(range: Range<u64>) -> Self {
        Self { ranges: Vec::from([range]), frame: None }
    }

    /// Each with the place that it has in the file.
    pub(super) fn several(ranges: Vec<Range<u64>>, file_len: u64) -> Self {
        let mut drawn = [0; 16];
        io::random::fill(&mut drawn);
        let boundary = drawn.iter().map(|byte| format!("{byte:02x}")).collect();
        Self { ranges, frame: Some(Frame { boundary, file_len }) }
    }

    /// Bytes of the whole body.
    pub(super) fn len(&self) -> u64 {
        let bytes = self.ranges.iter().map(|range| range.end - range.start).sum::<u64>();
        let framed = self.frame.as_ref().map_or(0, |frame| {
            let heads = self.ranges.iter().map(|range| frame.head(range).len()).sum::<usize>();
            (heads + frame.end().len()) as u64
        });
        bytes + framed
    }

    pub(super) fn content_type(&self) -> String {
        let boundary = self.frame.as_ref().map_or("", |frame| &frame.boundary);
        format!("multipart/byteranges; boundary={boundary}")
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Piece {
    range: Range<u64>,
    /// It begins a part, which is this.
    of: Option<Range<u64>>,
}

/// What of some ranges was not read yet.
#[derive(Debug)]
struct Left {
    ranges: vec::IntoIter<Range<u64>>,
    /// The rest of a range that was begun.
    begun: Option<Range<u64>>,
}

impl Left {
    fn of(ranges: Vec<Range<u64>>) -> Self {
        Self { ranges: ranges.into_iter(), begun: None }
    }

    /// The next pieces in their order, as many as are read at a time.
    fn take(&mut self) -> Vec<Piece> {
        let (mut some, mut room) = (Vec::new(), PIECE_LEN_MAX);
        while room > 0 && some.len() < RANGE_COUNT_MAX {
            let (rest, of) = match self.begun.take() {
                Some(rest) => (rest, None),
                None => match self.ranges.next() {
                    Some(range) => (range.clone(), Some(range)),
                    None => break,
                },
            };
            let end = rest.end.min(rest.start + room);
            room -= end - rest.start;
            self.begun = Some(end..rest.end).filter(|rest| !rest.is_empty());
            some.push(Piece { range: rest.start..end, of });
        }
        some
    }

    fn is_empty(&self) -> bool {
        self.begun.is_none() && self.ranges.as_slice().is_empty()
    }
}

/// Nothing is read before somebody takes it. An error ends the body before its time.
pub(super) fn body(opened: Opened, parts: Parts) -> Body {
    let sending = Sending { left: Left::of(parts.ranges), frame: parts.frame, opened };
    Body::from_stream(stream::try_unfold(sending, async |mut sending| {
        let next = sending.next().await?;
        Ok::<_, Error>(next.map(|bytes| (bytes, sending)))
    }))
}

struct Sending {
    opened: Opened,
    left: Left,
    /// `None`: there is none, or its end was sent.
    frame: Option<Frame>,
}

impl Sending {
    async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        let some = self.left.take();
        if some.is_empty() {
            return Ok(None);
        }
        let bytes = self.read(&some).await?;
        // Whoever has all bytes that were promised takes them for those of one file.
        match self.left.is_empty() {
            true => self.opened.must_be_the_same().await?,
            false => self.opened.may_go_on().await?,
        }
        Ok(Some(bytes))
    }

    async fn read(&mut self, some: &[Piece]) -> Result<Bytes, Error> {
        let head_of = |piece: &Piece| match (&self.frame, &piece.of) {
            (Some(frame), Some(part)) => frame.head(part),
            _ => String::new(),
        };
        let heads: Vec<String> = some.iter().map(head_of).collect();
        let end = self.frame.as_ref().filter(|_| self.left.is_empty()).map(Frame::end).unwrap_or_default();
        let len_of = |piece: &Piece| (piece.range.end - piece.range.start) as usize;
        let framed = heads.iter().map(String::len).sum::<usize>() + end.len();
        let mut out = vec![0; framed + some.iter().map(len_of).sum::<usize>()];
        let (mut rest, mut reads) = (&mut out[..], Vec::with_capacity(some.len()));
        for (piece, head) in some.iter().zip(&heads) {
            let (own, behind) = rest.split_at_mut(head.len());
            own.copy_from_slice(head.as_bytes());
            let (dest, behind) = behind.split_at_mut(len_of(piece));
            reads.push(RangeRead { offset: piece.range.start, dest });
            rest = behind;
        }
        rest.copy_from_slice(end.as_bytes());
        match &mut reads[..] {
            // What comes next most likely follows: the same stream brings it.
            [read] => {
                let wanted = read.dest.len();
                if self.opened.read_on(read.offset, read.dest).await? < wanted {
                    return Err(Error::Invalid("the file ends before what was promised of it".into()));
                }
            }
            reads => self.opened.read_ranges(reads).await?,
        }
        Ok(out.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edge::LOOK_EACH;
    use crate::edge::scripted::{LEN, World};
    use futures_util::StreamExt;

    #[test]
    fn an_answer_of_several_parts_is_as_long_as_it_says() {
        let ranges = vec![5..7, 0..PIECE_LEN_MAX + 1];
        let parts = Parts::several(ranges.clone(), 10_000_000);
        let frame = parts.frame.as_ref().unwrap();
        let heads: usize = ranges.iter().map(|part| frame.head(part).len()).sum();
        assert_eq!(parts.len(), 2 + PIECE_LEN_MAX + 1 + (heads + frame.end().len()) as u64);
        assert!(frame.head(&(5..7)).ends_with("Content-Range: bytes 5-6/10000000\r\n\r\n"));
        assert_eq!(Parts::one(5..7).len(), 2);
    }

    /// However long the file is.
    #[test]
    fn a_piece_is_made_when_it_is_read() {
        let mut left = Left::of(vec![5..7, 0..u64::MAX]);
        let first = left.take();
        assert_eq!(
            first,
            [Piece { range: 5..7, of: Some(5..7) }, Piece { range: 0..PIECE_LEN_MAX - 2, of: Some(0..u64::MAX) }]
        );
        let rest = PIECE_LEN_MAX - 2..2 * PIECE_LEN_MAX - 2;
        assert_eq!(left.take(), [Piece { range: rest, of: None }]);
        assert!(!left.is_empty());
        let mut many = Left::of((0..3000).map(|first| first..first + 1).collect());
        let counts: Vec<usize> = (0..4).map(|_| many.take().len()).collect();
        assert_eq!((counts, many.is_empty()), (vec![1024, 1024, 952, 0], true));
        assert!(Left::of(Vec::new()).take().is_empty());
    }

    /// It takes minutes to send; the edge learns of the change on the way.
    #[tokio::test]
    async fn a_long_answer_ends_where_its_file_was_changed() {
        let world = World::new(&["/f"]).await;
        let opened = world.opened(&world.user("ann"), "/f").await;
        let mut pieces = body(opened, Parts::one(0..LEN)).into_data_stream();
        assert_eq!(pieces.next().await.unwrap().unwrap().len() as u64, PIECE_LEN_MAX);
        world.replace("/f");
        assert!(pieces.next().await.unwrap().is_ok(), "what was said a moment ago counts");
        world.let_time_pass(LOOK_EACH);
        let refused = pieces.next().await.unwrap().unwrap_err().to_string();
        assert!(refused.contains("was changed"), "{refused}");
        world.stop().await;
    }
}
