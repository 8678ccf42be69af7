//! Paths that documents and comments name: each leads to a file or directory of the repository, and each path of Rust
//! (`datad::layouts`) to something of that crate.
//!
//! A path of files begins in the root, in `crates/`, or where the one who names it is: his crate, `src` and `tests`
//! there, his directory and those above. Placeholders (`found/TARGET`), patterns and what only a machine has (`/srv`)
//! are none.

use std::collections::{BTreeMap, BTreeSet};
use testkit::repository::{files, prose, text};

struct Repository {
    files: Vec<String>,
    /// With the directories.
    paths: BTreeSet<String>,
    /// What stands at the beginning of paths from the root.
    top: BTreeSet<String>,
    /// By their directories' names, with the words of their sources and the names of their files.
    crates: BTreeMap<String, BTreeSet<String>>,
    /// Names of files and directories, without endings: of modules, among others.
    stems: BTreeSet<String>,
}

fn repository() -> Repository {
    let files = files();
    let (mut paths, mut top, mut stems) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let mut crates: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in &files {
        let (first, rest) = file.split_once('/').unwrap_or((file, ""));
        top.extend((!rest.is_empty()).then(|| first.to_owned()));
        paths.extend(file.match_indices('/').map(|(end, _)| file[..end].to_owned()));
        paths.insert(file.clone());
        let names: Vec<String> = file.split('/').map(|name| stem(name).to_owned()).collect();
        if let Some((name, _)) = rest.split_once('/').filter(|_| first == "crates") {
            let words = crates.entry(name.replace('-', "_")).or_default();
            words.extend(names.iter().cloned());
            if file.ends_with(".rs") {
                let text = text(file).expect("sources are text");
                let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
                words.extend(code.flat_map(|line| line.split(|sign| !is_word(sign))).map(str::to_owned));
            }
        }
        stems.extend(names);
    }
    Repository { files, paths, top, crates, stems }
}

fn is_word(sign: char) -> bool {
    sign.is_alphanumeric() || sign == '_'
}

fn stem(name: &str) -> &str {
    name.split('.').next().unwrap_or_default()
}

/// Crates of others that our documents speak of, and an example.
const FOREIGN: &[&str] = &["tokio", "std", "object_store", "file"];
/// Endings of files that are the repository's if somebody names them with a directory.
const ENDINGS: &[&str] = &[".rs", ".md", ".py", ".sh", ".proto"];

impl Repository {
    /// Whether `path`, named in `file`, is there. `None`: it is no path of ours.
    fn has(&self, file: &str, path: &str) -> Option<bool> {
        let first = path.split('/').next()?;
        let in_crate = |name: &str| self.paths.contains(&format!("crates/{name}"));
        let second = path.split('/').nth(1).unwrap_or_default();
        let is_rooted =
            self.top.contains(first) || in_crate(first) && ["src", "tests", "proto", "examples"].contains(&second);
        let has_ending = ENDINGS.iter().any(|ending| path.ends_with(ending));
        if !is_rooted && !has_ending {
            return None;
        }
        let mut bases: Vec<String> = vec![String::new(), "crates/".to_owned()];
        if let Some((name, _)) = file.strip_prefix("crates/").and_then(|rest| rest.split_once('/')) {
            bases.extend(["", "src/", "tests/"].map(|part| format!("crates/{name}/{part}")));
        }
        bases.extend(file.match_indices('/').map(|(end, _)| file[..=end].to_owned()));
        let is_there = bases.iter().any(|base| self.paths.contains(&joined(base, path)));
        // A few last names, as `nodes/orders.rs` of a crate that the sentence is about.
        let is_end = || !is_rooted && self.files.iter().any(|file| file.ends_with(&format!("/{path}")));
        Some(is_there || is_end())
    }

    /// Whether a path of Rust leads to a crate or module, and words there.
    fn has_rust(&self, path: &str) -> bool {
        let (first, rest) = path.split_once("::").expect("a path");
        let words = |words: &BTreeSet<String>| rest.split("::").all(|name| words.contains(name));
        match self.crates.get(first) {
            Some(of_crate) => words(of_crate),
            None => {
                FOREIGN.contains(&first)
                    || self.stems.contains(first)
                        && self.crates.values().any(|of_crate| of_crate.contains(first) && words(of_crate))
            }
        }
    }
}

