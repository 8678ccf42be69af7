//! docs/semantics.md against the tests: each promise names a test or says that there is none, and each test that it
//! names exists.

use std::path::Path;

const PAGE: &str = "docs/semantics.md";

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).ok()
}

/// A promise, and what stands below it.
struct Promise {
    text: String,
    holders: Vec<String>,
}

fn promises(page: &str) -> Vec<Promise> {
    let mut promises: Vec<Promise> = Vec::new();
    for line in page.lines() {
        if let Some(text) = line.strip_prefix("- ") {
            promises.push(Promise { text: text.to_owned(), holders: Vec::new() });
        } else if let Some(holder) = line.strip_prefix("  - ") {
            promises.last_mut().expect("a test stands below a promise").holders.push(holder.to_owned());
        }
    }
    promises
}

/// Why this is no test: the file is not there, or has no function of that name.
fn fault(holder: &str) -> Option<String> {
    let Some((path, name)) = holder.trim_matches('`').split_once("::") else {
        return Some(format!("{holder:?} is neither `file::name` nor \"no test\""));
    };
    let Some(text) = read(path) else {
        return Some(format!("there is no file {path}"));
    };
    let keyword = if path.ends_with(".py") { "def" } else { "fn" };
    let found = text.contains(&format!("{keyword} {name}("));
    (!found).then(|| format!("{path} has no test {name}"))
}

#[test]
fn every_promise_names_tests_that_exist() {
    let promises = promises(&read(PAGE).expect("the page is there"));
    assert!(promises.len() > 50, "{PAGE} is read wrongly: {} promises", promises.len());
    let mut faults = Vec::new();
    for Promise { text, holders } in &promises {
        if holders.is_empty() {
            faults.push(format!("no test is named for: {text}"));
        }
        faults
            .extend(holders.iter().filter(|holder| !holder.starts_with("no test")).filter_map(|holder| fault(holder)));
    }
    assert!(faults.is_empty(), "{PAGE}: after a test was renamed, rename it there too:\n{}", faults.join("\n"));
}
