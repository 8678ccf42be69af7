//! Where a replica that comes goes, and how it changes from one disk to another.
//!
//! ```text
//! create ──▶ the disk that has the block, if one has ──full, and nothing is left there──▶ the others, the best first
//! create_ordered_copy ──▶ the same ──full, and what it replaces is there──▶ another disk ──put──▶ change_over
//! change_over: read back ──▶ the old one is still what it was ──▶ the index points to the new one ──▶ the old one goes
//! ```
//!
//! Promise: a replica goes only after the one that takes its place was read back; a crash in between leaves two, of
//! which the next start keeps one that reads ([`super::settle`]).

use super::settle::Double;
use super::writer::Writer;
use super::{Disks, Result, conclude, enter, out};
use container::{Advice, Identity, ReplicaError, ReplicaInfo, Volume};
use types::{BlockId, ReplicaState};

/// A replica that goes once another one has its place.
#[derive(Debug)]
pub(super) struct Replaced {
    pub(super) disks: Disks,
    pub(super) from: usize,
    pub(super) info: ReplicaInfo,
}

impl Disks {
    /// See [`Volume::create`].
    pub(crate) fn create(&self, identity: Identity) -> Result<Writer> {
        self.create_by(identity.block, &|volume| volume.create(identity))
    }

    /// See [`Volume::create_copy`].
    pub(crate) fn create_copy(&self, identity: Identity) -> Result<Writer> {
        self.create_by(identity.block, &|volume| volume.create_copy(identity))
    }

    /// For a copy of `len` bytes that the metadata server ordered, which is put synced: [`Volume::create_replacement`]
    /// if it `replaces` a damaged replica, else [`Volume::create_copy`]. What is on a disk that is out makes no room:
    /// the copy goes to another disk. So it does if there is no room beside what it replaces.
    pub(crate) fn create_ordered_copy(&self, identity: Identity, len: u64, replaces: bool) -> Result<Writer> {
        let there = self.inner.places.known(identity.block).filter(|at| !self.is_out(*at));
        if let Some(from) = there
            && (!self.disks()[from].is_sound() || self.disks()[from].gauge().usage.remaining <= len)
            && let Some(writer) = self.create_beside(identity, from, replaces)?
        {
            return Ok(writer);
        }
        let create = |volume: &Volume| {
            if replaces { volume.create_replacement(identity) } else { volume.create_copy(identity) }
        };
        match self.create_by(identity.block, &create) {
            Err(error) if error.is_disk_full() => {
                let beside = there.map(|from| self.create_beside(identity, from, replaces));
                beside.transpose()?.flatten().ok_or(error)
            }
            created => created,
        }
    }

    /// A copy on another disk than the one that has what it replaces. `None`: there is nothing to be replaced, or no
    /// other disk.
    fn create_beside(&self, identity: Identity, from: usize, replaces: bool) -> Result<Option<Writer>> {
        let block = identity.block;
        let claim = self.claim(block);
        let there = self.disks()[from].volume.find(block)?;
        let Some(info) = there.filter(|info| info.state == ReplicaState::Finalized) else { return Ok(None) };
        let have = info.identity.generation;
        if have > identity.generation || have == identity.generation && !replaces {
            return Ok(None);
        }
        for at in self.order().into_iter().filter(|at| *at != from) {
            let disk = &self.disks()[at];
            let stream = disk.load.begin();
            enter(&claim, at)?;
            match disk.volume.create_copy(identity) {
                Ok(writer) => {
                    let replaced = Replaced { disks: self.clone(), from, info };
                    return Ok(Some(Writer::new(writer, at, stream).in_place_of(replaced)));
                }
                Err(error) => tracing::debug!(%block, dir = %disk.dir.display(), %error, "no room for a replacement"),
            }
        }
        Ok(None)
    }

    fn create_by(&self, block: BlockId, create: &dyn Fn(&Volume) -> Result<container::Writer>) -> Result<Writer> {
        let claim = self.claim(block);
        // What is there already may be in the way, or has to make room.
        let mut known = match self.inner.places.known(block) {
            Some(at) if !self.is_out(at) && self.disks()[at].volume.find(block)?.is_some() => Some(at),
            _ => None,
        };
        let mut order = known.map_or_else(|| self.order(), |at| vec![at]);
        let mut refusal = None;
        let mut next = 0;
        while let Some(at) = order.get(next).copied() {
            next += 1;
            let disk = &self.disks()[at];
            let stream = disk.load.begin();
            enter(&claim, at)?;
            match create(&disk.volume) {
                Ok(writer) => {
                    conclude(&claim, || self.note(block, at))?;
                    return Ok(Writer::new(writer, at, stream));
                }
                Err(error) if error.advice() == Advice::WriteElsewhere && !error.is_momentary() => {
                    self.did_not_take(at, block);
                    refusal.get_or_insert(error);
                    if known.take().is_some() && self.place(block).is_none() {
                        // It has made room, and there is none all the same.
                        order.extend(self.order().into_iter().filter(|other| *other != at));
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Err(refusal.unwrap_or_else(|| self.none_takes()))
    }

    fn none_takes(&self) -> ReplicaError {
        ReplicaError::VolumeFailed { reason: "no disk of this node takes writes now".to_owned() }
    }

    /// A copy of the replica `info` on disk `from` is put on disk `to`: it is read back, and takes that one's place, if
    /// that has not changed. False: it has, and the copy is gone.
    pub(super) fn change_over(&self, from: usize, to: usize, info: &ReplicaInfo) -> Result<bool> {
        let (block, generation) = (info.identity.block, info.identity.generation);
        let (source, target) = (&self.disks()[from].volume, &self.disks()[to].volume);
        let Some(copy) = target.find(block)? else { return Ok(false) };
        let copied = copy.identity.generation;
        if let Err(error) = target.verify(block) {
            let _gone = target.delete(block, copied);
            tracing::error!(%block, %error, "the copy on another disk does not read back as it was written");
            return Err(error);
        }
        let claim = self.claim(block);
        enter(&claim, from)?;
        if self.is_out(to) {
            // It was given up while the copy was put there: the replica stays where it counts.
            return Err(out(&self.disks()[to]));
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
            let double = Double { disk: from, block };
            tracing::warn!(?double, %error, "a replica that moved could not be deleted where it was");
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use crate::disks;
    use container::{Identity, Options};
    use types::checksum::{ChecksumKind, ChecksumSpec};
    use types::{BlockId, ContainerId, Generation, InodeId};

    /// The disk that a replica moves to is given up when the copy has just been put there.
    #[test]
    fn a_replica_does_not_move_to_a_disk_that_is_out() {
        let dir = tempfile::tempdir().unwrap();
        let dirs = ["a", "b"].map(|name| dir.path().join(name));
        let disks = disks::open(&dirs, &Options { reserved_len: Some(0), ..Options::default() }).unwrap();
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
        disks.give_up(to, "it has not answered".to_owned());
        assert!(disks.change_over(from, to, &info).is_err());
        assert_eq!(disks.place(block), Some(from));
        disks.verify(block).unwrap();
    }
}
