//! What is on a disk that was made read-only: it counts as absent, and reads for now. With the next start it may be
//! gone for good, so it is copied off while it can be, if there is nothing better.

use crate::disks::{Disks, Result};
use container::{Reader, ReplicaInfo};
use types::{BlockId, Generation};

impl Disks {
    /// A replica that counts as absent and can be read, whichever disk the block has a place on by now: a copy of it
    /// that is under way, or has failed, has taken that.
    pub fn find_readable(&self, block: BlockId) -> Result<Option<ReplicaInfo>> {
        for at in self.readable() {
            let found = self.disks()[at].volume().find(block)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    pub(crate) fn read_readable(&self, block: BlockId, generation_min: Generation) -> Option<Reader> {
        self.readable().find_map(|at| self.disks()[at].volume().read(block, generation_min).ok())
    }

    fn readable(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.disks().len()).filter(|at| self.is_failed(*at) && self.disks()[*at].volume().is_read_only())
    }
}

#[cfg(test)]
mod tests {
    use crate::disks::Disks;
    use container::{Identity, Options};
    use types::checksum::{ChecksumKind, ChecksumSpec};
    use types::{BlockId, ContainerId, Generation, InodeId};

    const SPEC: ChecksumSpec = ChecksumSpec { kind: ChecksumKind::Crc32c, chunk_len: 512 };

    /// Two disks in a directory, which is kept as long as they are.
    fn two_disks() -> (tempfile::TempDir, Disks) {
        let dir = tempfile::tempdir().unwrap();
        let dirs = ["a", "b"].map(|name| dir.path().join(name));
        let disks = crate::open(&dirs, &Options { reserved_len: Some(0), ..Options::default() }).unwrap();
        (dir, disks)
    }

    fn identity(block: BlockId) -> Identity {
        let (generation, file, home) = (Generation(1001), InodeId(7), ContainerId(0));
        Identity { block, generation, file, home, checksum: SPEC }
    }

    /// 1000 bytes without checksums.
    fn put(disks: &Disks, block: BlockId) {
        let mut writer = disks.create(identity(block)).unwrap();
        writer.write(0, &[3; 1000], &[]).unwrap();
        writer.put(1000).unwrap();
    }

    /// A sync of one disk finds no room: what it has counts, another disk takes what comes, and nothing has to be
    /// copied.
    #[test]
    fn a_disk_that_a_sync_found_full_keeps_what_it_has() {
        let (_dir, disks) = two_disks();
        (0..8).for_each(|index| put(&disks, BlockId(index)));
        let at = disks.place(BlockId(0)).unwrap();
        let there: Vec<BlockId> = (0..8).map(BlockId).filter(|block| disks.place(*block) == Some(at)).collect();
        disks.disks()[at].volume().become_full("a test says so".to_owned());
        disks.disks()[at].probe(disks.clock()).unwrap();
        assert!(disks.failed_disks().is_empty() && !disks.holds_up(at));
        for block in there {
            assert!(disks.find(block).unwrap().is_some());
            disks.verify(block).unwrap();
        }
        assert_eq!(disks.replicas(BlockId(0), 99).unwrap().len(), 8, "what is compared with other nodes");
        (8..12).for_each(|index| put(&disks, BlockId(index)));
        assert!((8..12).all(|index| disks.place(BlockId(index)) != Some(at)));
        // It is taken away after all.
        disks.disks()[at].volume().declare_failed("another test says so".to_owned());
        assert_eq!(disks.failed_disks(), [at]);
        disks.check_at_rest();
    }

    #[test]
    fn a_replica_on_a_disk_that_was_made_read_only_is_absent_and_reads_until_a_copy_is_put() {
        let (_dir, disks) = two_disks();
        let block = BlockId(5);
        let (data, mut sums) = (vec![3; 1000], Vec::new());
        SPEC.compute(&data, &mut sums);
        let mut writer = disks.create(identity(block)).unwrap();
        writer.write(0, &data, &sums).unwrap();
        writer.put(1000).unwrap();
        assert!(disks.find(block).unwrap().is_some() && disks.find_readable(block).unwrap().is_none());

        let at = disks.place(block).unwrap();
        disks.disks()[at].volume().become_read_only("a test says so".to_owned());
        assert!(disks.find(block).unwrap().is_none(), "it counts no more");
        assert_eq!(disks.find_readable(block).unwrap().map(|info| info.len), Some(1000));
        disks.verify(block).unwrap();

        let begin = || {
            let mut writer = disks.create_copy(identity(block)).unwrap();
            writer.write(0, &data, &sums).unwrap();
            assert_ne!(disks.place(block), Some(at));
            disks.check_at_rest();
            writer
        };
        let failed = begin();
        disks.verify(block).unwrap();
        drop(failed);
        assert!(disks.find(block).unwrap().is_none());
        disks.verify(block).unwrap();
        begin().put_synced(1000).unwrap();
        assert_eq!(disks.find(block).unwrap().map(|info| info.len), Some(1000), "a copy that counts");
        disks.check_at_rest();
    }

    /// The only disk that takes writes has begun to copy what another one has, which was made read-only, and then
    /// fails, too. What is on the first one counts again.
    #[test]
    fn a_copy_that_broke_off_on_a_disk_that_failed_hides_no_replica() {
        let (_dir, disks) = two_disks();
        let block = BlockId(5);
        put(&disks, block);
        let at = disks.place(block).unwrap();
        disks.disks()[at].volume().become_read_only("a test says so".to_owned());
        drop(disks.create_copy(identity(block)).unwrap());
        assert_eq!(disks.place(block), Some(1 - at), "the copy has left its place");
        disks.disks()[1 - at].volume().declare_failed("another test says so".to_owned());
        assert_eq!(disks.find(block).unwrap().map(|info| info.len), Some(1000));
        disks.verify(block).unwrap();
        disks.check_at_rest();
    }
}
