//! Progress of the draining of a node.
//!
//! A node that drains takes no new blocks. [`MembershipRound`](crate::MembershipRound) adds a member to each of its
//! pipelines. It removes the node when all containers are whole on the other members. So the node is drained when it is
//! in no pipeline any more, and not before. A node that is down left its pipelines when it was lost. The members that
//! took its places copy from the others; until they have everything, the node is not drained.
//!
//! A found block ([`crate::FoundBlocks`]) of which no node that stays has as good a replica keeps it from ending:
//! nobody copies these but an administrator.
//!
//! A block that no node has whole does not keep a drain from ending. The drain's result then says so: the node's
//! replica is damaged or too short.
//!
//! Promise: a replica counts as copied only if another node reported that it put it and read it back.

use crate::cluster::Cluster;
use crate::liveness::LivenessRules;
use crate::pipeline::Pipeline;
use crate::repair::Repair;
use crate::surplus::Surplus;
use std::collections::BTreeSet;
use std::time::Duration;
use types::NodeId;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DrainPicture {
    pub pipelines_left: u64,
    pub containers_left: u64,
    /// Bytes that others have still to copy, about.
    pub len_left: u64,
    /// Pipelines in which no node can take this one's place: no other live serving node has room for one more of their
    /// containers.
    pub stuck: u64,
    /// Bytes of these, about.
    pub stuck_len: u64,
    /// Of a node that is down: pipelines without another member to copy from.
    pub orphaned: u64,
    /// Pipelines that it stays in though others have all, as too few of those are up, or somebody is in maintenance.
    pub held: u64,
    /// For whom it stays in them.
    pub awaited: BTreeSet<NodeId>,
}

/// Why a node that drains, and is in no pipeline any more, may still have what others lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftBehind {
    /// Clients hold ids of blocks that were meant for it.
    Leased,
    /// Its catalogue is not complete since, or not all of its replicas are known to be on other nodes.
    Unsettled,
    /// So many blocks that a restored backup did not know are nowhere else.
    Found(usize),
}

impl Surplus {
    /// `undecided`: some replica that `node` reported is still being written. `lease_limit`: if clients may hold block
    /// leases, how long one may last.
    pub fn left_behind(
        &mut self,
        node: NodeId,
        undecided: bool,
        lease_limit: Option<Duration>,
        repair: &Repair,
        now: Duration,
    ) -> Option<LeftBehind> {
        let since = self.drained_since(node, now);
        if lease_limit.is_some_and(|limit| now.saturating_sub(since) <= limit) {
            return Some(LeftBehind::Leased);
        }
        (!self.is_settled(node, repair) || undecided).then_some(LeftBehind::Unsettled)
    }
}

impl Cluster {
    /// Pipelines that a node that drains is in, or was in until others have all that it had.
    pub(crate) fn pipelines_left(&self, node: NodeId) -> impl Iterator<Item = &Pipeline> {
        let left = self.pipelines.values().filter(move |pipeline| pipeline.row.former.contains(&node));
        let on_member_again = self.pipelines_of(node).iter().filter_map(|id| self.pipelines.get(id));
        on_member_again.chain(left)
    }

