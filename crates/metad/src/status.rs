//! State of the store in numbers, for users and monitors.

use crate::core::Core;
use crate::free_space::Level;
use crate::leadership::Leadership;
use crate::repair;
use crate::to_hdfs::shown_admin_state;
use blocks::LeaveKind;
use hdfs::proto::datanode_info_proto::AdminState;
use host::version::VERSION;
use lead::Presence;
use raft::Role;
use serde_json::{Value, json};

pub(crate) fn status(leadership: &Leadership) -> Value {
    let mut status = match leadership.core() {
        Some(core) => of_leader(&core),
        None => {
            json!({ "version": VERSION, "overlay_len": leadership.machine.store().overlay_len() })
        }
    };
    let group = leadership.raft.group();
    let members: Vec<Value> = group
        .members
        .iter()
        .map(|member| {
            let role = match member.role {
                Role::Leader => "leader",
                Role::Standby => "standby",
                Role::Learner => "learner",
            };
            let addr = leadership.addr_of(member.id, &member.addr);
            json!({ "id": member.id, "addr": addr, "role": role, "matched": member.matched })
        })
        .collect();
    // On a standby, as far as it has applied the log.
    let safe_mode = namespace::read::safe_mode(&leadership.machine.store().view()).ok().flatten();
    status["safe_mode"] = safe_mode.is_some().into();
    status["safe_mode_since_ms"] = safe_mode.as_ref().map(|mode| mode.since.0).into();
    status["safe_mode_by"] = safe_mode.map(|mode| mode.user).into();
    let (reading, limits) = (leadership.room.reading(), leadership.room.limits);
    status["room"] = json!({
        "free_len": reading.free_len, "warn_len": limits.warn, "reserve_len": limits.reserve,
        "scarce": reading.level >= Level::Scarce, "refuses_changes": reading.level >= Level::Exhausted,
    });
    status["audit"] = leadership
        .audit
        .as_ref()
        .map(|log| log.counts())
        .map_or(Value::Null, |counts| json!({ "lines_written": counts.written, "lines_dropped": counts.dropped }));
    let faults = leadership.machine.faults.counted();
    status["failed_entries"] =
        json!({ "count": faults.count, "last": faults.last_entry, "last_operation": faults.last_operation });
    status["leader"] = leadership.core().is_some().into();
    let doubt = leadership.raft.doubt();
    status["group"] = json!({
        "id": leadership.config.id, "term": group.term, "last": group.last, "agreed": leadership.raft.agreed(),
        "level": leadership.raft.level(),
        "in_doubt": doubt.is_some(), "doubt": doubt, "members": members,
    });
    status
}

fn disk(disk: &types::DiskReport) -> Value {
    json!({
        "dir": disk.dir, "volume": disk.volume, "failure": disk.failure, "capacity_len": disk.capacity_len,
        "used_len": disk.used_len, "free_len": disk.free_len, "replicas": disk.replica_count,
        "streams": disk.stream_count, "unread_ms": disk.unread_ms,
    })
}

/// What the leader counts beside nodes and containers.
struct Counts {
    shortage: lead::Shortage,
    writers: usize,
    leased: usize,
    doomed: usize,
    complaints: usize,
    maintenance: usize,
    restarting: usize,
    hold: Option<blocks::RepairHold>,
}

fn of_leader(core: &Core) -> Value {
    let rules = repair::rules(core);
    let now = rules.now;
    let (mut live, mut away, mut dead) = (0u64, 0u64, 0u64);
    let (mut capacity_len, mut used_len, mut free_len) = (0u64, 0u64, 0u64);
    let (mut sound, mut full, mut failed) = (0u64, 0u64, 0u64);
    let mut unread_ms_max = 0u64;
    let (nodes, containers, pipelines, counts) = core.with_leader(|leader, _| {
        let (cluster, disks) = (&leader.cluster, leader.disks());
        let nodes: Vec<Value> = cluster
            .nodes()
            .map(|member| {
                let (node, usage) = (&member.node, &member.usage);
                let is_live = member.is_live(now);
                let disks = disks.get(&node.id).map_or(&[][..], Vec::as_slice);
                let admin_state = shown_admin_state(leader, member, &rules).unwrap_or(AdminState::Normal);
                let presence = leader.presence(member, &rules);
                match presence {
                    Presence::Live => live += 1,
                    Presence::Away => away += 1,
                    Presence::Dead => dead += 1,
                }
                if is_live {
                    capacity_len = usage.capacity_len.saturating_add(capacity_len);
                    used_len = usage.used_len.saturating_add(used_len);
                    free_len = usage.free_len.saturating_add(free_len);
                    // The last report of a node that is down is out of date.
                    for disk in disks {
                        unread_ms_max = unread_ms_max.max(disk.unread_ms.unwrap_or(0));
                        match (disk.failure.is_empty(), disk.free_len) {
                            (false, _) => failed += 1,
                            (true, 0) => full += 1,
                            (true, _) => sound += 1,
                        }
                    }
                }
                let disks: Vec<Value> = disks.iter().map(disk).collect();
                let leave = member.leave.map(|leave| match leave.kind {
                    LeaveKind::Maintenance => "maintenance",
                    LeaveKind::Restart => "restart",
                });
                json!({
                    "disks": disks, "id": node.id.to_string(), "addr": node.xfer_addr(), "rack": node.rack,
                    "live": is_live, "state": presence.name(), "admin_state": admin_state.as_str_name(),
                    "used_len": usage.used_len, "free_len": usage.free_len,
                    "transfers": member.transfer_count,
                    "leave": leave, "leave_until_ms": member.leave.map(|leave| leave.until.0),
                })
            })
            .collect();
        let counts = Counts {
            shortage: leader.shortage,
            writers: leader.writer_leases.len(),
            leased: leader.block_leases.len(),
            doomed: leader.doomed.len(),
            complaints: leader.complaints.len(),
            maintenance: leader.maintenance_count(),
            restarting: leader.restarting_count(),
            hold: cluster.repair_hold,
        };
        (nodes, cluster.container_count(), cluster.pipeline_count(), counts)
    });
    let (used, census, shortage) =
        (host::meter::answer(wire::meter::Role::Metadata), core.leader().census.last(), counts.shortage);
    json!({
        "version": VERSION,
        "pool": core.pool,
        "uptime_s": core.uptime().as_secs(),
        "nodes": {
            "live": live, "away": away, "dead": dead, "in_maintenance": counts.maintenance,
            "restarting": counts.restarting, "list": nodes,
        },
        "repair_held_until_ms": counts.hold.map(|hold| hold.until.0),
        "space": { "capacity_len": capacity_len, "used_len": used_len, "free_len": free_len },
        "disks": { "ok": sound, "full": full, "failed": failed, "unread_ms_max": unread_ms_max },
        "containers": containers,
        "pipelines": pipelines,
        "blocks": {
            "under_replicated": census.under_replicated, "missing": census.missing, "corrupt": census.corrupt,
            "pending": census.pending,
        },
        "room_lacking": { "len": shortage.len, "containers": shortage.container_count },
        "writers": counts.writers,
        "blocks_on_lease": counts.leased,
        "recoveries": core.recoveries.count(),
        "doomed_blocks": counts.doomed,
        "bad_replicas_reported": counts.complaints,
        "overlay_len": core.machine.store().overlay_len(),
        "process": {
            "pid": used.pid, "cpu_user_us": used.user_us, "cpu_system_us": used.system_us, "syncs": used.sync_count,
        },
    })
}
