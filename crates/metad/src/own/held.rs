//! A block on lease while it is being put.

use crate::caller::Session;
use crate::change_error::ChangeError;
use crate::core::Core;
use crate::refusal;
use hdfs::Exception;
use lead::{Grant, LeaseRefused, LeasedHome, PutFate};
use namespace::{Op, Reply};
use types::BlockId;

/// A block that is being put. It counts as on lease until the log says what became of the put, also where nobody waits
/// for that.
pub(super) struct Held<'a> {
    core: &'a Core,
    block: BlockId,
    /// Of the put, among all that were begun here.
    number: u64,
    fate: PutFate,
}

impl<'a> Held<'a> {
    pub(super) fn begin(
        core: &'a Core,
        holder: &str,
        grant: Grant,
        is_short: bool,
    ) -> Result<(Self, LeasedHome), LeaseRefused> {
        let (home, number) = core.with_leader(|leader, _| {
            let home = leader.leased.begin_put(holder, grant, is_short, core.monotonic())?;
            Ok((home, leader.leased.last_put()))
        })?;
        Ok((Self { core, block: grant.block, number, fate: PutFate::NotProposed }, home))
    }

    /// Proposes what puts it.
    pub(super) async fn change(&mut self, session: &Session, op: impl Into<Op>) -> Result<Reply, Exception> {
        self.fate = PutFate::InDoubt;
        let changed = self.core.change_or_doubt(session, op).await;
        if !matches!(changed, Err(ChangeError::Raft(_))) {
            self.fate = PutFate::Decided;
        }
        changed.map_err(refusal::change)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if let Some(mut leader) = self.core.leader_unless_broken() {
            leader.leased.leave_put(self.block, self.number, self.fate);
        }
    }
}
