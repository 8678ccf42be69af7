//! What the disks say of themselves, without asking them: for the metadata server and for monitors.
//!
//! Promise: nobody waits for a disk. What each one said in the last probe is reported, a second old at most while it
//! answers.

use crate::disks::Disks;
use io::Clock;
use types::{DiskReport, StorageUsage};

impl Disks {
    /// Of all disks that have not failed.
    pub fn usage(&self) -> StorageUsage {
        let mut sum = StorageUsage::default();
        for (_, disk) in self.disks().iter().enumerate().filter(|(at, _)| !self.is_failed(*at)) {
            let usage = disk.gauge().usage;
            sum.capacity_len += usage.capacity;
            sum.used_len += usage.used;
            // One that takes no writes offers no room.
            sum.free_len += if disk.is_sound() { usage.remaining } else { 0 };
        }
        sum
    }

    /// Each disk by itself, those that failed too.
    pub fn reports(&self) -> Vec<DiskReport> {
        let there = self.disks().iter().map(|disk| {
            let usage = disk.gauge().usage;
            DiskReport {
                volume: disk.identity().volume.to_string(),
                dir: disk.dir().display().to_string(),
                failure: disk.volume().failure().unwrap_or_default().to_owned(),
                capacity_len: usage.capacity,
                used_len: usage.used,
                free_len: usage.remaining,
                replica_count: usage.replica_count,
                stream_count: disk.load().count(),
                unread_ms: disk.unread_ms(self.clock().now()),
            }
        });
        let unopened = self.unopened().iter().map(|disk| DiskReport {
            volume: disk.volume.map_or(String::new(), |volume| volume.to_string()),
            dir: disk.dir.display().to_string(),
            failure: disk.reason.clone(),
            ..DiskReport::default()
        });
        there.chain(unopened).collect()
    }
}
