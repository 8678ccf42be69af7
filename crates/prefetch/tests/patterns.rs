//! Reads of other files than the talk's: without a layout, with several tables, with few long pieces.

mod talk;

use layout::{Column, Layout, Piece, Table};
use prefetch::replay::{Read, Scene, Score, replay};
use prefetch::{Action, Decision, Index, Link, Prefetcher, Profile, Settings, Source, Span, Why};
use std::sync::Arc;
use talk::{far, needed_len, read};
use types::random::{Random, Seeded};

const FILE_LEN: u64 = 100 << 20;

/// A cache as small as ROOT's: what is read here is little beside what may be fetched in vain otherwise.
const SETTINGS: Settings = Settings { cache_len: 10_000_000, waste_floor_len: 8 << 20, ..Settings::DEFAULT };

fn plain(trace: &[Read], profile: Option<&Profile>) -> Score {
    let profile = profile.cloned();
    let scene = Scene { settings: SETTINGS, link: far(), file_len: FILE_LEN, profile, ..Scene::default() };
    replay(trace, &scene, |_| {})
}

fn every(step: u64, len: u64, count: u64) -> Vec<Read> {
    (0..count).map(|at| read(Span::new(1000 + at * step, len))).collect()
}

#[test]
fn a_file_read_from_end_to_end_waits_a_few_times() {
    let trace = every(64 << 10, 64 << 10, 1599);
    let score = plain(&trace, None);
    // Windows grow to what a guess may cost, 8 MiB; the bytes alone take 0.84 s, or three and a half round trips.
    assert!(score.round_trips_waited <= 28, "{score}");
    assert!(score.wasted_len <= 100_000, "all but the last bytes of the file: {score}");
    let again = plain(&trace, Some(&score.observed));
    assert!(again.elapsed_us < score.elapsed_us, "{score}\n{again}");
    assert!(again.decisions.iter().all(|(_, decision)| !matches!(decision, Decision::BudgetSpent { .. })));
}

/// A reader of lines or records takes the end of each read again. What comes next must not push it out.
#[test]
fn reads_that_overlap_are_followed() {
    let apart = plain(&every(60_000, 60_000, 1500), None);
    let overlapping = plain(&every(60_000, 64_000, 1500), None);
    assert!(overlapping.stalls <= apart.stalls + 4, "{overlapping}\n{apart}");
}

/// A program that works as long as its bytes take on the link waits only while the window grows.
#[test]
fn read_ahead_hides_the_link_behind_work() {
    let mut trace = every(64 << 10, 64 << 10, 1599);
    trace.iter_mut().for_each(|read| read.after_us = 4000);
    let score = plain(&trace, None);
    assert!(score.stalls <= 12, "{score}");
}

/// Thousands of reads of 34 bytes.
#[test]
fn equal_steps_are_followed() {
    let trace = every(1436, 34, 5000);
    let score = plain(&trace, None);
    assert!(score.round_trips <= 12, "{score}");
    // The last window is for steps that do not come: 4,096 at most.
    assert!(score.asked_len <= needed_len(&trace) + 4096 * 34, "{score}");
    assert!(score.requests <= 20, "{score}");
    // The first step is longer than the way to the first read.
    let again = plain(&trace, Some(&score.observed));
    assert!(again.round_trips <= 3, "{again}");
}

#[test]
fn steps_that_vary_a_little_are_followed() {
    let mut trace = every(1436, 34, 2000);
    trace.iter_mut().enumerate().for_each(|(at, read)| read.span.offset += (at as u64 * 7919) % 9);
    let score = plain(&trace, None);
    assert!(score.round_trips <= 100, "{score}");
    // A pad on each side costs more than 10 %, so the floor pays for it.
    assert!(score.wasted_len <= 200_000, "{score}");
}

#[test]
fn several_streams_do_not_disturb_each_other() {
    let one = every(10_000, 10_000, 500);
    let other: Vec<Read> = (0..500).map(|at| read(Span::new((50 << 20) + at * 10_000, 10_000))).collect();
    let third: Vec<Read> = (0..500).map(|at| read(Span::new((99 << 20) - at * 4000, 100))).collect();
    let trace: Vec<Read> =
        one.into_iter().zip(other).zip(third).flat_map(|((one, other), third)| [one, other, third]).collect();
    let score = plain(&trace, None);
    assert!(score.round_trips <= 30, "{score}");
    // The last window of each.
    assert!(score.wasted_len <= 5 << 20, "{score}");
}