    pub fn drain_picture(&self, node: NodeId, rules: &LivenessRules, repair: &Repair) -> DrainPicture {
        let mut picture = DrainPicture::default();
        let lost = |id: NodeId| rules.is_lost(self.nodes.get(&id));
        for pipeline in self.pipelines_left(node) {
            let row = &pipeline.row;
            picture.pipelines_left += 1;
            let wanted = usize::from(row.wanted);
            if row.members.iter().all(|id| lost(*id) || row.is_joining(*id)) {
                picture.orphaned += 1;
            } else if self.staying(row) < wanted && self.is_stuck(pipeline, repair, rules) {
                picture.stuck += 1;
                picture.stuck_len = picture.stuck_len.saturating_add(pipeline.len_about());
            }
            let awaited = self.awaited(pipeline, node, repair, rules);
            if !awaited.is_empty() {
                picture.held += 1;
                picture.awaited.extend(awaited);
                continue;
            }
            let newest = row.joining.iter().map(|(_, epoch)| *epoch).max();
            for home in &pipeline.containers {
                let Some(container) = self.containers.get(home) else { continue };
                if newest.is_some_and(|epoch| container.epoch >= epoch) {
                    continue;
                }
                picture.containers_left += 1;
                // Once it was compared it is known what is to be copied; before, all of it may be.
                let left = repair.lack_len_of(*home).unwrap_or(container.held_len());
                picture.len_left = picture.len_left.saturating_add(left);
            }
        }
        picture
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repair::Lack;
    use crate::replica_fate::ReportedReplica;
    use types::{BlockId, ContainerId, Generation, InodeId};

    #[test]
    fn a_node_is_drained_when_leases_have_ended_and_it_has_sent_another_catalogue() {
        let (node, limit) = (NodeId([1; 16]), Duration::from_secs(60));
        let at = Duration::from_secs;
        let (mut surplus, repair) = (Surplus::default(), Repair::default());
        let send_catalogue = |surplus: &mut Surplus, now| {
            surplus.on_catalogue_begun(node, at(now));
            surplus.on_catalogue_complete(node);
        };
        assert_eq!(surplus.left_behind(node, false, Some(limit), &repair, at(100)), Some(LeftBehind::Leased));
        send_catalogue(&mut surplus, 130);
        assert_eq!(surplus.left_behind(node, false, Some(limit), &repair, at(160)), Some(LeftBehind::Leased));
        let left = surplus.left_behind(node, false, Some(limit), &repair, at(161));
        assert_eq!(left, Some(LeftBehind::Unsettled), "a client may have put something since");
        assert!(surplus.take_ask(node));
        send_catalogue(&mut surplus, 161);
        assert_eq!(surplus.left_behind(node, false, Some(limit), &repair, at(161)), None, "the clock may stand still");
        assert_eq!(surplus.left_behind(node, true, None, &repair, at(161)), Some(LeftBehind::Unsettled));
        surplus.on_member_again(node);
        assert_eq!(
            surplus.left_behind(node, false, None, &repair, at(170)),
            Some(LeftBehind::Unsettled),
            "it sent its catalogue before it left"
        );
    }
    /// It has half of a block, as all have: its writer said that there is more of it. When it tells of the whole one it
    /// is not drained.
    #[test]
    fn what_nobody_has_whole_holds_no_drain_up() {
        let (node, home, at) = (NodeId([1; 16]), ContainerId(1), Duration::from_secs);
        let block = BlockId::new(home, 1);
        let (mut surplus, mut repair) = (Surplus::default(), Repair::default());
        let reported = ReportedReplica {
            block,
            generation: Generation(5),
            len: 5,
            file: Some(InodeId(7)),
            home: Some(home),
            finalized: true,
        };
        surplus.keep(node, reported, home, at(99));
        assert_eq!(
            surplus.left_behind(node, false, None, &repair, at(100)),
            Some(LeftBehind::Unsettled),
            "it is asked"
        );
        surplus.on_catalogue_begun(node, at(101));
        surplus.keep(node, reported, home, at(101));
        surplus.on_catalogue_complete(node);
        assert_eq!(surplus.left_behind(node, false, None, &repair, at(103)), Some(LeftBehind::Unsettled), "not asked");
        repair.on_lack(Lack {
            block,
            generation: Generation(5),
            len: 10,
            file: InodeId(7),
            home,
            node,
            sources: Vec::new(),
            unfit: true,
        });
        assert_eq!(surplus.left_behind(node, false, None, &repair, at(103)), None);
        assert_eq!(surplus.useless_count(node, &repair), 1);
        surplus.keep(node, ReportedReplica { len: 10, ..reported }, home, at(104));
        assert_eq!(surplus.left_behind(node, false, None, &repair, at(105)), Some(LeftBehind::Unsettled), "a source");
        repair.on_bad(block, node, Generation(5));
        assert_eq!(surplus.left_behind(node, false, None, &repair, at(105)), None, "that cannot be read");
    }

    /// Pages of a catalogue that were told before nobody could put anything any more do not have what was put since.
    #[test]
    fn a_catalogue_that_was_under_way_does_not_count() {
        let (node, at) = (NodeId([1; 16]), Duration::from_secs);
        let (mut surplus, repair) = (Surplus::default(), Repair::default());
        surplus.on_catalogue_begun(node, at(99));
        assert_eq!(surplus.left_behind(node, false, None, &repair, at(100)), Some(LeftBehind::Unsettled));
        surplus.on_catalogue_complete(node);
        assert_eq!(surplus.left_behind(node, false, None, &repair, at(101)), Some(LeftBehind::Unsettled));
        surplus.on_catalogue_begun(node, at(102));
        surplus.on_catalogue_complete(node);
        assert_eq!(surplus.left_behind(node, false, None, &repair, at(102)), None);
    }
}
