//! What is not to stay: files that are not called yet what they will be, taken away when a command is interrupted.

use super::target::Target;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// What HDFS's shell calls a file that it is still writing.
const SUFFIX: &str = "._COPYING_";
/// Bytes in a name, with HDFS as with Linux.
const NAME_LEN_MAX: usize = 255;

/// `name` becomes `name.3f29c1d07ab84e65._COPYING_`, each time another: two who copy to one name must not write into
/// one file, and a file that somebody has called so must not be taken for one of ours. A name too long for that is cut.
fn temporary(name: &str) -> String {
    let mut number = [0; 8];
    io::random::fill(&mut number);
    let tail = format!(".{:016x}{SUFFIX}", u64::from_ne_bytes(number));
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

    /// All that is left, once nobody makes more of them. Gives up on a server that does not answer: a user who
    /// interrupts wants the prompt back.
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
        let remote = |path| beside(&found(path, false).target).path;
        assert!(remote("/a/b").starts_with("/a/b.") && remote("/a/b").ends_with(SUFFIX));
        assert!(remote("/b").starts_with("/b.") && remote("/b") != remote("/b"));
        let local = |path: &str| beside_local(path.as_ref()).into_os_string().into_string().unwrap();
        assert!(local("a/b").starts_with("a/b.") && local("b").starts_with("b.") && local("b") != local("b"));
        // Two bytes a letter: the cut must not fall inside of one.
        let long = temporary(&"\u{fc}".repeat(127));
        assert!((NAME_LEN_MAX - 1..=NAME_LEN_MAX).contains(&long.len()) && long.ends_with(SUFFIX));
    }
}