/// Threads that share a file have equal distances between them: none of their reads is a step of another's.
#[test]
fn readers_at_equal_distances_are_no_steps() {
    let reader = |number: u64, at: u64| read(Span::new(number * (12 << 20) + at * 10_000, 10_000));
    let trace: Vec<Read> = (0..900).flat_map(|at| (0..8).map(move |number| reader(number, at))).collect();
    let score = plain(&trace, None);
    assert!(score.stalls <= 160, "{score}");
    assert!(score.counts.fetches <= 180, "{score}");
}

/// Two tables, one after the other, and both at once.
#[test]
fn tables_are_learned_apart() {
    let table = |name: &str, start: u64| {
        let piece = |at: u64| Piece { first: at * 500, offset: start + at * 20_000, len: 5000 };
        let column = |name: u64| Column {
            name: name.to_string(),
            pieces: (0..400).map(|at| Piece { offset: piece(at).offset + name * 5000, ..piece(at) }).collect(),
        };
        Table { name: name.into(), entries: 200_000, columns: (0..4).map(column).collect() }
    };
    let layout = Arc::new(Layout { tables: vec![table("events", 0), table("runs", 20 << 20)] });
    let index = Arc::new(Index::new(layout.clone(), FILE_LEN));
    let reads = |table: usize, column: usize| {
        let pieces = &layout.tables[table].columns[column].pieces;
        pieces.iter().map(|piece| read(Span::new(piece.offset, piece.len.into()))).collect::<Vec<Read>>()
    };
    let play = |trace: &[Read], profile: Option<&Profile>| {
        let (index, profile) = (Some(index.clone()), profile.cloned());
        replay(trace, &Scene { link: far(), file_len: FILE_LEN, index, profile, ..Scene::default() }, |_| {})
    };
    let both: Vec<Read> = reads(0, 1).into_iter().zip(reads(1, 3)).flat_map(|(one, other)| [one, other]).collect();
    for trace in [[reads(0, 1), reads(1, 3)].concat(), both] {
        let score = play(&trace, None);
        assert!(score.round_trips <= 6, "{score}");
        let columns: Vec<(u32, u32)> =
            score.observed.tables.iter().map(|table| (table.table, table.columns[0].column)).collect();
        assert_eq!(columns, [(0, 1), (1, 3)]);
        assert!(play(&trace, Some(&score.observed)).round_trips <= 2);
    }
}

/// A table of Parquet: 20 row groups, 30 columns, a chunk of 150 KB each.
fn parquet() -> Arc<Layout> {
    let piece = |column: u64, group: u64| Piece {
        first: group * 10_000,
        offset: 4 + (group * 30 + column) * 150_000,
        len: 150_000,
    };
    let column = |column: u64| Column {
        name: format!("c{column}"),
        pieces: (0..20).map(|group| piece(column, group)).collect(),
    };
    Arc::new(Layout {
        tables: vec![Table { name: String::new(), entries: 200_000, columns: (0..30).map(column).collect() }],
    })
}

#[test]
fn chunks_of_parquet_are_pieces_like_others() {
    let layout = parquet();
    let index = Some(Arc::new(Index::new(layout.clone(), FILE_LEN)));
    let chunk = |column: usize, group: usize| {
        let piece = layout.tables[0].columns[column].pieces[group];
        Span::new(piece.offset, piece.len.into())
    };
    // Row group by row group, each chunk in reads of 50 KB, as readers of pages do.
    let thirds = |span: Span| (0..3).map(move |part| read(Span::new(span.offset + part * 50_000, 50_000)));
    let trace: Vec<Read> =
        (0..20).flat_map(|group| [4, 21].map(|column| chunk(column, group))).flat_map(thirds).collect();
    let footer = read(Span::new(FILE_LEN - 40_000, 40_000));
    let trace = [vec![footer], trace].concat();
    let scene = Scene { link: far(), file_len: FILE_LEN, index, ..Scene::default() };
    let score = replay(&trace, &scene, |machine| machine.check());
    assert!(score.round_trips <= 9, "{score}");
    assert!(score.asked_len * 100 <= needed_len(&trace) * 110, "{score}");
    let scene = Scene { profile: Some(score.observed), ..scene };
    let score = replay(&trace, &scene, |machine| machine.check());
    assert!(score.round_trips <= 1, "{score}");
    assert_eq!(score.wasted_len, 0);
}

