//! A group in one process: members, and a network between them that can be cut.

use super::list::List;
use raft::{Answer, GroupOptions, Lane, Options, Peer, Raft, RaftError, Standing, Timing, Transport};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// As fast as a busy machine lets elections be.
pub(crate) const TIMING: Timing = Timing { heartbeat_ms: 60, election_min_ms: 240, election_max_ms: 400 };

/// For what must happen: some twenty seconds.
pub(crate) const POLL: Duration = Duration::from_millis(10);
pub(crate) const POLL_COUNT: usize = 2_000;

#[derive(Default)]
struct State {
    members: BTreeMap<u64, Raft<List>>,
    /// From, to.
    cut: BTreeSet<(u64, u64)>,
    /// Messages that carried a piece of a snapshot.
    chunk_count: usize,
}

#[derive(Clone, Default)]
pub(crate) struct Net {
    state: Arc<Mutex<State>>,
}

struct End {
    net: Net,
    from: u64,
}

impl Transport for End {
    fn send<'a>(&'a self, to: &'a Peer, lane: Lane, message: Vec<u8>, wait_max: Duration) -> Answer<'a> {
        Box::pin(async move {
            let there = {
                let mut state = self.net.state.lock().unwrap();
                state.chunk_count += usize::from(lane == Lane::Snapshot);
                let is_cut = state.cut.contains(&(self.from, to.id));
                state.members.get(&to.id).filter(|_| !is_cut).cloned()
            };
            let Some(there) = there else { return Err(Error::from(ErrorKind::HostUnreachable)) };
            let answered = tokio::time::timeout(wait_max, there.handle(&message, None)).await;
            let is_cut_back = self.net.state.lock().unwrap().cut.contains(&(to.id, self.from));
            match answered {
                Ok(answer) if !is_cut_back => Ok(answer),
                _ => Err(Error::from(ErrorKind::TimedOut)),
            }
        })
    }
}

pub(crate) struct Group {
    pub(crate) net: Net,
    root: PathBuf,
    /// Goes with the group, unless the directory is somebody else's.
    _own: Option<tempfile::TempDir>,
    pub(crate) lists: BTreeMap<u64, Arc<List>>,
    founders: Vec<Peer>,
}

pub(crate) fn peer(id: u64) -> Peer {
    Peer { id, addr: format!("member{id}:1") }
}

impl Group {
    pub(crate) async fn of(count: u64) -> Self {
        let own = tempfile::tempdir().unwrap();
        let root = own.path().to_owned();
        Self { _own: Some(own), ..Self::at(&root, count).await }
    }

    /// In a directory that stays.
    pub(crate) async fn at(root: &Path, count: u64) -> Self {
        let mut group = Self {
            net: Net::default(),
            root: root.to_owned(),
            _own: None,
            lists: BTreeMap::new(),
            founders: (1..=count).map(peer).collect(),
        };
        for id in 1..=count {
            group.start(id).await;
        }
        group
    }

    pub(crate) fn dir_of(&self, id: u64) -> PathBuf {
        self.root.join(id.to_string())
    }

    /// Starts a member, or starts it again.
    pub(crate) async fn start(&mut self, id: u64) {
        self.try_start(id).await.unwrap();
    }

    pub(crate) async fn try_start(&mut self, id: u64) -> Result<(), RaftError> {
        let dir = self.dir_of(id);
        std::fs::create_dir_all(&dir).unwrap();
        let transport = Arc::new(End { net: self.net.clone(), from: id });
        let group = GroupOptions { transport, founders: self.founders.clone(), timing: TIMING, retain_len: 10_000 };
        let list = List::open(&dir);
        let options = Options { dir: dir.join("log"), node_id: id, group: Some(group) };
        let raft = loop {
            // One that was dropped lets go a moment later.
            match Raft::start(options.clone(), Arc::clone(&list)).await {
                Err(RaftError::InUse { .. }) => tokio::time::sleep(Duration::from_millis(5)).await,
                started => break started?,
            }
        };
        self.lists.insert(id, list);
        self.net.state.lock().unwrap().members.insert(id, raft);
        Ok(())
    }

