//! The talk's query, `Tree.Draw("rawtr","E33>5")`, at 240 ms: how often a reader waits, and for how many bytes.

mod talk;

use prefetch::replay::{Read, Score};
use prefetch::{Decision, Settings, Why};
use talk::{COLUMN_COUNT, COLUMNS_READ, File, TALK, exactly, needed_len, read};

const SMALL: Settings = Settings { cache_len: 64 << 10, ..TALK };

/// Both orders in which programs read.
fn orders(file: &File) -> [Vec<Read>; 2] {
    [file.by_entries(&COLUMNS_READ), file.by_columns(&COLUMNS_READ)]
}

fn asked_at_most(score: &Score, trace: &[Read], percent: u64) {
    assert!(score.asked_len * 100 <= needed_len(trace) * percent, "{score:?}");
}

#[test]
fn without_a_cache_each_basket_is_a_round_trip() {
    let file = File::talk();
    let trace = file.by_entries(&COLUMNS_READ);
    let score = file.play(&trace, Settings::off(), None);
    assert_eq!((score.stalls, score.round_trips, score.memory_len_max), (4800, 4800, 0));
    assert_eq!(score.asked_len, needed_len(&trace));
}

#[test]
fn the_first_run_learns_in_two_round_trips_and_fetches_in_one() {
    let file = File::talk();
    for trace in orders(file) {
        let score = file.play(&trace, TALK, None);
        assert!(score.round_trips <= 3, "{score:?}");
        asked_at_most(&score, &trace, 102);
    }
}

#[test]
fn with_a_profile_all_comes_with_the_opening() {
    let file = File::talk();
    for trace in orders(file) {
        let learned = file.play(&trace, TALK, None).observed;
        let score = file.play(&trace, TALK, Some(&learned));
        assert_eq!(score.round_trips, 1);
        asked_at_most(&score, &trace, 102);
        assert!(learned.encode().len() < 32, "it travels in one packet with the opening");
        // Another file of the same schema, whose baskets lie elsewhere.
        let other = File::new(2);
        let trace = other.by_entries(&COLUMNS_READ);
        let score = other.play(&trace, TALK, Some(&learned));
        assert_eq!(score.round_trips, 1);
        assert!(score.decisions.iter().all(|(_, decision)| !matches!(decision, Decision::Learned { .. })));
    }
}

/// The opening as ROOT does it: header, keys, streamer info, tree. A profile brings these, too.
#[test]
fn what_an_opening_reads_is_part_of_the_profile() {
    let file = File::talk();
    let trace = [file.opening(), file.by_entries(&COLUMNS_READ)].concat();
    let first = file.play(&trace, TALK, None);
    let next = file.play(&trace, TALK, Some(&first.observed));
    assert!(first.round_trips <= 7 && next.round_trips <= 2, "{} and {}", first.round_trips, next.round_trips);
}

#[test]
fn a_cache_of_64_kb_does_not_cost_a_thousand_round_trips() {
    let file = File::talk();
    for trace in orders(file) {
        let learned = file.play(&trace, SMALL, None).observed;
        // Enlarged to 4 MiB, since 30 MB are on their way at a time.
        let score = file.play(&trace, SMALL, None);
        assert!(score.round_trips <= 5 && score.memory_len_max <= 4 << 20, "{score:?}");
        let score = file.play(&trace, SMALL, Some(&learned));
        assert!(score.round_trips <= 4, "{score:?}");
        // Who forbids that waits for each 60 KB: 113 times, and some for halves that come one after the other.
        let score = file.play(&trace, exactly(64 << 10), None);
        assert!(score.stalls <= 240 && score.memory_len_max <= 64 << 10, "{score:?}");
        assert!(score.elapsed_us < 150 * 240_000, "{score:?}");
    }
}

/// Half of a window is read while the next is on its way: 2 ms of work for each pair of baskets are enough.
#[test]
fn the_next_window_comes_while_this_one_is_worked_on() {
    let file = File::talk();
    let mut trace = file.by_entries(&COLUMNS_READ);
    trace.iter_mut().step_by(2).for_each(|read| read.after_us = 2000);
    let score = file.play(&trace, exactly(1 << 20), None);
    assert!(score.stalls <= 4, "{score:?}");
    assert!(score.counts.fetches > 10);
}