/// Chunks of 1 MB, read page by page: at first, after a jump, and of a column that comes later.
#[test]
fn long_chunks_are_read_page_by_page() {
    let piece = |column: u64, group: u64| Piece {
        first: group * 10_000,
        offset: 4 + (group * 10 + column) * 1_000_000,
        len: 1_000_000,
    };
    let column =
        |number: u64| Column { name: number.to_string(), pieces: (0..10).map(|at| piece(number, at)).collect() };
    let tables = vec![Table { name: String::new(), entries: 100_000, columns: (0..10).map(column).collect() }];
    let index = Some(Arc::new(Index::new(Arc::new(Layout { tables }), FILE_LEN)));
    let scene = Scene { link: far(), file_len: FILE_LEN, index, ..Scene::default() };
    let pages = |(column, group)| {
        let start = piece(column, group).offset;
        (0..100).map(move |page| read(Span::new(start + page * 10_000, 10_000)))
    };
    for chunks in [
        vec![(1, 0), (5, 0), (1, 1), (5, 1), (1, 2), (5, 2)],
        vec![(1, 0), (5, 0), (1, 1), (5, 1), (1, 6), (5, 6), (1, 7), (5, 7)],
        vec![(1, 0), (1, 1), (1, 2), (5, 2), (1, 3), (5, 3)],
    ] {
        let trace: Vec<Read> = chunks.iter().copied().flat_map(pages).collect();
        let score = replay(&trace, &scene, |_| {});
        assert!(score.stalls <= 40, "{chunks:?}: {score}");
    }
}

/// Few pieces, read twice with a cache that does not hold them all.
#[test]
fn going_back_among_few_pieces_is_followed() {
    let layout = parquet();
    let index = Some(Arc::new(Index::new(layout.clone(), FILE_LEN)));
    let pieces = (0..20).flat_map(|group| [4usize, 21].map(|column| layout.tables[0].columns[column].pieces[group]));
    let once: Vec<Read> = pieces.map(|piece| read(Span::new(piece.offset, piece.len.into()))).take(20).collect();
    let scene = Scene { settings: talk::exactly(1 << 20), link: far(), file_len: FILE_LEN, index, ..Scene::default() };
    let first = replay(&once, &scene, |machine| machine.check());
    let score = replay(&[once.clone(), once].concat(), &scene, |machine| machine.check());
    assert!(score.stalls <= 2 * first.stalls + 4, "{score}\n{first}");
    assert!(score.decisions.iter().any(|(_, decision)| matches!(decision, Decision::Rewound { entry: 0 | 10_000 })));
}

/// What a program reads at random is no opening: a profile of it fetches nothing in vain for ever.
#[test]
fn random_reads_teach_nothing() {
    let mut random = Seeded(3);
    let header = read(Span::new(0, 1000));
    let mut profile = Profile::default();
    for run in 0..4 {
        let anywhere = (0..100).map(|_| read(Span::new(random.below(FILE_LEN as usize) as u64, 500)));
        let trace: Vec<Read> = [header].into_iter().chain(anywhere).collect();
        let score = plain(&trace, Some(&profile));
        let ahead_len = score.asked_by.get(&Why::Profile).copied().unwrap_or(0);
        assert_eq!(ahead_len, [0, 1000 + 15 * 500, 1000, 1000][run], "{score}");
        profile = profile.after(&score.observed);
    }
}

/// A run that stops after a tenth of the table: the next one begins with no more.
#[test]
fn a_profile_knows_how_far_runs_come() {
    let file = talk::File::talk();
    let all = file.by_entries(&talk::COLUMNS_READ);
    let trace = &all[..all.len() / 10];
    let first = file.play(trace, Settings::default(), None);
    let next = file.play(trace, Settings::default(), Some(&first.observed));
    assert!(next.asked_len * 100 <= needed_len(trace) * 105, "{next}");
    // One that goes on goes on in windows.
    let whole = file.play(&all, Settings::default(), Some(&first.observed));
    assert!(whole.round_trips <= 3, "{whole}");
}

#[test]
fn failures_end_fetching_ahead_and_a_success_brings_it_back() {
    let mut machine = Prefetcher::new(Settings::default(), Link::default(), FILE_LEN);
    let mut actions = Vec::new();
    machine.open(None, None, &mut actions);
    let ahead_of = |machine: &mut Prefetcher, at: u64, is_there: bool| {
        let mut actions = Vec::new();
        machine.read(Span::new(at * 1000, 1000), &mut actions);
        let fetches: Vec<_> = actions
            .iter()
            .filter_map(|action| if let Action::Fetch(fetch) = action { Some((fetch.id, fetch.why)) } else { None })
            .collect();
        for (id, _) in &fetches {
            if is_there { machine.arrived(*id) } else { machine.failed(*id, &mut actions) }
        }
        machine.check();
        fetches.iter().any(|(_, why)| *why == Why::Sequential)
    };
    assert!(!ahead_of(&mut machine, 0, false));
    assert!(ahead_of(&mut machine, 1, false));
    assert!(!ahead_of(&mut machine, 2, false));
    assert!(!ahead_of(&mut machine, 3, true), "paused");
    assert!(ahead_of(&mut machine, 4, true));
    assert_eq!(machine.accounts().lost_len, 0);
}

