//! DuckDB's reads of lists: a megabyte from the beginning of a column on, whatever its length, so through the columns
//! beside it, which nobody wants.

mod talk;

use layout::{Column, Layout, Piece, Table};
use prefetch::replay::{Read, Scene, Score, replay};
use prefetch::{Decision, Index, Profile, Settings, Span};
use std::sync::Arc;
use talk::{far, read};

const TRACE: &str = include_str!("traces/duckdb.txt");
const GROUP_COUNT: u64 = 24;
const GROUP_ENTRIES: u64 = 11_792;
/// Behind the last row group.
const FOOTER_LEN: u64 = 421_289;
/// Before the first one.
const MAGIC_LEN: u64 = 4;

/// The table that was read, and the reads.
fn recorded() -> (Arc<Index>, Vec<Read>) {
    let numbers = |key: &'static str| {
        let lines = TRACE.lines().filter_map(move |line| line.strip_prefix(key));
        lines.map(|line| line.split_whitespace().map(|word| word.parse::<u64>().unwrap()).collect::<Vec<u64>>())
    };
    let lens: Vec<u64> = numbers("lens ").flatten().collect();
    let group_len: u64 = lens.iter().sum();
    let start = |group: u64, column: usize| MAGIC_LEN + group * group_len + lens[..column].iter().sum::<u64>();
    let piece = |column: usize, group: u64| Piece {
        first: group * GROUP_ENTRIES,
        offset: start(group, column),
        len: lens[column] as u32,
    };
    let column = |number: usize| Column {
        name: number.to_string(),
        pieces: (0..GROUP_COUNT).map(|group| piece(number, group)).collect(),
    };
    let columns = (0..lens.len()).map(column).collect();
    let tables = vec![Table { name: String::new(), entries: GROUP_COUNT * GROUP_ENTRIES, columns }];
    let file_len = MAGIC_LEN + GROUP_COUNT * group_len + FOOTER_LEN;
    let ends = numbers("end ").map(|end| read(Span::new(file_len - end[0], end[1])));
    let reads = numbers("read ").map(|at| read(Span::new(start(at[0], at[1] as usize) + at[2], at[3])));
    (Arc::new(Index::new(Arc::new(Layout { tables }), file_len)), ends.chain(reads).collect())
}

fn play(trace: &[Read], index: &Arc<Index>, settings: Settings, profile: Option<&Profile>) -> Score {
    let (index, file_len) = (Some(Arc::clone(index)), index.file_len());
    let scene = Scene { settings, link: far(), file_len, index, profile: profile.cloned() };
    replay(trace, &scene, |machine| machine.check())
}

/// Bytes that the reads touch, each counted once.
fn touched_len(trace: &[Read]) -> u64 {
    let mut spans: Vec<Span> = trace.iter().map(|read| read.span).collect();
    spans.sort_unstable();
    let (len, _) = spans.iter().fold((0, 0), |(len, end): (u64, u64), span| {
        (len + span.end().saturating_sub(span.offset.max(end)), end.max(span.end()))
    });
    len
}

#[test]
fn what_lies_beside_a_column_is_not_learned() {
    let (index, trace) = recorded();
    let plain = play(&trace, &index, Settings::off(), None);
    let first = play(&trace, &index, Settings::DEFAULT, None);
    let columns: Vec<u32> = first.observed.tables[0].columns.iter().map(|column| column.column).collect();
    assert_eq!(columns, [40, 106], "rawtr and E33");
    assert!(first.asked_len * 100 <= touched_len(&trace) * 105, "{first}");
    assert!(first.round_trips <= plain.round_trips / 4 && first.elapsed_us * 4 <= plain.elapsed_us, "{first}\n{plain}");
    assert!(first.decisions.iter().all(|(_, decision)| !matches!(decision, Decision::BudgetSpent { .. })), "{first}");
    let next = play(&trace, &index, Settings::DEFAULT, Some(&first.observed));
    assert!(next.asked_len <= first.asked_len && next.round_trips < first.round_trips, "{next}\n{first}");
}
