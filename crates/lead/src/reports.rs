//! Reports of datanodes about themselves and their replicas, and the orders that follow.
//!
//! ```text
//! heartbeat ──on_heartbeat──▶ copies, failures; then, by the rows of what was put: decide_replicas
//!     └── answer: on_deleted (owed deletions), take_surplus ──(rows)──▶ confirm_surplus, copy_orders
//! catalogue ──on_catalogue──▶ decide_replicas for each page ──▶ on_catalogue_complete
//! ```
//!
//! Promise: a deletion is ordered for two kinds of replicas only. The block of the first had no owner in the rows, and
//! no client could put it when they were read ([`Leader::may_be_put`] is asked before). The second is surplus, was
//! confirmed by others, and is surplus still. In safe mode no deletion is ordered.

use crate::cluster::Cluster;
use crate::complaints::Complainant;
use crate::leader::Leader;
use crate::member::NodeUsage;
use crate::repair::{PlannedCopy, Repair};
use crate::replica_fate::{ReplicaFate, ReportedReplica};
use blocks::Node;
use namespace::BlockView;
use std::collections::BTreeSet;
use std::time::Duration;
use types::mutation::{self, Mutation};
use types::{BlockId, ContainerId, FileId, Generation, NodeId};

/// A node that registered reports first what it has; its containers are compared after that.
const CATALOGUE_WAIT: Duration = Duration::from_secs(2);

/// What a heartbeat reports beside replicas that are to be looked up in the rows.
#[derive(Debug, Default)]
pub struct Heartbeat {
    pub usage: NodeUsage,
    /// All disks of the node have failed.
    pub is_diskless: bool,
    /// Replicas that it has put since the last one.
    pub put: Vec<(BlockId, Generation)>,
    pub copy_failures: Vec<CopyFailure>,
    /// Copies that it makes, or has yet to make.
    pub copying: BTreeSet<BlockId>,
}

/// A copy that was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyFailure {
    /// Failures of one node are numbered.
    pub number: u64,
    pub block: BlockId,
    /// Who was read; `None`: no source is to blame.
    pub source: Option<NodeId>,
    /// What the source sent did not agree with its checksums.
    pub is_corrupt: bool,
}

/// What came of a heartbeat.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct HeartbeatOutcome {
    /// Failures of copies that were to be made, and that were not reported before: places in the heartbeat's list.
    pub failures: Vec<usize>,
    /// There may be something to compare or to copy.
    pub wakes_repair: bool,
    /// A replica is to be read by its node.
    pub has_complaint: bool,
}

/// A reported replica, what the rows have of its block, and whether a client may put it ([`Leader::may_be_put`]).
pub type LookedUp = (ReportedReplica, Option<BlockView>, bool);

/// What a node is to do about replicas that it reported.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ReplicaOrders {
    /// To be deleted at this generation and below.
    pub delete: Vec<(BlockId, Generation)>,
    /// Whose a replica is, and where it is at home.
    pub owners: Vec<(BlockId, FileId, ContainerId)>,
    /// Of blocks that were never given out here.
    pub strange: Vec<BlockId>,
    /// Some are surplus: others are to be asked.
    pub has_surplus: bool,
}

/// A copy to make, with the addresses of its sources.
#[derive(Debug, PartialEq, Eq)]
pub struct CopyOrder {
    pub copy: PlannedCopy,
    pub sources: Vec<(NodeId, String)>,
}

impl Leader {
    /// The process has registered as `node`, and its row is written. `None`: another one registers as it.
    /// Answers whether a replica is to be read by its node.
    pub fn on_registered(&mut self, node: &Node, usage: NodeUsage, now: Duration) -> Option<bool> {
        let id = node.id;
        self.unresponsive.remove(id);
        if !self.cluster.on_claimed(node) && !mutation::is(Mutation::BelieveCopies) {
            return None;
        }
        self.cluster.on_registered(now, id, usage);
        self.found.reports.on_registered(id);
        // What it lacks, or brings back.
        for pipeline in self.cluster.pipelines_of(id) {
            for home in self.cluster.containers_of(*pipeline) {
                self.repair.suspect(home, now + CATALOGUE_WAIT);
            }
        }
        let mut has_complaint = false;
        for block in self.repair.on_registered(id) {
            has_complaint |= self.complaints.note(block, id, Complainant::Ours, now);
        }
        Some(has_complaint)
    }