/// A long window fails: what it was to bring is asked for again in windows, not read by read.
#[test]
fn a_window_that_failed_is_asked_for_again() {
    let mut machine = Prefetcher::new(Settings::default(), far(), FILE_LEN);
    let mut actions = Vec::new();
    machine.open(None, None, &mut actions);
    actions.clear();
    let (mut waits, mut failed_len) = (0, 0);
    for at in 0..800 {
        let parts = machine.read(Span::new(at * 64_000, 64_000), &mut actions);
        waits += u32::from(parts.iter().any(|part| part.source != Source::Held));
        for action in std::mem::take(&mut actions) {
            match action {
                Action::Fetch(fetch) if fetch.len > 1 << 20 && at > 100 && failed_len == 0 => {
                    failed_len = fetch.len;
                    machine.failed(fetch.id, &mut actions);
                }
                Action::Fetch(fetch) => machine.arrived(fetch.id),
                Action::Drop(_) | Action::Decided(_) => {}
            }
        }
    }
    assert!(failed_len > 0 && waits <= 4, "{failed_len} failed, waited {waits} times");
}

/// The length of a file is what a server says.
#[test]
fn no_length_is_too_long() {
    let mut machine = Prefetcher::new(Settings::default(), Link::default(), u64::MAX);
    let mut actions = Vec::new();
    machine.open(None, None, &mut actions);
    for offset in [0, 1, u64::MAX - 1, u64::MAX, 1 << 63] {
        for len in [u64::MAX, 0, 1, 1 << 63] {
            machine.read(Span::new(offset, len), &mut actions);
        }
    }
    for action in std::mem::take(&mut actions) {
        match action {
            Action::Fetch(fetch) if fetch.id.0 % 3 == 0 => machine.failed(fetch.id, &mut actions),
            Action::Fetch(fetch) => machine.arrived(fetch.id),
            Action::Drop(_) | Action::Decided(_) => {}
        }
    }
    assert!(machine.memory_len() <= machine.cache_len());
}

/// Chunks longer than the cache: they are read ahead as bytes, and not beyond their ends.
#[test]
fn long_pieces_are_streams() {
    let piece = |column: u64| Piece { first: 0, offset: column * (30 << 20), len: 30 << 20 };
    let column = |number: u64| Column { name: number.to_string(), pieces: vec![piece(number)] };
    let tables = vec![Table { name: String::new(), entries: 1000, columns: (0..3).map(column).collect() }];
    let index = Some(Arc::new(Index::new(Arc::new(Layout { tables }), FILE_LEN)));
    let scene = Scene { link: far(), file_len: FILE_LEN, index, ..Scene::default() };
    let trace: Vec<Read> = (0..120).map(|at| read(Span::new((30 << 20) + at * (256 << 10), 256 << 10))).collect();
    let score = replay(&trace, &scene, |machine| machine.check());
    assert!(score.round_trips_waited <= 12, "{score}");
    assert_eq!(score.wasted_len, 0, "{score}");
}

/// The layout comes with the answer to the opening, after the first reads went out.
#[test]
fn a_layout_may_come_later() {
    let file = talk::File::talk();
    let trace = file.by_entries(&talk::COLUMNS_READ);
    let learned = file.play(&trace, Settings::default(), None).observed;
    let mut machine = Prefetcher::new(Settings::default(), far(), file.len);
    let mut actions = Vec::new();
    machine.open(None, Some(&learned), &mut actions);
    assert!(!actions.iter().any(|action| matches!(action, Action::Fetch(_))), "nothing but columns is known");
    machine.layout(file.index.clone(), Some(&learned), &mut actions);
    let [Action::Fetch(fetch)] = &actions[actions.len() - 1..] else { panic!("{actions:?}") };
    machine.arrived(fetch.id);
    assert!(
        trace.iter().all(|read| machine.read(read.span, &mut actions).iter().all(|part| part.source == Source::Held))
    );
}
