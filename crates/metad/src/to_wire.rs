//! Conversion of our types to messages of our own protocols, and back.

use blocks::{Leave, LeaveKind};
use lead::kept_text;
use types::{DiskReport, Millis};
use wire::admin::datanodes::LeaveKind as LeaveMessage;

/// A datanode's leave, and the milliseconds that are left of it, for who asks about it.
pub(crate) fn leave(leave: Option<Leave>, wall: Millis) -> (LeaveMessage, u64) {
    let kind = match leave.map(|leave| leave.kind) {
        None => LeaveMessage::None,
        Some(LeaveKind::Maintenance) => LeaveMessage::Maintenance,
        Some(LeaveKind::Restart) => LeaveMessage::Restart,
    };
    (kind, leave.map_or(0, |leave| leave.until.0.saturating_sub(wall.0)))
}

/// What is kept of a disk that a node reports.
pub(crate) fn kept_disk(disk: &wire::node::Disk) -> DiskReport {
    DiskReport {
        volume: kept_text(&disk.volume),
        dir: kept_text(&disk.dir),
        failure: kept_text(&disk.failure),
        capacity_len: disk.capacity_len,
        used_len: disk.used_len,
        free_len: disk.free_len,
        replica_count: disk.replica_count,
        stream_count: disk.stream_count,
        unread_ms: disk.unread_ms,
    }
}
