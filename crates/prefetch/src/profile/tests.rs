use super::*;
use proptest::prelude::*;

/// Two columns of one table, a footer, and a pattern: 38 bytes.
fn example() -> Profile {
    Profile {
        tables: vec![TableProfile {
            table: 0,
            columns: vec![
                ColumnProfile { column: 3, head_len: 0, age: 0, past_len: Some(300) },
                ColumnProfile { column: 140, head_len: 34, age: 1, past_len: None },
            ],
            extent_permille: 1000,
        }],
        opening: vec![OpeningRead { from_end: true, offset: 8, len: 8, age: 0, seen: 5 }],
        patterns: vec![PatternProfile { offset: 4096, step: 1400, len: 34, steps: 9, age: 2 }],
        runs: 5,
        columns_len: 300,
    }
}

const GOLDEN: &[u8] = &[
    37, 5, // length of the fields, runs
    1, 16, 0, 0xe8, 7, 2, 6, 3, 0, 0, 1, 0xac, 2, 4, 0x8c, 1, 34, 1, // a table: number, extent, two columns
    1, 5, 1, 8, 8, 0, 5, // an opening read
    1, 7, 0x80, 32, 0xf8, 10, 34, 9, 2, // a pattern
    0xac, 2, // bytes of the columns
];

#[test]
fn the_bytes_are_golden() {
    assert_eq!(example().encode(), GOLDEN);
    assert_eq!(Profile::decode(GOLDEN), Ok(example()));
    for len in 0..GOLDEN.len() {
        assert!(Profile::decode(&GOLDEN[..len]).is_err(), "{len}");
    }
}

/// As programs of before wrote columns.
#[test]
fn columns_without_what_is_read_past_them_are_known() {
    let before = [21, 5, 1, 8, 0, 0xe8, 7, 1, 3, 3, 0, 0, 1, 5, 1, 8, 8, 0, 5, 0, 0xac, 2];
    let mut expected = example();
    expected.tables[0].columns = vec![ColumnProfile { column: 3, ..Default::default() }];
    expected.patterns.clear();
    assert_eq!(Profile::decode(&before), Ok(expected));
}

#[test]
fn what_cannot_be_is_refused() {
    let refused = |change: &dyn Fn(&mut Profile)| {
        let mut profile = example();
        change(&mut profile);
        Profile::decode(&encoding::encode(&profile, Vec::new())).unwrap_err()
    };
    let impossible = |what| ProfileError::Impossible { what };
    assert_eq!(refused(&|profile| profile.tables[0].columns.reverse()), impossible("columns out of order"));
    assert_eq!(refused(&|profile| profile.tables[0].extent_permille = 1001), impossible("a number out of range"));
    assert_eq!(
        refused(&|profile| profile.tables[0].columns[0].past_len = Some(u32::MAX)),
        impossible("a number out of range")
    );
    assert_eq!(refused(&|profile| profile.opening[0].age = AGE_MAX + 1), impossible("a number out of range"));
    assert_eq!(refused(&|profile| profile.opening[0].len = u64::MAX), impossible("a read too long"));
    assert_eq!(refused(&|profile| profile.patterns = vec![profile.patterns[0]; 9]), impossible("too many reads"));
    assert_eq!(Profile::decode(&[0; PROFILE_LEN_MAX + 1]), Err(ProfileError::TooLong { len: PROFILE_LEN_MAX + 1 }));
}

#[test]
fn what_is_not_read_any_more_is_forgotten() {
    let run = Profile {
        tables: vec![TableProfile {
            columns: vec![ColumnProfile { column: 7, ..Default::default() }],
            ..Default::default()
        }],
        runs: 1,
        ..Default::default()
    };
    let mut profile = example();
    for _ in 0..=AGE_MAX {
        profile = profile.after(&run);
    }
    assert_eq!((profile.tables[0].columns.as_slice(), profile.runs), (&run.tables[0].columns[..], 9));
    assert!(profile.opening.is_empty() && profile.patterns.is_empty());
    assert_eq!(profile.tables[0].extent_permille, 0, "as far as the last run came");
}

