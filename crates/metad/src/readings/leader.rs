//! Metrics of the leader that are read at a scrape: datanodes, blocks, work under way.

use crate::core::Core;
use crate::leadership::Leadership;
use crate::repair;
use lead::{Leader, LivenessRules, Presence};
use metrics::{Described, Readings, Registry, gauge};
use std::sync::Arc;

const FAMILIES: &[Described] = &[
    gauge("levada_leading_seconds", "How long this server has been leading", &[]),
    gauge("levada_datanodes", "Known datanodes: live, away as announced or drained, or dead", &["state"]),
    gauge("levada_datanodes_on_leave", "Datanodes whose silence does not count, and why", &["kind"]),
    gauge("levada_repair_held", "1 while an administrator has repair wait", &[]),
    gauge("levada_cluster_capacity_bytes", "Capacity of the disks of all live datanodes", &[]),
    gauge("levada_cluster_used_bytes", "Taken by replicas on all live datanodes", &[]),
    gauge("levada_cluster_free_bytes", "Free for replicas on all live datanodes", &[]),
    gauge("levada_datanode_heartbeat_age_seconds", "Time since a datanode's last heartbeat", NODE),
    gauge("levada_datanode_live", "1 if the datanode sent a heartbeat within 10 s", NODE),
    gauge("levada_datanode_capacity_bytes", "Capacity of the disks of a datanode, as it reported last", NODE),
    gauge("levada_datanode_used_bytes", "Taken by replicas on a datanode, as it reported last", NODE),
    gauge("levada_datanode_free_bytes", "Free for replicas on a datanode, as it reported last", NODE),
    gauge("levada_datanode_transfers", "Transfers under way on a datanode, as it reported last", NODE),
    gauge("levada_disks", "Disks of live datanodes: with room, full, failed and left out", &["state"]),
    gauge("levada_disk_unread_max_seconds", "Time since the replica that waits longest for the scrub was read", &[]),
    gauge("levada_containers", "Known containers", &[]),
    gauge("levada_pipelines", "Known pipelines", &[]),
    gauge("levada_under_replicated_blocks", "Blocks with a sound copy, and fewer copies than asked for", &[]),
    gauge("levada_missing_blocks", "Blocks without a sound copy on a live datanode", &[]),
    gauge("levada_corrupt_blocks", "Blocks of which a copy is damaged", &[]),
    gauge("levada_copy_pending_blocks", "Blocks of which a copy is ordered, or waits for its turn", &[]),
    gauge("levada_placement_shortage_bytes", "Copies that no datanode has room for", &[]),
    gauge("levada_placement_shortage_containers", "Containers that lack copies for want of room or datanodes", &[]),
    gauge("levada_writers", "Clients with leases on files", &[]),
    gauge("levada_leased_blocks", "Blocks that clients hold for small files and have not used yet", &[]),
    gauge("levada_recoveries", "Recoveries of blocks under way", &[]),
    gauge("levada_pending_deletion_blocks", "Deleted blocks with replicas that datanodes still have to delete", &[]),
    gauge("levada_suspect_replicas", "Replicas reported as damaged and not yet verified by their nodes", &[]),
];

/// Its id, and where it serves.
const NODE: &[&str] = &["node", "addr"];

pub(super) fn register(registry: &mut Registry, leadership: &Arc<Leadership>) {
    let leadership = Arc::downgrade(leadership);
    registry.read(FAMILIES, move |readings| {
        if let Some(core) = leadership.upgrade().and_then(|leadership| leadership.core()) {
            read(&core, readings);
        }
    });
}

fn read(core: &Core, readings: &mut Readings<'_>) {
    let rules = repair::rules(core);
    // The lock is held while values are put, which is some microseconds a datanode.
    core.with_leader(|leader, _| {
        nodes(leader, &rules, readings);
        let counts = [
            ("levada_containers", leader.cluster.container_count() as f64),
            ("levada_pipelines", leader.cluster.pipeline_count() as f64),
            ("levada_placement_shortage_bytes", leader.shortage.len as f64),
            ("levada_placement_shortage_containers", leader.shortage.container_count as f64),
            ("levada_writers", leader.writer_leases.len() as f64),
            ("levada_leased_blocks", leader.block_leases.len() as f64),
            ("levada_pending_deletion_blocks", leader.doomed.len() as f64),
            ("levada_suspect_replicas", leader.complaints.len() as f64),
            ("levada_repair_held", if leader.cluster.repair_hold.is_some() { 1.0 } else { 0.0 }),
        ];
        counts.into_iter().for_each(|(name, value)| readings.put(name, &[], value));
    });
    readings.put("levada_leading_seconds", &[], core.uptime().as_secs_f64());
    readings.put("levada_recoveries", &[], core.recoveries.count() as f64);
    let census = core.leader().census.last();
    let blocks = [
        ("levada_under_replicated_blocks", census.under_replicated),
        ("levada_missing_blocks", census.missing),
        ("levada_corrupt_blocks", census.corrupt),
        ("levada_copy_pending_blocks", census.pending),
    ];
    blocks.into_iter().for_each(|(name, count)| readings.put(name, &[], count as f64));
}

fn nodes(leader: &Leader, rules: &LivenessRules, readings: &mut Readings<'_>) {
    let now = rules.now;
    let (mut live, mut away, mut dead) = (0u64, 0u64, 0u64);
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
            put("levada_datanode_transfers", f64::from(member.transfer_count));
        }
        match leader.presence(member, rules) {
            Presence::Live => live += 1,
            Presence::Away => away += 1,
            Presence::Dead => dead += 1,
        }
        if !is_live {
            continue;
        }
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
    put("levada_datanodes", &[Presence::Live.name()], live);
    put("levada_datanodes", &[Presence::Away.name()], away);
    put("levada_datanodes", &[Presence::Dead.name()], dead);
    put("levada_datanodes_on_leave", &["maintenance"], leader.maintenance_count() as u64);
    put("levada_datanodes_on_leave", &["restart"], leader.restarting_count() as u64);
    put("levada_cluster_capacity_bytes", &[], capacity_len);
    put("levada_cluster_used_bytes", &[], used_len);
    put("levada_cluster_free_bytes", &[], free_len);
    put("levada_disks", &["ok"], sound);
    put("levada_disks", &["full"], full);
    put("levada_disks", &["failed"], failed);
    readings.put("levada_disk_unread_max_seconds", &[], unread_ms_max as f64 / 1e3);
}
