//! Where a replica that comes goes.
//!
//! ```text
//! create ──▶ the disk that has the block, if one has ──full, and nothing is left there──▶ the others, the best first
//! create_ordered_copy ──▶ the same ──full, and what it replaces is there──▶ another disk ──put──▶ change_over
//! ```
//!
//! Promise: what is there already is not in two places: the disk that has the block takes what comes for it, or what
//! comes replaces it ([`crate::change_over`]).

use crate::claims::{Claim, conclude, enter};
use crate::disks::{Disks, Result};
use crate::load::Stream;
use crate::writer::{Replaced, Writer};
use container::{Advice, Identity, ReopenAsk, ReplicaError, ReplicaInfo, Volume};
use types::{BlockId, ReplicaState};

impl Disks {
    /// See [`Volume::create`].
    pub fn create(&self, identity: Identity) -> Result<Writer> {
        self.create_by(identity.block, &|volume| volume.create(identity))
    }

    /// See [`Volume::create_copy`].
    pub fn create_copy(&self, identity: Identity) -> Result<Writer> {
        self.create_by(identity.block, &|volume| volume.create_copy(identity))
    }

    /// For a copy of `len` bytes that the metadata server ordered, which is put synced: [`Volume::create_replacement`]
    /// if it `replaces` a damaged replica, else [`Volume::create_copy`]. What is on a failed disk makes no room:
    /// the copy goes to another disk. So it does if there is no room beside what it replaces.
    pub fn create_ordered_copy(&self, identity: Identity, len: u64, replaces: bool) -> Result<Writer> {
        let there = self.block_locations().indexed(identity.block).filter(|at| !self.is_failed(*at));
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
        let there = self.find_at(from, block, &claim)?;
        let Some(info) = there.filter(|info| info.state == ReplicaState::Finalized) else { return Ok(None) };
        let have = info.identity.generation;
        if have > identity.generation || have == identity.generation && !replaces {
            return Ok(None);
        }
        for at in self.order().into_iter().filter(|at| *at != from) {
            let disk = &self.disks()[at];
            let stream = disk.load().begin();
            enter(&claim, at)?;
            match disk.volume().create_copy(identity) {
                Ok(writer) => {
                    let replaced = Replaced { disks: self.clone(), from, info };
                    return Ok(Some(Writer::new(writer, at, stream).in_place_of(replaced)));
                }
                Err(error) => tracing::debug!(%block, dir = %disk.dir().display(), %error, "no room for a replacement"),
            }
        }
        Ok(None)
    }

