//! Whether this member can be sure that it leads.

use crate::machine::Machine;
use crate::raft::Raft;
use crate::raft_error::{RaftError, elsewhere, stopped};
use crate::standing::Standing;
use ::io::time;
use openraft::async_runtime::WatchReceiver;
use openraft::errors::{ForwardToLeader, LinearizableReadError, RaftError as OpenraftError};
use openraft::{LinearizerOption, ServerState};
use std::time::Duration;
use types::mutation::{self, Mutation};

/// How long a leader that is not sure waits for a majority's answer before it sends a caller away.
const CONFIRM_WAIT: Duration = Duration::from_millis(1_500);
/// A proposal looks so often whether it still has a chance.
const CUT_OFF_POLL: Duration = Duration::from_millis(500);

impl<M: Machine> Raft<M> {
    /// Answers if this member is sure to lead at this moment, so that what the machine says now is up to date: a
    /// majority said so a moment ago, or says so now. Tells the term in which it leads. A member that is alone need not
    /// ask.
    ///
    /// What a majority said counts no more once another member was told to take over: the others may have elected
    /// that one at once.
    pub async fn confirm(&self) -> Result<u64, RaftError> {
        let inner = &*self.inner;
        if let Some(reason) = inner.stop.reason() {
            return Err(RaftError::Stopped { reason });
        }
        let Standing::Leading { term } = *inner.standing.borrow() else { return Err(self.not_leader()) };
        if let Some(reason) = inner.doubt.reason() {
            return Err(RaftError::Doubt { reason });
        }
        let Some(timing) = inner.timing else { return Ok(term) };
        if self.is_sure() {
            return Ok(term);
        }
        let option = LinearizerOption::new(Some(timing.lease()), true).with_wait_timeout(CONFIRM_WAIT);
        match inner.raft.get_read_linearizer(option).await {
            // It may have lost the lead and got it again: then it is not ready yet.
            Ok(sure) if sure.read_log_id().committed_leader_id().term == term => Ok(term),
            Ok(_) => Err(self.not_leader()),
            Err(OpenraftError::Fatal(fatal)) => Err(stopped(&inner.stop, &fatal)),
            Err(OpenraftError::APIError(LinearizableReadError::ForwardToLeader(forward))) => Err(elsewhere(forward)),
            Err(OpenraftError::APIError(LinearizableReadError::QuorumNotEnough(_))) => Err(self.not_leader()),
        }
    }

    /// As [`Raft::confirm`], without asking: whether a majority said so a moment ago.
    pub fn is_sure(&self) -> bool {
        let inner = &*self.inner;
        let Standing::Leading { term } = *inner.standing.borrow() else { return false };
        let Some(timing) = inner.timing else { return true };
        self.heard_majority(timing.lease()) == Some(term) && !self.has_handed_over(term)
    }

    /// The term in which this member leads, if a majority answered what was asked within `age`.
    fn heard_majority(&self, age: Duration) -> Option<u64> {
        let metrics = self.inner.raft.metrics();
        let metrics = metrics.borrow_watched();
        let is_ours = metrics.vote.committed && metrics.vote.leader_id.voted_for == self.inner.node_id;
        let heard = metrics.last_quorum_acked.map(|instant| instant.into_inner().0.elapsed());
        let is_sure = is_ours && metrics.state == ServerState::Leader && heard.is_some_and(|heard| heard < age);
        is_sure.then_some(metrics.vote.leader_id.term)
    }

    fn has_handed_over(&self, term: u64) -> bool {
        !mutation::is(Mutation::LeaseAfterHandOver) && self.inner.network.has_handed_over(term)
    }

    /// Where to go instead.
    pub(crate) fn not_leader(&self) -> RaftError {
        let forward = match self.inner.raft.as_leader() {
            Ok(_) => ForwardToLeader::empty(),
            Err(forward) => forward,
        };
        elsewhere(forward)
    }

    /// Comes back when this member has heard no majority for so long that others have probably elected another leader:
    /// what was proposed here may wait for ever.
    pub(crate) async fn cut_off(&self) {
        let Some(timing) = self.inner.timing else { return std::future::pending().await };
        loop {
            time::sleep(CUT_OFF_POLL.max(timing.patience())).await;
            if self.heard_majority(timing.patience()).is_none() {
                return;
            }
        }
    }
}
