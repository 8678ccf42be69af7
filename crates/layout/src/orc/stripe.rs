//! A stripe: some rows of all columns. Its footer lists its streams, which lie behind each other.

use super::proto;
use crate::error::{LayoutError, Result};
use crate::limits::Budget;
use crate::tables::{Column, Piece};
use crate::want::Want;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stripe {
    pub(super) first: u64,
    pub(super) row_count: u64,
    /// Of its first stream.
    pub(super) offset: u64,
    pub(super) footer: Want,
}

/// Bytes of a column.
#[derive(Clone, Copy, Debug)]
struct Stream {
    column: u64,
    span: Want,
}

/// Row groups and Bloom filters: who takes all rows of a stripe passes over them.
const INDICES: [u64; 3] = [6, 7, 8];
/// Indices and data that are encrypted.
const ENCRYPTED: [u64; 2] = [9, 10];

pub(super) const ENCRYPTED_COLUMNS: LayoutError = LayoutError::Unknown("its columns are encrypted");
const DAMAGED: LayoutError = LayoutError::Damaged("the streams of a stripe do not fit into it");

impl Stripe {
    /// Adds what the footer says to the columns, and itself to the first of them.
    pub(super) fn read(&self, footer: &[u8], columns: &mut [Column], budget: &mut Budget) -> Result<()> {
        let (mut streams, mut at) = (Vec::<Stream>::new(), self.offset);
        for field in proto::fields(footer) {
            match field? {
                (1, value) => {
                    let (kind, column, len) = stream(value.bytes()?)?;
                    let span = Want { offset: at, len };
                    at = span.end().filter(|end| *end <= self.footer.offset).ok_or(DAMAGED)?;
                    if ENCRYPTED.contains(&kind) {
                        return Err(ENCRYPTED_COLUMNS);
                    }
                    // Each costs time, though nothing be in it.
                    budget.work(1)?;
                    if len > 0 && !INDICES.contains(&kind) {
                        add(&mut streams, Stream { column, span }, budget)?;
                    }
                }
                (4, _) => return Err(ENCRYPTED_COLUMNS),
                _ => {}
            }
        }
        let root = columns.first_mut().ok_or(DAMAGED)?;
        Piece::add(&mut root.pieces, self.first, self.footer, budget)?;
        streams.sort_unstable_by_key(|stream| (stream.column, stream.span.offset));
        // What other columns have between them was nothing.
        let touch = |one: &Stream, next: &Stream| one.column == next.column && one.span.end() == Some(next.span.offset);
        for run in streams.chunk_by(touch) {
            let (Some(begin), Some(end)) = (run.first(), run.last().and_then(|last| last.span.end())) else { continue };
            let column = usize::try_from(begin.column).ok().and_then(|number| columns.get_mut(number));
            let span = Want { offset: begin.span.offset, len: end - begin.span.offset };
            Piece::add(&mut column.ok_or(DAMAGED)?.pieces, self.first, span, budget)?;
        }
        Ok(())
    }
}

/// Those of a column that lie behind each other are one.
fn add(streams: &mut Vec<Stream>, more: Stream, budget: &mut Budget) -> Result<()> {
    match streams.last_mut() {
        Some(last) if last.column == more.column && last.span.end() == Some(more.span.offset) => {
            last.span.len += more.span.len;
        }
        _ => {
            // Beside its pieces: until these are known, it takes more than they do.
            budget.pieces(1)?;
            streams.push(more);
        }
    }
    Ok(())
}

/// Its kind, its column, and how long it is.
fn stream(bytes: &[u8]) -> Result<(u64, u64, u64)> {
    let (mut kind, mut column, mut len) = (0, 0, 0);
    for field in proto::fields(bytes) {
        match field? {
            (1, value) => kind = value.number()?,
            (2, value) => column = value.number()?,
            (3, value) => len = value.number()?,
            _ => {}
        }
    }
    Ok((kind, column, len))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;

    const STRIPE: Stripe = Stripe { first: 7, row_count: 9, offset: 100, footer: Want { offset: 160, len: 40 } };

    /// What three columns have of a stripe of these streams: kind, column, length.
    fn pieces(streams: &[[u8; 3]]) -> Result<Vec<Vec<(u64, u32)>>> {
        let stream = |[kind, column, len]: &[u8; 3]| [0x0a, 6, 0x08, *kind, 0x10, *column, 0x18, *len];
        let footer: Vec<u8> = streams.iter().flat_map(stream).collect();
        let mut columns = vec![Column::default(); 3];
        STRIPE.read(&footer, &mut columns, &mut Budget::new(Limits::default()))?;
        let span = |piece: &Piece| {
            assert_eq!(piece.first, 7);
            (piece.offset, piece.len)
        };
        Ok(columns.iter().map(|column| column.pieces.iter().map(span).collect()).collect())
    }

    #[test]
    fn streams_of_a_column_are_a_piece() {
        // Indices of both; presence and data of one; data and length of the other, apart, and nothing between.
        let streams = [[6, 1, 5], [8, 2, 6], [0, 1, 4], [1, 1, 20], [1, 2, 5], [0, 2, 0], [3, 1, 7], [2, 2, 8]];
        let found = [vec![(160, 40)], vec![(111, 24), (140, 7)], vec![(135, 5), (147, 8)]];
        assert_eq!(pieces(&streams).unwrap(), found);
        assert_eq!(pieces(&[]).unwrap(), [vec![(160, 40)], vec![], vec![]]);
    }

    #[test]
    fn streams_lie_before_the_footer_and_belong_to_a_column() {
        assert!(pieces(&[[1, 1, 30], [1, 2, 30]]).is_ok());
        assert_eq!(pieces(&[[1, 1, 30], [1, 2, 31]]), Err(DAMAGED));
        assert_eq!(pieces(&[[6, 1, 61]]), Err(DAMAGED));
        assert_eq!(pieces(&[[1, 3, 30]]), Err(DAMAGED));
        assert!(matches!(pieces(&[[10, 1, 30]]), Err(LayoutError::Unknown(_))));
    }
}
