//! The tables of ARCHITECTURE.md against the code: which crates there are, and which types of `metad` hold a lock.

use std::collections::BTreeSet;
use std::path::Path;
use testkit::repository::{root, text};
use testkit::source::Source;

const PAGE: &str = "ARCHITECTURE.md";

/// The rows of the table with this heading, as they stand.
fn table(page: &str, heading: &str) -> Vec<String> {
    let lines = page.lines().skip_while(|line| !line.starts_with(heading)).skip(2);
    lines.take_while(|line| line.starts_with('|')).map(str::to_owned).collect()
}

/// What stands between backticks in one cell of each row.
fn names(rows: &[String], cell: usize) -> BTreeSet<String> {
    let cells = rows.iter().filter_map(|row| row.trim_matches('|').split('|').nth(cell));
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
}

#[test]
fn every_crate_has_its_row() {
    let page = text(PAGE).expect("it is text");
    let rows = names(&table(&page, "| ring | crate |"), 1);
    let entries = std::fs::read_dir(root().join("crates")).expect("crates/").map(|entry| entry.expect("an entry"));
    let crates: BTreeSet<String> = entries
        .filter(|entry| entry.path().join("Cargo.toml").exists())
        .map(|entry| entry.file_name().into_string().expect("a plain name"))
        .collect();
    assert_eq!(rows, crates, "{PAGE}: the table of crates, and crates/");
}

/// Types of a source file with a lock among their fields.
fn lockers(text: &str) -> BTreeSet<String> {
    let tokens = Source::parse(text).tokens;
    let mut found = BTreeSet::new();
    for (begin, pair) in tokens.windows(2).enumerate().filter(|(_, pair)| pair[0].text == "struct") {
        let (mut depth, mut holds) = (0, false);
        for token in &tokens[begin + 2..] {
            match token.text {
                "{" | "(" => depth += 1,
                "}" | ")" => depth -= 1,
                "Mutex" | "RwLock" => holds = true,
                _ => {}
            }
            // The end of the fields, or of one that has none.
            if depth == 0 && matches!(token.text, "}" | ";") {
                break;
            }
        }
        found.extend(holds.then(|| pair[1].text.to_owned()));
    }
    found
}

#[test]
fn every_lock_of_the_metadata_server_has_its_row() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("crates/").join("metad/src");
    let sources: Vec<(String, String)> = testkit::source_files(&root)
        .into_iter()
        .map(|path| {
            let name = path.strip_prefix(&root).expect("below src").display().to_string();
            (name, std::fs::read_to_string(path).expect("a source file"))
        })
        .collect();
    // A module of tests is a file beside the one that names it, or in its directory.
    let of_tests: Vec<String> = sources
        .iter()
        .flat_map(|(name, text)| {
            let stem = name.trim_end_matches(".rs").trim_end_matches("mod").trim_end_matches("lib");
            let below = if stem.is_empty() || stem.ends_with('/') { stem.to_owned() } else { format!("{stem}/") };
            Source::parse(text)
                .test_modules
                .into_iter()
                .map(move |module| format!("{below}{module}"))
                .collect::<Vec<_>>()
        })
        .collect();
    let ships = |name: &str| {
        !of_tests.iter().any(|test| name.strip_prefix(test).is_some_and(|rest| rest.starts_with(['.', '/'])))
    };
    let lockers: BTreeSet<String> =
        sources.iter().filter(|(name, _)| ships(name)).flat_map(|(_, text)| lockers(text)).collect();
    assert!(lockers.len() > 15, "{lockers:?}");

    let page = text(PAGE).expect("it is text");
    let rows = names(&table(&page, "| lock | of |"), 0);
    // `Machine::leader` is a field, `audit::Queue` a type of a module.
    let of_type = |name: &String| {
        let names = name.rsplit("::").find(|part| part.starts_with(|first: char| first.is_ascii_uppercase()));
        names.unwrap_or_else(|| panic!("{PAGE}: {name} names no type")).to_owned()
    };
    let mut types: BTreeSet<String> = rows.iter().map(of_type).collect();
    // The leader's own, which the table compares the others with.
    types.insert("LeaderLock".to_owned());
    assert_eq!(types, lockers, "{PAGE}: the table of locks, and the types of metad that have one");
}

#[test]
fn a_lock_is_found_among_fields() {
    let text = "struct A(Mutex<u8>); struct B { a: Arc<tokio::sync::Mutex<()>>, b: u8 } struct C; struct D { a: A }\n\
                fn f(lock: &Mutex<u8>) {}\n#[cfg(test)]\nmod tests { struct E(RwLock<u8>); }";
    assert_eq!(lockers(text).into_iter().collect::<Vec<_>>(), ["A", "B"]);
}
