//! Which containers may differ from what the index on disk says.
//!
//! Promise: before a put into a container can survive a crash, the container's mark does. A mark goes away only after a
//! flush of the index that began when all puts of the container were in the index. So after a crash only the marked
//! containers need to be looked through. Deletions mark as well, but do not wait for the mark to be durable: a row that
//! outlives its bytes after a loss of power is found out when somebody asks for it.
//! Once a sync of the marks has failed, none is durable any more.

use crate::error::{DiskOp, ReplicaError, Result};
use crate::group_sync::GroupSync;
use crate::layout::number;
use std::collections::HashMap;
use std::fs::File;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use types::ContainerId;

/// Flushes that a container must pass without a put before its mark goes: a busy one then keeps its mark, instead of
/// paying two directory changes a flush.
const QUIET_FLUSHES: u64 = 3;

#[derive(Debug)]
pub(crate) struct Ahead {
    dir: PathBuf,
    synced: bool,
    marks: Mutex<Marks>,
}

#[derive(Debug, Default)]
struct Marks {
    /// Of the directory: after one that failed, none succeeds.
    syncs: GroupSync,
    flushes: u64,
    of: HashMap<ContainerId, Mark>,
}

#[derive(Debug, Default)]
struct Mark {
    /// Puts under way, not in the index yet.
    pending: u64,
    /// The number of flushes that had begun at the last put.
    touched: u64,
    /// It is known to survive a loss of power.
    durable: bool,
}

/// A put under way. Drop it when the replica is in the index, or will never be.
#[derive(Debug)]
pub(crate) struct Pending<'a> {
    ahead: &'a Ahead,
    container: ContainerId,
}

/// The marks that a flush which begins now will make superfluous.
#[derive(Debug)]
pub(crate) struct Superfluous(Vec<ContainerId>);

