//! Links between the documents: each leads to a file that is there.

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What is kept by Git: neither what was built nor what tests fetched.
fn documents() -> Vec<String> {
    let listed = Command::new("git").current_dir(root()).args(["ls-files", "*.md"]).output().expect("git runs");
    String::from_utf8(listed.stdout).expect("names are text").lines().map(str::to_owned).collect()
}

/// The files that a document's links name, seen from its directory.
fn targets(text: &str) -> impl Iterator<Item = &str> {
    let links = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    let files = links.map(|(link, _)| link.split('#').next().unwrap_or_default());
    files.filter(|file| !file.is_empty() && !file.contains(':') && !file.contains('\\'))
}

#[test]
fn links_lead_to_files() {
    let documents = documents();
    assert!(documents.len() > 30, "{documents:?}");
    let mut broken = Vec::new();
    for document in documents {
        let path = root().join(&document);
        let text = std::fs::read_to_string(&path).expect("it is there");
        let directory = path.parent().expect("it is a file");
        broken.extend(
            targets(&text).filter(|file| !directory.join(file).exists()).map(|file| format!("{document}: {file}")),
        );
    }
    assert!(broken.is_empty(), "{broken:#?}");
}
