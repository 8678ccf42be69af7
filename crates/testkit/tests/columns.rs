//! No line of Rust, Markdown or Python has more than 120 columns. Left out are lines that cannot be broken (an address,
//! a path), tables and drawings, commands in documents, what lies inside a text that goes over lines, generated code,
//! and recorded bytes.

use std::collections::{BTreeMap, BTreeSet};
use testkit::repository::{files, text};
use testkit::source::lines_in_texts;

const COLUMNS_MAX: usize = 120;
/// Longer lines of directories where nobody has broken them yet. None may come to be; take away what is mended.
const NOT_YET: &[(&str, usize)] = &[("crates/xfer/", 5)];
/// Written by programs.
const GENERATED: &[&str] = &["crates/wire/src/proto.rs", "crates/hdfs/src/proto.rs"];
/// What drawings are made of.
const DRAWN: &[char] = &['│', '─', '┌', '┐', '└', '┘', '├', '┤', '┬', '┴', '┼', '═', '║', '▶', '◀', '▼', '▲'];

/// The numbers of lines of a file that are too long, from 1 on.
fn long_lines(path: &str, text: &str) -> Vec<usize> {
    let ending = path.rsplit_once('.').map_or("", |(_, ending)| ending);
    let in_texts = if ending == "rs" { lines_in_texts(text) } else { BTreeSet::new() };
    let (mut in_drawing, mut found) = (false, Vec::new());
    for (number, line) in text.lines().enumerate() {
        let comment = line.trim_start().trim_start_matches(['/', '!', '#']).trim_start_matches(' ');
        let is_fence = comment.starts_with("```");
        in_drawing ^= is_fence;
        let is_indented = ending == "md" && line.starts_with("    ");
        let is_shown = in_drawing || is_indented || comment.starts_with('|') || line.contains(DRAWN);
        let column_count = line.chars().count();
        if column_count > COLUMNS_MAX && !is_shown && !in_texts.contains(&number) && !is_one_word(line) {
            found.push(number + 1);
        }
    }
    found
}

/// Nothing but one word, maybe behind the sign of a list or a comment, with which it would be no shorter.
fn is_one_word(line: &str) -> bool {
    line.split_whitespace().filter(|word| word.chars().count() > 3).count() == 1
}

#[test]
fn lines_are_at_most_120_columns() {
    let mut counts: BTreeMap<&str, usize> = NOT_YET.iter().map(|(directory, _)| (*directory, 0)).collect();
    let (mut wrong, mut read) = (Vec::new(), 0);
    for path in files() {
        let is_kind = [".rs", ".md", ".py", ".pyi"].iter().any(|ending| path.ends_with(ending));
        if !is_kind || GENERATED.contains(&&*path) || path.contains("/golden/") {
            continue;
        }
        read += 1;
        let text = text(&path).expect("it is text");
        let long = long_lines(&path, &text);
        match NOT_YET.iter().find(|(directory, _)| path.starts_with(directory)) {
            Some((directory, _)) => *counts.entry(directory).or_default() += long.len(),
            None => wrong.extend(long.into_iter().map(|line| format!("{path}:{line}"))),
        }
    }
    assert!(read > 1000, "{read} files are read");
    assert!(wrong.is_empty(), "longer than {COLUMNS_MAX} columns: {wrong:#?}");
    for (directory, count) in NOT_YET {
        let is = counts[directory];
        assert!(is <= *count, "{directory} has {is} lines of more than {COLUMNS_MAX} columns, and had {count}");
    }
}

#[test]
fn what_cannot_be_broken_is_left_out() {
    let long = "word ".repeat(30);
    let address = format!("https://{}", "a".repeat(130));
    let rust = format!(
        "// {long}\n//! ```text\n//! {long}\n//! ```\n// {address}\nlet a = r#\"\n{long}\n\"#;\nlet b = \"{long}\";\n"
    );
    assert_eq!(long_lines("a.rs", &rust), [1, 9]);
    let markdown = format!("{long}\n| {long} |\n    {long}\n- {address}\n```\n{long}\n```\n{long}\n");
    assert_eq!(long_lines("a.md", &markdown), [1, 8]);
    assert_eq!(long_lines("a.py", &format!("# {long}\n{long}\n")), [1, 2]);
}
