//! Configuration of a metadata server. Every setting has its name here.

use crate::security_config::SecurityConfig;
use security::keys::Lifetimes;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use types::{Network, limits};

/// Heartbeats come each second, and one may be late.
const LOST_AFTER_MS_MIN: u64 = 2000;
/// Some thousands of lines.
const AUDIT_FILE_LEN_MIN: u64 = 1 << 20;
/// Each is renamed when one is full.
const AUDIT_FILE_COUNT_MAX: u32 = 1000;
/// Each is looked at for an answer with blocks. A guess: a site has a few.
const INSIDE_COUNT_MAX: usize = 1000;
/// Each container costs a row, and a question each hour.
const CONTAINER_LEN_MIN: u64 = 1 << 20;

/// A metadata server. A file of it needs `dir` and `rpc_addr`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Raft log and store. Made, and an empty namespace in it, if it does not exist.
    pub dir: PathBuf,
    /// Where clients and datanodes call; port 0 takes a free one.
    pub rpc_addr: SocketAddr,
    /// This server's number in its group, the same for ever.
    #[serde(default = "default_id")]
    pub id: u64,
    /// The servers of the group, this one among them: those that found it together, or, once it is there, where each is
    /// now. None: this server is alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<MemberAddr>,
    /// Further addresses or host names that other servers of the group call from, if not from those under which they
    /// are reached.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members_from: Vec<String>,
    /// This server waits to be added to a group that is there: `levada admin meta add`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub join: bool,
    /// Replicas of a file whose writer names no number.
    #[serde(default = "default_replication")]
    pub replication: u16,
    /// Length of a block whose writer names none. HDFS: `dfs.blocksize`.
    #[serde(default = "default_block_len", deserialize_with = "host::size::setting")]
    pub block_len: u64,
    /// HDFS: `dfs.namenode.fs-limits.min-block-size`.
    #[serde(default = "default_block_len_min", deserialize_with = "host::size::setting")]
    pub block_len_min: u64,
    /// Bytes under one checksum, for writers that ask. HDFS: `dfs.bytes-per-checksum`.
    #[serde(default = "default_bytes_per_checksum", deserialize_with = "host::size::setting")]
    pub bytes_per_checksum: u32,
    /// Members of this group may do everything, as may the user who runs the server.
    #[serde(default = "default_supergroup")]
    pub supergroup: String,
    /// A writer that renews no lease for longer may lose its file to another one. HDFS: 60 s, not to be configured
    /// there.
    #[serde(default = "default_lease_soft_ms")]
    pub lease_soft_ms: u64,
    /// A writer that renews no lease for longer loses its files. HDFS: `dfs.namenode.lease-hard-limit-sec`, 20 min.
    #[serde(default = "default_lease_hard_ms")]
    pub lease_hard_ms: u64,
    /// A datanode that sends no heartbeat for longer is lost: others take its place and copy what it had. As in HDFS
    /// ten and a half minutes, in which a machine can start anew. One that ended in order, or is in maintenance, is not
    /// lost as long as it may be away.
    #[serde(default = "default_lost_after_ms")]
    pub lost_after_ms: u64,
    /// Containers are sealed at about this length: the unit in which blocks are placed, compared and moved.
    #[serde(default = "default_container_len", deserialize_with = "host::size::setting")]
    pub container_len: u64,
    /// Access times are not kept more exactly than this; 0: not at all. HDFS: `dfs.namenode.accesstime.precision`, 1 h.
    #[serde(default = "default_access_time_ms")]
    pub access_time_ms: u64,
    /// What is removed by `levada rm` or `hdfs dfs -rm` is kept in the trash of its user for so long; 0: there is no
    /// trash. HDFS: `fs.trash.interval`, in minutes there.
    #[serde(default)]
    pub trash_interval_ms: u64,
    /// So often the leader makes a checkpoint of each user's trash; 0: as often as `trash_interval_ms`. HDFS:
    /// `fs.trash.checkpoint.interval`, in minutes there.
    #[serde(default)]
    pub trash_checkpoint_ms: u64,
    /// So often balancing between datanodes begins by itself, and as soon as a new one has joined; 0: never. HDFS has
    /// its balancer started by hand, or by cron.
    #[serde(default)]
    pub balance_each_ms: u64,
    /// Bytes a second that balancing moves between datanodes in the long run; 0: as much as datanodes copy. HDFS:
    /// `dfs.datanode.balance.bandwidthPerSec`, of each datanode there.
    #[serde(default, deserialize_with = "host::size::setting")]
    pub balance_len_per_s: u64,
    /// Datanodes ask for a token with each operation on a block. Set alike on all servers of the group. HDFS:
    /// `dfs.block.access.token.enable`.
    #[serde(default)]
    pub block_tokens: bool,
    /// So long a key signs block tokens. HDFS: `dfs.block.access.key.update.interval`, in minutes there.
    #[serde(default = "default_block_key_update_ms")]
    pub block_key_update_ms: u64,
    /// So long a block token counts at least: at most eight times `block_key_update_ms`. HDFS:
    /// `dfs.block.access.token.lifetime`, in minutes there.
    #[serde(default = "default_block_token_lifetime_ms")]
    pub block_token_lifetime_ms: u64,
    /// Program that prints the rack of an address, as HDFS's `net.topology.script.file.name`: of datanodes whose
    /// configuration names no `rack`, and of clients. None: all others are in `/default-rack`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology_script: Option<PathBuf>,
    /// Datanodes that may register, by host; a file as HDFS's `dfs.hosts`, with a state for each if it is JSON. None,
    /// or an empty one: all may. Read again by `hdfs dfsadmin -refreshNodes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts_include: Option<PathBuf>,
    /// Datanodes that are to be emptied: a file as HDFS's `dfs.hosts.exclude`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts_exclude: Option<PathBuf>,
    /// Clients that call from these networks, `10.0.0.0/8`, are inside: they are told datanodes' own addresses, and all
    /// others those that datanodes have outside, if they have. None: the networks of this machine, but for the gateways
    /// there, through which callers come whose addresses were changed on the way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inside: Vec<String>,
    /// Bytes of changes that are kept in the log, in memory and on disk, for servers of the group that were away for a
    /// while.
    #[serde(default = "default_log_kept_len", deserialize_with = "host::size::setting")]
    pub log_kept_len: u64,
    /// Bytes for changes that wait to be synced, and for requests and answers under way.
    #[serde(default = "default_memory", deserialize_with = "host::size::setting")]
    pub memory: u64,
    /// With fewer free bytes where `dir` is, the server warns. None: 2 GiB, or a tenth of a smaller disk.
    #[serde(default, deserialize_with = "host::size::optional_setting", skip_serializing_if = "Option::is_none")]
    pub free_warn_len: Option<u64>,
    /// With fewer, it refuses what clients change, but for what frees space. HDFS goes into safe mode
    /// (`dfs.namenode.resource.du.reserved`, 100 MB). None: 512 MiB, or a fortieth of a smaller disk.
    #[serde(default, deserialize_with = "host::size::optional_setting", skip_serializing_if = "Option::is_none")]
    pub free_reserve_len: Option<u64>,
    /// Calls that change something or were denied are written to `audit/audit.log` in `dir`.
    #[serde(default = "default_audit_log")]
    pub audit_log: bool,
    /// So are calls that change nothing.
    #[serde(default)]
    pub audit_reads: bool,
    /// Bytes of a file of the audit log; then the next one begins.
    #[serde(default = "default_audit_file_len", deserialize_with = "host::size::setting")]
    pub audit_file_len: u64,
    /// Files of the audit log that are kept, with the one that grows.
    #[serde(default = "default_audit_file_count")]
    pub audit_file_count: u32,
    /// How callers prove who they are, and what follows from their names.
    #[serde(default)]
    pub security: SecurityConfig,
}

