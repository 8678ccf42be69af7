//! What outlives a metadata server's process: the disk under its log, and the directory of its store.

use super::route;
use crate::client::BLOCK_LEN;
use crate::log_platter::LogPlatter;
use crate::member::{End, Founders};
use crate::scenario::Plan;
use crate::users;
use io::{Clock, SystemClock};
use metad::{BackupError, Config, Environment, MemberAddr, Server, StartError};
use std::cell::RefCell;
use std::fmt::{self, Debug, Formatter};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use types::Millis;
use types::mutation::{self, Mutation};
use types::random::Seeded;

/// A file system in memory, where there is one: stores are small, and synced all the time.
const MEMORY: &str = "/dev/shm";
/// As in what ships, but for the hard limit: nobody needs to wait for twenty minutes here.
const LEASE_HARD: Duration = Duration::from_secs(100);
/// Times of reads are kept where users look at them.
const ACCESS_TIME_MS: u64 = 5000;
/// The members' clocks differ by so much each.
const CLOCK_STEP_MS: u64 = 1700;
/// Some rolls in a run, also while nobody leads. A token outlives what its holder needs it for.
/// A node that is down for longer is replaced within a run.
const LOST_AFTER_MS: u64 = 15_000;
const KEY_UPDATE_MS: u64 = 9000;
const TOKEN_LIFETIME_MS: u64 = 14_000;
const OWNER: &str = "root";

pub(crate) struct Home {
    id: u64,
    pub(crate) platter: LogPlatter,
    dir: RefCell<TempDir>,
}

#[derive(Debug)]
struct MemberClock {
    machine: SystemClock,
    ahead_ms: u64,
}

impl Clock for MemberClock {
    fn now(&self) -> Millis {
        Millis(self.machine.now().0 + self.ahead_ms)
    }

    fn monotonic(&self) -> Duration {
        self.machine.monotonic()
    }
}

impl Debug for Home {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "Home({})", self.id)
    }
}

fn directory() -> TempDir {
    let parent = if Path::new(MEMORY).is_dir() { Path::new(MEMORY).to_owned() } else { std::env::temp_dir() };
    tempfile::Builder::new().prefix("levada-sim-").tempdir_in(parent).expect("a directory for a store")
}

impl Home {
    pub(crate) fn new(id: u64, chance: Seeded) -> Self {
        let platter = LogPlatter::new(id, chance);
        if mutation::is(Mutation::LogWithoutSync) {
            platter.set_lying();
        }
        Self { id, platter, dir: RefCell::new(directory()) }
    }

    fn config(&self, dir: &Path) -> Config {
        let ip = IpAddr::from(Ipv4Addr::new(10, 1, 0, self.id as u8));
        let mut config = Config::new(dir.to_owned(), (ip, 8020).into());
        config.id = self.id;
        config
    }

    fn clock(&self) -> MemberClock {
        MemberClock { machine: SystemClock::new(), ahead_ms: CLOCK_STEP_MS * (self.id - 1) }
    }

    /// A new process, of the task that asks. `None`: it is alone.
    pub(crate) async fn start(&self, founders: Option<Founders>, plan: &Plan) -> Result<Server, StartError> {
        let dir = self.dir.borrow().path().to_owned();
        let mut config = self.config(&dir);
        if let Some(Founders { count, retain_len }) = founders {
            let member = |id| MemberAddr { id, addr: format!("10.1.0.{id}:8020") };
            config.members = (1..=count).map(member).collect();
            config.log_kept_len = retain_len as u64;
        }
        (config.container_len, config.lost_after_ms) = (plan.container_len, LOST_AFTER_MS);
        if plan.has_tokens {
            config.block_tokens = true;
            config.block_key_update_ms = KEY_UPDATE_MS;
            config.block_token_lifetime_ms = TOKEN_LIFETIME_MS;
        }
        (config.block_len, config.block_len_min) = (BLOCK_LEN as u64, 1);
        config.lease_hard_ms = LEASE_HARD.as_millis() as u64;
        (config.access_time_ms, config.audit_log) = (if plan.has_users { ACCESS_TIME_MS } else { 0 }, false);
        (config.free_warn_len, config.free_reserve_len) = (Some(0), Some(0));
        let options = kv::Options { overlay_len_max: 1 << 20, map_len: 1 << 28 };
        let environment = Environment {
            clock: Arc::new(self.clock()),
            store: kv::Store::open(&dir.join("store"), options)?,
            incoming: dir.join("incoming"),
            log: Arc::new(self.platter.clone()),
            transport: founders.map(|_| -> Arc<dyn raft::Transport> { Arc::new(End::of(self.id)) }),
            route: Some(route(self.id)),
            owner: OWNER.to_owned(),
            groups: Box::new(users::groups_of),
            host: String::new(),
            acceptor: None,
            login: None,
            negotiator: None,
            credentials: None,
        };
        Server::start(config, environment).await
    }

    /// The process is gone, and its disk is lost: another one has what a backup has of its rows.
    pub(crate) fn restore(&self, backup: &Path) -> Result<(), BackupError> {
        self.platter.lose_all();
        let dir = directory();
        metad::restore_backup(&self.config(dir.path()), backup, self.clock().now())?;
        self.dir.replace(dir);
        Ok(())
    }

    /// The process is gone, with its tasks. `Err`: it is not.
    pub(crate) fn fall(&self, power: bool) -> Result<(), String> {
        if self.platter.is_locked() {
            return Err(format!("something of member {} outlives its process", self.id));
        }
        if power {
            self.platter.lose_power();
        }
        Ok(())
    }
}