#[test]
fn a_run_that_brings_nothing_new_is_no_news() {
    let known = example();
    let mut run = Profile { runs: 1, ..example() };
    run.tables[0].columns[1].age = 0;
    assert!(known.says(&run) && known.says(&Profile { columns_len: 9, ..run.clone() }));
    assert!(!Profile::default().says(&run));
    let changed = |change: &dyn Fn(&mut Profile)| {
        let mut run = run.clone();
        change(&mut run);
        known.says(&run)
    };
    assert!(!changed(&|run| run.tables[0].columns[0].past_len = None));
    assert!(changed(&|run| _ = run.tables[0].columns.pop()), "one of two programs that take turns");
    assert!(!changed(&|run| run.tables[0].columns.clear()), "what is not read any more is to age");
    assert!(!changed(&|run| run.tables[0].columns[0].column = 4));
    assert!(changed(&|run| run.tables[0].extent_permille = 10), "the table was read further before");
    let other = OpeningRead { offset: 99, ..run.opening[0] };
    assert!(changed(&|run| run.opening.push(other)), "a read that comes now and then");
    let young = Profile { runs: 3, ..example() };
    assert!(young.says(&run) && !young.says(&Profile { opening: vec![other], ..run }));
}

#[test]
fn two_clients_learn_together() {
    let mut other = example();
    other.tables[0].columns[1].head_len = 0;
    other.tables[0].columns[0].age = 3;
    let merged = example().merge(&other);
    assert_eq!(merged, other.merge(&example()));
    let columns = &merged.tables[0].columns;
    assert_eq!((columns[0].age, columns[1].head_len), (0, 0), "read lately by one, and all of it by the other");
}

/// All that one program might note.
#[test]
fn no_profile_is_too_long() {
    let column = |column| ColumnProfile { column, head_len: 1 << 30, age: column % 3, past_len: None };
    let columns = (0..100_000).map(column).collect();
    let profile = Profile { tables: vec![TableProfile { columns, ..Default::default() }], ..Default::default() };
    let decoded = Profile::decode(&profile.encode()).expect("a profile");
    assert!(decoded.tables[0].columns.len() > 1000 && decoded.tables[0].columns.iter().all(|column| column.age == 0));
}

fn profiles() -> impl Strategy<Value = Profile> {
    let column = (0u32..50, 0u32..3, 0..=AGE_MAX, prop::option::of(1u32..3))
        .prop_map(|(column, head_len, age, past_len)| ColumnProfile { column, head_len, age, past_len });
    let table = (0u32..5, prop::collection::vec(column, 0..9), 0u32..=1000);
    let table = table.prop_map(|(table, columns, extent_permille)| {
        let columns: BTreeMap<u32, ColumnProfile> = columns.into_iter().map(|column| (column.column, column)).collect();
        TableProfile { table, columns: columns.into_values().collect(), extent_permille }
    });
    let opening = (any::<bool>(), any::<u64>(), 0..=OPENING_LEN_MAX, 0..=AGE_MAX, any::<u32>())
        .prop_map(|(from_end, offset, len, age, seen)| OpeningRead { from_end, offset, len, age, seen });
    let pattern = (any::<u64>(), any::<u64>(), any::<u64>(), any::<u32>(), 0..=AGE_MAX)
        .prop_map(|(offset, step, len, steps, age)| PatternProfile { offset, step, len, steps, age });
    let lists = (prop::collection::vec(table, 0..5), prop::collection::vec(opening, 0..20));
    (lists, prop::collection::vec(pattern, 0..12), any::<u32>()).prop_map(|((tables, opening), patterns, runs)| {
        Profile { tables, opening, patterns, runs, columns_len: runs.into() }.merge(&Profile::default())
    })
}

proptest! {
    #[test]
    fn profiles_are_read_as_they_were_written(one in profiles(), other in profiles()) {
        prop_assert_eq!(Profile::decode(&one.encode()), Ok(one.clone()));
        let merged = one.merge(&other);
        prop_assert_eq!(&merged, &other.merge(&one));
        prop_assert_eq!(Profile::decode(&merged.encode()), Ok(merged));
        prop_assert!(Profile::decode(&one.after(&other).encode()).is_ok());
    }

    #[test]
    fn no_bytes_harm_the_decoder(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        crate::fuzz::profile(&bytes);
    }
}
