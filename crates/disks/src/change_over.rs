//! How a replica changes from one disk to another.
//!
//! ```text
//! read back ──▶ the old one is still what it was ──▶ the index points to the new one ──▶ the old one goes
//! ```
//!
//! Promise: a replica goes only after the one that takes its place was read back; a crash in between leaves two, of
//! which the next start keeps one that reads ([`crate::resolve_duplicates`]).

use crate::claims::{conclude, enter};
use crate::disks::{Disks, Result};
use crate::duplicates::Duplicate;
use container::ReplicaInfo;
use types::{BlockId, ReplicaState};

impl Disks {
    /// A copy of the replica `info` on disk `from` is put on disk `to`: it is read back, and takes that one's place, if
    /// that has not changed. False: it has, and the copy is gone. So it is after an error, if its disk works.
    pub(crate) fn change_over(&self, from: usize, to: usize, info: &ReplicaInfo) -> Result<bool> {
        assert_ne!(from, to, "a replica moves to another disk");
        let changed = self.try_change_over(from, to, info);
        if changed.is_err() {
            self.take_back(to, info.identity.block);
        }
        self.changed();
        changed
    }

    /// A copy that does not count would be in the way of those that come to its disk later. One that is on a disk which
    /// is out stays until the next start.
    fn take_back(&self, at: usize, block: BlockId) {
        let claim = self.claim(block);
        if enter(&claim, at).is_err() || self.is_failed(at) || self.place(block) == Some(at) {
            return;
        }
        let volume = self.disks()[at].volume();
        let gone = match volume.find(block) {
            Ok(Some(copy)) => volume.delete(block, copy.identity.generation),
            found => found.map(|_| false),
        };
        if let Err(error) = gone {
            let duplicate = Duplicate { disk: at, block };
            tracing::warn!(?duplicate, %error, "a copy that does not count could not be deleted");
        }
    }

    fn try_change_over(&self, from: usize, to: usize, info: &ReplicaInfo) -> Result<bool> {
        let (block, generation) = (info.identity.block, info.identity.generation);
        let (source, target) = (self.disks()[from].volume(), self.disks()[to].volume());
        let Some(copy) = target.find(block)? else { return Ok(false) };
        let copied = copy.identity.generation;
        if let Err(error) = target.verify(block) {
            tracing::error!(%block, %error, "the copy on another disk does not read back as it was written");
            return Err(error);
        }
        let claim = self.claim(block);
        enter(&claim, from)?;
        if self.is_failed(to) {
            // It was given up while the copy was put there: the replica stays where it counts.
            return Err(self.disks()[to].failed_error());
        }
        let now = source.find(block)?;
        let same = |now: &ReplicaInfo| {
            now.state == ReplicaState::Finalized && now.identity.generation == generation && now.len == info.len
        };
        let Some(now) = now.filter(same).filter(|_| self.place(block) == Some(from)) else {
            // It was deleted, or somebody writes it again.
            target.delete(block, copied)?;
            return Ok(false);
        };
        if (now.identity.file, now.identity.home) != (info.identity.file, info.identity.home) {
            target.set_owner(block, now.identity.file, now.identity.home)?;
        }
        conclude(&claim, || self.note(block, to))?;
        if let Err(error) = source.delete(block, generation) {
            let duplicate = Duplicate { disk: from, block };
            tracing::warn!(?duplicate, %error, "a replica that moved could not be deleted where it was");
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use container::{Identity, Options};
    use types::checksum::{ChecksumKind, ChecksumSpec};
    use types::{BlockId, ContainerId, Generation, InodeId};

    /// The disk that a replica moves to is given up when the copy has just been put there.
    #[test]
    fn a_replica_does_not_move_to_a_disk_that_is_out() {
        let dir = tempfile::tempdir().unwrap();
        let dirs = ["a", "b"].map(|name| dir.path().join(name));
        let disks = crate::open(&dirs, &Options { reserved_len: Some(0), ..Options::default() }).unwrap();
        let checksum = ChecksumSpec { kind: ChecksumKind::Crc32c, chunk_len: 512 };
        let (block, generation) = (BlockId(5), Generation(1001));
        let identity = Identity { block, generation, file: InodeId(7), home: ContainerId(0), checksum };
        let (data, mut sums) = (vec![3; 1000], Vec::new());
        checksum.compute(&data, &mut sums);
        let mut writer = disks.create(identity).unwrap();
        writer.write(0, &data, &sums).unwrap();
        writer.put(1000).unwrap();
        let from = disks.place(block).unwrap();
        let (to, info) = (1 - from, disks.find(block).unwrap().unwrap());
        let mut copy = disks.disks()[to].volume().create_copy(identity).unwrap();
        copy.write(0, &data, &sums).unwrap();
        copy.put_synced(1000).unwrap();
        disks.declare_failed(to, "it has not answered".to_owned());
        assert!(disks.change_over(from, to, &info).is_err());
        assert_eq!(disks.place(block), Some(from));
        disks.verify(block).unwrap();
        disks.check_at_rest();
    }
}
