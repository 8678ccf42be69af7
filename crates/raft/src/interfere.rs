//! What tests and the simulation do to a member, and nobody else may.

use crate::machine::Machine;
use crate::raft::Raft;
use crate::raft_error::{RaftError, refused, stopped};
use crate::types::Membership;
use openraft::EntryPayload;
use openraft::async_runtime::WatchReceiver;
use std::collections::BTreeMap;

#[doc(hidden)]
impl<M: Machine> Raft<M> {
    /// Begins to remove a voter and leaves it half done, as a leader does that dies in the middle.
    pub async fn half_remove(&self, id: u64) -> Result<(), RaftError> {
        let raft = &self.inner.raft;
        let known = raft.metrics().borrow_watched().membership_config.membership().clone();
        let mut configs = known.get_joint_config().clone();
        let rest = configs[0].iter().copied().filter(|voter| *voter != id).collect();
        configs.push(rest);
        let nodes: BTreeMap<_, _> = known.nodes().map(|(id, node)| (*id, node.clone())).collect();
        let half = Membership::new(configs, nodes).map_err(|error| RaftError::Members { reason: error.to_string() })?;
        let written = raft.append_membership(half, EntryPayload::Blank, []).await;
        written.map(drop).map_err(|error| refused(&self.inner.stop, error))
    }

    /// Tells a member to take over the lead, and does not wait for it.
    pub async fn hand_over_to(&self, id: u64) -> Result<(), RaftError> {
        let told = self.inner.raft.trigger().transfer_leader(id).await;
        told.map_err(|error| stopped(&self.inner.stop, &error))
    }
}
