//! The bytes of a file as the body of an answer, a piece at a time.

use axum::body::{Body, Bytes};
use client::{Error, RangeRead, Reader};
use futures_util::stream;
use std::collections::VecDeque;
use std::ops::Range;

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
            "\r\n--{boundary}\r\nContent-Type: application/octet-stream\r\nContent-Range: bytes {first}-{last}/{file_len}\r\n\r\n"
        )
    }

    fn end(&self) -> String {
        format!("\r\n--{}--\r\n", self.boundary)
    }
}

impl Parts {
    pub(super) fn one(range: Range<u64>) -> Self {
        Self { ranges: vec![range], frame: None }
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

    /// Pieces of ranges in their order, none longer than may be read at a time.
    fn pieces(&self) -> VecDeque<Piece> {
        let mut pieces = VecDeque::new();
        for range in &self.ranges {
            let mut at = range.start;
            while at < range.end {
                let end = range.end.min(at + PIECE_LEN_MAX);
                pieces.push_back(Piece { range: at..end, of: (at == range.start).then(|| range.clone()) });
                at = end;
            }
        }
        pieces
    }
}

#[derive(Debug)]
struct Piece {
    range: Range<u64>,
    /// The part that begins with it.
    of: Option<Range<u64>>,
}

/// Nothing is read before somebody takes it. An error ends the body before its time.
pub(super) fn body(reader: Reader, parts: Parts) -> Body {
    let sending = Sending { pieces: parts.pieces(), frame: parts.frame, reader };
    Body::from_stream(stream::try_unfold(sending, async |mut sending| {
        let next = sending.next().await?;
        Ok::<_, Error>(next.map(|bytes| (bytes, sending)))
    }))
}

struct Sending {
    reader: Reader,
    pieces: VecDeque<Piece>,
    /// `None`: there is none, or its end was sent.
    frame: Option<Frame>,
}

impl Sending {
    async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        let some = self.take();
        let Some(first) = some.first() else { return Ok(self.frame.take().map(|frame| frame.end().into())) };
        if let [piece] = &some[..] {
            self.reader.seek(piece.range.start);
        }
        let head_of = |piece: &Piece| match (&self.frame, &piece.of) {
            (Some(frame), Some(part)) => frame.head(part),
            _ => String::new(),
        };
        let heads: Vec<String> = some.iter().map(head_of).collect();
        let len_of = |piece: &Piece| (piece.range.end - piece.range.start) as usize;
        let mut out = vec![0; heads.iter().map(String::len).sum::<usize>() + some.iter().map(len_of).sum::<usize>()];
        let (mut rest, mut reads) = (&mut out[..], Vec::with_capacity(some.len()));
        for (piece, head) in some.iter().zip(&heads) {
            let (own, behind) = rest.split_at_mut(head.len());
            own.copy_from_slice(head.as_bytes());
            let (dest, behind) = behind.split_at_mut(len_of(piece));
            reads.push(RangeRead { offset: piece.range.start, dest });
            rest = behind;
        }
        match &mut reads[..] {
            // What comes next most likely follows: the same stream brings it.
            [read] => {
                let got = self.reader.read(read.dest).await?;
                if got < read.dest.len() {
                    return Err(Error::Invalid(format!("the file ends before byte {}", first.range.end)));
                }
            }
            reads => self.reader.read_ranges(reads).await?,
        }
        Ok(Some(out.into()))
    }

    /// The next pieces, as many as are read at a time.
    fn take(&mut self) -> Vec<Piece> {
        let (mut some, mut len) = (Vec::new(), 0);
        while let Some(piece) = self.pieces.front() {
            len += piece.range.end - piece.range.start;
            if !some.is_empty() && (len > PIECE_LEN_MAX || some.len() >= RANGE_COUNT_MAX) {
                break;
            }
            some.extend(self.pieces.pop_front());
        }
        some
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_of_several_parts_is_as_long_as_it_says() {
        let parts = Parts::several(vec![5..7, 0..PIECE_LEN_MAX + 1], 10_000_000);
        let pieces = parts.pieces();
        let ranges: Vec<_> = pieces.iter().map(|piece| piece.range.clone()).collect();
        assert_eq!(ranges, [5..7, 0..PIECE_LEN_MAX, PIECE_LEN_MAX..PIECE_LEN_MAX + 1]);
        let frame = parts.frame.as_ref().unwrap();
        let heads: usize = pieces.iter().filter_map(|piece| piece.of.as_ref()).map(|part| frame.head(part).len()).sum();
        assert_eq!(parts.len(), 2 + PIECE_LEN_MAX + 1 + (heads + frame.end().len()) as u64);
        assert!(frame.head(&(5..7)).ends_with("Content-Range: bytes 5-6/10000000\r\n\r\n"));
        assert_eq!(Parts::one(5..7).len(), 2);
        assert!(Parts::one(5..5).pieces().is_empty());
    }
}
