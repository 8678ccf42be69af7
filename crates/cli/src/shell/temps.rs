//! What is not to stay: files that are not called yet what they will be, taken away when a command is interrupted.

use super::Target;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// What HDFS's shell calls a file that it is still writing.
const SUFFIX: &str = "._COPYING_";
/// Bytes in a name, with HDFS as with Linux.
const NAME_LEN_MAX: usize = 255;

/// `name` becomes `name._COPYING_`. A name too long for that is cut, and told from its like by a hash of the whole.
fn temporary(name: &str) -> String {
    if name.len() + SUFFIX.len() <= NAME_LEN_MAX {
        return format!("{name}{SUFFIX}");
    }
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    let tail = format!("~{:016x}{SUFFIX}", hasher.finish());
    format!("{}{tail}", &name[..name.floor_char_boundary(NAME_LEN_MAX - tail.len())])
}

/// Where a file is written that will be called `to`.
pub(crate) fn beside(to: &Target) -> Target {
    let temp = temporary(to.name());
    to.parent().map_or_else(|| to.child(&temp), |parent| parent.child(&temp))
}

/// The same, on the local disk.
pub(crate) fn beside_local(to: &Path) -> PathBuf {
    to.with_file_name(temporary(&to.file_name().unwrap_or_default().to_string_lossy()))
}

#[derive(Clone, Debug)]
pub(crate) enum Temp {
    Local(PathBuf),
    Remote(Target),
    /// A directory with all that is in it.
    Tree(Target),
}

#[derive(Debug, Default)]
pub(crate) struct Temps {
    open: Mutex<Vec<(u64, Temp)>>,
}

/// Names an entry until it is settled.
#[derive(Debug)]
#[must_use = "a temporary file that nobody settles is taken away at an interrupt only"]
pub(crate) struct Ticket(u64);

impl Temps {
    /// Called before the file is made.
    pub(crate) fn open(&self, temp: Temp) -> Ticket {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let number = open.last().map_or(0, |(number, _)| number + 1);
        open.push((number, temp));
        Ticket(number)
    }

    /// The file has its real name now.
    pub(crate) fn keep(&self, ticket: Ticket) {
        drop(self.take(&ticket));
    }

    /// The file came to nothing.
    pub(crate) async fn discard(&self, ticket: Ticket) {
        if let Some(temp) = self.take(&ticket) {
            remove(&temp).await;
        }
    }

    fn take(&self, ticket: &Ticket) -> Option<Temp> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let place = open.iter().position(|(number, _)| *number == ticket.0)?;
        Some(open.remove(place).1)
    }

    /// All that is left, once nobody makes more of them. Gives up on a server that does not answer: a user who interrupts
    /// wants the prompt back.
    pub(crate) async fn discard_all(&self) {
        let open = std::mem::take(&mut *self.open.lock().unwrap_or_else(PoisonError::into_inner));
        let removing = async {
            for (_, temp) in &open {
                remove(temp).await;
            }
        };
        let _ = tokio::time::timeout(DISCARD_MAX, removing).await;
    }
}

const DISCARD_MAX: Duration = Duration::from_secs(5);

async fn remove(temp: &Temp) {
    match temp {
        Temp::Local(path) => drop(std::fs::remove_file(path)),
        Temp::Remote(target) => remove_remote(target, false).await,
        Temp::Tree(target) => remove_remote(target, true).await,
    }
}

async fn remove_remote(target: &Target, recursive: bool) {
    // Its creation may be on the way still, ahead of us by a moment.
    if let Ok(false) = target.client.delete(&target.path, recursive).await {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let _ = target.client.delete(&target.path, recursive).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::testing::found;

    #[test]
    fn a_temporary_name_lies_beside_and_fits() {
        assert_eq!(beside(&found("/a/b", false).target).path, "/a/b._COPYING_");
        assert_eq!(beside(&found("/b", false).target).path, "/b._COPYING_");
        assert_eq!(beside_local("a/b".as_ref()), Path::new("a/b._COPYING_"));
        assert_eq!(beside_local("b".as_ref()), Path::new("b._COPYING_"));
        // Two bytes a letter: the cut must not fall inside of one.
        let long = |last: &str| format!("{}{last}", "\u{fc}".repeat(125));
        let (one, other) = (temporary(&long("1")), temporary(&long("2")));
        assert!(one != other && one.len() <= NAME_LEN_MAX && one.ends_with(SUFFIX));
    }
}
