//! How a group begins: its first members must all come to know that they are members, each once, and for ever.
//!
//! ```text
//! lowest id   are you new? ──▶ each other; when all are: writes `founding`, begins its log ── found ──▶ each other,
//!             and removes `founding` when all have joined
//! others      wait; refuse everything else until then
//! ```
//!
//! A member of the first ones whose log is empty has either not been founded yet or lost its data. It cannot tell which, and in
//! the second case its votes and acknowledgements of before may be counted on: so it takes part only when it is asked to
//! found, which it never is again once all have joined; and the one that founds does so only if all others are new.

use crate::disk::Disk;
use crate::machine::{Applier, Machine};
use crate::message::{Answer, Ask};
use crate::network::Network;
use crate::transport::{Lane, Peer};
use crate::types::Types;
use ::io::stage;
use openraft::BasicNode;
use openraft::errors::{InitializeError, RaftError};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// How often a first member that has not joined is asked again.
const ASK_EACH: Duration = Duration::from_millis(300);
const ASK_WAIT: Duration = Duration::from_secs(2);
/// After so long a member that waits says so.
const SILENCE_MAX: Duration = Duration::from_secs(10);

pub(crate) struct Founding {
    waiting: watch::Sender<bool>,
}

impl Founding {
    pub(crate) fn new(waiting: bool) -> Self {
        Self { waiting: watch::Sender::new(waiting) }
    }

    pub(crate) fn is_waiting(&self) -> bool {
        *self.waiting.borrow()
    }

    /// Comes back when this member belongs to a group.
    pub(crate) async fn joined(&self, node_id: u64) {
        let mut waiting = self.waiting.subscribe();
        let joined = async { waiting.wait_for(|waiting| !waiting).await.map(drop) };
        if stage::timeout(SILENCE_MAX, joined).await.is_err() {
            tracing::warn!(
                member = node_id,
                "waiting for the member with the lowest id to found the group; all first members must be up once. If this \
                 member's data was lost, remove it from the group and add it under a new id (levada admin meta)"
            );
            let _sender_is_ours = waiting.wait_for(|waiting| !waiting).await;
        }
    }

    /// Another member says who founds the group.
    pub(crate) async fn join<M: Machine>(
        &self,
        raft: &openraft::Raft<Types, Applier<M>>,
        members: Vec<(u64, String)>,
    ) -> Result<(), String> {
        initialize(raft, members).await?;
        self.waiting.send_replace(false);
        Ok(())
    }
}

/// Writes the members into an empty log. One that has entries has members.
async fn initialize<M: Machine>(
    raft: &openraft::Raft<Types, Applier<M>>,
    members: Vec<(u64, String)>,
) -> Result<(), String> {
    let nodes: BTreeMap<u64, BasicNode> = members.into_iter().map(|(id, addr)| (id, BasicNode { addr })).collect();
    match raft.initialize(nodes).await {
        Ok(()) | Err(RaftError::APIError(InitializeError::NotAllowed(_))) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

/// The file that says that not all have joined.
const MARK: &str = "founding";

pub(crate) fn is_marked(disk: &dyn Disk) -> io::Result<bool> {
    Ok(disk.names()?.iter().any(|name| name == MARK))
}

/// The member that founds.
pub(crate) struct First<M: Machine> {
    pub(crate) raft: openraft::Raft<Types, Applier<M>>,
    pub(crate) founding: Arc<Founding>,
    pub(crate) network: Network,
    pub(crate) disk: Arc<dyn Disk>,
    /// Not all had joined when this member stopped.
    pub(crate) is_marked: bool,
    pub(crate) members: Vec<Peer>,
}

impl<M: Machine> First<M> {
    /// Ends when all have joined, or when it turns out that this member is not the one to found.
    pub(crate) async fn run(self) {
        if self.founding.is_waiting() {
            if !self.is_marked && !self.all_are_new().await {
                return;
            }
            if let Err(error) = self.begin().await {
                tracing::error!(%error, "the group could not be founded");
                return;
            }
        }
        let members = plain(&self.members);
        self.ask_all(Ask::Found { members }, |answer| matches!(answer, Answer::Joined).then_some(true)).await;
        // One that stays makes us ask again, which does no harm as long as nobody loses a disk.
        if let Err(error) = self.disk.remove(MARK).and_then(|()| self.disk.sync_names()) {
            tracing::warn!(%error, "the mark of a founding could not be removed");
        }
    }

    async fn all_are_new(&self) -> bool {
        let judge = |answer: &Answer| match answer {
            Answer::New => Some(true),
            Answer::Old => Some(false),
            _ => None,
        };
        let all_are_new = self.ask_all(Ask::AreYouNew, judge).await;
        if !all_are_new {
            tracing::error!(
                member = self.network.from,
                "other members belong to a group already, but this one's log is empty: its data was lost. Remove it from the \
                 group and add it under a new id (levada admin meta)"
            );
        }
        all_are_new
    }

    async fn begin(&self) -> io::Result<()> {
        self.disk.create(MARK)?.write_at(b"not all first members have joined yet\n", 0)?;
        self.disk.sync_names()?;
        initialize(&self.raft, plain(&self.members)).await.map_err(io::Error::other)?;
        self.founding.waiting.send_replace(false);
        Ok(())
    }

    /// Asks the others until each has given an answer that counts. False as soon as one is bad.
    async fn ask_all(&self, ask: Ask, judge: impl Fn(&Answer) -> Option<bool>) -> bool {
        let mut missing: Vec<&Peer> = self.members.iter().filter(|peer| peer.id != self.network.from).collect();
        loop {
            let mut still = Vec::new();
            for peer in missing {
                let answer = self.network.ask(peer, Lane::Beat, ask.clone(), ASK_WAIT).await;
                match answer.as_ref().ok().and_then(&judge) {
                    Some(true) => {}
                    Some(false) => return false,
                    None => still.push(peer),
                }
            }
            if still.is_empty() {
                return true;
            }
            missing = still;
            stage::sleep(ASK_EACH).await;
        }
    }
}

fn plain(members: &[Peer]) -> Vec<(u64, String)> {
    members.iter().map(|peer| (peer.id, peer.addr.clone())).collect()
}
