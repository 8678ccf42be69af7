//! Many ranges at once, reads of the shell itself, and long pieces read whole.

mod talk;

use layout::{Column, Layout, Piece, Table};
use prefetch::replay::{Scene, replay};
use prefetch::{Action, Fetch, FetchId, Index, Prefetcher, Settings, Source, Span, Why};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::sync::Arc;
use talk::{COLUMNS_READ, File, far, read};

fn fetches(actions: &mut Vec<Action>) -> Vec<Fetch> {
    let fetch = |action| match action {
        Action::Fetch(fetch) => Some(fetch),
        Action::Drop(_) | Action::Decided(_) => None,
    };
    actions.drain(..).filter_map(fetch).collect()
}

fn opened(file: &File) -> Prefetcher {
    let mut machine = Prefetcher::new(Settings::DEFAULT, far(), file.len);
    machine.open(Some(file.index.clone()), None, &mut Vec::new());
    machine
}

fn step(file: &File, baskets: std::ops::Range<usize>) -> Vec<Span> {
    COLUMNS_READ.iter().flat_map(|column| baskets.clone().map(|basket| file.piece(*column, basket))).collect()
}

/// A step of uproot: hundreds of baskets, some of them twice and in parts.
#[test]
fn ranges_read_together_are_one_fetch_and_so_are_those_that_follow() {
    let file = File::talk();
    let mut machine = opened(file);
    let mut spans = step(file, 0..200);
    spans.push(spans[7]);
    spans.push(Span::new(spans[9].offset + 10, spans[9].len));
    spans.push(Span::new(file.len + 5, 10));
    let mut actions = Vec::new();
    let parts = machine.read_all(&spans, &mut actions);
    let asked = fetches(&mut actions);
    assert_eq!(asked.iter().map(|fetch| fetch.why).collect::<Vec<_>>(), [Why::Demand, Why::Columns]);
    for (span, parts) in spans.iter().zip(&parts) {
        assert_eq!(parts.iter().map(|part| part.span.len).sum::<u64>(), span.before(file.len).len);
        assert!(parts.iter().all(|part| matches!(part.source, Source::Coming(id) if id == asked[0].id)));
    }
    machine.check();
    asked.iter().for_each(|fetch| machine.arrived(fetch.id));
    machine.check();
    let parts = machine.read_all(&step(file, 200..400), &mut actions);
    assert!(parts.iter().flatten().all(|part| part.source == Source::Held));
    assert_eq!(machine.counts().reads, 803);
}

/// The parser's reads are no habits of the program's, and are there when it reads the same.
#[test]
fn what_the_shell_brings_teaches_nothing() {
    let file = File::talk();
    let mut machine = opened(file);
    let (header, mut actions) = (Span::new(file.len - 5000, 4700), Vec::new());
    assert_eq!(machine.missing_len(header), header.len);
    let parts = machine.bring(&[header, header], &mut actions);
    let asked = fetches(&mut actions);
    assert_eq!((parts.len(), asked.len(), asked[0].len), (2, 1, header.len));
    assert!(machine.missing_len(header) == 0 && machine.observed().is_empty());
    assert_eq!(machine.counts().reads, 0);
    machine.arrived(FetchId(asked[0].id.0));
    assert!(machine.read(header, &mut actions).iter().all(|part| part.source == Source::Held));
    machine.check();
}

const GROUPS: u64 = 24;

/// A table of row groups, with a piece of each column in each.
fn row_groups(column_count: u32, chunk_len: u32) -> (Arc<Layout>, u64) {
    let column = |column: u32| {
        let offset = |group| (group * u64::from(column_count) + u64::from(column)) * u64::from(chunk_len);
        let pieces = (0..GROUPS).map(|group| Piece { first: group * 12_000, offset: offset(group), len: chunk_len });
        Column { name: format!("c{column}"), pieces: pieces.collect() }
    };
    let columns = (0..column_count).map(column).collect();
    let tables = vec![Table { name: String::new(), entries: GROUPS * 12_000, columns }];
    (Arc::new(Layout { tables }), GROUPS * u64::from(column_count) * u64::from(chunk_len))
}

fn chunk(layout: &Layout, group: u64, column: u32) -> Span {
    let piece = layout.tables[0].columns[column as usize].pieces[group as usize];
    Span::new(piece.offset, piece.len.into())
}

/// As pyarrow reads it: each group's chunks of some columns, one after the other.
fn by_row_groups(column_count: u32, chunk_len: u32, read_columns: &[u32]) -> (u64, u64) {
    let (layout, file_len) = row_groups(column_count, chunk_len);
    let trace: Vec<_> = (0..GROUPS).flat_map(|group| read_columns.iter().map(move |column| (group, *column))).collect();
    let trace: Vec<_> = trace.into_iter().map(|(group, column)| read(chunk(&layout, group, column))).collect();
    let index = Some(Arc::new(Index::new(layout.clone(), file_len)));
    let scene = Scene { settings: Settings::DEFAULT, link: far(), file_len, index, profile: None };
    let score = replay(&trace, &scene, Prefetcher::check);
    assert_eq!(score.wasted_len, 0);
    (score.round_trips, score.stalls)
}

#[test]
fn long_pieces_bring_those_behind_them_before_all_columns_are_known() {
    // 24 chunks of 137 KB a column, as of the table of the measurements: a flight each.
    assert_eq!(by_row_groups(152, 137_000, &[17, 93]).0, 2);
    // What the first columns may take leaves room for the others.
    let (round_trips, _) = by_row_groups(152, 137_000, &(0..38).map(|column| column * 4).collect::<Vec<_>>());
    assert!(round_trips <= 38 + 24, "{round_trips}: one for each column, and one for each row group");
}

/// The columns that a run is known to have read, which read row groups in an order.
fn known_after(chunks: impl IntoIterator<Item = (u64, u32)>) -> Vec<u32> {
    let (layout, file_len) = row_groups(40, 4000);
    let mut machine = Prefetcher::new(Settings::DEFAULT, far(), file_len);
    let mut actions = Vec::new();
    machine.open(Some(Arc::new(Index::new(layout.clone(), file_len))), None, &mut actions);
    for (group, column) in chunks {
        machine.read(chunk(&layout, group, column), &mut actions);
        fetches(&mut actions).iter().for_each(|fetch| machine.arrived(fetch.id));
        machine.check();
    }
    machine.observed().tables[0].columns.iter().map(|column| column.column).collect()
}

proptest! {
    /// Threads that take the next row group when they have both columns of theirs, in whatever order they run: who is
    /// left behind reads what looked skipped, and later runs are to have both columns.
    #[test]
    fn threads_that_read_all_row_groups_are_known_to_read_their_columns(
        thread_count in 1..9_usize,
        order in prop::collection::vec(any::<prop::sample::Index>(), 2 * GROUPS as usize),
    ) {
        let mut queue = 0..GROUPS;
        let mut threads: Vec<VecDeque<(u64, u32)>> = vec![VecDeque::new(); thread_count];
        let chunks = order.iter().map(|pick| {
            threads.iter_mut().filter(|thread| thread.is_empty()).for_each(|thread| {
                thread.extend(queue.next().into_iter().flat_map(|group| [(group, 3), (group, 17)]));
            });
            threads.retain(|thread| !thread.is_empty());
            let thread = pick.index(threads.len());
            threads[thread].pop_front().expect("threads that are at work have a chunk")
        });
        prop_assert_eq!(known_after(chunks), [3, 17]);
    }
}
