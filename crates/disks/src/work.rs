//! Work that may wait for a disk, done within that disk's quota of threads ([`crate::thread_quota`]).

use crate::disks::{Disks, Result};
use container::ReplicaError;
use io::ThreadQuota;
use types::BlockId;

impl Disks {
    /// A disk has not answered for too long: nothing counts any more that is there, and nobody waits for it.
    pub(crate) fn declare_failed(&self, number: usize, reason: String) {
        self.disks()[number].declare_failed(reason);
        // Work that asks all of them may hang in it, too; from now on it is not asked.
        self.all_disks_quota().replace_permits();
        self.changed();
    }

    /// Of the disk that has this block.
    pub fn quota_of(&self, block: BlockId) -> &ThreadQuota {
        self.place(block).map_or(self.all_disks_quota(), |at| self.disks()[at].thread_quota())
    }

    /// Does what may wait for the disk that has this block.
    pub async fn for_block<T: Send + 'static>(
        &self,
        block: BlockId,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Result<T> {
        self.run(self.quota_of(block), work).await
    }

    /// Does what may wait for this disk.
    pub async fn for_disk<T: Send + 'static>(
        &self,
        number: usize,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Result<T> {
        self.run(self.disks()[number].thread_quota(), work).await
    }

    /// Does what may wait for any of the disks.
    pub async fn for_all<T: Send + 'static>(&self, work: impl FnOnce(&Self) -> T + Send + 'static) -> Result<T> {
        self.run(self.all_disks_quota(), work).await
    }

    async fn run<T: Send + 'static>(
        &self,
        quota: &ThreadQuota,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Result<T> {
        let disks = self.clone();
        quota.run(move || work(&disks)).await.map_err(|_hung| ReplicaError::Hangs)
    }
}
