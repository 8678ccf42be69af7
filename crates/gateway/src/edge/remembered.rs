//! What the store said of paths to users, for when the link is down.
//!
//! Promise: every refusal, and every answer about a path but that of a listing, passes [`Remembered::learn`], whoever
//! asked for what: once the store has refused a user, named other bytes, or found the file under another path, what it
//! said before is not gone by any more.

use client::{Error, ErrorKind, FileVersion, Status};
use edge::{Asked, Content, FileId, Openings};
use hdfs::proto::HdfsFileStatusProto;
use std::sync::{Mutex, MutexGuard, PoisonError};
use types::limits::MODE_MASK;
use types::{FsPath, Millis};

/// What the store said when a file was opened.
#[derive(Clone, Debug)]
pub(super) struct Opening {
    pub(super) status: Status,
    pub(super) content: Content,
    pub(super) at: Millis,
}

/// What it says now.
#[derive(Debug)]
pub(super) enum Said<'a> {
    /// All that is to be remembered.
    Opening(Box<Opening>),
    /// Which bytes these are, as far as they have a name.
    Content(Option<Content>),
    Status(Seen<'a>),
}

/// What of a status tells one file, and who may read it, from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen<'a> {
    version: FileVersion,
    mode: u16,
    owner: &'a str,
    group: &'a str,
}

impl<'a> From<&'a Status> for Seen<'a> {
    fn from(status: &'a Status) -> Self {
        Self { version: status.version(), mode: status.mode, owner: &status.owner, group: &status.group }
    }
}

/// As a status is read that is not passed on.
impl<'a> From<&'a HdfsFileStatusProto> for Seen<'a> {
    fn from(status: &'a HdfsFileStatusProto) -> Self {
        let id = status.file_id.unwrap_or(0);
        let version = FileVersion { id, modified: Millis(status.modification_time), len: status.length };
        let mode = status.permission.perm as u16 & MODE_MASK;
        Self { version, mode, owner: &status.owner, group: &status.group }
    }
}

#[derive(Debug)]
pub(super) struct Remembered {
    openings: Mutex<Openings<Opening>>,
}

impl Remembered {
    /// So many bytes of them.
    pub(super) fn new(len_max: u64) -> Self {
        Self { openings: Mutex::new(Openings::new(len_max)) }
    }

    /// Before the store is asked.
    pub(super) fn ask(&self) -> Asked {
        self.openings().ask()
    }

    /// What it answered. An error that says nothing of the path changes nothing.
    pub(super) fn learn(&self, asked: Asked, user: &str, path: &str, answer: Result<Said<'_>, &Error>) {
        let path = &key(path);
        let mut openings = self.openings();
        if let Ok(Said::Status(Seen { version, .. })) = &answer
            && let Some(file) = FileId::new(version.id)
        {
            openings.found(user, path, file);
        }
        let before = openings.peek(user, path);
        let is_other = match answer {
            Ok(Said::Opening(opening)) => {
                let file = FileId::new(opening.status.id);
                return openings.put(asked, user, path, file, *opening);
            }
            Ok(Said::Content(content)) => before.is_some_and(|before| Some(before.content) != content),
            Ok(Said::Status(seen)) => before.is_some_and(|before| Seen::from(&before.status) != seen),
            Err(error) => is_refusal(error),
        };
        if is_other {
            openings.forget(user, path);
        }
    }

    /// The store believes no names any more.
    pub(super) fn forget_all(&self) {
        self.openings().forget_all();
    }

    pub(super) fn opening(&self, user: &str, path: &str) -> Option<Opening> {
        self.openings().get(user, &key(path)).cloned()
    }

    /// Nothing is left half done while it is held.
    fn openings(&self) -> MutexGuard<'_, Openings<Opening>> {
        self.openings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// As the store reads it: `//a/` is `/a`. What is no path has no file.
fn key(path: &str) -> String {
    FsPath::parse(path).map_or_else(|_| path.to_owned(), |path| path.as_str().to_owned())
}

/// The store has the path no more, or not for this user.
pub(super) fn is_refusal(error: &Error) -> bool {
    use ErrorKind::{Denied, IsADirectory, NotADirectory, NotFound};
    matches!(error.kind(), NotFound | Denied | IsADirectory | NotADirectory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use client::Kind;
    use types::{BlockId, Generation};

    fn status(len: u64) -> Status {
        Status {
            kind: Kind::File,
            name: String::new(),
            len,
            mode: 0o644,
            owner: "ann".into(),
            group: "all".into(),
            modified: Millis(1),
            accessed: Millis(1),
            replication: 1,
            block_len: 1 << 20,
            id: 7,
            child_count: 0,
            unusable: None,
        }
    }

    fn content(block: u64) -> Content {
        Content::new("BP-1", BlockId(block), Generation(1), 5)
    }

    /// Whether it is still remembered after this answer.
    fn outlives(answer: Result<Said<'_>, Error>) -> bool {
        let remembered = Remembered::new(1 << 20);
        let opening = Opening { status: status(5), content: content(1), at: Millis(0) };
        remembered.learn(remembered.ask(), "ann", "//d/f", Ok(Said::Opening(Box::new(opening))));
        assert!(remembered.opening("ann", "/d/f/").is_some() && remembered.opening("bob", "/d/f").is_none());
        let answer = answer.as_ref().map(|said| match said {
            Said::Opening(_) => unreachable!("none of these"),
            Said::Content(content) => Said::Content(*content),
            Said::Status(seen) => Said::Status(*seen),
        });
        remembered.learn(remembered.ask(), "ann", "/d/f", answer);
        remembered.opening("ann", "/d/f").is_some()
    }

    #[test]
    fn what_the_store_takes_back_is_forgotten() {
        let (same, longer) = (status(5), status(6));
        let private = Status { mode: 0o600, ..status(5) };
        assert!(outlives(Ok(Said::Status((&same).into()))));
        assert!(!outlives(Ok(Said::Status((&longer).into()))));
        assert!(!outlives(Ok(Said::Status((&private).into()))));
        assert!(outlives(Ok(Said::Content(Some(content(1))))));
        assert!(!outlives(Ok(Said::Content(Some(content(2))))));
        assert!(!outlives(Ok(Said::Content(None))));
        assert!(!outlives(Err(Error::NotFound)) && !outlives(Err(Error::Denied(String::new()))));
        assert!(outlives(Err(Error::TimedOut { addr: String::new() })) && outlives(Err(Error::Busy(String::new()))));
    }

    #[test]
    fn a_file_that_is_seen_under_another_name_has_lost_its_former_one() {
        let remembered = Remembered::new(1 << 20);
        let open = |path, block, status: &Status| {
            let opening = Opening { status: status.clone(), content: content(block), at: Millis(0) };
            remembered.learn(remembered.ask(), "ann", path, Ok(Said::Opening(Box::new(opening))));
        };
        let other = Status { id: 8, ..status(5) };
        open("/a", 1, &status(5));
        open("/b", 2, &other);
        open("/c", 1, &status(5));
        assert!(remembered.opening("ann", "/a").is_none() && remembered.opening("ann", "/c").is_some());
        remembered.learn(remembered.ask(), "ann", "/d", Ok(Said::Status((&other).into())));
        assert!(remembered.opening("ann", "/b").is_none() && remembered.opening("ann", "/c").is_some());
    }
}
