//! `levada stat`

use super::ls::Entry;
use crate::shell::browse::Found;
use crate::shell::{Common, Session, Stop, mode, size, time};
use client::Kind;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to show; patterns in quotes
    #[arg(required = true)]
    paths: Vec<String>,
    /// What to print of each, as in '%n %b': %b length, %F type, %n name, %o block size, %r replication, %u owner,
    /// %g group, %a mode in octal, %A in letters, %y and %x times of change and access, %Y and %X in milliseconds
    #[arg(short = 'c', short_alias = 'f', long, value_name = "FORMAT", conflicts_with = "json")]
    format: Option<String>,
    #[command(flatten)]
    pub(super) common: Common,
}

pub(super) async fn run(args: Args, session: &Session) -> Result<(), Stop> {
    for path in &args.paths {
        for found in session.found(path).await? {
            match &args.format {
                Some(format) => session.output.line(&formatted(format, &found))?,
                None if session.output.is_json() => session.output.json(&Entry::new(&found))?,
                None => session.output.line(&described(&found))?,
            }
        }
    }
    Ok(())
}

fn kind(found: &Found) -> &'static str {
    // The words of `hdfs dfs -stat %F`.
    match found.status.kind {
        Kind::File => "regular file",
        Kind::Directory => "directory",
        Kind::Symlink => "symbolic link",
    }
}

fn described(found: &Found) -> String {
    let status = &found.status;
    let mut lines = vec![
        format!("{:>12}  {}", "path", found.target.shown()),
        format!("{:>12}  {}", "type", kind(found)),
        format!("{:>12}  {:04o} {}", "mode", status.mode, mode::letters(status.is_dir(), status.mode)),
        format!("{:>12}  {}:{}", "owner", status.owner, status.group),
        format!("{:>12}  {}", "modified", time::second(status.modified)),
        format!("{:>12}  {}", "inode", status.id),
    ];
    if status.is_dir() {
        lines.push(format!("{:>12}  {}", "children", status.child_count));
    } else {
        lines.push(format!("{:>12}  {} ({})", "length", status.len, size::human(status.len)));
        lines.push(format!("{:>12}  {}", "accessed", time::second(status.accessed)));
        lines.push(format!("{:>12}  {}", "replication", status.replication));
        lines.push(format!("{:>12}  {} ({})", "block size", status.block_len, size::human(status.block_len)));
    }
    lines.join("\n")
}

fn formatted(format: &str, found: &Found) -> String {
    let status = &found.status;
    let mut text = String::new();
    let mut letters = format.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            text.push(letter);
            continue;
        }
        let shown = match letters.next() {
            Some('b') => status.len.to_string(),
            Some('F') => kind(found).to_owned(),
            Some('n') => found.target.name().to_owned(),
            Some('o') => status.block_len.to_string(),
            Some('r') => status.replication.to_string(),
            Some('u') => status.owner.clone(),
            Some('g') => status.group.clone(),
            Some('a') => format!("{:o}", status.mode),
            Some('A') => mode::letters(status.is_dir(), status.mode)[1..].to_owned(),
            Some('y') => time::second(status.modified),
            Some('Y') => status.modified.0.to_string(),
            Some('x') => time::second(status.accessed),
            Some('X') => status.accessed.0.to_string(),
            Some('%') => "%".to_owned(),
            Some(other) => format!("%{other}"),
            None => "%".to_owned(),
        };
        text.push_str(&shown);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::testing::found;

    #[test]
    fn a_format_is_filled_in() {
        let found = found("/a/b", false);
        assert_eq!(
            formatted("%n %b %o %r %u:%g %a %A %F", &found),
            "b 1536 1048576 3 ann:staff 640 rw-r----- regular file"
        );
        assert_eq!(
            formatted("%y|%Y|%x|%X|100%%|%q|%", &found),
            "1970-01-01 00:00:01|1000|1970-01-01 00:00:02|2000|100%|%q|%"
        );
        assert!(described(&found).contains("1536 (1.5 K)"));
    }
}
