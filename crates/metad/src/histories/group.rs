//! A group of real members for tests: log and store on disk, Raft, namespace, the door. Only the network between them
//! is in memory, and each direction can be cut alone.

use crate::config::Config;
use crate::free_space::Room;
use crate::leadership::{Leadership, Ways};
use crate::machine::Machine;
use crate::node_calls::{NodeCalls, Proofs};
use crate::peers::Peers;
use crate::service::Service;
use crate::users::Users;
use io::SystemClock;
use io::task::Owned;
use raft::{Answer, GroupOptions, Lane, Options, Peer, Raft, Timing, Transport};
use std::collections::{BTreeSet, HashMap};
use std::io::{Error, ErrorKind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// As fast as a busy machine lets elections be.
const TIMING: Timing = Timing { heartbeat_ms: 60, election_min_ms: 240, election_max_ms: 400 };

#[derive(Default)]
struct Wires {
    members: Mutex<HashMap<u64, Raft<Machine>>>,
    /// From, to.
    cut: Mutex<BTreeSet<(u64, u64)>>,
}

impl Wires {
    fn is_cut(&self, from: u64, to: u64) -> bool {
        self.cut.lock().unwrap_or_else(PoisonError::into_inner).contains(&(from, to))
    }
}

struct End {
    wires: Arc<Wires>,
    from: u64,
}

impl Transport for End {
    fn send<'a>(&'a self, to: &'a Peer, _lane: Lane, message: Vec<u8>, wait_max: Duration) -> Answer<'a> {
        Box::pin(async move {
            let there = self.wires.members.lock().unwrap_or_else(PoisonError::into_inner).get(&to.id).cloned();
            let Some(there) = there else { return Err(Error::from(ErrorKind::HostUnreachable)) };
            if self.wires.is_cut(self.from, to.id) {
                io::time::sleep(wait_max.min(Duration::from_millis(200))).await;
                return Err(Error::from(ErrorKind::TimedOut));
            }
            let answered = io::time::timeout(wait_max, there.handle(&message, None)).await;
            match answered {
                // It was delivered, and done; only the answer is lost.
                Ok(answer) if !self.wires.is_cut(to.id, self.from) => Ok(answer),
                _ => Err(Error::from(ErrorKind::TimedOut)),
            }
        })
    }
}

pub(super) struct Member {
    pub(super) leadership: Arc<Leadership>,
    pub(super) service: Arc<Service>,
    _keeper: Owned<()>,
}

pub(super) struct Group {
    wires: Arc<Wires>,
    pub(super) members: Vec<Member>,
    _dir: tempfile::TempDir,
}

/// How a member is cut off.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cut {
    Both,
    /// What it says is lost.
    Out,
    /// What it is told is lost.
    In,
}

impl Group {
    pub(super) async fn of(count: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let wires = Arc::new(Wires::default());
        let founders: Vec<Peer> = (1..=count).map(|id| Peer { id, addr: format!("member{id}:1") }).collect();
        let mut members = Vec::new();
        for id in 1..=count {
            let home = dir.path().join(id.to_string());
            std::fs::create_dir_all(&home).unwrap();
            let mut config = Config::new(home.clone(), ([127, 0, 0, 1], 0).into());
            config.id = id;
            let store = kv::Store::open(&home.join("store"), kv::Options::default()).unwrap();
            let machine = Arc::new(Machine::open(store, home.join("incoming")).unwrap());
            let transport = Arc::new(End { wires: Arc::clone(&wires), from: id });
            let retain_len = GroupOptions::RETAIN_LEN_DEFAULT;
            let group = GroupOptions { transport, founders: founders.clone(), timing: TIMING, retain_len };
            let options = Options { dir: home.join("log"), node_id: id, group: Some(group) };
            let raft = Raft::start(options, Arc::clone(&machine)).await.unwrap();
            wires.members.lock().unwrap().insert(id, raft.clone());
            // Nobody is called over it.
            let proofs = Proofs { user: host::user::current(), login: None, credentials: None };
            let peers = Arc::new(Peers::new(proofs.clone(), HashMap::new()));
            let (owner, groups) = (host::user::current(), Box::new(host::user::groups_of));
            let users = Users::new(owner, config.supergroup.clone(), groups, &config.security, "").unwrap();
            let clock = Arc::new(SystemClock::new());
            let room = Arc::new(Room::new(&config, &machine));
            let calls = Arc::new(NodeCalls::over_tcp(proofs));
            let ways = Ways { calls, peers: Some(peers) };
            let leadership = Arc::new(Leadership::new(config, machine, raft, clock, ways, users, room));
            let keeper = io::task::spawn_owned("leadership", Arc::clone(&leadership).keep());
            members.push(Member {
                service: Arc::new(Service { leadership: Arc::clone(&leadership) }),
                leadership,
                _keeper: keeper,
            });
        }
        Self { wires, members, _dir: dir }
    }

    /// The number of the member that leads for sure.
    pub(super) async fn leader(&self) -> usize {
        for _ in 0..2_000 {
            for (number, member) in self.members.iter().enumerate() {
                if member.leadership.core().is_some() && member.leadership.leading().await.is_ok() {
                    return number;
                }
            }
            io::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("nobody leads");
    }

    pub(super) fn cut(&self, number: usize, how: Cut) {
        let id = number as u64 + 1;
        let mut cut = self.wires.cut.lock().unwrap();
        for other in (1..=self.members.len() as u64).filter(|other| *other != id) {
            if matches!(how, Cut::Both | Cut::Out) {
                cut.insert((id, other));
            }
            if matches!(how, Cut::Both | Cut::In) {
                cut.insert((other, id));
            }
        }
    }

    pub(super) fn mend(&self) {
        self.wires.cut.lock().unwrap().clear();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.members.iter().for_each(|member| member.leadership.leave());
        self.wires.members.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