#[test]
fn gaps_are_merged_where_they_are_short_and_waste_is_allowed() {
    let file = File::talk();
    // Columns beside each other, one left out between them: a basket of 1.4 KB is no short gap.
    let trace = file.by_entries(&[17, 19]);
    let score = file.play(&trace, TALK, None);
    assert!(score.counts.ranges >= 4700, "{score:?}");
    // Neighbours become one range each.
    let trace = file.by_entries(&[17, 18]);
    let score = file.play(&trace, TALK, None);
    assert!(score.counts.ranges <= 2500, "{score:?}");
}

/// A tool that copies the file reads it from one end to the other, whatever the columns are.
#[test]
fn a_copy_is_no_reader_of_columns() {
    let file = File::talk();
    let trace: Vec<Read> =
        (0..(40 << 20) / 100_000).map(|at| read(prefetch::Span::new(at * 100_000, 100_000))).collect();
    let score = file.play(&trace, TALK, None);
    assert_eq!(score.asked_by.get(&Why::Columns), None);
    assert!(score.wasted_len <= TALK.waste_floor_len, "{score:?}");
    assert!(score.round_trips < 40, "{score:?}");
}

/// Columns that lie side by side are read one behind the other, as a copy reads. They are columns all the same.
#[test]
fn columns_side_by_side_are_no_copy() {
    let file = File::talk();
    let columns: Vec<usize> = (30..50).collect();
    let trace: Vec<Read> = file.by_entries(&columns).into_iter().take(10_000).collect();
    let score = file.play(&trace, TALK, None);
    assert!(score.stalls <= 16, "{score}");
    assert_eq!(score.observed.tables[0].columns.len(), columns.len());
}

/// A round trip so short that a guess may cost little: the next window leaves while this one is worked on all the same.
#[test]
fn short_windows_are_asked_for_in_time() {
    let file = File::talk();
    let mut trace = file.by_entries(&COLUMNS_READ);
    trace.iter_mut().for_each(|read| read.after_us = 50);
    let link = prefetch::Link { round_trip_us: 1000, ..talk::far() };
    let scene = prefetch::replay::Scene { link, ..file.scene(TALK, None) };
    let score = prefetch::replay::replay(&trace, &scene, |_| {});
    assert!(score.stalls <= 8 && score.counts.fetches > 20, "{score}");
}

/// In the middle of the file the program reads other columns.
#[test]
fn a_change_of_columns_costs_a_little() {
    let file = File::talk();
    let half = file.by_entries(&COLUMNS_READ).len() / 2;
    let trace = [&file.by_entries(&COLUMNS_READ)[..half], &file.by_entries(&[40, 120])[half..]].concat();
    let score = file.play(&trace, exactly(2 << 20), None);
    assert!(score.round_trips <= 40, "{score:?}");
    assert!(score.wasted_len <= 2 << 20, "{score:?}");
    assert_eq!(score.observed.tables[0].columns.len(), 4);
    assert!(score.decisions.iter().any(|(_, decision)| matches!(decision, Decision::ColumnIdle { .. })), "{score:?}");
}

/// `rawtr` only where `E33` passes a cut that few entries pass.
#[test]
fn a_column_read_for_some_entries_is_not_fetched_for_all() {
    let file = File::talk();
    let mut trace = Vec::new();
    for basket in 0..talk::BASKET_COUNT {
        trace.push(read(file.piece(COLUMNS_READ[1], basket)));
        if basket % 5 == 0 {
            trace.push(read(file.piece(COLUMNS_READ[0], basket)));
        }
    }
    let settings = exactly(1 << 20);
    let score = file.play(&trace, settings, None);
    assert!(score.decisions.iter().any(|(_, decision)| matches!(decision, Decision::ColumnSparse { .. })), "{score:?}");
    assert!(score.wasted_len <= 1 << 20, "{score:?}");
}

/// A wide query: all columns, which the learning phase does not see all of.
#[test]
fn many_columns_are_learned_as_they_come() {
    let file = File::talk();
    let columns: Vec<usize> = (0..COLUMN_COUNT).step_by(4).collect();
    let trace: Vec<Read> = file.by_entries(&columns).into_iter().take(20_000).collect();
    let score = file.play(&trace, TALK, None);
    assert!(score.round_trips <= columns.len() as u64 + 10, "{score:?}");
    let learned = score.observed;
    let score = file.play(&trace, TALK, Some(&learned));
    assert!(score.round_trips <= 12, "{score:?}");
}

