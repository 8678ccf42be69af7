//! The nodes that a reader of a block tries, and in which order.
//!
//! ```text
//! a member that is up has it        ──▶ members alone, as Cluster::readers_order has them
//! none has, and a node outside does ──▶ that one first, and then the members
//! ```
//!
//! Promise: a block that any node which is up has reported is read, also while its home waits for its members. Nodes
//! outside are named only then: their replicas are deleted as soon as the members have confirmed the block.

use crate::leader::Leader;
use crate::member::Member;
use namespace::BlockView;
use std::time::Duration;
use types::Random;

impl Leader {
    /// As [`Cluster::readers_order`](crate::Cluster::readers_order), with nodes outside of the home where they are
    /// needed.
    pub fn readers_order(
        &self,
        view: &BlockView,
        client: Option<&str>,
        now: Duration,
        random: &mut dyn Random,
    ) -> Vec<&Member> {
        let (cluster, block) = (&self.cluster, view.block);
        let mut members = cluster.readers_order(view.home, view.complete, client, now, random);
        let mut outside = self.sources_outside(view, now);
        if outside.is_empty() {
            return members;
        }
        let lacks = |member: &Member| {
            let node = member.node.id;
            self.repair.is_bad(block, node, view.generation) || self.repair.wants(node, block)
        };
        let serves =
            |member: &&Member| member.is_live(now) && cluster.has_complete(view.home, member.node.id) && !lacks(member);
        if members.iter().any(serves) {
            return members;
        }
        cluster.nearest_first(&mut outside, client, now, random);
        members.retain(|member| outside.iter().all(|other| other.node.id != member.node.id));
        outside.extend(members);
        outside
    }

    /// Nodes that are up and have all of a block that is not being written, where it does not belong.
    pub fn sources_outside(&self, view: &BlockView, now: Duration) -> Vec<&Member> {
        let BlockView { block, generation, len, .. } = *view;
        if !view.complete {
            return Vec::new();
        }
        let is_sound = |member: &&Member| {
            let node = member.node.id;
            member.is_live(now)
                && !member.revoked
                && !member.unproven
                && !self.repair.is_bad(block, node, generation)
                && !self.surplus.is_leaving(block, node, generation)
        };
        let sources = self.surplus.sources(block, generation, len).into_iter();
        sources.filter_map(|node| self.cluster.node(node)).filter(is_sound).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NodeUsage;
    use crate::first_choice::First;
    use crate::leader::tests::{HOME, NOW, block, leader, node, reported, view};
    use types::{Generation, NodeId};

    const LATER: Duration = Duration::from_secs(1000);

    fn order(leader: &Leader, view: &BlockView, now: Duration) -> Vec<NodeId> {
        leader.readers_order(view, None, now, &mut First).iter().map(|member| member.node.id).collect()
    }

    /// Nodes 1 and 2 hold the container and are silent; node 3 was a member for a while.
    #[test]
    fn who_has_a_block_outside_is_read_from_where_no_member_is_up() {
        let mut leader = leader();
        leader.surplus.keep(node(3), reported(0), HOME, NOW);
        assert_eq!(order(&leader, &view(0), NOW).len(), 2, "members are up");
        leader.cluster.on_registered(LATER, node(3), NodeUsage::default());
        assert_eq!(order(&leader, &view(0), LATER)[0], node(3));
        assert_eq!(order(&leader, &view(0), LATER).len(), 3, "and then the members");
        assert_eq!(order(&leader, &BlockView { complete: false, ..view(0) }, LATER).len(), 2, "it is being written");
        let younger = BlockView { generation: Generation(1006), ..view(0) };
        assert_eq!(order(&leader, &younger, LATER).len(), 2, "what it has is stale");
        leader.surplus.approve_deletion(HOME, node(3), reported(0), LATER);
        assert_eq!(order(&leader, &view(0), LATER).len(), 2, "it goes");
    }

    /// The members are up, and what they have is damaged.
    #[test]
    fn who_has_a_block_outside_is_read_from_where_members_have_it_damaged() {
        let mut leader = leader();
        leader.surplus.keep(node(3), reported(0), HOME, NOW);
        leader.repair.on_bad(block(0), node(1), Generation(1005));
        assert_eq!(order(&leader, &view(0), NOW).len(), 2, "the other has it");
        leader.repair.on_bad(block(0), node(2), Generation(1005));
        assert_eq!(order(&leader, &view(0), NOW)[0], node(3));
        leader.repair.on_bad(block(0), node(3), Generation(1005));
        assert_eq!(order(&leader, &view(0), NOW).len(), 2, "it is no better");
    }
}
