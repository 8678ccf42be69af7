//! The files of the repository, and what they say in words: for tests that hold documents and comments to the code.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the workspace begins.
pub fn root() -> PathBuf {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("crates/");
    crates.parent().expect("the workspace").to_owned()
}

/// The files that Git keeps, or would, by their paths from the root: neither what was built nor what tests fetched.
pub fn files() -> Vec<String> {
    let listed = Command::new("git")
        .current_dir(root())
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .output()
        .expect("git runs");
    let names = String::from_utf8(listed.stdout).expect("names are text");
    let mut files: Vec<String> = names.split_terminator('\0').map(str::to_owned).collect();
    // One that was removed is listed until it is committed.
    files.retain(|path| root().join(path).exists());
    files.sort();
    files.dedup();
    assert!(files.len() > 1000, "git lists the repository: {}", files.len());
    files
}

/// Of a file that [`files`] lists. What is no text (recorded bytes, images) has none.
pub fn text(path: &str) -> Option<String> {
    String::from_utf8(std::fs::read(root().join(path)).expect("a file that was listed")).ok()
}

/// What a file says in words, by its lines from 1 on: a document all of it, a program its comments.
pub fn prose<'a>(path: &str, text: &'a str) -> Vec<(usize, &'a str)> {
    let ending = path.rsplit_once('.').map_or("", |(_, ending)| ending);
    let sign = match ending {
        "md" => "",
        "rs" | "proto" => "//",
        "py" | "sh" | "toml" | "yml" => "#",
        _ => return Vec::new(),
    };
    text.lines().enumerate().filter_map(|(line, text)| Some((line + 1, comment(text, sign)?))).collect()
}

/// Behind the sign, where it begins the line or stands after a space: so an address in a text is none.
fn comment<'a>(line: &'a str, sign: &str) -> Option<&'a str> {
    let begins = |at: usize| line[..at].chars().next_back().is_none_or(char::is_whitespace);
    line.match_indices(sign).find(|(at, _)| begins(*at)).map(|(at, _)| &line[at + sign.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_told_from_code() {
        let text = "//! one\nlet a = \"http://x\"; // two\nlet b = 3;\n";
        assert_eq!(prose("a.rs", text), [(1, "! one"), (2, " two")]);
        assert_eq!(prose("a.py", "x = 1  # three\n#!four\n"), [(1, " three"), (2, "!four")]);
        assert_eq!(prose("a.md", "all\n"), [(1, "all")]);
        assert_eq!(prose("a.bin", "none"), []);
    }
}