/// `a/b/` and `../c` are `a/c`.
fn joined(base: &str, path: &str) -> String {
    let mut names: Vec<&str> = base.split('/').filter(|name| !name.is_empty()).collect();
    for name in path.split('/') {
        match name {
            "" | "." => {}
            ".." => _ = names.pop(),
            name => names.push(name),
        }
    }
    names.join("/")
}

/// Words of a line that have a slash, or the ending of a source file, and nothing that no path of ours has.
fn candidates(line: &str) -> impl Iterator<Item = &str> {
    let words = line.split(|sign: char| sign.is_whitespace() || "`\"'()[],;|".contains(sign));
    let words = words.map(|word| word.split("::").next().unwrap_or_default().trim_end_matches(['.', ':', '/']));
    let is_plain = |word: &&str| word.chars().all(|sign| sign.is_ascii_alphanumeric() || "_./-".contains(sign));
    let is_placeholder = |word: &str| {
        let is_loud = |name: &str| name.len() > 1 && name.chars().all(|sign| sign.is_ascii_uppercase());
        word.split('/').any(|name| is_loud(stem(name)) && !name.ends_with(".md"))
    };
    words
        .filter(is_plain)
        .filter(move |word| word.contains('/') && !word.starts_with(['/', '.']) && !is_placeholder(word))
        // Decisions go by their numbers: decisions.rs.
        .filter(|word| !word.starts_with("docs/adr/0"))
}

/// Paths of Rust between backticks.
fn rust_paths(line: &str) -> impl Iterator<Item = &str> {
    let quoted = line.split('`').skip(1).step_by(2).map(|word| word.trim_end_matches("()"));
    quoted
        .filter(|word| word.contains("::") && word.starts_with(|first: char| first.is_ascii_lowercase()))
        .filter(|word| word.split("::").all(|name| !name.is_empty() && name.chars().all(is_word)))
}

#[test]
fn paths_lead_to_files() {
    let repository = repository();
    let (mut found, mut wrong) = (0, Vec::new());
    for file in &repository.files {
        let Some(text) = text(file) else { continue };
        for (line, said) in prose(file, &text) {
            for path in candidates(said) {
                let is_there = repository.has(file, path);
                found += usize::from(is_there.is_some());
                wrong.extend((is_there == Some(false)).then(|| format!("{file}:{line}: there is no {path}")));
            }
        }
    }
    assert!(found > 300, "{found} are named");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn paths_of_rust_lead_to_items() {
    let repository = repository();
    let (mut found, mut wrong) = (0, Vec::new());
    for file in repository.files.iter().filter(|file| file.ends_with(".md")) {
        let text = text(file).expect("it is text");
        for (line, said) in prose(file, &text) {
            for path in rust_paths(said) {
                found += 1;
                wrong.extend((!repository.has_rust(path)).then(|| format!("{file}:{line}: there is no {path}")));
            }
        }
    }
    assert!(found > 150, "{found} are named");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_path_is_told_from_other_words() {
    let of = |line| candidates(line).collect::<Vec<_>>();
    assert_eq!(
        of("see `crates/x/src/a.rs`, docs/cli.md. and and/or (tests/y.py::test)"),
        ["crates/x/src/a.rs", "docs/cli.md", "and/or", "tests/y.py"]
    );
    assert_eq!(of("not https://a/b, /srv/x, seeds/<n>, crates/*/src, found/TARGET.log, docs/adr/0007's"), [""; 0]);
    let repository = repository();
    let has = |path| repository.has("crates/testkit/src/power/mod.rs", path);
    assert_eq!([has("tests/paths.rs"), has("src/lib.rs"), has("power/disk.rs")], [Some(true); 3], "of the same crate");
    assert_eq!([has("crates/testkit/none.rs"), has("docs/none"), has("none/at_all.rs")], [Some(false); 3]);
    assert_eq!([has("and/or"), has("read/write")], [None; 2]);
    let rust = |path| repository.has_rust(path);
    assert!(rust("testkit::power") && rust("repository::files") && rust("tokio::fs"));
    // Put together here, so that these words are in no source.
    let nowhere = ["no", "such"].concat();
    let (item, module) = (format!("testkit::{nowhere}"), format!("{nowhere}::files"));
    assert!(!rust(&item) && !rust(&module));
}
