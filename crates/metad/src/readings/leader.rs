//! What is read of the server that leads: datanodes, blocks, what is under way.

use crate::core::Core;
use crate::seat::Seat;
use lead::Leader;
use metrics::{Described, Readings, Registry, gauge};
use std::sync::Arc;
use std::time::Duration;

const FAMILIES: &[Described] = &[
    gauge("levada_leading_seconds", "How long this server has been leading", &[]),
    gauge("levada_datanodes", "Known datanodes: live ones sent a heartbeat within 10 s, dead ones did not", &["state"]),
    gauge("levada_capacity_bytes", "Capacity of the disks of all live datanodes", &[]),
    gauge("levada_used_bytes", "Taken by replicas on all live datanodes", &[]),
    gauge("levada_free_bytes", "Free for replicas on all live datanodes", &[]),
    gauge("levada_datanode_heartbeat_age_seconds", "Time since a datanode's last heartbeat", NODE),
    gauge("levada_datanode_live", "1 if the datanode sent a heartbeat within 10 s", NODE),
    gauge("levada_datanode_capacity_bytes", "Capacity of the disks of a datanode, as it reported last", NODE),
    gauge("levada_datanode_used_bytes", "Taken by replicas on a datanode, as it reported last", NODE),
    gauge("levada_datanode_free_bytes", "Free for replicas on a datanode, as it reported last", NODE),
    gauge("levada_datanode_transfers", "Transfers under way on a datanode, as it reported last", NODE),
    gauge("levada_disks", "Disks of live datanodes: with room, full, failed and left out", &["state"]),
    gauge("levada_disk_unread_seconds_max", "Time since the replica that waits longest for the scrub was read", &[]),
    gauge("levada_containers", "Known containers", &[]),
    gauge("levada_pipelines", "Known pipelines", &[]),
    gauge(
        "levada_blocks",
        "Blocks that lack copies: under_replicated, missing, corrupt, and pending for ordered copies",
        &["state"],
    ),
    gauge("levada_room_lacking_bytes", "Copies that no datanode has room for", &[]),
    gauge("levada_room_lacking_containers", "Containers that lack such copies", &[]),
    gauge("levada_writers", "Clients with leases on files", &[]),
    gauge("levada_leased_blocks", "Blocks that clients hold for small files and have not used yet", &[]),
    gauge("levada_recoveries", "Recoveries of blocks under way", &[]),
    gauge("levada_doomed_blocks", "Deleted blocks with replicas that datanodes still have to delete", &[]),
    gauge("levada_reported_replicas", "Replicas reported as damaged and not yet verified by their nodes", &[]),
];

/// Its id, and where it serves.
const NODE: &[&str] = &["node", "addr"];

pub(super) fn register(registry: &mut Registry, seat: &Arc<Seat>) {
    let seat = Arc::downgrade(seat);
    registry.read(FAMILIES, move |readings| {
        if let Some(core) = seat.upgrade().and_then(|seat| seat.core()) {
            read(&core, readings);
        }
    });
}

fn read(core: &Core, readings: &mut Readings<'_>) {
    let now = core.monotonic();
    // The lock is held while values are put, which is some microseconds a datanode.
    core.with_leader(|leader, _| {
        nodes(leader, now, readings);
        let counts = [
            ("levada_containers", leader.cluster.container_count() as f64),
            ("levada_pipelines", leader.cluster.pipeline_count() as f64),
            ("levada_room_lacking_bytes", leader.shortage.len as f64),
            ("levada_room_lacking_containers", leader.shortage.container_count as f64),
            ("levada_writers", leader.leases.len() as f64),
            ("levada_leased_blocks", leader.leased.len() as f64),
            ("levada_doomed_blocks", leader.doomed.len() as f64),
            ("levada_reported_replicas", leader.complaints.len() as f64),
        ];
        counts.into_iter().for_each(|(name, value)| readings.put(name, &[], value));
    });
    readings.put("levada_leading_seconds", &[], core.uptime().as_secs_f64());
    readings.put("levada_recoveries", &[], core.recoveries.count() as f64);
    let census = core.counted.last();
    let blocks = [
        ("under_replicated", census.under_replicated),
        ("missing", census.missing),
        ("corrupt", census.corrupt),
        ("pending", census.pending),
    ];
    blocks.into_iter().for_each(|(state, count)| readings.put("levada_blocks", &[state], count as f64));
}

fn nodes(leader: &Leader, now: Duration, readings: &mut Readings<'_>) {
    let (mut live, mut dead) = (0u64, 0u64);
    let (mut capacity_len, mut used_len, mut free_len) = (0u64, 0u64, 0u64);
    let (mut sound, mut full, mut failed, mut unread_ms_max) = (0u64, 0u64, 0u64, 0u64);
    let disks = leader.disks();
    for member in leader.cluster.nodes() {
        let (id, usage, is_live) = (member.node.id, &member.usage, member.is_live(now));
        let (name, addr) = (id.to_string(), member.node.xfer_addr());
        let mut put = |family, value: f64| readings.put(family, &[&name, &addr], value);
        put("levada_datanode_live", if is_live { 1.0 } else { 0.0 });
        if let Some(seen) = member.seen() {
            put("levada_datanode_heartbeat_age_seconds", now.saturating_sub(seen).as_secs_f64());
            put("levada_datanode_capacity_bytes", usage.capacity_len as f64);
            put("levada_datanode_used_bytes", usage.used_len as f64);
            put("levada_datanode_free_bytes", usage.free_len as f64);
            put("levada_datanode_transfers", f64::from(usage.transfer_count));
        }
        if !is_live {
            dead += 1;
            continue;
        }
        live += 1;
        capacity_len = capacity_len.saturating_add(usage.capacity_len);
        used_len = used_len.saturating_add(usage.used_len);
        free_len = free_len.saturating_add(usage.free_len);
        for disk in disks.get(&id).map_or(&[][..], Vec::as_slice) {
            unread_ms_max = unread_ms_max.max(disk.unread_ms.unwrap_or(0));
            match (disk.failure.is_empty(), disk.free_len) {
                (false, _) => failed += 1,
                (true, 0) => full += 1,
                (true, _) => sound += 1,
            }
        }
    }
    let mut put = |family, label: &[&str], value: u64| readings.put(family, label, value as f64);
    put("levada_datanodes", &["live"], live);
    put("levada_datanodes", &["dead"], dead);
    put("levada_capacity_bytes", &[], capacity_len);
    put("levada_used_bytes", &[], used_len);
    put("levada_free_bytes", &[], free_len);
    put("levada_disks", &["ok"], sound);
    put("levada_disks", &["full"], full);
    put("levada_disks", &["failed"], failed);
    readings.put("levada_disk_unread_seconds_max", &[], unread_ms_max as f64 / 1e3);
}