/// A metadata server of the group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemberAddr {
    pub id: u64,
    /// Its RPC port as the others reach it, host:port.
    pub addr: String,
}

/// More servers would only make each change slower.
pub(crate) const MEMBER_COUNT_MAX: usize = 9;

impl Config {
    pub fn new(dir: PathBuf, rpc_addr: SocketAddr) -> Self {
        Self {
            dir,
            rpc_addr,
            id: default_id(),
            members: Vec::new(),
            members_from: Vec::new(),
            join: false,
            replication: default_replication(),
            block_len: default_block_len(),
            block_len_min: default_block_len_min(),
            bytes_per_checksum: default_bytes_per_checksum(),
            supergroup: default_supergroup(),
            lease_soft_ms: default_lease_soft_ms(),
            lease_hard_ms: default_lease_hard_ms(),
            lost_after_ms: default_lost_after_ms(),
            container_len: default_container_len(),
            access_time_ms: default_access_time_ms(),
            trash_interval_ms: 0,
            trash_checkpoint_ms: 0,
            balance_each_ms: 0,
            balance_len_per_s: 0,
            block_tokens: false,
            block_key_update_ms: default_block_key_update_ms(),
            block_token_lifetime_ms: default_block_token_lifetime_ms(),
            topology_script: None,
            hosts_include: None,
            hosts_exclude: None,
            inside: Vec::new(),
            log_kept_len: default_log_kept_len(),
            memory: default_memory(),
            free_warn_len: None,
            free_reserve_len: None,
            audit_log: default_audit_log(),
            audit_reads: false,
            audit_file_len: default_audit_file_len(),
            audit_file_count: default_audit_file_count(),
            security: SecurityConfig::default(),
        }
    }