    /// `None`: it is to register.
    pub fn on_heartbeat(&mut self, node: NodeId, heartbeat: &Heartbeat, now: Duration) -> Option<HeartbeatOutcome> {
        let Heartbeat { usage, is_diskless, put, copy_failures, copying } = heartbeat;
        let is_known = match is_diskless {
            true => self.cluster.on_diskless(node, *usage),
            false => self.cluster.on_heartbeat(now, node, *usage),
        };
        if !is_known {
            return None;
        }
        let wakes_repair = !(put.is_empty() && copy_failures.is_empty());
        let mut outcome = HeartbeatOutcome { wakes_repair, ..HeartbeatOutcome::default() };
        for (block, generation) in put {
            self.surplus.stays(node, *block);
            self.repair.on_put(node, *block, *generation, now);
        }
        for (at, failure) in copy_failures.iter().enumerate() {
            if !self.repair.is_news(node, failure.number) {
                continue;
            }
            // What a node says of copies that it was not to make concerns nobody, and complaints and the log of the
            // server have a bound.
            if !self.repair.wants(node, failure.block) {
                continue;
            }
            self.repair.on_failed(node, failure.block, failure.source, now);
            if let Some(source) = failure.source.filter(|_| failure.is_corrupt) {
                outcome.has_complaint |= self.complaints.note(failure.block, source, Complainant::Ours, now);
            }
            outcome.failures.push(at);
        }
        self.repair.on_working(node, copying, now);
        Some(outcome)
    }

    /// Whether a client may still put a file with each of these blocks. To be asked before the rows are read: what
    /// nobody may put then can only have an owner already.
    pub fn may_be_put(&self, reported: &[ReportedReplica], now: Duration) -> Vec<bool> {
        reported.iter().map(|reported| self.block_leases.may_be_put(reported.block, now)).collect()
    }

    /// Replicas of `node` that are judged again and again until their blocks are complete; and those that safe mode has
    /// kept, when it is over.
    pub fn due_for_decision(&mut self, node: NodeId, is_safe_mode: bool, now: Duration) -> Vec<ReportedReplica> {
        let mut replicas = self.undecided.due(node, now);
        if !is_safe_mode {
            replicas.extend(self.withheld_deletions.due(node, now));
        }
        replicas
    }

    /// `node` is lost. What it reported and is not decided is reported again, should it come back: nobody keeps it
    /// meanwhile, and a drain waits for that.
    pub fn on_lost(&mut self, node: NodeId) {
        self.found.reports.on_lost(node);
        let was_undecided = self.undecided.forget(node);
        if self.withheld_deletions.forget(node) || was_undecided {
            self.surplus.on_member_again(node);
            self.surplus.ask_all(node);
        }
    }

