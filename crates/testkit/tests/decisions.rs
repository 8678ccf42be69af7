//! docs/adr: decisions are numbered without a gap, their index has each with its title, and whoever names a number
//! names one that there is.

use testkit::repository::{files, text};

const INDEX: &str = "docs/adr/README.md";

/// Of each decision, by its number from 1 on: file and title.
fn decisions() -> Vec<(String, String)> {
    let files = files().into_iter().filter_map(|path| path.strip_prefix("docs/adr/").map(str::to_owned));
    let decisions = files.filter(|file| file.starts_with(|first: char| first.is_ascii_digit()));
    decisions
        .map(|file| {
            let text = text(&format!("docs/adr/{file}")).expect("it is text");
            let title = text.lines().next().and_then(|line| line.strip_prefix("# ")).unwrap_or_default();
            (file, title.to_owned())
        })
        .collect()
}

#[test]
fn each_has_a_number_of_its_own() {
    for (index, (file, title)) in decisions().iter().enumerate() {
        let number = index + 1;
        assert!(file.starts_with(&format!("{number:04}-")), "{file} is the {number}th: a number is missing, or twice");
        assert!(title.starts_with(&format!("{number}. ")), "{file} begins with its number and its title: {title:?}");
    }
}

#[test]
fn the_index_has_each_with_its_title() {
    let index = text(INDEX).expect("it is text");
    let rows: Vec<&str> = index.lines().filter(|line| line.starts_with("| [")).collect();
    let decisions = decisions();
    for (row, (file, title)) in rows.iter().zip(&decisions) {
        let (number, title) = title.split_once(". ").expect("a number and a title");
        let begin = format!("| [{number}]({file}) | {title} | ");
        let decided = row.strip_prefix(&begin).and_then(|rest| rest.strip_suffix(" |"));
        let decided = decided.unwrap_or_else(|| panic!("{INDEX}: {row:?} should begin with {begin:?}"));
        assert!(decided.len() > 20, "{INDEX}: {file} has no word of what was decided");
    }
    assert_eq!(rows.len(), decisions.len(), "{INDEX}: a row for each file, in the order of their numbers");
}

/// The numbers that a text names: `ADR 7`, `docs/adr/0007`, `](0007-`.
fn named(text: &str) -> impl Iterator<Item = usize> {
    let digits = |sign: &'static str| {
        text.split(sign).skip(1).map(|rest| {
            let end = rest.find(|sign: char| !sign.is_ascii_digit()).unwrap_or(rest.len());
            &rest[..end]
        })
    };
    let of_files = digits("adr/").chain(digits("](")).filter(|digits| digits.len() == 4 && digits.starts_with('0'));
    digits("ADR ").chain(of_files).filter_map(|digits| digits.parse().ok())
}

#[test]
fn whoever_names_one_names_one_that_there_is() {
    let count = decisions().len();
    let (mut found, mut wrong) = (0, Vec::new());
    for path in files() {
        let Some(text) = text(&path) else { continue };
        for number in named(&text) {
            found += 1;
            if !(1..=count).contains(&number) {
                wrong.push(format!("{path}: {number}"));
            }
        }
    }
    assert!(found > 100, "{found} are named");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn numbers_are_read_in_each_form() {
    let text = "as [ADR 19](adr/0019-tokens.md), docs/adr/0007's and [8](0008-x.md) have it, no ADRs and no ](0 either";
    assert_eq!(named(text).collect::<Vec<_>>(), [19, 19, 7, 8]);
}