    /// Settings that cannot work, described for the user who wrote them.
    pub fn check(&self) -> Result<(), String> {
        self.check_members()?;
        self.security.check()?;
        if !self.block_tokens && !self.security.transfer_qops()?.is_empty() {
            let message = "security.data_transfer_protection and encrypt_data_transfer prove callers by block tokens: \
                           set block_tokens = true";
            return Err(message.into());
        }
        let sums = u64::from(self.bytes_per_checksum);
        if self.replication == 0 || self.replication > limits::REPLICATION_MAX {
            return Err(format!("replication is {}; give 1 to {}", self.replication, limits::REPLICATION_MAX));
        }
        if sums == 0 || self.bytes_per_checksum > limits::BYTES_PER_CHECKSUM_MAX || !self.block_len.is_multiple_of(sums)
        {
            return Err(format!("block_len ({}) must be a multiple of bytes_per_checksum ({sums})", self.block_len));
        }
        if self.block_len < self.block_len_min {
            return Err(format!("block_len ({}) is below block_len_min ({})", self.block_len, self.block_len_min));
        }
        if self.lost_after_ms < LOST_AFTER_MS_MIN {
            return Err(format!("lost_after_ms ({}) must be at least {LOST_AFTER_MS_MIN}", self.lost_after_ms));
        }
        if self.container_len < CONTAINER_LEN_MIN {
            return Err(format!("container_len ({}) must be at least {CONTAINER_LEN_MIN}", self.container_len));
        }
        if let (Some(reserve), Some(warn)) = (self.free_reserve_len, self.free_warn_len)
            && reserve > warn
        {
            return Err("free_reserve_len must not be above free_warn_len".into());
        }
        if self.audit_file_len < AUDIT_FILE_LEN_MIN || !(1..=AUDIT_FILE_COUNT_MAX).contains(&self.audit_file_count) {
            return Err(format!(
                "audit_file_len must be at least {AUDIT_FILE_LEN_MIN}, audit_file_count 1 to {AUDIT_FILE_COUNT_MAX}"
            ));
        }
        if self.lifetimes().is_none() {
            return Err(format!(
                "block_token_lifetime_ms ({}) must be above 0, and at most eight times block_key_update_ms ({})",
                self.block_token_lifetime_ms, self.block_key_update_ms
            ));
        }
        self.networks_inside()?;
        if self.lease_soft_ms > self.lease_hard_ms {
            return Err("lease_soft_ms must not be above lease_hard_ms".into());
        }
        Ok(())
    }

    /// The networks of `inside`.
    pub(crate) fn networks_inside(&self) -> Result<Vec<Network>, String> {
        if self.inside.len() > INSIDE_COUNT_MAX {
            return Err(format!("inside names {} networks; {INSIDE_COUNT_MAX} are enough", self.inside.len()));
        }
        let network = |text: &String| {
            Network::parse(text).ok_or_else(|| format!("inside: {text:?} is no network; write it as 10.0.0.0/8"))
        };
        self.inside.iter().map(network).collect()
    }