    /// What becomes of replicas that `node` reported.
    pub fn decide_replicas(
        &mut self,
        node: NodeId,
        replicas: &[LookedUp],
        is_safe_mode: bool,
        now: Duration,
    ) -> ReplicaOrders {
        let mut judged = ReplicaOrders::default();
        for (reported, wanted, may_be_put) in replicas {
            let judgement = self.cluster.decide_fate(node, reported, wanted.as_ref(), *may_be_put);
            if reported.finalized {
                self.cluster.on_confirmed_len(reported.block, reported.len);
            }
            if mutation::is(Mutation::KeepRemoved) && self.cluster.was_removed(reported.block.born_in()) {
                continue;
            }
            if is_safe_mode && judgement.fate == ReplicaFate::Goes {
                // Nothing is deleted in safe mode. The node reports it no second time, so it is judged again when safe
                // mode ends: until then nothing changes that could decide otherwise.
                self.withheld_deletions.keep(node, *reported);
                self.undecided.settle(node, reported);
                continue;
            }
            self.withheld_deletions.settle(node, reported);
            let mut again = judgement.again;
            if judgement.fate != ReplicaFate::Found {
                self.found.forget(node, reported.block);
            }
            match (judgement.fate, wanted) {
                (ReplicaFate::Goes, _) => judged.delete.push((reported.block, reported.generation)),
                (ReplicaFate::Owned, Some(wanted)) => {
                    judged.owners.push((reported.block, wanted.replica_file(), wanted.home))
                }
                (ReplicaFate::Surplus, Some(_)) if comes_to(&self.cluster, &self.repair, node, reported.block) => {
                    again = true
                }
                (ReplicaFate::Surplus, Some(wanted)) => {
                    self.surplus.keep(node, *reported, wanted.home, now);
                    self.repair.on_surplus(reported.block);
                    judged.has_surplus = true;
                }
                (ReplicaFate::Found, _) => self.found.keep(node, *reported),
                (ReplicaFate::Strange, _) => judged.strange.push(reported.block),
                (ReplicaFate::Stays | ReplicaFate::Owned | ReplicaFate::Surplus, _) => {}
            }
            // Members that lack the block copy from it, as from other surplus. The second look keeps it.
            if let (ReplicaFate::Found, Some(wanted)) = (judgement.fate, wanted) {
                if comes_to(&self.cluster, &self.repair, node, reported.block) {
                    again = true;
                } else {
                    self.surplus.keep(node, *reported, wanted.home, now);
                    self.repair.on_surplus(reported.block);
                    judged.has_surplus = true;
                }
            }
            // It will be a found block, unless it is put.
            let may_be_found = again && wanted.is_none() && self.cluster.may_be_forgotten(reported.block);
            if !may_be_found {
                self.found.reports.on_decided(node, reported.block);
            }
            if !again {
                self.undecided.settle(node, reported);
                continue;
            }
            match self.undecided.keep(node, *reported) {
                true if may_be_found => self.found.reports.on_undecided(node, reported.block),
                false if may_be_found => self.found.reports.on_passed_over(node),
                _ => {}
            }
        }
        judged
    }

    /// `node` has deleted these. Answers what it is to delete now.
    pub fn on_deleted(
        &mut self,
        node: NodeId,
        deleted: &[BlockId],
        is_safe_mode: bool,
        now: Duration,
    ) -> Vec<(BlockId, Generation)> {
        for block in deleted {
            self.found.forget(node, *block);
            let was_owed = self.doomed.on_deleted(node, *block);
            self.repair.forget_bad(*block, node);
            let was_leaving = self.surplus.stays(node, *block);
            // Nobody here ordered it: an order of an earlier leader may have reached the node late, and its members
            // may lack the block by now. If no file has it, nothing comes of this.
            if !was_owed && !was_leaving {
                self.repair.doubt(*block);
            }
        }
        if is_safe_mode { Vec::new() } else { self.doomed.orders(node, now) }
    }

    /// What `node` was to delete is not ordered after all: safe mode came between, or it is not sure any more who
    /// leads. The node tells all that it has once more, and it is judged anew.
    pub fn on_orders_dropped(&mut self, node: NodeId, blocks: impl Iterator<Item = BlockId>) {
        blocks.for_each(|block| _ = self.surplus.stays(node, block));
        self.surplus.ask_all(node);
    }

    /// Surplus replicas of `node` that others have confirmed a moment ago. Each is to be looked up once more, as its
    /// block may have moved here since, and then confirmed.
    pub fn take_surplus(&mut self, node: NodeId, now: Duration) -> Vec<ReportedReplica> {
        self.surplus.orders(node, now)
    }

