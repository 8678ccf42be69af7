//! docs/glossary.md against the code: what stands in `code` there is a word of the program, and each term has one row.

use std::collections::BTreeSet;
use testkit::repository::{files, text};

const PAGE: &str = "docs/glossary.md";

/// Of each row: the line, the terms, what they mean. What others call it is not ours to hold.
fn rows(page: &str) -> Vec<(usize, Vec<String>, String)> {
    let rows = page.lines().enumerate().filter(|(_, line)| line.starts_with("| ") && !line.starts_with("| term"));
    rows.map(|(line, row)| {
        let mut cells = row.trim_matches('|').split(" | ").map(str::trim);
        let (terms, meaning) = (cells.next().unwrap_or_default(), cells.next().unwrap_or_default());
        (line + 1, separate(terms), format!("{terms} {meaning}"))
    })
    .collect()
}

/// Terms with commas between them, those in brackets left out.
fn separate(terms: &str) -> Vec<String> {
    let mut depth = 0;
    let plain: String = terms
        .chars()
        .filter(|sign| {
            let before = depth;
            depth += i32::from(*sign == '(') - i32::from(*sign == ')');
            before == 0 && depth == 0
        })
        .collect();
    plain.split(',').map(|term| term.trim().to_owned()).collect()
}

/// Words of programs, their protocols and their names: comments are left out.
fn words_of_programs() -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    for file in files().iter().filter(|file| file.starts_with("crates/")) {
        words.extend(split(file).map(str::to_owned));
        if [".rs", ".py", ".proto", ".toml"].iter().any(|ending| file.ends_with(ending)) {
            let text = text(file).expect("it is text");
            let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
            words.extend(code.flat_map(split).map(str::to_owned));
        }
    }
    words
}

fn split(text: &str) -> impl Iterator<Item = &str> {
    text.split(|sign: char| !sign.is_ascii_alphanumeric() && sign != '_').filter(|word| !word.is_empty())
}

#[test]
fn what_stands_in_code_is_a_word_of_the_program() {
    let words = words_of_programs();
    let page = text(PAGE).expect("it is text");
    let (mut found, mut wrong) = (0, Vec::new());
    for (line, _, said) in rows(&page) {
        // Examples of racks and Kerberos names are no words of ours.
        let codes = said.split('`').skip(1).step_by(2).filter(|code| !code.contains('/'));
        for word in codes.flat_map(split) {
            found += 1;
            wrong.extend((!words.contains(word)).then(|| format!("{PAGE}:{line}: nothing is called {word}")));
        }
    }
    assert!(found > 50, "{found} words are in code");
    assert!(wrong.is_empty(), "after a name was changed, change it there too: {wrong:#?}");
}

#[test]
fn each_term_has_one_row() {
    let page = text(PAGE).expect("it is text");
    let rows = rows(&page);
    assert!(rows.len() > 100, "{} rows", rows.len());
    let mut known = BTreeSet::new();
    let terms = rows.iter().flat_map(|(line, terms, _)| terms.iter().map(move |term| (line, term)));
    let twice: Vec<String> = terms
        .filter(|(_, term)| !known.insert(*term))
        .map(|(line, term)| format!("{PAGE}:{line}: {term} has two rows; where it has two meanings, say of what"))
        .collect();
    assert!(twice.is_empty(), "{twice:#?}");
}

#[test]
fn rows_are_read_as_they_stand() {
    let page = "| term | meaning |\n|---|---|\n| a, b (*c, d*) | is `X` | Y |\n";
    assert_eq!(rows(page), [(3, vec!["a".into(), "b".into()], "a, b (*c, d*) is `X`".into())]);
}