/// `uproot.iterate` looks at the keys of baskets first: 34 bytes of each.
#[test]
fn heads_of_baskets_are_not_whole_baskets() {
    let file = File::talk();
    let heads = file.by_columns(&COLUMNS_READ).into_iter().map(|whole| read(prefetch::Span { len: 34, ..whole.span }));
    let trace: Vec<Read> = heads.collect();
    let score = file.play(&trace, TALK, None);
    assert!(score.round_trips <= 6, "{score:?}");
    asked_at_most(&score, &trace, 110);
    // And then the baskets.
    let trace = [trace, file.by_columns(&COLUMNS_READ)].concat();
    let score = file.play(&trace, TALK, None);
    assert!(score.round_trips <= 12, "{score:?}");
}

#[test]
fn going_back_is_followed() {
    let file = File::talk();
    let trace = [file.by_entries(&COLUMNS_READ), file.by_entries(&COLUMNS_READ)].concat();
    let once = file.play(&file.by_entries(&COLUMNS_READ), exactly(2 << 20), None);
    let twice = file.play(&trace, exactly(2 << 20), None);
    assert!(twice.round_trips <= 2 * once.round_trips + 4, "{} and {}", once.round_trips, twice.round_trips);
    assert!(twice.wasted_len <= 2 << 20);
    // And what is held is not fetched again.
    let all = file.play(&trace, TALK, None);
    assert!(all.round_trips <= 3, "{all:?}");
}

/// Two threads, each through its half of the entries.
#[test]
fn two_readers_are_followed_side_by_side() {
    let file = File::talk();
    let all = file.by_entries(&COLUMNS_READ);
    let (one, other) = all.split_at(all.len() / 2);
    let trace: Vec<Read> = one.chunks(2).zip(other.chunks(2)).flat_map(|(one, other)| [one, other].concat()).collect();
    let score = file.play(&trace, exactly(2 << 20), None);
    assert!(score.round_trips <= 30, "{score:?}");
    assert!(score.wasted_len <= 1 << 20, "{score:?}");
}

/// As `levada explain read` prints it.
#[test]
fn a_score_says_what_was_decided_and_why() {
    let file = File::talk();
    let score = file.play(&file.by_entries(&COLUMNS_READ), TALK, None);
    let text = score.to_string();
    for line in [
        "       0  cache of 10000000 bytes; a guess may cost 8388608\n",
        "       3  table 'h42': learned 2 columns by 3 reads over 118 entries\n",
        "next entries of the columns in use\n",
        "\n3 round trips, 4 requests, waited 4 times\n",
    ] {
        assert!(text.contains(line), "{line} in\n{text}");
    }
}

/// A store that knows the layout is asked by names: two columns, and entries from the first on.
#[test]
fn a_window_goes_by_names_where_the_store_knows_them() {
    let file = File::talk();
    let learned = file.play(&file.by_entries(&COLUMNS_READ), TALK, None).observed;
    let link = prefetch::Link { takes_runs: true, ..talk::far() };
    let mut machine = prefetch::Prefetcher::new(exactly(2 << 20), link, file.len);
    let mut actions = Vec::new();
    machine.open(Some(file.index.clone()), Some(&learned), &mut actions);
    let fetches = actions.iter().filter_map(|action| match action {
        prefetch::Action::Fetch(fetch) => Some(fetch),
        prefetch::Action::Drop(_) | prefetch::Action::Decided(_) => None,
    });
    let fetches: Vec<_> = fetches.collect();
    let [fetch] = fetches[..] else { panic!("{fetches:?}") };
    assert_eq!(fetch.runs.len(), 2);
    let pieces = fetch.runs.iter().flat_map(|run| {
        let (_, column) = file.index.place(run.column).expect("a column");
        (run.first..run.first + run.count).map(move |piece| file.piece(column as usize, piece as usize))
    });
    assert_eq!(pieces.map(|piece| piece.len).sum::<u64>(), fetch.len, "and no gaps");
}