    /// Without a goodbye: nothing is flushed.
    pub(crate) fn crash(&mut self, id: u64) {
        self.lists.remove(&id);
        let gone = self.net.state.lock().unwrap().members.remove(&id);
        drop(gone);
    }

    pub(crate) async fn stop(&mut self, id: u64) {
        self.lists.remove(&id);
        let gone = self.net.state.lock().unwrap().members.remove(&id);
        gone.unwrap().shutdown().await.unwrap();
    }

    pub(crate) fn member(&self, id: u64) -> Raft<List> {
        self.net.state.lock().unwrap().members[&id].clone()
    }

    pub(crate) fn members(&self) -> Vec<(u64, Raft<List>)> {
        self.net.state.lock().unwrap().members.iter().map(|(id, raft)| (*id, raft.clone())).collect()
    }

    /// Cuts members off from all others, both ways, and heals all other cuts.
    pub(crate) fn isolate(&self, ids: &[u64]) {
        let mut state = self.net.state.lock().unwrap();
        let all: Vec<u64> = state.members.keys().copied().collect();
        state.cut.clear();
        for (from, to) in all.iter().flat_map(|from| all.iter().map(move |to| (*from, *to))) {
            if ids.contains(&from) != ids.contains(&to) {
                state.cut.insert((from, to));
            }
        }
    }

    /// From these to that one nothing comes through any more.
    pub(crate) fn cut(&self, from: &[u64], to: u64) {
        self.net.state.lock().unwrap().cut.extend(from.iter().map(|from| (*from, to)));
    }

    pub(crate) fn heal(&self) {
        self.isolate(&[]);
    }

    pub(crate) fn chunk_count(&self) -> usize {
        self.net.state.lock().unwrap().chunk_count
    }

    /// Waits for a leader among `ids` that is sure of it.
    pub(crate) async fn leader_of(&self, ids: &[u64]) -> (u64, Raft<List>) {
        for _ in 0..POLL_COUNT {
            for (id, raft) in self.members().into_iter().filter(|(id, _)| ids.contains(id)) {
                let leads = matches!(*raft.standing().borrow(), Standing::Leading { .. });
                if leads && raft.confirm().await.is_ok() {
                    return (id, raft);
                }
            }
            tokio::time::sleep(POLL).await;
        }
        panic!("no leader among {ids:?}");
    }

    pub(crate) async fn leader(&self) -> (u64, Raft<List>) {
        let ids: Vec<u64> = self.members().into_iter().map(|(id, _)| id).collect();
        self.leader_of(&ids).await
    }

    /// Proposes at whoever leads until it is applied.
    pub(crate) async fn propose(&self, number: u64) {
        self.propose_with(number, String::new()).await;
    }

    /// With so much to keep.
    pub(crate) async fn propose_with(&self, number: u64, text: String) {
        loop {
            match self.leader().await.1.propose((number, text.clone())).await {
                Ok(_) => return,
                // It may come about all the same, and whoever leads now knows.
                Err(RaftError::NotLeader { .. }) => {
                    let (next, _) = self.leader().await;
                    if self.lists[&next].numbers().contains(&number) {
                        return;
                    }
                }
                Err(other) => panic!("{other}"),
            }
        }
    }

    /// Removes a member, whoever leads.
    pub(crate) async fn remove(&self, id: u64) {
        loop {
            match self.leader().await.1.remove_member(id).await {
                Ok(()) => return,
                Err(RaftError::NotLeader { .. }) => {}
                Err(other) => panic!("{other}"),
            }
        }
    }

    /// Waits until every running member has these numbers.
    pub(crate) async fn settle(&self, want: &[u64]) {
        for _ in 0..POLL_COUNT {
            if self.lists.values().all(|list| list.numbers() == want) {
                return;
            }
            tokio::time::sleep(POLL).await;
        }
        let found: Vec<_> = self.lists.iter().map(|(id, list)| (id, list.numbers())).collect();
        panic!("{found:?} instead of {want:?}");
    }
}
