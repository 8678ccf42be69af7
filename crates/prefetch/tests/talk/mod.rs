//! The talk's file as a model: 152 columns of 2,400 baskets each, those of the same entries side by side; a header
//! behind them. Two columns are read, 6.9 MB in 4,800 pieces.

// Each of those who include it uses a part.
#![allow(dead_code)]

use layout::{Column, Layout, Piece, Table};
use prefetch::replay::{Read, Scene, Score, replay};
use prefetch::{Index, Link, Profile, Settings, Span};
use std::sync::{Arc, OnceLock};
use types::random::{Random, Seeded};

/// ROOT's cache when the talk was given, and a floor to match: what the table of docs/adr/0032 was played with.
pub(crate) const TALK: Settings = Settings { cache_len: 10_000_000, waste_floor_len: 8 << 20, ..Settings::DEFAULT };

pub(crate) const COLUMN_COUNT: usize = 152;
pub(crate) const BASKET_COUNT: usize = 2400;
/// Of the h1 data set.
const ENTRY_COUNT: u64 = 283_813;
const HEADER_LEN: u64 = 3 << 20;
/// `rawtr` and `E33`, somewhere among the others.
pub(crate) const COLUMNS_READ: [usize; 2] = [17, 93];

pub(crate) struct File {
    pub(crate) layout: Arc<Layout>,
    pub(crate) index: Arc<Index>,
    pub(crate) len: u64,
    header: Span,
}

impl File {
    /// Made once: it has 364,800 pieces.
    pub(crate) fn talk() -> &'static Self {
        static FILE: OnceLock<File> = OnceLock::new();
        FILE.get_or_init(|| Self::new(1))
    }

    /// Baskets of 1,436 bytes, more or less, as the seed says.
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Seeded(seed);
        let mut columns: Vec<Column> =
            (0..COLUMN_COUNT).map(|at| Column { name: format!("c{at}"), pieces: Vec::new() }).collect();
        let mut offset = 500;
        for basket in 0..BASKET_COUNT as u64 {
            let first = basket * ENTRY_COUNT / BASKET_COUNT as u64;
            for column in &mut columns {
                let len = 1036 + random.below(801) as u32;
                column.pieces.push(Piece { first, offset, len });
                offset += u64::from(len);
            }
        }
        let tables = vec![Table { name: "h42".into(), entries: ENTRY_COUNT, columns }];
        let layout = Arc::new(Layout { tables });
        let header = Span::new(offset + 5000, HEADER_LEN);
        let len = header.end() + 300;
        Self { index: Arc::new(Index::new(layout.clone(), len)), layout, len, header }
    }

    pub(crate) fn piece(&self, column: usize, basket: usize) -> Span {
        let piece = self.layout.tables[0].columns[column].pieces[basket];
        Span::new(piece.offset, piece.len.into())
    }

    /// As ROOT's wire trace has it: the file's head, the list of keys, the streamer info, the tree.
    pub(crate) fn opening(&self) -> Vec<Read> {
        let end = self.len;
        [Span::new(0, 300), Span::new(300, 91), Span::new(end - 5000, 4700), self.header].map(read).into()
    }

    /// ROOT without its cache: basket by basket, in the order of the entries.
    pub(crate) fn by_entries(&self, columns: &[usize]) -> Vec<Read> {
        let baskets = (0..BASKET_COUNT).flat_map(|basket| columns.iter().map(move |column| (*column, basket)));
        baskets.map(|(column, basket)| read(self.piece(column, basket))).collect()
    }

    /// uproot through a file object: one column after the other.
    pub(crate) fn by_columns(&self, columns: &[usize]) -> Vec<Read> {
        let baskets = columns.iter().flat_map(|column| (0..BASKET_COUNT).map(move |basket| (*column, basket)));
        baskets.map(|(column, basket)| read(self.piece(column, basket))).collect()
    }

    pub(crate) fn scene(&self, settings: Settings, profile: Option<&Profile>) -> Scene {
        let (index, profile) = (Some(self.index.clone()), profile.cloned());
        Scene { settings, link: far(), file_len: self.len, index, profile }
    }

    pub(crate) fn play(&self, trace: &[Read], settings: Settings, profile: Option<&Profile>) -> Score {
        replay(trace, &self.scene(settings, profile), |_| {})
    }
}

pub(crate) fn read(span: Span) -> Read {
    Read { span, after_us: 0 }
}

pub(crate) fn needed_len(trace: &[Read]) -> u64 {
    trace.iter().map(|read| read.span.len).sum()
}

/// Across an ocean: 240 ms, 1 Gbit/s.
pub(crate) fn far() -> Link {
    Link { round_trip_us: 240_000, bytes_per_s: 125_000_000, ranges_per_request: 65_536, takes_runs: false }
}

/// A cache of that size and no more, whatever the link.
pub(crate) fn exactly(cache_len: u64) -> Settings {
    Settings { cache_len, cache_len_least: 0, ..TALK }
}