impl Ahead {
    /// Takes over the marks of before; all of them count as just touched.
    pub(crate) fn open(dir: PathBuf, synced: bool) -> std::io::Result<(Self, Vec<ContainerId>)> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&dir)? {
            found.extend(entry?.file_name().to_str().and_then(number).map(ContainerId));
        }
        let of = found.iter().map(|container| (*container, Mark::default())).collect();
        Ok((Self { dir, synced, marks: Mutex::new(Marks { of, ..Marks::default() }) }, found))
    }

    /// Marks a container, durably if the volume is, before something is put there.
    pub(crate) fn mark(&self, container: ContainerId) -> Result<Pending<'_>> {
        self.mark_at(container, self.synced)
    }

    /// As `mark`, durably in any case.
    pub(crate) fn mark_durably(&self, container: ContainerId) -> Result<Pending<'_>> {
        self.mark_at(container, true)
    }

    /// Marks a container before something is deleted there.
    pub(crate) fn mark_deletion(&self, container: ContainerId) -> Result<Pending<'_>> {
        self.mark_at(container, false)
    }

    fn mark_at(&self, container: ContainerId, durably: bool) -> Result<Pending<'_>> {
        // Under the lock: nobody may take the mark for granted before it is durable. It happens once in a long while.
        let mut marks = self.lock();
        let flushes = marks.flushes;
        if !marks.of.contains_key(&container) {
            let create = |source| ReplicaError::Io { op: DiskOp::Create("the container's mark"), container, source };
            match File::create(self.dir.join(container.0.to_string())) {
                // A strange thing has the name, which is all that is needed.
                Err(error) if error.kind() == ErrorKind::IsADirectory => {}
                made => drop(made.map_err(create)?),
            }
        }
        let is_durable = marks.of.get(&container).is_some_and(|mark| mark.durable);
        if durably && !is_durable {
            self.sync(&marks, container)?;
        }
        let mark = marks.of.entry(container).or_default();
        mark.durable |= durably;
        mark.pending += 1;
        mark.touched = flushes;
        Ok(Pending { ahead: self, container })
    }

    fn sync(&self, marks: &Marks, container: ContainerId) -> Result<()> {
        let io = |op| move |source| ReplicaError::Io { op, container, source };
        let dir = File::open(&self.dir).map_err(io(DiskOp::Open("the directory of marks")))?;
        let synced = marks.syncs.sync(|| io::file::sync_all(&dir));
        synced.map_err(io(DiskOp::Sync("the directory of marks")))
    }

    /// Lets a mark stay until the next start, which shall look through the container again.
    pub(crate) fn keep(&self, container: ContainerId) {
        if let Some(mark) = self.lock().of.get_mut(&container) {
            mark.pending += 1;
        }
    }

    /// To be called before the index is flushed.
    pub(crate) fn before_flush(&self) -> Superfluous {
        let mut marks = self.lock();
        marks.flushes += 1;
        let flushes = marks.flushes;
        let quiet = marks.of.iter().filter(|(_, mark)| mark.pending == 0 && mark.touched + QUIET_FLUSHES <= flushes);
        Superfluous(quiet.map(|(container, _)| *container).collect())
    }

    /// To be called after the index was flushed well. A mark that stays for some reason costs time at the next start
    /// only. `quiet` is shown each container whose mark goes, while nothing can be put there.
    pub(crate) fn after_flush(&self, superfluous: Superfluous, mut quiet: impl FnMut(ContainerId)) {
        let mut marks = self.lock();
        for container in superfluous.0 {
            let still = marks.of.get(&container).is_some_and(|mark| mark.pending == 0 && mark.touched < marks.flushes);
            if still {
                quiet(container);
                marks.of.remove(&container);
                self.unmark(container);
            }
        }
    }

    /// As what [`Self::after_flush`] does with `quiet`, for a container that may never have had a mark.
    pub(crate) fn if_quiet(&self, container: ContainerId, quiet: impl FnOnce()) {
        let marks = self.lock();
        if !marks.of.contains_key(&container) {
            quiet();
        }
    }

    /// After a last flush: removes all marks but those of containers that something was put into since it began.
    pub(crate) fn close(&self) {
        let mut marks = self.lock();
        let flushes = marks.flushes;
        marks.of.retain(|container, mark| {
            let stays = mark.pending > 0 || mark.touched >= flushes;
            if !stays {
                self.unmark(*container);
            }
            stays
        });
    }

    /// True if there is anything a flush could clear away.
    pub(crate) fn any(&self) -> bool {
        !self.lock().of.is_empty()
    }

    fn unmark(&self, container: ContainerId) {
        match std::fs::remove_file(self.dir.join(container.0.to_string())) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                tracing::warn!(%container, %error, "a mark stays; the next start looks through the container");
            }
            _ => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, Marks> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        let mut marks = self.ahead.lock();
        let flushes = marks.flushes;
        if let Some(mark) = marks.of.get_mut(&self.container) {
            mark.pending -= 1;
            mark.touched = flushes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_outlives_every_put_it_stands_for() {
        let dir = tempfile::tempdir().unwrap();
        let count = || std::fs::read_dir(dir.path()).unwrap().count();
        let (ahead, found) = Ahead::open(dir.path().into(), true).unwrap();
        assert!(found.is_empty());
        let put = ahead.mark(ContainerId(7)).unwrap();
        for _ in 0..9 {
            ahead.after_flush(ahead.before_flush(), |_| ());
        }
        assert_eq!(count(), 1, "the put is still under way");
        drop(put);
        assert_eq!(Ahead::open(dir.path().into(), true).unwrap().1, [ContainerId(7)]);
        let superfluous = (0..QUIET_FLUSHES).map(|_| ahead.before_flush()).last().unwrap();
        let again = ahead.mark(ContainerId(7)).unwrap();
        drop(again);
        ahead.after_flush(superfluous, |_| ());
        assert_eq!(count(), 1, "a put began while the index was flushed");
        for _ in 0..=QUIET_FLUSHES {
            ahead.after_flush(ahead.before_flush(), |_| ());
        }
        assert_eq!(count(), 0);
        assert!(!ahead.any());
    }

    #[test]
    fn a_mark_outlives_a_put_beside_the_last_flush() {
        let dir = tempfile::tempdir().unwrap();
        let left = || Ahead::open(dir.path().into(), true).unwrap().1;
        let (ahead, _) = Ahead::open(dir.path().into(), true).unwrap();
        drop(ahead.mark(ContainerId(7)).unwrap());
        let superfluous = ahead.before_flush();
        drop(ahead.mark(ContainerId(8)).unwrap());
        ahead.after_flush(superfluous, |_| ());
        ahead.close();
        assert_eq!(left(), [ContainerId(8)], "the flush has not seen it");
        ahead.after_flush(ahead.before_flush(), |_| ());
        ahead.close();
        assert_eq!(left(), []);
    }
}
