//! A user's trash: where it lies, and how something comes into it. The layout and the names are those of HDFS's shell,
//! so each finds what the other removed; `metad::trash` makes the checkpoints and deletes them.
//!
//! ```text
//! HOME/.Trash/Current/PATH         what was removed since the last checkpoint
//!            /yyMMddHHmmss/PATH    before that, as of a moment (UTC)
//! ```
//!
//! Where a name is taken, the milliseconds of the moment stand behind it.

use super::failure::{Failure, Stop};
use super::target::Target;
use chrono::{NaiveDateTime, Utc};
use client::{Error, ErrorKind};

const TRASH: &str = ".Trash";
pub(crate) const CURRENT: &str = "Current";
/// What HDFS gives the directories that it makes there.
const MODE: u16 = 0o700;
/// Digits of a moment in milliseconds: so many since 2001, and until 2286.
const MOMENT_LEN: usize = 13;
/// Others may take names and directories at the same time; HDFS tries twice.
const TRY_COUNT_MAX: usize = 5;

/// The trash of whoever acts.
#[derive(Debug)]
pub(crate) struct Trash {
    pub(crate) root: Target,
}

/// What became of something that was to be removed.
#[derive(Debug)]
pub(crate) enum Moved {
    To(Target),
    /// Nothing: it lies in the trash already.
    Within,
}

impl Trash {
    /// In the store of `target`.
    pub(crate) fn of(target: &Target) -> Self {
        Self { root: target.with_path(format!("{}/{TRASH}", target.client.home())) }
    }

    /// Moves something that is there into the trash.
    pub(crate) async fn take(&self, target: &Target) -> Result<Moved, Stop> {
        if target.is_within(&self.root) {
            return Ok(Moved::Within);
        }
        if self.root.is_within(target) {
            let failure = Failure::new(target, "holds your trash, and cannot be moved into it");
            return Err(failure.advise("--skip-trash deletes it at once").into());
        }
        let parent = target.parent().unwrap_or_else(|| target.clone());
        let mut directory = self.root.child(CURRENT).beneath(&parent);
        for _ in 0..TRY_COUNT_MAX {
            match target.client.mkdirs(&directory.path, MODE, true).await {
                Ok(()) => {}
                Err(error) if is_file_in_the_way(&error) => {
                    directory = beside_the_file(&self.root, directory).await?;
                    continue;
                }
                Err(error) => return Err(refused(&directory, &error).into()),
            }
            let plain = directory.child(target.name());
            let taken = target.client.status(&plain.path).await.map_err(|error| plain.failure(&error))?.is_some();
            let place = if taken { plain.with_path(format!("{}{}", plain.path, moment())) } else { plain };
            match target.client.rename_to_trash(&target.path, &place.path).await {
                Ok(()) => return Ok(Moved::To(place)),
                // Another one was first, or a checkpoint was made meanwhile.
                Err(Error::Exists) => {}
                Err(Error::NotFound) if target.client.status(&target.path).await.is_ok_and(|is| is.is_some()) => {}
                Err(error) => return Err(refused(target, &error).into()),
            }
        }
        Err(Failure::new(target, "others change the trash at the same time").advise("try again").into())
    }
}

impl Target {
    /// The place below this one that has the whole path of `other`.
    pub(crate) fn beneath(&self, other: &Self) -> Self {
        self.with_path(format!("{}{}", self.path.trim_end_matches('/'), other.path.trim_end_matches('/')))
    }
}

fn refused(target: &Target, error: &Error) -> Failure {
    let failure = target.failure(error);
    match error.kind() {
        ErrorKind::Denied => failure.advise(
            "it was to be moved to your trash: that needs a home directory of yours, and the right to delete; \
             --skip-trash deletes it at once",
        ),
        _ => failure,
    }
}

fn is_file_in_the_way(error: &Error) -> bool {
    matches!(error, Error::Exists | Error::NotADirectory)
}

/// A file was removed whose name a directory has by now: the directory takes another name, as in HDFS.
async fn beside_the_file(root: &Target, directory: Target) -> Result<Target, Stop> {
    let mut below = Vec::new();
    let mut place = directory.clone();
    while place.path.len() > root.path.len() {
        let status = match place.client.status(&place.path).await {
            Err(Error::NotADirectory) => None,
            status => status.map_err(|error| place.failure(&error))?,
        };
        if status.is_some_and(|status| !status.is_dir()) {
            let other = place.with_path(format!("{}{}", place.path, moment()));
            return Ok(below.iter().rev().fold(other, |place, name: &String| place.child(name)));
        }
        below.push(place.name().to_owned());
        let Some(parent) = place.parent() else { break };
        place = parent;
    }
    Ok(directory)
}

fn moment() -> i64 {
    Utc::now().timestamp_millis()
}

/// What a name in the trash was before: without the moment behind it, which says when a name was taken.
pub(crate) fn untaken(name: &str) -> Option<(&str, u64)> {
    let at = name.len().checked_sub(MOMENT_LEN).filter(|at| *at > 0 && name.is_char_boundary(*at))?;
    let (plain, digits) = name.split_at(at);
    let is_moment = digits.starts_with(['1', '2']) && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_moment.then(|| digits.parse().ok()).flatten().map(|moment| (plain, moment))
}

/// The moment of a checkpoint, as a listing shows it; `None`: that is no checkpoint.
pub(crate) fn checkpoint(name: &str) -> Option<String> {
    let (digits, number) = name.split_once('-').unwrap_or((name, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if ![10, 12].contains(&digits.len()) || !is_number(digits) || !is_number(number) {
        return None;
    }
    let date = NaiveDateTime::parse_from_str(&format!("{digits:0<12}"), "%y%m%d%H%M%S").ok()?;
    Some(date.format("%Y-%m-%d %H:%M:%S").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_the_trash_say_what_they_were() {
        assert_eq!(untaken("x1795249805000"), Some(("x", 1_795_249_805_000)));
        assert_eq!([untaken("1795249805000"), untaken("x179524980500"), untaken("x9795249805000")], [None; 3]);
        assert_eq!(untaken("ü1795249805000"), Some(("ü", 1_795_249_805_000)));
        assert_eq!(untaken("üüüüüüü"), None);
        assert_eq!(checkpoint("261121083005-2").as_deref(), Some("2026-11-21 08:30:05"));
        assert_eq!([checkpoint(CURRENT), checkpoint("261121083005-"), checkpoint("ü6112108300")], [None, None, None]);
    }
}
