//! A server's memory and rows, as a simulation inspects them.

use crate::core::Core;
use crate::machine::Machine;
use crate::server::Server;
use lead::{Cluster, Repair, Shortage};
use namespace::BlockView;
use namespace::read;
use security::keys::KeyId;
use security::rings::RingKind;
use std::fmt;
use std::sync::Arc;
use types::rows::{Rows, RowsError};
use types::{BlockId, NodeId};

/// The leader of this server, as long as this value lives. It holds no lock.
pub struct Inspection {
    core: Arc<Core>,
}

impl fmt::Debug for Inspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inspection").field("term", &self.core.term).finish()
    }
}

/// The rows as of one moment.
pub struct RowsNow {
    machine: Arc<Machine>,
}

impl fmt::Debug for RowsNow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RowsNow")
    }
}

impl RowsNow {
    pub fn read<T>(&self, read: impl FnOnce(&dyn Rows) -> T) -> T {
        read(&self.machine.store().view())
    }

    /// A position in the log, as the log writes it.
    pub fn position(&self) -> Option<Vec<u8>> {
        raft::Machine::position(&*self.machine)
    }
}

impl Server {
    /// `None`: this server does not take itself for the leader.
    pub fn inspect(&self) -> Option<Inspection> {
        self.leadership.core().map(|core| Inspection { core })
    }

    pub fn rows(&self) -> RowsNow {
        RowsNow { machine: Arc::clone(&self.leadership.machine) }
    }
}

impl Inspection {
    /// In which it leads.
    pub fn term(&self) -> u64 {
        self.core.term
    }

    pub fn cluster<T>(&self, look: impl FnOnce(&Cluster) -> T) -> T {
        self.core.with_cluster(|cluster, _| look(cluster))
    }

    pub fn repair<T>(&self, look: impl FnOnce(&Repair) -> T) -> T {
        look(&self.core.leader().repair)
    }

    /// The revision of the keys of block tokens, and their ids.
    pub fn token_keys(&self) -> Option<(u64, Vec<KeyId>)> {
        let leader = self.core.leader();
        let keys = leader.keys.keys(RingKind::BlockTokens)?;
        Some((keys.revision(), keys.iter().map(|key| key.id).collect()))
    }

    /// What must hold between the parts of what it knows.
    pub fn check(&self) {
        self.core.leader().check();
    }

    /// Copies that no node had room for when that was looked at last.
    pub fn shortage(&self) -> Shortage {
        self.core.leader().shortage
    }

    /// What the namespace has of a block; `None`: no file owns it.
    pub fn view_of(&self, block: BlockId) -> Result<Option<BlockView>, RowsError> {
        let found = read::file_of_block(&self.core.machine.store().view(), block)?;
        Ok(found.map(|(_, view)| view))
    }

    /// Whether the node was to be emptied, and is.
    pub fn is_drained(&self, node: NodeId) -> bool {
        let (rules, leader) = (crate::repair::rules(&self.core), self.core.leader());
        leader.cluster.node(node).is_some_and(|member| leader.has_drained(member, &rules))
    }
}
