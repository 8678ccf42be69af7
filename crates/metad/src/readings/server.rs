//! Metrics of every server that are read at a scrape, leading or not.

use crate::free_space::Level;
use crate::leadership::Leadership;
use metrics::{Described, Readings, Registry, counter, gauge};
use raft::Role;
use rpc::{Usage, UsageReader};
use std::sync::Arc;

const FAMILIES: &[Described] = &[
    gauge("levada_leader", "1 if this server leads; what only a leader knows is shown by it alone", &[]),
    gauge("levada_safe_mode", "1 if the store is in safe mode, as far as this server has applied the log", &[]),
    gauge("levada_safe_mode_start_time_seconds", "When safe mode was turned on, since 1970", &[]),
    gauge("levada_store_overlay_bytes", "Changes of rows in memory that are not flushed to LMDB yet", &[]),
    gauge("levada_store_file_bytes", "Length of LMDB's file; it never shrinks", &[]),
    gauge("levada_store_reusable_bytes", "Part of LMDB's file that later flushes can use", &[]),
    gauge("levada_store_map_bytes", "Greatest length that LMDB's file may take", &[]),
    gauge("levada_meta_free_bytes", "Free on the fuller of the disks of store and log, reusable room included", &[]),
    gauge("levada_meta_free_warn_bytes", "With less free than this the server warns", &[]),
    gauge("levada_meta_free_reserve_bytes", "With less free than this it refuses changes that need room", &[]),
    gauge("levada_meta_refuses_changes", "1 while it refuses changes that need room", &[]),
    gauge("levada_meta_listing_page_bytes", "Pages of listings that are kept as they were encoded", &[]),
    gauge("levada_rpc_memory_bytes", "Memory that requests and answers hold, by what it is", &["of"]),
    gauge("levada_rpc_memory_max_bytes", "As much may be held of it; who needs more waits", &["of"]),
    gauge("levada_rpc_connections", "Open connections", &[]),
    gauge("levada_rpc_connections_max", "As many may be open", &[]),
    counter("levada_audit_lines_total", "Lines of the audit log: written, or dropped for a slow disk", &["result"]),
    counter("levada_raft_failed_entries_total", "Entries of the log that failed by a bug and changed nothing", &[]),
    gauge("levada_raft_term", "Raft's term: it rises with each election", &[]),
    gauge("levada_raft_last_index", "Last entry of this server's log", &[]),
    gauge("levada_raft_applied_index", "Last entry that this server has applied to its rows", &[]),
    gauge("levada_raft_proposal_bytes", "Proposals under way, about", &[]),
    gauge("levada_raft_proposal_max_bytes", "As much may be under way; further proposals wait", &[]),
    gauge("levada_raft_agreed_index", "Last entry after which members were found to have the same rows", &[]),
    gauge("levada_raft_level", "Level of the record forms that the group writes", &[]),
    gauge("levada_raft_in_doubt", "1 if members have different rows", &[]),
    gauge("levada_raft_members", "Members of the group, by what they are", &["role"]),
    gauge("levada_raft_matched_index", "Last entry that a member is known to have", &["member"]),
];

pub(super) fn register(registry: &mut Registry, leadership: &Arc<Leadership>) {
    // Weak: a scraper must not keep a store open that is shut down.
    let leadership = Arc::downgrade(leadership);
    registry.read(FAMILIES, move |readings| {
        if let Some(leadership) = leadership.upgrade() {
            read(&leadership, readings);
        }
    });
}

fn flag(is_set: bool) -> f64 {
    if is_set { 1.0 } else { 0.0 }
}

fn read(leadership: &Leadership, readings: &mut Readings<'_>) {
    let store = leadership.machine.store();
    let mut put = |name, value: f64| readings.put(name, &[], value);
    put("levada_leader", flag(leadership.core().is_some()));
    // Rows that cannot be read are in the log, and end the server.
    let safe_mode = namespace::read::safe_mode(&store.view()).ok().flatten();
    put("levada_safe_mode", flag(safe_mode.is_some()));
    if let Some(mode) = safe_mode {
        put("levada_safe_mode_start_time_seconds", mode.since.0 as f64 / 1e3);
    }
    put("levada_store_overlay_bytes", store.overlay_len() as f64);
    // A file that cannot be asked now may be at the next scrape.
    for (name, len) in
        [("levada_store_file_bytes", store.file_len()), ("levada_store_reusable_bytes", store.reusable_len())]
    {
        if let Ok(len) = len {
            put(name, len as f64);
        }
    }
    put("levada_store_map_bytes", store.map_len() as f64);
    let (reading, limits) = (leadership.room.reading(), leadership.room.limits);
    put("levada_meta_free_bytes", reading.free_len as f64);
    put("levada_meta_free_warn_bytes", limits.warn as f64);
    put("levada_meta_free_reserve_bytes", limits.reserve as f64);
    put("levada_meta_refuses_changes", flag(reading.level >= Level::Exhausted));
    put("levada_meta_listing_page_bytes", leadership.machine.pages.len() as f64);
    put("levada_raft_failed_entries_total", leadership.machine.faults.counted().count as f64);
    let group = leadership.raft.group();
    put("levada_raft_term", group.term as f64);
    put("levada_raft_last_index", group.last as f64);
    if let Some(applied) = leadership.raft.applied() {
        put("levada_raft_applied_index", applied as f64);
    }
    let (proposal_len, proposal_len_max) = leadership.raft.proposal_lens();
    put("levada_raft_proposal_bytes", proposal_len as f64);
    put("levada_raft_proposal_max_bytes", proposal_len_max as f64);
    if let Some(agreed) = leadership.raft.agreed() {
        put("levada_raft_agreed_index", agreed as f64);
    }
    put("levada_raft_level", f64::from(leadership.raft.level()));
    put("levada_raft_in_doubt", flag(leadership.raft.doubt().is_some()));
    for (role, name) in [(Role::Leader, "leader"), (Role::Standby, "standby"), (Role::Learner, "learner")] {
        let count = group.members.iter().filter(|member| member.role == role).count();
        readings.put("levada_raft_members", &[name], count as f64);
    }
    for member in &group.members {
        if let Some(matched) = member.matched {
            readings.put("levada_raft_matched_index", &[&member.id.to_string()], matched as f64);
        }
    }
    for Usage { of, now, max } in leadership.rpc_usage.get().map_or_else(Vec::new, UsageReader::read) {
        let (now, max) = (now as f64, max as f64);
        if of == "connections" {
            readings.put("levada_rpc_connections", &[], now);
            readings.put("levada_rpc_connections_max", &[], max);
        } else {
            readings.put("levada_rpc_memory_bytes", &[of], now);
            readings.put("levada_rpc_memory_max_bytes", &[of], max);
        }
    }
    if let Some(counts) = leadership.audit.as_ref().map(|log| log.counts()) {
        readings.put("levada_audit_lines_total", &["written"], counts.written as f64);
        readings.put("levada_audit_lines_total", &["dropped"], counts.dropped as f64);
    }
}