    fn check_members(&self) -> Result<(), String> {
        if self.members.len() > MEMBER_COUNT_MAX {
            return Err(format!("{} members; {MEMBER_COUNT_MAX} are enough", self.members.len()));
        }
        if self.id == 0 || self.members.iter().any(|member| member.id == 0) {
            return Err("a member's id is a number from 1 on".into());
        }
        for (place, member) in self.members.iter().enumerate() {
            if self.members[..place].iter().any(|other| other.id == member.id || other.addr == member.addr) {
                return Err(format!("two members have the id {} or the address {}", member.id, member.addr));
            }
            if !member.addr.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse() != Ok(0u16)) {
                return Err(format!("{} is no address of a member; write host:port", member.addr));
            }
        }
        let is_listed = self.members.iter().any(|member| member.id == self.id);
        if !self.members.is_empty() && !is_listed && !self.join {
            let id = self.id;
            return Err(format!(
                "members lacks this server, {id}; add it, or set join = true if it is to be added to a group that is \
                 there"
            ));
        }
        Ok(())
    }

    /// True if there are, or may be, other servers.
    pub(crate) fn is_group(&self) -> bool {
        self.join || !self.members.is_empty()
    }

    /// Of the keys of block tokens; `None`: none are asked for.
    pub(crate) fn block_token_lifetimes(&self) -> Option<Lifetimes> {
        self.lifetimes().filter(|_| self.block_tokens)
    }

    fn lifetimes(&self) -> Option<Lifetimes> {
        let (roll, lifetime) = (self.block_key_update_ms, self.block_token_lifetime_ms);
        Lifetimes::new(Duration::from_millis(roll), Duration::from_millis(lifetime))
    }

    pub(crate) fn lease_soft(&self) -> Duration {
        Duration::from_millis(self.lease_soft_ms)
    }

    pub(crate) fn lost_after(&self) -> Duration {
        Duration::from_millis(self.lost_after_ms)
    }

    pub(crate) fn lease_hard(&self) -> Duration {
        Duration::from_millis(self.lease_hard_ms)
    }
}

fn default_id() -> u64 {
    1
}

fn default_replication() -> u16 {
    3
}

fn default_block_len() -> u64 {
    limits::BLOCK_LEN_DEFAULT
}

fn default_block_len_min() -> u64 {
    1 << 20
}

fn default_bytes_per_checksum() -> u32 {
    limits::BYTES_PER_CHECKSUM_DEFAULT
}

fn default_supergroup() -> String {
    "supergroup".into()
}

fn default_lease_soft_ms() -> u64 {
    60_000
}

fn default_lease_hard_ms() -> u64 {
    20 * 60_000
}

fn default_lost_after_ms() -> u64 {
    630_000
}

fn default_container_len() -> u64 {
    limits::CONTAINER_LEN_MAX
}

fn default_block_key_update_ms() -> u64 {
    Lifetimes::BLOCK_TOKENS.roll_interval().as_millis() as u64
}

fn default_block_token_lifetime_ms() -> u64 {
    Lifetimes::BLOCK_TOKENS.token_lifetime().as_millis() as u64
}

fn default_access_time_ms() -> u64 {
    60 * 60_000
}

fn default_log_kept_len() -> u64 {
    raft::GroupOptions::RETAIN_LEN_DEFAULT as u64
}

fn default_audit_log() -> bool {
    true
}

fn default_audit_file_len() -> u64 {
    64 << 20
}

fn default_audit_file_count() -> u32 {
    10
}

fn default_memory() -> u64 {
    512 << 20
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_names_each_server_once() {
        let check = |id, join, members: &[(u64, &str)]| {
            let mut config = Config::new("/d".into(), ([127, 0, 0, 1], 1).into());
            (config.id, config.join) = (id, join);
            config.members = members.iter().map(|(id, addr)| MemberAddr { id: *id, addr: (*addr).into() }).collect();
            config.check()
        };
        assert_eq!(check(1, false, &[]), Ok(()));
        assert_eq!(check(2, false, &[(1, "a:1"), (2, "b:1")]), Ok(()));
        assert_eq!(check(4, true, &[(1, "a:1")]), Ok(()));
        assert_eq!(check(4, true, &[]), Ok(()));
        for (id, members) in [
            (3, &[(1, "a:1"), (2, "b:1")][..]),
            (1, &[(1, "a:1"), (1, "b:1")]),
            (1, &[(1, "a:1"), (2, "a:1")]),
            (1, &[(1, "a")]),
            (1, &[(1, "a:0")]),
            (1, &[(1, ":1")]),
            (0, &[(0, "a:1")]),
        ] {
            assert!(check(id, false, members).is_err(), "{id} {members:?}");
        }
    }
}