    /// Answers which of them `node` is to delete.
    pub fn confirm_surplus(
        &mut self,
        node: NodeId,
        found: &[(ReportedReplica, Option<BlockView>)],
        now: Duration,
    ) -> Vec<(BlockId, Generation)> {
        let Self { cluster, repair, surplus, undecided, .. } = self;
        let mut delete = Vec::new();
        for (reported, wanted) in found {
            let judgement = cluster.decide_fate(node, reported, wanted.as_ref(), true);
            // It had a file when it was kept. If it has none now, that was deleted, and no other ever gets the block:
            // unless it may have more than that file had, and is looked at anew as one without an owner.
            let has_ended = wanted.is_none() && !cluster.may_be_forgotten(reported.block);
            let is_surplus =
                mutation::is(Mutation::SkipSecondLook) || has_ended || judgement.fate == ReplicaFate::Surplus;
            let is_doubtful = |wanted: &&BlockView| {
                if mutation::is(Mutation::TrustDamagedOthers) {
                    return false;
                }
                let mut others = cluster.member_ids(wanted.home).iter().filter(|member| **member != node);
                others.any(|member| repair.is_bad(reported.block, *member, wanted.generation))
            };
            if let Some(wanted) = wanted.as_ref().filter(is_doubtful) {
                // One of those who confirmed it has a damaged one: all of them are asked again.
                surplus.stays(node, reported.block);
                surplus.keep(node, *reported, wanted.home, now);
            } else if is_surplus && !comes_to(cluster, repair, node, reported.block) {
                delete.push((reported.block, reported.generation));
            } else {
                surplus.stays(node, reported.block);
                if is_surplus || judgement.again {
                    // It is being written again, or copied here. Its node will not tell of this replica again.
                    undecided.keep(node, *reported);
                }
            }
        }
        delete
    }

    /// What `node` is to copy now.
    pub fn copy_orders(&mut self, node: NodeId, now: Duration) -> Vec<CopyOrder> {
        if self.cluster.repair_hold.is_some() {
            return Vec::new();
        }
        let orders = self.repair.orders(node, now).into_iter();
        let orders = orders.map(|copy| {
            let members = copy.sources.iter().filter_map(|id| self.cluster.node(*id));
            let sources = members.map(|member| (member.node.id, member.node.xfer_addr())).collect();
            CopyOrder { copy, sources }
        });
        orders.collect()
    }

    /// A page of all that `node` has; `is_first`: it begins anew. False: it is to register.
    pub fn on_catalogue(&mut self, node: NodeId, is_first: bool, now: Duration) -> bool {
        // A long catalogue stands in the way of heartbeats: each part of it says that the node lives.
        self.cluster.on_message(now, node);
        let is_known = self.cluster.node(node).is_some_and(|member| member.seen().is_some());
        if is_known && is_first {
            self.surplus.on_catalogue_begun(node, now);
            self.found.reports.on_catalogue_begun(node);
        }
        is_known
    }

    /// Its last page was taken.
    pub fn on_catalogue_complete(&mut self, node: NodeId) {
        self.surplus.on_catalogue_complete(node);
        self.found.on_catalogue_complete(node);
    }
}

