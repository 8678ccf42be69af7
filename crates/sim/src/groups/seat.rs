//! What of a member of a group outlives its process, and how one starts there.

use super::names::{Kept, Names, Store};
use crate::log_platter::LogPlatter;
use crate::member::{End, Founders, Wires, peer};
use raft::{GroupOptions, Raft, RaftError, Timing};
use std::sync::{Arc, PoisonError};
use types::mutation::{self, Mutation};
use types::random::Seeded;

pub(super) struct Seat {
    id: u64,
    pub(super) platter: LogPlatter,
    store: Store,
}

impl Seat {
    pub(super) fn new(id: u64, chance: Seeded) -> Self {
        let platter = LogPlatter::new(id, chance);
        if mutation::is(Mutation::LogWithoutSync) {
            platter.set_lying();
        }
        Self { id, platter, store: Store::default() }
    }

    /// The process must be gone.
    pub(super) fn lose_disk(&self) {
        self.platter.lose_all();
        *self.store.lock().unwrap_or_else(PoisonError::into_inner) = Kept::default();
    }

    /// A new process, of the task that asks. `None`: it is alone.
    pub(super) async fn start(
        &self,
        wires: &Wires,
        founders: Option<Founders>,
    ) -> Result<(Raft<Names>, Arc<Names>), RaftError> {
        let (id, names) = (self.id, Names::open(&self.store));
        let group = founders.map(|Founders { count, retain_len }| GroupOptions {
            transport: Arc::new(End::of(id)),
            founders: (1..=count).map(peer).collect(),
            timing: Timing::default(),
            retain_len,
        });
        let raft = Raft::start_on(Arc::new(self.platter.clone()), id, group, Arc::clone(&names)).await?;
        let member = raft.clone();
        wires.serve_member(id, move |message| {
            let member = member.clone();
            Box::pin(async move { member.handle(&message, None).await })
        });
        Ok((raft, names))
    }

    /// The process is gone, with its tasks. `Err`: it is not.
    pub(super) fn fall(&self, power: bool) -> Result<(), String> {
        if self.platter.is_locked() {
            return Err(format!("something of member {} outlives its process", self.id));
        }
        if power {
            self.platter.lose_power();
        }
        Ok(())
    }
}
