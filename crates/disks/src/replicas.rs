//! The operations of a volume, each done by the disk that has the block.

use crate::claims::enter;
use crate::disks::{Disks, Result};
use container::{Reader, ReplicaError, ReplicaInfo};
use std::collections::BTreeMap;
use types::{BlockId, ContainerId, FileId, Generation};

impl Disks {
    /// The block is on no disk that is here, and may be on one that was not there at the start. The index may name a
    /// disk all the same: a copy that broke off leaves its place.
    pub fn may_be_missed(&self, block: BlockId) -> bool {
        let was_on_failed = self.block_locations().indexed(block).is_some_and(|at| self.is_failed(at));
        !self.unopened().is_empty() && !was_on_failed && matches!(self.find(block), Ok(None))
    }

    pub fn find(&self, block: BlockId) -> Result<Option<ReplicaInfo>> {
        loop {
            let place = self.place(block);
            let found = match self.holder(block) {
                Some(disk) => disk.volume().find(block)?,
                None => None,
            };
            // It may have moved between the two looks.
            if found.is_some() || place == self.place(block) {
                return Ok(found);
            }
        }
    }

    /// See [`container::Volume::read`]. A failed disk serves what it has if it was only made read-only, or if none
    /// works: then nobody waits behind its readers.
    pub fn read(&self, block: BlockId, generation_min: Generation) -> Result<Reader> {
        loop {
            let place = self.place(block);
            let read = match place {
                None => Err(ReplicaError::NotFound { block }),
                Some(at) if self.is_failed(at) && !self.disks()[at].volume().is_read_only() && self.any_sound() => {
                    Err(self.disks()[at].failed_error())
                }
                Some(at) => self.disks()[at].volume().read(block, generation_min),
            };
            if read.is_ok() || place == self.place(block) {
                return read.or_else(|error| self.read_readable(block, generation_min).ok_or(error));
            }
        }
    }

    /// See [`container::Volume::verify`].
    pub fn verify(&self, block: BlockId) -> Result<u32> {
        self.read(block, Generation(0))?.verify()
    }

    /// See [`container::Volume::begin_recovery`].
    pub fn begin_recovery(&self, block: BlockId, recovery: Generation) -> Result<ReplicaInfo> {
        let claim = self.claim(block);
        match self.disks()[self.changing(block, &claim)?].volume().begin_recovery(block, recovery) {
            Err(ReplicaError::NotFound { .. }) => Err(self.absent(block)),
            outcome => outcome,
        }
    }

    /// See [`container::Volume::finish_recovery`].
    pub fn finish_recovery(&self, block: BlockId, recovery: Generation, len: u64) -> Result<()> {
        let claim = self.claim(block);
        self.disks()[self.changing(block, &claim)?].volume().finish_recovery(block, recovery, len)
    }

    /// The disks that a block is to be deleted from: the one that has it, or all that work, for its rest may be
    /// somewhere: what damage has left is known to no index. What is on a failed disk is not here any more.
    pub fn to_delete_from(&self, block: BlockId) -> Vec<usize> {
        match self.place(block) {
            Some(at) if self.is_failed(at) => Vec::new(),
            Some(at) => vec![at],
            None => (0..self.disks().len()).filter(|at| self.disks()[*at].is_sound()).collect(),
        }
    }

    /// See [`container::Volume::delete`].
    pub fn delete(&self, block: BlockId, generation_at_most: Generation) -> Result<bool> {
        let mut deleted = false;
        for at in self.to_delete_from(block) {
            deleted |= self.delete_at(at, block, generation_at_most)?;
        }
        Ok(deleted)
    }

    /// As [`Self::delete`], of this disk alone.
    pub fn delete_at(&self, at: usize, block: BlockId, generation_at_most: Generation) -> Result<bool> {
        let claim = self.claim(block);
        if self.is_failed(at) {
            return Ok(false);
        }
        enter(&claim, at)?;
        let volume = self.disks()[at].volume();
        let deleted = volume.delete(block, generation_at_most)?;
        if deleted && volume.find(block)?.is_none() {
            self.forget(block, at);
        }
        self.changed();
        Ok(deleted)
    }

    /// See [`container::Volume::set_owner`].
    pub fn set_owner(&self, block: BlockId, file: FileId, home: ContainerId) -> Result<bool> {
        let claim = self.claim(block);
        match self.place(block).filter(|at| !self.is_failed(*at)) {
            Some(at) => {
                enter(&claim, at)?;
                self.disks()[at].volume().set_owner(block, file, home)
            }
            None => Ok(false),
        }
    }

    /// Up to `limit` replicas from `from` on, in the order of their ids, each once; fewer are the last ones.
    pub fn replicas(&self, from: BlockId, limit: usize) -> Result<Vec<ReplicaInfo>> {
        let mut merged: BTreeMap<BlockId, ReplicaInfo> = BTreeMap::new();
        // How far each disk was asked; all has been told below the least of them.
        let sound = (0..self.disks().len()).filter(|at| !self.is_failed(*at));
        let mut asked: Vec<(usize, Option<BlockId>)> = sound.map(|at| (at, Some(from))).collect();
        let step = (limit / asked.len().max(1)).saturating_add(16);
        while let Some((at, next)) = asked.iter_mut().min_by_key(|(_, next)| next.unwrap_or(BlockId(u64::MAX))) {
            let Some(first) = *next else { break };
            if merged.range(..first).nth(limit.saturating_sub(1)).is_some() {
                break;
            }
            let at = *at;
            let infos = self.disks()[at].volume().replicas(first, step)?;
            let last = infos.last().and_then(|last| last.identity.block.0.checked_add(1)).map(BlockId);
            *next = last.filter(|_| infos.len() == step);
            for info in infos {
                let block = info.identity.block;
                if self.place(block).is_none_or(|place| place == at) {
                    merged.insert(block, info);
                } else {
                    merged.entry(block).or_insert(info);
                }
            }
        }
        Ok(merged.into_values().take(limit).collect())
    }
}
