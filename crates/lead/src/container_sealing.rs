//! Sealing of a full container, once no open file writes into it and no block of it is on lease.
//!
//! Promise: a container is not sealed while a writer is known to write into it. A writer that got a block before the
//! check may still bring it to the container later. So the content of a sealed container is compared, never assumed.

use crate::cluster::Cluster;
use blocks::Command;
use std::collections::BTreeSet;
use types::ContainerId;

/// One look at the containers that take no more blocks.
#[derive(Debug)]
pub struct Sealing {
    quiet: BTreeSet<ContainerId>,
}

impl Sealing {
    /// `homes_on_lease` are the homes of blocks that clients hold on lease.
    pub fn begin(cluster: &Cluster, homes_on_lease: &BTreeSet<ContainerId>) -> Self {
        Self { quiet: cluster.worklists.sealing.difference(homes_on_lease).copied().collect() }
    }

    /// False: there is nothing to seal, so no further file needs to be looked at.
    pub fn goes_on(&self) -> bool {
        !self.quiet.is_empty()
    }

    /// The last block of an open file, the only one that can be under construction, is in `home`.
    pub fn on_open(&mut self, home: ContainerId) {
        self.quiet.remove(&home);
    }

    /// What is to be proposed once all open files were looked at.
    pub fn end(self) -> impl Iterator<Item = Command> {
        self.quiet.into_iter().map(|container| Command::FinishSeal { container })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blocks::{Node, apply};
    use types::rows::MemoryRows;
    use types::{NodeId, PipelineId};

    #[test]
    fn only_what_nobody_writes_into_is_sealed() {
        let mut rows = MemoryRows::default();
        let pipeline = PipelineId(1);
        let mut commands = vec![
            Command::Register(Node::example(1, "/r")),
            Command::CreateSet { members: vec![NodeId([1; 16])], wanted: 1, planned: true },
        ];
        commands.extend((1..=4).map(|_| Command::OpenContainer { pipeline }));
        commands.extend((1..=3).map(|id| Command::Seal { container: ContainerId(id), len: 5 }));
        for command in &commands {
            apply(&mut rows, command).unwrap().unwrap();
        }
        let cluster = Cluster::load(&rows, 1).unwrap();
        let mut sealing = Sealing::begin(&cluster, &BTreeSet::from([ContainerId(2)]));
        sealing.on_open(ContainerId(3));
        sealing.on_open(ContainerId(4));
        assert!(sealing.goes_on());
        let ended: Vec<Command> = sealing.end().collect();
        assert_eq!(ended, [Command::FinishSeal { container: ContainerId(1) }]);
    }
}
