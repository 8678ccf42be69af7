//! What reading ahead would do for a program that reads some columns of a file, without a byte of it: by the machine
//! that ships, and a model of a link.

use super::options::AheadOptions;
use crate::warm;
use layout::{Column, Layout, Piece};
use prefetch::replay::{Read, Scene, Score, replay};
use prefetch::{Index, Link, Span};
use std::sync::Arc;
use std::time::Duration;

/// Reads of a trace. A guess: three times the baskets of the table of the measurements.
const READ_COUNT_MAX: usize = 1 << 20;

/// One run after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rehearsal {
    /// Nothing is known of earlier runs. The reads are those of columns: what an opening reads before is left out.
    pub first: Score,
    /// With the profile of the first.
    pub second: Score,
}

impl Rehearsal {
    /// A program that reads these columns of a file piece by piece, in the order of their entries. A column is named by
    /// its path, or the beginning of that: `a` has `a.list.element`, too. An error is the name of one that is not
    /// there.
    pub fn of(layout: Layout, file_len: u64, columns: &[String], round_trip: Duration) -> Result<Self, String> {
        let mut pieces: Vec<Piece> = Vec::new();
        for name in columns {
            let all = layout.tables.iter().flat_map(|table| &table.columns);
            let before = pieces.len();
            pieces.extend(all.filter(|column| is_named(column, name)).flat_map(|column| &column.pieces));
            if pieces.len() == before {
                return Err(name.clone());
            }
        }
        pieces.retain(|piece| piece.len > 0 && piece.offset.saturating_add(piece.len.into()) <= file_len);
        // Columns in turn, as they were named, where pieces begin together.
        pieces.sort_by_key(|piece| piece.first);
        pieces.truncate(READ_COUNT_MAX);
        let read = |piece: &Piece| Read { span: Span::new(piece.offset, piece.len.into()), after_us: 0 };
        let trace: Vec<Read> = pieces.iter().map(read).collect();
        let link = Link {
            round_trip_us: u64::try_from(round_trip.as_micros()).unwrap_or(u64::MAX),
            bytes_per_s: warm::BYTES_PER_S,
            ..Link::default()
        };
        let index = Some(Arc::new(Index::new(Arc::new(layout), file_len)));
        let scene = Scene { settings: AheadOptions::default().settings(), link, file_len, index, profile: None };
        let first = replay(&trace, &scene, |_| ());
        let second = replay(&trace, &Scene { profile: Some(first.observed.clone()), ..scene }, |_| ());
        Ok(Self { first, second })
    }
}

fn is_named(column: &Column, name: &str) -> bool {
    column.name.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use layout::Table;

    #[test]
    fn a_second_run_waits_once() {
        let column = |number: u64, name: &str| {
            let piece = |group: u64| Piece { first: group * 1000, offset: group * 50_000 + number * 5000, len: 5000 };
            Column { name: name.to_owned(), pieces: (0..40).map(piece).collect() }
        };
        let columns = vec![column(0, "a.list.element"), column(1, "ab"), column(2, "c")];
        let layout = Layout { tables: vec![Table { name: String::new(), entries: 40_000, columns }] };
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let of =
            |columns: &[&str]| Rehearsal::of(layout.clone(), 2_000_000, &names(columns), Duration::from_millis(240));
        let found = of(&["a", "c"]).unwrap();
        assert_eq!((found.first.used_len, found.second.used_len), (400_000, 400_000));
        assert_eq!(found.second.stalls, 1);
        assert!(found.first.stalls > 1 && found.second.to_string().contains("from the profile"), "{}", found.second);
        assert_eq!(of(&["a", "x"]).unwrap_err(), "x");
    }
}