/// Whether the block is being copied to a container that `node` is a member of.
fn comes_to(cluster: &Cluster, repair: &Repair, node: NodeId, block: BlockId) -> bool {
    repair.wants(node, block) || repair.moving_to(block).is_some_and(|home| cluster.is_member(home, node))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leader::tests::{HOME, NOW, block, leader, node, reported, view};
    use crate::repair::Lack;
    use types::{InodeId, Millis};

    const GENERATION: Generation = Generation(1005);

    fn decide(
        leader: &mut Leader,
        number: u8,
        replica: ReportedReplica,
        wanted: Option<BlockView>,
        is_safe_mode: bool,
    ) -> ReplicaOrders {
        let judged = leader.decide_replicas(node(number), &[(replica, wanted, false)], is_safe_mode, NOW);
        leader.check();
        judged
    }

    #[test]
    fn a_replica_without_an_owner_is_deleted_but_not_in_safe_mode() {
        let mut leader = leader();
        let gone = vec![(block(1), GENERATION)];
        assert_eq!(decide(&mut leader, 1, reported(1), None, true), ReplicaOrders::default());
        assert_eq!(leader.due_for_decision(node(1), true, NOW), []);
        assert_eq!(leader.due_for_decision(node(1), false, NOW), [reported(1)], "safe mode is over");
        assert_eq!(decide(&mut leader, 1, reported(1), None, false).delete, gone);
        assert_eq!(leader.due_for_decision(node(1), false, NOW), []);
        let strange = ReportedReplica { block: BlockId::new(ContainerId(9), 1), ..reported(1) };
        assert_eq!(decide(&mut leader, 1, strange, None, false).strange, [strange.block]);
    }

    #[test]
    fn a_replica_of_an_open_block_is_judged_until_it_is_complete() {
        let mut leader = leader();
        let open = BlockView { complete: false, ..view(1) };
        decide(&mut leader, 3, reported(1), Some(open), false);
        assert_eq!(leader.due_for_decision(node(3), true, NOW), [reported(1)]);
        assert!(decide(&mut leader, 3, reported(1), Some(view(1)), false).has_surplus, "its home is elsewhere");
        assert_eq!(leader.due_for_decision(node(3), false, NOW), []);
        let owner = decide(&mut leader, 1, ReportedReplica { file: None, ..reported(1) }, Some(view(1)), false).owners;
        assert_eq!(owner, [(block(1), InodeId(20_000), HOME)]);
    }

    /// A node tells of an open replica, and a moment later, under a younger generation, that it was put.
    #[test]
    fn what_a_node_reported_before_is_not_judged_after_what_it_reported_since() {
        let open = BlockView { complete: false, ..view(1) };
        let old = ReportedReplica { generation: Generation(1004), finalized: false, ..reported(1) };
        let mut leader = leader();
        decide(&mut leader, 3, old, Some(open), false);
        assert!(decide(&mut leader, 3, reported(1), Some(view(1)), false).has_surplus, "its home is elsewhere");
        assert_eq!(leader.due_for_decision(node(3), false, NOW), []);
        assert_eq!(leader.surplus.next_of(HOME, 9), [(node(3), reported(1))]);
        assert_eq!(leader.surplus.sources(block(1), GENERATION, 5), [node(3)]);
        // What came since waits, whatever becomes of what was before.
        decide(&mut leader, 1, reported(1), Some(open), false);
        decide(&mut leader, 1, old, None, false);
        assert_eq!(leader.due_for_decision(node(1), false, NOW), [reported(1)]);
    }

    /// Block 1 is to be copied.
    fn lack(to: u8, from: u8) -> Lack {
        Lack {
            block: block(1),
            generation: GENERATION,
            len: 5,
            file: InodeId(20_000),
            home: HOME,
            node: node(to),
            sources: vec![node(from)],
            unfit: false,
        }
    }

    /// Others have confirmed it: it is deleted unless one of them turned out to be damaged, or the block comes here.
    #[test]
    fn a_surplus_replica_is_looked_at_once_more_before_it_is_deleted() {
        let mut leader = leader();
        let confirm = |leader: &mut Leader, wanted: Option<BlockView>| {
            decide(leader, 3, reported(1), Some(view(1)), false);
            leader.surplus.approve_deletion(HOME, node(3), reported(1), NOW);
            let going = leader.take_surplus(node(3), NOW);
            assert_eq!(going, [reported(1)]);
            let delete = leader.confirm_surplus(node(3), &[(reported(1), wanted)], NOW);
            leader.check();
            let is_leaving = leader.surplus.is_leaving(block(1), node(3), GENERATION);
            assert_eq!(is_leaving, !delete.is_empty(), "what is not deleted counts as a copy");
            !delete.is_empty()
        };
        assert!(confirm(&mut leader, Some(view(1))) && confirm(&mut leader, None));
        leader.repair.on_bad(block(1), node(2), GENERATION);
        assert!(!confirm(&mut leader, Some(view(1))), "a member has a damaged one");
        assert_eq!(leader.surplus.next_of(HOME, 9).len(), 1, "the members are asked again");
        leader.repair.forget_bad(block(1), node(2));
        let open = BlockView { complete: false, ..view(1) };
        assert!(!confirm(&mut leader, Some(open)), "it is written again, and may be needed");
        assert_eq!(leader.due_for_decision(node(3), false, NOW), [reported(1)], "it may be stale then");
        leader.repair.on_lack(lack(3, 1));
        assert!(!confirm(&mut leader, Some(view(1))), "it is wanted here");
        assert_eq!(leader.undecided.of(node(3)), [reported(1)]);
        let orders = leader.copy_orders(node(3), NOW);
        assert_eq!((orders.len(), orders[0].sources.len()), (1, 1));
        // It has it, and the copy has ended.
        let put = vec![(block(1), GENERATION)];
        let came = leader.on_heartbeat(node(3), &Heartbeat { put, ..Heartbeat::default() }, NOW).unwrap();
        assert!(came.wakes_repair && leader.repair.progress().copied_count == 1);
        leader.check();
    }

    /// A restored backup does not know of an append in place, nor where the block's home was then.
    #[test]
    fn what_was_appended_after_a_backup_is_listed_and_copied_from_and_not_deleted() {
        let mut rows = crate::leader::tests::rows();
        blocks::restore(&mut rows, Millis(1), Millis(2)).unwrap();
        let mut leader = crate::leader::tests::load(&rows);
        let appended = ReportedReplica { generation: Generation(1006), len: 9, ..reported(1) };
        let listed = |leader: &Leader| leader.found.replicas(block(1)).is_some_and(|on| on.contains_key(&node(3)));
        assert!(decide(&mut leader, 3, appended, Some(view(1)), false).has_surplus);
        assert!(listed(&leader));
        assert_eq!(leader.surplus.sources(block(1), GENERATION, 5), [node(3)], "members may lack the block");
        let confirm = |leader: &mut Leader, wanted: Option<BlockView>| {
            leader.surplus.approve_deletion(HOME, node(3), appended, NOW);
            assert_eq!(leader.take_surplus(node(3), NOW), [appended]);
            let delete = leader.confirm_surplus(node(3), &[(appended, wanted)], NOW);
            leader.check();
            delete
        };
        assert_eq!(confirm(&mut leader, Some(view(1))), [], "though members have as much as the row tells of");
        assert_eq!((listed(&leader), leader.due_for_decision(node(3), false, NOW)), (true, vec![]));
        // Its file is deleted.
        decide(&mut leader, 3, appended, Some(view(1)), false);
        assert_eq!(confirm(&mut leader, None), []);
        assert_eq!(leader.due_for_decision(node(3), false, NOW), [appended]);
        assert_eq!(decide(&mut leader, 3, appended, None, false), ReplicaOrders::default());
        assert!(listed(&leader));
        // What is listed may go then.
        let release = blocks::Command::ReleaseFound { at: Millis(3) };
        let answer = blocks::apply(&mut rows, &release).unwrap();
        leader.cluster.on_applied(&release, &answer);
        leader.found.release();
        assert!(decide(&mut leader, 3, appended, Some(view(1)), false).has_surplus && !listed(&leader));
        assert_eq!(confirm(&mut leader, Some(view(1))), [(block(1), Generation(1006))]);
    }

    #[test]
    fn a_failed_copy_counts_once_and_its_source_is_read() {
        let mut leader = leader();
        let failure = CopyFailure { number: 1, block: block(1), source: Some(node(2)), is_corrupt: true };
        let heartbeat = Heartbeat { copy_failures: vec![failure], ..Heartbeat::default() };
        let unasked = Heartbeat { copy_failures: vec![CopyFailure { number: 9, ..failure }], ..Heartbeat::default() };
        let came = leader.on_heartbeat(node(1), &unasked, NOW).unwrap();
        assert_eq!((came.failures.len(), came.has_complaint), (0, false), "it was to copy nothing");
        assert_eq!(leader.complaints.take(NOW, |_| true), None);
        let failure = CopyFailure { number: 10, ..failure };
        let heartbeat = Heartbeat { copy_failures: vec![failure], ..heartbeat };
        leader.repair.on_lack(lack(1, 2));
        let came = leader.on_heartbeat(node(1), &heartbeat, NOW).unwrap();
        assert_eq!(came, HeartbeatOutcome { failures: vec![0], wakes_repair: true, has_complaint: true });
        assert_eq!(leader.complaints.take(NOW, |_| true), Some((block(1), node(2))));
        let came = leader.on_heartbeat(node(1), &heartbeat, NOW).unwrap();
        assert_eq!((came.failures.len(), came.has_complaint), (0, false));
        assert_eq!(leader.on_heartbeat(node(7), &heartbeat, NOW), None, "it is to register");
        leader.check();
    }

    /// An order of an earlier leader reached the node late, or it deletes what it likes: others are asked.
    #[test]
    fn a_deletion_that_nobody_ordered_leaves_a_doubt() {
        let mut leader = leader();
        let doomed = namespace::DoomedBlock { block: block(1), home: HOME, generation: GENERATION };
        leader.doomed.feed(doomed, &[node(1)]);
        leader.on_deleted(node(1), &[], false, NOW);
        leader.surplus.approve_deletion(HOME, node(1), reported(2), NOW);
        leader.on_deleted(node(1), &[block(1), block(2)], false, NOW);
        assert_eq!(leader.repair.take_doubts(10), [], "both were ordered");
        leader.on_deleted(node(1), &[block(3)], false, NOW);
        assert_eq!(leader.repair.take_doubts(10), [block(3)]);
        leader.check();
    }

    /// Safe mode came while it was made sure who leads.
    #[test]
    fn a_replica_whose_deletion_is_dropped_counts_again() {
        let mut leader = leader();
        leader.surplus.approve_deletion(HOME, node(1), reported(1), NOW);
        leader.take_surplus(node(1), NOW);
        leader.on_orders_dropped(node(1), [block(1)].into_iter());
        assert!(!leader.surplus.is_leaving(block(1), node(1), GENERATION));
        assert!(leader.surplus.take_ask(node(1)), "it is to tell again what it has");
        leader.check();
    }

    #[test]
    fn deletions_are_ordered_until_they_are_confirmed_but_not_in_safe_mode() {
        let mut leader = leader();
        let doomed = namespace::DoomedBlock { block: block(1), home: HOME, generation: GENERATION };
        leader.doomed.feed(doomed, &[node(1)]);
        leader.repair.on_bad(block(1), node(1), GENERATION);
        assert_eq!(leader.on_deleted(node(1), &[], true, NOW), []);
        assert_eq!(leader.on_deleted(node(1), &[], false, NOW), [(block(1), GENERATION)]);
        assert_eq!(leader.on_deleted(node(1), &[block(1)], false, NOW), []);
        assert_eq!((leader.doomed.take_forgettable(9), leader.repair.bad().count()), (vec![doomed], 0));
        leader.check();
    }

    #[test]
    fn a_node_that_registers_is_compared_and_reads_what_was_called_bad() {
        let mut leader = leader();
        leader.unresponsive.insert(node(1), NOW);
        leader.repair.on_bad(block(1), node(1), GENERATION);
        let process = leader.cluster.node(node(1)).unwrap().node.clone();
        assert_eq!(leader.on_registered(&process, NodeUsage::default(), NOW), Some(true));
        assert_eq!(leader.repair.next_due(), Some(NOW + CATALOGUE_WAIT));
        assert!(!leader.unresponsive.contains(node(1), NOW));
        let mut other = process;
        other.incarnation.nonce += 1;
        assert_eq!(leader.on_registered(&other, NodeUsage::default(), NOW), None);
        assert!(leader.on_catalogue(node(1), true, NOW) && !leader.on_catalogue(node(7), true, NOW));
        leader.check();
    }
}
