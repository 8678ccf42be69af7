//! Removal of a sealed container whose blocks were all deleted.
//!
//! ```text
//! sealed ── nothing in the rows, no deletion pending, no block on lease ──▶ RemoveContainer (log): checks rows again
//! ```
//!
//! Promise: no block ever has a home that was removed. The command removes only a container that is empty when it is
//! applied. A later entry of the log finds no such container and is refused. Datanodes get no order for this: they
//! deleted the blocks one by one as ordered, and remove the empty directory. A datanode that was away reports its
//! replicas when it returns, and gets the order to delete unowned ones. Container numbers only rise, so an absent
//! container below the last number was removed.

use crate::cluster::Cluster;
use crate::doomed::Doomed;
use std::collections::BTreeSet;
use types::ContainerId;

impl Cluster {
    /// Up to `count` containers behind `after` that may be empty for good; the rows tell which are. `homes_on_lease`
    /// are the homes of blocks that clients hold on lease, `doomed` what datanodes are still to delete.
    pub fn removable(
        &self,
        after: Option<ContainerId>,
        count: usize,
        homes_on_lease: &BTreeSet<ContainerId>,
        doomed: &Doomed,
    ) -> Vec<ContainerId> {
        let from = ContainerId(after.map_or(0, |after| after.0 + 1));
        let owed = doomed.homes();
        let quiet = self
            .worklists
            .sealed
            .range(from..)
            .copied()
            .filter(|id| !homes_on_lease.contains(id) && !owed.contains(id));
        quiet.take(count).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blocks::{BlocksError, Command, Node, apply, apply_with, has_container};
    use namespace::DoomedBlock;
    use types::rows::MemoryRows;
    use types::{BlockId, Generation, NodeId, PipelineId};

    const PIPELINE: PipelineId = PipelineId(1);
    const FIRST: ContainerId = ContainerId(1);
    const SECOND: ContainerId = ContainerId(2);

    /// Two containers that are sealed, and one that is open.
    fn story() -> (MemoryRows, Cluster) {
        let mut rows = MemoryRows::default();
        let mut cluster = Cluster::load(&rows, 1).unwrap();
        let mut run = |command: Command| {
            let reply = apply(&mut rows, &command).unwrap();
            cluster.on_applied(&command, &reply);
            reply.unwrap();
        };
        run(Command::Register(Node::example(1, "/r")));
        run(Command::CreateSet { members: vec![NodeId([1; 16])], wanted: 1, planned: true });
        for container in [FIRST, SECOND] {
            run(Command::OpenContainer { pipeline: PIPELINE });
            run(Command::LeaseIndexes { container, from: 0, up_to: 10, lessee: 1, len: 0 });
            run(Command::Seal { container, len: 5 });
            run(Command::FinishSeal { container });
        }
        run(Command::OpenContainer { pipeline: PIPELINE });
        (rows, cluster)
    }

    #[test]
    fn what_somebody_may_write_or_must_delete_stays() {
        let (_, cluster) = story();
        let (none, first) = (BTreeSet::new(), BTreeSet::from([FIRST]));
        let mut doomed = Doomed::default();
        assert_eq!(cluster.removable(None, 9, &none, &doomed), [FIRST, SECOND]);
        assert_eq!(cluster.removable(None, 1, &none, &doomed), [FIRST]);
        assert_eq!(cluster.removable(Some(FIRST), 9, &none, &doomed), [SECOND]);
        assert_eq!(cluster.removable(None, 9, &first, &doomed), [SECOND], "a client may put a block there");
        // A block that was born elsewhere.
        let replicas = DoomedBlock { block: BlockId::new(FIRST, 3), home: SECOND, generation: Generation(1001) };
        doomed.feed(replicas, &[NodeId([1; 16])]);
        assert_eq!(cluster.removable(None, 9, &none, &doomed), [FIRST]);
    }

    #[test]
    fn only_what_is_sealed_and_empty_is_removed() {
        let (mut rows, mut cluster) = story();
        let remove = |container| Command::RemoveContainer { container };
        for (container, is_empty) in [(ContainerId(3), true), (ContainerId(9), true), (FIRST, false)] {
            let refused = apply_with(&mut rows, &remove(container), &move |_, _| Ok(is_empty)).unwrap();
            assert_eq!(refused, Err(BlocksError::InUse { container }));
        }
        let block = BlockId::new(FIRST, 3);
        assert!(cluster.was_given_out(block) && !cluster.was_removed(FIRST));
        let reply = apply(&mut rows, &remove(FIRST)).unwrap();
        cluster.on_applied(&remove(FIRST), &reply);
        reply.unwrap();
        assert!(!has_container(&rows, FIRST).unwrap() && has_container(&rows, SECOND).unwrap());
        for cluster in [cluster, Cluster::load(&rows, 2).unwrap()] {
            let homes: Vec<ContainerId> = cluster.containers_of(PIPELINE).collect();
            assert_eq!(homes, [SECOND, ContainerId(3)]);
            assert!(cluster.was_removed(FIRST) && !cluster.was_removed(SECOND) && !cluster.was_removed(ContainerId(4)));
            assert!(cluster.was_given_out(block), "a node that was away may bring it back");
            assert!(!cluster.was_given_out(BlockId::new(ContainerId(4), 0)), "never seen here");
        }
    }
}
