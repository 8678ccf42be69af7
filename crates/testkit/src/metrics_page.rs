//! docs/metrics.md against what servers show.

use std::collections::BTreeSet;
use std::path::Path;

/// Panics unless the tables of these sections have the families that a server knows, with their types and labels, and
/// no others.
pub fn compare<'a>(sections: &[&str], families: impl Iterator<Item = (&'a str, String, &'a [&'a str])>) {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let page = std::fs::read_to_string(page).expect("docs/metrics.md");
    let mut listed = BTreeSet::new();
    for section in sections {
        let title = format!("## {section}");
        let lines =
            page.lines().skip_while(|line| **line != *title).skip(1).take_while(|line| !line.starts_with("## "));
        let rows = lines.filter(|line| line.starts_with("| levada_") || line.starts_with("| process_"));
        let before = listed.len();
        listed.extend(rows.map(|row| row.split('|').skip(1).take(3).map(str::trim).collect::<Vec<_>>().join(" | ")));
        assert!(listed.len() > before, "docs/metrics.md has no table in a section {section}");
    }
    let shown = families.map(|(name, kind, labels)| format!("{name} | {kind} | {}", labels.join(", ")));
    let shown: BTreeSet<String> = shown.map(|row| row.trim_end().to_owned()).collect();
    let listed: BTreeSet<String> = listed.into_iter().map(|row| row.trim_end().to_owned()).collect();
    let missing: Vec<_> = shown.difference(&listed).collect();
    assert!(missing.is_empty(), "not on the page, or with another type or other labels: {missing:#?}");
    let stale: Vec<_> = listed.difference(&shown).collect();
    assert!(stale.is_empty(), "on the page, and not in the code: {stale:#?}");
}
