//! Columns that a store sends by their names, before anybody here knows where they lie.

use layout::{Column, Layout, Piece, Table};
use prefetch::{Action, FetchId, Index, Link, Prefetcher, Profile, Settings, Source, Span};
use std::sync::Arc;

const FILE_LEN: u64 = 10_000_000;
const FAR: Link =
    Link { round_trip_us: 240_000, bytes_per_s: 125_000_000, ranges_per_request: 65_536, takes_runs: false };

/// Ten columns of ten pieces.
fn index() -> Arc<Index> {
    let column = |number: u64| {
        let piece = |group: u64| Piece { first: group * 1000, offset: group * 500_000 + number * 50_000, len: 50_000 };
        Column { name: number.to_string(), pieces: (0..10).map(piece).collect() }
    };
    let table = Table { entries: 10_000, columns: (0..10).map(column).collect(), ..Table::default() };
    Arc::new(Index::new(Arc::new(Layout { tables: vec![table] }), FILE_LEN))
}

fn span(column: u64, group: u64) -> Span {
    Span::new(group * 500_000 + column * 50_000, 50_000)
}

/// What a run that read two columns leaves, all of them or a few groups.
fn learned(groups: u64) -> Profile {
    let mut machine = Prefetcher::new(Settings::default(), FAR, FILE_LEN);
    let mut actions = Vec::new();
    machine.open(Some(index()), None, &mut actions);
    for group in 0..groups {
        for column in [2, 7] {
            machine.read(span(column, group), &mut actions);
            arrive(&mut machine, &mut actions);
        }
    }
    machine.observed()
}

fn arrive(machine: &mut Prefetcher, actions: &mut Vec<Action>) {
    for action in std::mem::take(actions) {
        if let Action::Fetch(fetch) = action {
            machine.arrived(fetch.id);
        }
    }
    machine.check();
}

#[test]
fn a_profile_says_what_to_ask_for() {
    let window = learned(10).first_window().unwrap();
    assert_eq!((window.columns, window.len), (vec![(0, 2), (0, 7)], 1_000_000));
    let window = learned(3).first_window().unwrap();
    assert_eq!(window.len, 300_000, "as far as it was read");
    assert_eq!(Profile::default().first_window(), None);
    let mut heads = learned(10);
    heads.tables[0].columns[0].head_len = 34;
    assert_eq!(heads.first_window(), None, "only whole pieces come by their names");
}

#[test]
fn what_is_expected_counts_before_it_is_known() {
    // Less than the file.
    let stake_len = 8 << 20;
    let settings = Settings { waste_floor_len: stake_len, ..Settings::DEFAULT };
    let (mut machine, mut actions) = (Prefetcher::new(settings, FAR, FILE_LEN), Vec::new());
    machine.open(None, None, &mut actions);
    assert_eq!(machine.expect(1_000_000), 1_000_000);
    machine.check();
    assert_eq!(machine.expect(u64::MAX), stake_len, "no more than a guess may cost");
    assert_eq!(machine.came(&[vec![Span::new(0, FILE_LEN)]], &mut actions), [None], "nor more than was asked for");
    assert_eq!(machine.expect(0), 0);
    assert_eq!(Prefetcher::new(Settings::off(), FAR, FILE_LEN).expect(100), 0);
}

#[test]
fn what_came_is_not_asked_for_again() {
    let (mut machine, mut actions) = (Prefetcher::new(Settings::default(), FAR, FILE_LEN), Vec::new());
    let profile = learned(10);
    machine.open(None, Some(&profile), &mut actions);
    arrive(&mut machine, &mut actions);
    assert_eq!(machine.expect(1_000_000), 1_000_000);
    // The program is early: what it reads comes by a fetch of its own.
    machine.read(span(2, 0), &mut actions);
    let parts: Vec<Vec<Span>> = (0..5)
        .map(|part| [2 * part, 2 * part + 1].into_iter().flat_map(|group| [span(2, group), span(7, group)]).collect())
        .collect();
    let fetches = machine.came(&parts, &mut actions);
    let lens: Vec<u64> = fetches.iter().flatten().map(|fetch| fetch.len).collect();
    assert_eq!(lens, [150_000, 200_000, 200_000, 200_000, 200_000]);
    let ids: Vec<FetchId> = fetches.iter().flatten().map(|fetch| fetch.id).collect();
    arrive(&mut machine, &mut actions);
    machine.layout(index(), Some(&profile), &mut actions);
    assert!(actions.iter().all(|action| !matches!(action, Action::Fetch(_))), "{actions:?}");
    // One part does not come: it is read as it is asked for.
    machine.failed(ids[4], &mut actions);
    ids[..4].iter().for_each(|id| machine.arrived(*id));
    for group in 0..10 {
        for column in [2, 7] {
            let parts = machine.read(span(column, group), &mut actions);
            // What follows in a column comes with its first piece that is missing.
            let is_missing = group == 8;
            assert_eq!(parts.iter().all(|part| part.source == Source::Held), !is_missing, "{group}: {parts:?}");
            arrive(&mut machine, &mut actions);
        }
    }
    let accounts = machine.accounts();
    assert_eq!((accounts.asked_len, accounts.waste_len()), (1_000_000, 0));
}
