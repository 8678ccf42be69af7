//! How a group begins: the one of the first members with the lowest id writes down who they are, once all are there.
//!
//! ```text
//! lowest id   are you new? ──▶ each other; when all are: begins its log with all of them and their incarnations
//! others      wait until somebody asks them for a vote, or sends them entries, as who is to join does
//! ```
//!
//! A member of the first ones whose log is empty has either not been founded yet or lost its data. It need not know
//! which: in the second case the group means the incarnation that it had before, and the inbox refuses whatever is
//! meant for that. And the one that founds does so only if all others are new.
//!
//! One that is listed alone has nobody to ask. It may have lost its data all the same, and its group have others by
//! now, who send it what is meant for another incarnation. So it waits for such messages before it founds, and before
//! it leads again; and if one comes later, as the others were down, it ends: two stores of one name must not both be
//! served. One that leads and holds files does so only if the message comes from an address that it knows, as anybody
//! can send one; else it logs an error.

use crate::driver::Applier;
use crate::machine::Machine;
use crate::network::Network;
use crate::transport::Peer;
use crate::types::{Node, Types};
use ::io::time;
use openraft::async_runtime::WatchReceiver;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often a first member that has not answered is asked again.
const ASK_EACH: Duration = Duration::from_millis(300);
const ASK_WAIT: Duration = Duration::from_secs(2);
/// After so long a member that waits says so.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// Says that this member belongs to no group, if that is so for long.
pub(crate) async fn wait<M: Machine>(raft: openraft::Raft<Types, Applier<M>>, member: u64) {
    time::sleep(SILENCE_MAX).await;
    if matches!(raft.is_initialized().await, Ok(false)) {
        tracing::warn!(
            member,
            "waiting for a group: all first members must be up once, so that the one with the lowest id founds it; one \
             that joins must be added to it. If this member's data was lost, remove it from the group \
             and add it under a new id"
        );
    }
}

/// Whether other members were found to know this one with other data than it has.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mistaken(Arc<AtomicBool>);

impl Mistaken {
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Whether this member founded its group alone, and nothing has changed in that group since.
pub(crate) fn is_sole<M: Machine>(raft: &openraft::Raft<Types, Applier<M>>) -> bool {
    let metrics = raft.metrics();
    let metrics = metrics.borrow_watched();
    let members = &metrics.membership_config;
    members.log_id().is_some_and(|id| id.index == 0) && members.membership().nodes().count() == 1
}

/// The member that founds.
pub(crate) struct First<M: Machine> {
    pub(crate) raft: openraft::Raft<Types, Applier<M>>,
    pub(crate) network: Network,
    pub(crate) incarnation: u64,
    pub(crate) members: Vec<Peer>,
    pub(crate) mistaken: Mistaken,
    /// For messages of others, if there is nobody to ask.
    pub(crate) wait: Duration,
}

impl<M: Machine> First<M> {
    /// Ends when the group is founded, or when it turns out that there is one.
    pub(crate) async fn run(self) {
        if self.members.len() == 1 {
            time::sleep(self.wait).await;
        }
        let Some(nodes) = self.all_new().await else {
            tracing::error!(
                member = self.network.from,
                "other members belong to a group already, but this one's log is empty: its data was lost. Remove it \
                 from the group and add it under a new id"
            );
            return;
        };
        if let Err(error) = self.raft.initialize(nodes).await {
            tracing::error!(%error, "the group was not founded; fix the cause, and restart this server");
        }
    }

    /// Asks the others until each has answered. `None` as soon as one of them is not new.
    async fn all_new(&self) -> Option<BTreeMap<u64, Node>> {
        if self.mistaken.is_set() {
            return None;
        }
        let mut nodes = BTreeMap::new();
        while nodes.len() < self.members.len() {
            for Peer { id, addr } in &self.members {
                let greeted = match () {
                    () if nodes.contains_key(id) => continue,
                    () if *id == self.network.from => Ok((true, self.incarnation)),
                    () => self.network.greet(&Peer { id: *id, addr: addr.clone() }, ASK_WAIT).await,
                };
                match greeted {
                    Ok((true, incarnation)) => {
                        nodes.insert(*id, Node { addr: addr.clone(), incarnation });
                    }
                    Ok((false, _)) => return None,
                    Err(_not_there_yet) => {}
                }
            }
            if nodes.len() < self.members.len() {
                time::sleep(ASK_EACH).await;
            }
        }
        Some(nodes)
    }
}