    fn create_by(&self, block: BlockId, create: &dyn Fn(&Volume) -> Result<container::Writer>) -> Result<Writer> {
        let claim = self.claim(block);
        // What is there already may be in the way, or has to make room.
        let mut known = match self.block_locations().indexed(block) {
            Some(at) if !self.is_failed(at) && self.find_at(at, block, &claim)?.is_some() => Some(at),
            _ => None,
        };
        let mut order = known.map_or_else(|| self.order(), |at| vec![at]);
        let mut refusal = None;
        let mut next = 0;
        while let Some(at) = order.get(next).copied() {
            next += 1;
            let disk = &self.disks()[at];
            let stream = disk.load().begin();
            enter(&claim, at)?;
            match create(disk.volume()) {
                Ok(writer) => {
                    conclude(&claim, || self.note(block, at))?;
                    self.changed();
                    return Ok(Writer::new(writer, at, stream));
                }
                Err(error) if error.advice() == Advice::WriteElsewhere && !error.is_momentary() => {
                    self.note_refusal(at, block, &claim)?;
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

    /// What this disk has, for who decides about the block: the claim says that they may wait for it.
    fn find_at(&self, at: usize, block: BlockId, claim: &Option<Claim<'_>>) -> Result<Option<ReplicaInfo>> {
        enter(claim, at)?;
        self.disks()[at].volume().find(block)
    }

    fn none_takes(&self) -> ReplicaError {
        ReplicaError::VolumeFailed { reason: "no disk of this node takes writes now".to_owned() }
    }

    /// A disk refused a small replica: perhaps it is gone, which is to be known before the next one comes. Another
    /// writer may be at the block: it is waited for.
    pub fn did_not_take(&self, at: usize, block: BlockId) {
        let claim = self.claim(block);
        // If the disk was given up meanwhile, what was noted there has failed with it.
        let _void = self.note_refusal(at, block, &claim);
    }

    fn note_refusal(&self, at: usize, block: BlockId, claim: &Option<Claim<'_>>) -> Result<()> {
        enter(claim, at)?;
        let disk = &self.disks()[at];
        if disk.is_sound()
            && let Err(error) = disk.probe(self.clock())
        {
            tracing::warn!(dir = %disk.dir().display(), %error, "a disk does not take a replica");
        }
        // One that hangs is not asked again: what was noted there has failed with it.
        if !disk.hangs() && !matches!(disk.volume().find(block), Ok(Some(_))) {
            conclude(claim, || self.forget(block, at))?;
            // Small replicas are put without a claim: one that came between the two, or comes later, is noted again.
            if matches!(disk.volume().find(block), Ok(Some(_))) {
                conclude(claim, || self.was_put_small(block, at))?;
            }
        }
        self.changed();
        Ok(())
    }

    /// The disk for a small replica, not one of `avoided`. It is noted as the block's place before the replica is
    /// there, so that one that is sent again meets the first. Waits for nothing.
    pub fn place_small(&self, block: BlockId, avoided: &[usize]) -> Option<(usize, Stream)> {
        let fits = |at: &usize| !avoided.contains(at);
        let at = match self.place(block).filter(|at| fits(at) && !self.is_failed(*at)) {
            Some(at) => at,
            None => {
                let at = self.order().into_iter().find(fits)?;
                let stale = self.place(block).is_some_and(|known| !fits(&known) || self.is_failed(known));
                if stale {
                    self.note(block, at);
                }
                self.block_locations().get_or_set(block, at)
            }
        };
        self.changed();
        Some((at, self.disks()[at].load().begin()))
    }

    /// A small replica is on the disk that was its place: so it is again, should another one of the same block have
    /// been refused there meanwhile.
    pub fn was_put_small(&self, block: BlockId, at: usize) {
        self.block_locations().get_or_set(block, at);
    }

    /// See [`Volume::reopen`].
    pub fn reopen(&self, block: BlockId, ask: ReopenAsk) -> Result<Writer> {
        let claim = self.claim(block);
        let at = self.changing(block, &claim)?;
        let disk = &self.disks()[at];
        let stream = disk.load().begin();
        Ok(Writer::new(disk.volume().reopen(block, ask)?, at, stream))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use container::Options;
    use types::checksum::{ChecksumKind, ChecksumSpec};
    use types::{ContainerId, Generation, InodeId};

    fn identity(generation: u64) -> Identity {
        let checksum = ChecksumSpec { kind: ChecksumKind::Crc32c, chunk_len: 512 };
        let (block, file, home) = (BlockId(5), InodeId(7), ContainerId(0));
        Identity { block, generation: Generation(generation), file, home, checksum }
    }

    /// The disk that has the block is given up while somebody asks it what it has, before a disk for the new replica is
    /// chosen. Whoever looks must find out for which disk they wait, and others need not wait with them.
    #[test]
    fn who_asks_a_disk_before_another_one_is_chosen_is_seen_to_wait_for_it() {
        let dir = tempfile::tempdir().unwrap();
        let dirs = ["a", "b"].map(|name| dir.path().join(name));
        let disks = crate::open(&dirs, &Options { reserved_len: Some(0), ..Options::default() }).unwrap();
        let mut writer = disks.create(identity(1001)).unwrap();
        writer.write(0, &[3; 1000], &[]).unwrap();
        writer.put(1000).unwrap();
        let block = BlockId(5);
        let from = disks.place(block).unwrap();
        assert_eq!((disks.asked_at(block), disks.decided_at(block)), (Some(from), None));

        let hangs = disks.claim(block);
        assert!(disks.find_at(from, block, &hangs).unwrap().is_some());
        assert_eq!(disks.decided_at(block), Some(from));
        disks.declare_failed(from, "it has not answered".to_owned());
        assert_eq!(disks.asked_at(block), None, "nobody asks it any more");
        let next = disks.create_ordered_copy(identity(1001), 1000, true).unwrap();
        assert_eq!(next.disk(), 1 - from);
        // It comes back.
        assert!(matches!(disks.find_at(from, block, &hangs), Err(ReplicaError::Hangs)));
        drop((hangs, next));
        disks.check_at_rest();
    }

    /// Somebody creates the replica there that a small write was refused: its place stays.
    #[test]
    fn a_refusal_does_not_forget_what_another_writer_has_just_put() {
        let dir = tempfile::tempdir().unwrap();
        let dirs = ["a", "b"].map(|name| dir.path().join(name));
        let disks = crate::open(&dirs, &Options { reserved_len: Some(0), ..Options::default() }).unwrap();
        let block = BlockId(5);
        let (at, _stream) = disks.place_small(block, &[]).unwrap();
        let claim = disks.claim(block);
        enter(&claim, at).unwrap();
        let (told, refused) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let other = disks.clone();
            scope.spawn(move || {
                other.did_not_take(at, block);
                told.send(()).unwrap();
            });
            // It looks whether the block is there, and would forget the place.
            let waits = refused.recv_timeout(std::time::Duration::from_millis(200)).is_err();
            let mut writer = disks.disks()[at].volume().create(identity(1001)).unwrap();
            writer.write(0, &[3; 1000], &[]).unwrap();
            writer.put(1000).unwrap();
            drop(claim);
            assert!(waits, "who decides about the block is waited for");
        });
        assert_eq!(disks.place(block), Some(at));
        disks.check_at_rest();
    }

    /// The same small write comes again while the first one is refused, and is put without a claim.
    #[test]
    fn a_small_replica_keeps_its_place_though_another_write_of_it_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let dirs = ["a", "b"].map(|name| dir.path().join(name));
        let disks = crate::open(&dirs, &Options { reserved_len: Some(0), ..Options::default() }).unwrap();
        let block = BlockId(5);
        let (at, _stream) = disks.place_small(block, &[]).unwrap();
        disks.did_not_take(at, block);
        assert_eq!(disks.place(block), None);
        let mut writer = disks.disks()[at].volume().create(identity(1001)).unwrap();
        writer.write(0, &[3; 1000], &[]).unwrap();
        writer.put(1000).unwrap();
        disks.was_put_small(block, at);
        disks.did_not_take(at, block);
        assert_eq!(disks.place(block), Some(at));
        disks.check_at_rest();
    }

    /// It leaves its place in the index. Whoever asks for the block must not be told that no disk can have it.
    #[test]
    fn a_copy_that_broke_off_hides_no_disk_that_is_not_here() {
        let dir = tempfile::tempdir().unwrap();
        let dirs = ["a", "b", "c"].map(|name| dir.path().join(name));
        std::fs::write(&dirs[2], "no directory").unwrap();
        let disks = crate::open(&dirs, &Options { reserved_len: Some(0), ..Options::default() }).unwrap();
        let block = BlockId(5);
        assert!(disks.may_be_missed(block));
        let copy = disks.create_copy(identity(1001)).unwrap();
        assert!(!disks.may_be_missed(block));
        drop(copy);
        assert!(disks.may_be_missed(block));
    }
}
