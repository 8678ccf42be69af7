//! Holds that code that keeps state says what must be true of it: asserts in the crates that decide. What is counted is
//! what ships; tests have asserts of their own.

use std::path::Path;
use testkit::source::{Source, Token};

const CRATES: &[&str] = &["lead", "blocks", "namespace", "metad", "disks", "datanode"];
const PER_1000_LINES_MIN: usize = 4;
const ASSERTS: &[&str] = &["assert", "assert_eq", "assert_ne", "debug_assert", "debug_assert_eq", "debug_assert_ne"];

fn assert_count(tokens: &[Token<'_>]) -> usize {
    tokens.windows(2).filter(|pair| ASSERTS.contains(&pair[0].text) && pair[1].text == "!").count()
}

/// Asserts, and lines.
fn counted(name: &str) -> (usize, usize) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("crates/").join(name).join("src");
    let files: Vec<(String, String)> = testkit::source_files(&root)
        .into_iter()
        .map(|path| (path.display().to_string(), std::fs::read_to_string(&path).expect("a source file")))
        .collect();
    let sources: Vec<(&str, Source<'_>)> =
        files.iter().map(|(path, text)| (path.as_str(), Source::parse(text))).collect();
    // A module of tests is a file beside the one that names it, or in its directory.
    let of_tests: Vec<String> = sources
        .iter()
        .flat_map(|(path, source)| {
            let stem = path.trim_end_matches(".rs").trim_end_matches("/mod").trim_end_matches("/lib");
            source.test_modules.iter().map(move |name| format!("{stem}/{name}"))
        })
        .collect();
    let ships = |path: &str| {
        !of_tests.iter().any(|test| path.strip_prefix(test).is_some_and(|rest| rest.starts_with(['.', '/'])))
    };
    let shipped = sources.iter().filter(|(path, _)| ships(path));
    shipped.fold((0, 0), |(asserts, lines), (_, source)| {
        (asserts + assert_count(&source.tokens), lines + source.line_count)
    })
}

#[test]
fn crates_that_decide_assert_what_they_rest_on() {
    for name in CRATES {
        let (asserts, lines) = counted(name);
        println!("{name}: {asserts} asserts in {lines} lines");
        assert!(
            asserts * 1000 >= lines * PER_1000_LINES_MIN,
            "{name} has {asserts} asserts in {lines} lines, and should have {PER_1000_LINES_MIN} in a thousand"
        );
    }
}

#[test]
fn asserts_of_tests_and_in_texts_do_not_count() {
    let text = "fn f() { assert!(true); debug_assert_eq!(1, 1, \"assert!\"); } // assert!\n\
                #[cfg(test)]\nmod tests { fn g() { assert!(true); } }\n";
    let source = Source::parse(text);
    assert_eq!((assert_count(&source.tokens), source.line_count), (2, 1));
}
