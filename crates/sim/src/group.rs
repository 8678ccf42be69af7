//! A metadata server's end of its group: whether it leads, proposals, and reads that are up to date.

use crate::machine::{Command, Machine, Reply, Sight};
use lead::Cluster;
use namespace::Effects;
use raft::{Raft, Standing};
use std::cell::Cell;
use std::sync::Arc;
use tokio::sync::watch;

/// This member does not lead, or does not any more. What was proposed may still happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotLeader;

pub(crate) struct Group {
    raft: Raft<Machine>,
    machine: Arc<Machine>,
    /// The term in which this member has taken its seat as leader; 0: it has not.
    reign: Cell<u64>,
    /// A deliberate fault: reads ask nobody whether this member still leads.
    reads_stale: bool,
}

impl Group {
    pub(crate) fn new(raft: Raft<Machine>, machine: Arc<Machine>, reads_stale: bool) -> Self {
        Self { raft, machine, reign: Cell::default(), reads_stale }
    }

    /// Whether this member leads, as it changes: what [`Group::take`] and [`Group::leave`] follow.
    pub(crate) fn standing(&self) -> watch::Receiver<Standing> {
        self.raft.standing()
    }

    pub(crate) fn take(&self, reign: u64, lessee: u64, container_len: u64) {
        self.machine.watch_blocks(lessee, container_len);
        self.reign.set(reign);
    }

    pub(crate) fn leave(&self) {
        self.reign.set(0);
        self.machine.unwatch_blocks();
    }

    /// The term this member leads in, if it does.
    pub(crate) fn reign(&self) -> Option<u64> {
        Some(self.reign.get()).filter(|term| *term > 0)
    }

    pub(crate) async fn propose(&self, command: Command) -> Result<Reply, NotLeader> {
        self.raft.propose(command).await.map_err(|_| NotLeader)
    }

    /// Returns when it is certain that this member leads and has applied all that was answered before.
    pub(crate) async fn read_barrier(&self) -> Result<(), NotLeader> {
        if self.reads_stale && self.reign().is_some() {
            return Ok(());
        }
        self.confirm().await
    }

    /// As [`Group::read_barrier`], for who is not a client.
    pub(crate) async fn confirm(&self) -> Result<(), NotLeader> {
        let reign = self.reign().ok_or(NotLeader)?;
        match self.raft.confirm().await {
            Ok(confirmed) if confirmed == reign => Ok(()),
            _ => Err(NotLeader),
        }
    }

    /// What follows from changes that were applied since it was asked last; [`Group::followed`] tells when there is some.
    pub(crate) fn take_effects(&self) -> Effects {
        self.machine.take_effects()
    }

    pub(crate) fn followed(&self) -> watch::Receiver<u64> {
        self.machine.followed()
    }

    pub(crate) fn rows(&self) -> Sight<'_> {
        self.machine.rows()
    }

    /// Term and index of the last entry it has.
    pub(crate) fn applied(&self) -> Option<(u64, u64)> {
        self.machine.applied()
    }

    /// `None` if this member does not lead.
    pub(crate) fn with_cluster<T>(&self, run: impl FnOnce(&mut Cluster) -> T) -> Option<T> {
        self.machine.with_cluster(run)
    }

    /// As [`Group::with_cluster`], for who only looks.
    pub(crate) fn see_cluster<T>(&self, look: impl FnOnce(&Cluster) -> T) -> Option<T> {
        self.machine.see_cluster(look)
    }
}
