//! Everything that the leading metadata server knows and does not replicate.
//!
//! ```text
//! applied entry ──▶ on_applied, on_effects ─┐
//! heartbeat, catalogue, answers ────────────┼──▶ Leader: one `&mut self`, so one lock in the server
//! administrator, ticks ─────────────────────┘
//! ```
//!
//! Promise: state that must agree is in this struct, and [`Leader::check`] states how. A new leader begins with the
//! rows and learns the rest from its datanodes and clients.

use crate::block_leases::{BlockLeases, Grant, LeaseRefused, LeasedFor, LeasedHome};
use crate::census::LastCensus;
use crate::chain_sets::ChainSets;
use crate::cluster::Cluster;
use crate::complaints::Complaints;
use crate::container_audit::ContainerAudit;
use crate::container_sizes::ContainerSizes;
use crate::disk::{FailedDisks, LoggedFailures};
use crate::doomed::Doomed;
use crate::effects::{EffectHandler, Wakeups};
use crate::found_blocks::FoundBlocks;
use crate::hash_tree_queue::HashTreeQueue;
use crate::jobs::Jobs;
use crate::key_rings::KeyRings;
use crate::liveness::LivenessRules;
use crate::node_claim::Newcomers;
use crate::profile_pace::ProfilePace;
use crate::repair::Repair;
use crate::repair_context::RepairContext;
use crate::replica_fate::Undecided;
use crate::resize_queue::ResizeQueue;
use crate::surplus::Surplus;
use crate::takeover::Shortage;
use crate::token_numbers::TokenNumbers;
use crate::unresponsive::Unresponsive;
use crate::writer_leases::WriterLeases;
use blocks::{BlocksError, Command, Reply};
use namespace::Effects;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::rows::{Rows, RowsError};
use types::{ContainerId, DiskReport, Millis, NodeId};

#[derive(Debug)]
pub struct Leader {
    pub cluster: Cluster,
    /// Processes that registered with ids that no node has.
    pub newcomers: Newcomers,
    /// Writers, and the last renewal of each.
    pub writer_leases: WriterLeases,
    /// Blocks that clients hold on lease.
    pub block_leases: BlockLeases,
    /// Replicas to delete.
    pub doomed: Doomed,
    /// Replicas whose blocks are still written.
    pub undecided: Undecided,
    /// Replicas to delete that safe mode keeps.
    pub withheld_deletions: Undecided,
    /// Replicas of blocks that a backup did not know.
    pub found: FoundBlocks,
    pub repair: Repair,
    /// Replicas where none belong.
    pub surplus: Surplus,
    /// Contents of sealed containers, by their members' hash trees.
    pub hash_trees: HashTreeQueue,
    /// Replicas that were reported as damaged, and not read since.
    pub complaints: Complaints,
    /// What writers' chains may still cost.
    pub chain_sets: ChainSets,
    pub unresponsive: Unresponsive,
    /// Copies that no datanode had room for when all pipelines were looked at last.
    pub shortage: Shortage,
    /// How many blocks have too few copies.
    pub census: LastCensus,
    pub jobs: Jobs,
    /// A datanode came that nobody knew, and balancing has not begun since.
    pub is_newcomer_empty: bool,
    /// Keys of tokens, and what they signed of late.
    pub keys: KeyRings,
    pub token_numbers: TokenNumbers,
    /// How much containers hold.
    pub container_sizes: ContainerSizes,
    /// How often users have access profiles kept.
    pub profile_pace: ProfilePace,
    /// Files whose replication was changed.
    pub resizes: ResizeQueue,
    pub(crate) container_audit: ContainerAudit,
    /// Nodes that were lost at the last look.
    pub(crate) lost: BTreeSet<NodeId>,
    /// Position in the search for removable containers.
    pub(crate) removal_after: Option<ContainerId>,
    disks: BTreeMap<NodeId, Vec<DiskReport>>,
    /// Of nodes with a failed disk.
    logged_disk_failures: BTreeMap<NodeId, LoggedFailures>,
}

impl Leader {
    /// Begins to lead with the rows. `wall` is the time of day, `lease_soft` how long a lease lasts that is not
    /// renewed.
    pub fn load(
        cluster: Cluster,
        rows: &dyn Rows,
        wall: Millis,
        now: Duration,
        lease_soft: Duration,
    ) -> Result<Self, RowsError> {
        let mut leader = Self {
            cluster,
            newcomers: Newcomers::default(),
            writer_leases: WriterLeases::load(rows, now)?,
            block_leases: BlockLeases::load(rows, now, lease_soft)?,
            doomed: Doomed::default(),
            undecided: Undecided::default(),
            withheld_deletions: Undecided::default(),
            found: FoundBlocks::default(),
            repair: Repair::default(),
            surplus: Surplus::default(),
            hash_trees: HashTreeQueue::default(),
            complaints: Complaints::default(),
            chain_sets: ChainSets::default(),
            unresponsive: Unresponsive::default(),
            shortage: Shortage::default(),
            census: LastCensus::default(),
            is_newcomer_empty: false,
            jobs: Jobs::load(rows, wall, now)?,
            keys: KeyRings::load(rows)?,
            token_numbers: TokenNumbers::default(),
            container_sizes: ContainerSizes::default(),
            profile_pace: ProfilePace::default(),
            resizes: ResizeQueue::default(),
            container_audit: ContainerAudit::default(),
            lost: BTreeSet::new(),
            removal_after: None,
            disks: BTreeMap::new(),
            logged_disk_failures: BTreeMap::new(),
        };
        // What the leader before was at: members that had not copied all yet.
        for pipeline in leader.cluster.joined_pipelines() {
            leader.cluster.containers_of(pipeline).for_each(|home| leader.repair.suspect(home, now));
        }
        Ok(leader)
    }

    /// A command of the block side was applied, whoever proposed it. So nothing is skipped if the proposer does not
    /// learn of it. To be called in the order of the log.
    pub fn on_applied(
        &mut self,
        command: &Command,
        answer: &Result<Reply, BlocksError>,
        rules: LivenessRules,
    ) -> Wakeups {
        if answer.is_err() {
            return Wakeups::default();
        }
        let before = self.cluster.members_before(command);
        self.cluster.on_applied(command, answer);
        match command {
            Command::SetMembers { .. } | Command::Carve { .. } => {
                self.repair_context(rules).on_members(command, &before);
                return Wakeups { repair: true, ..Wakeups::default() };
            }
            Command::BeginJob { id, row } => self.jobs.begun(*id, row, rules.now),
            Command::EndJob { id, end } => self.jobs.end_written(*id, end, rules.now),
            Command::SetService { node, service } => self.on_service(*node, *service, rules.now),
            Command::RemoveContainer { container } => self.hash_trees.on_removed(*container),
            // The next catalogue of each node names them again, and what nobody owns goes.
            Command::ReleaseFound { .. } => self.found.release(),
            _ => {}
        }
        Wakeups::default()
    }

    /// `holder` puts a file with a block that it has on lease, of this leader or, as it claims, of an earlier one.
    /// Returns the block's home, and the number of the put, for [`BlockLeases::leave_put`].
    pub fn begin_put(
        &mut self,
        holder: &str,
        put: (Grant, LeasedFor),
        is_short: bool,
        now: Duration,
    ) -> Result<(LeasedHome, u64), LeaseRefused> {
        let given_before = self.cluster.was_given_out_before(put.0.block);
        let home = self.block_leases.begin_put(holder, put, is_short, given_before, now)?;
        Ok((home, self.block_leases.last_put()))
    }

    /// A change of the namespace was applied, and had these effects.
    pub fn on_effects(&mut self, effects: &Effects, now: Duration) -> Wakeups {
        let Self { cluster, doomed, repair, block_leases, .. } = self;
        EffectHandler { cluster, doomed, repair, block_leases }.on_effects(effects, now)
    }

    /// What decisions about copies rest on.
    pub fn repair_context(&mut self, rules: LivenessRules) -> RepairContext<'_> {
        let Self { cluster, repair, surplus, .. } = self;
        RepairContext { cluster, repair, surplus, rules }
    }

    /// An earlier state of this leader is lost: all live nodes are to send their catalogues again.
    pub fn ask_for_catalogues(&mut self) {
        let here = self.cluster.nodes().filter(|member| member.seen().is_some());
        here.for_each(|member| self.surplus.ask_all(member.node.id));
    }

    /// Nodes that may have found blocks which are not listed: their catalogues did not come, or not all of them is
    /// decided.
    pub fn found_unreported(&self) -> impl Iterator<Item = NodeId> {
        let may_have_some = self.cluster.has_forgotten();
        let nodes = self.cluster.nodes().filter(move |_| may_have_some).map(|member| member.node.id);
        nodes.filter(|node| !self.found.reports.is_complete(*node))
    }

    /// The disks of each node, as it reported them last.
    pub fn disks(&self) -> &BTreeMap<NodeId, Vec<DiskReport>> {
        &self.disks
    }

    /// A node reports its disks. Answers whose failure is to be logged.
    pub fn on_disks(&mut self, node: NodeId, disks: Vec<DiskReport>, now: Duration) -> FailedDisks {
        let logged = self.logged_disk_failures.entry(node).or_default();
        let failed = logged.take_news(&disks, now);
        if logged.is_forgettable(now) {
            self.logged_disk_failures.remove(&node);
        }
        self.disks.insert(node, disks);
        failed
    }

    /// Every relation within and between the parts. Looks at everything: for tests and simulations, and now and then in
    /// debug builds.
    pub fn check(&self) {
        self.cluster.check();
        self.newcomers.check();
        self.writer_leases.check();
        self.block_leases.check();
        self.doomed.check();
        self.undecided.check();
        self.withheld_deletions.check();
        self.found.check();
        let forgotten = self.found.reports.undecided().find(|(node, block)| !self.undecided.contains(*node, *block));
        assert_eq!(forgotten, None, "nobody judges again a replica that may be one of a found block");
        self.repair.check();
        self.surplus.check();
        self.hash_trees.check(&self.cluster);
        self.complaints.check();
        self.chain_sets.check();
        self.jobs.check();
        self.keys.check();
        self.container_sizes.check();
        self.shortage.check();
        self.profile_pace.check();
        // Positions in passes over the rows, which may name what is gone, have no relation to the rest: `resizes`,
        // `container_audit`, `removal_after`. Nor has `census`, which is what was counted at an earlier moment.
        let mut known = self.lost.iter().chain(self.disks.keys()).chain(self.unresponsive.nodes());
        let strangers = known.find(|node| self.cluster.node(**node).is_none());
        assert_eq!(strangers, None, "something is remembered of a node that is not registered");
        let is_reported = |node| self.disks.contains_key(node);
        assert!(
            self.logged_disk_failures.keys().all(is_reported),
            "a failure was logged of a disk that was not reported"
        );
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::member::NodeUsage;
    use crate::replica_fate::ReportedReplica;
    use blocks::{JobKind, JobRow, JobTask, Node, apply};
    use namespace::BlockView;
    use types::rows::{MemoryRows, RowsMut};
    use types::{BlockId, ContainerId, Epoch, Generation, InodeId, PipelineId};

    pub(crate) const HOME: ContainerId = ContainerId(1);
    pub(crate) const NOW: Duration = Duration::from_secs(100);
    const SOFT: Duration = Duration::from_secs(60);

    pub(crate) fn node(number: u8) -> NodeId {
        NodeId([number; 16])
    }

    pub(crate) fn block(index: u32) -> BlockId {
        BlockId::new(HOME, index)
    }

    pub(crate) fn reported(index: u32) -> ReportedReplica {
        let (generation, file) = (Generation(1005), Some(InodeId(20_000)));
        ReportedReplica { block: block(index), generation, len: 5, file, home: Some(HOME), finalized: true }
    }

    /// What the rows have of such a block.
    pub(crate) fn view(index: u32) -> BlockView {
        BlockView {
            block: block(index),
            generation: Generation(1005),
            len: 5,
            file: InodeId(20_000),
            home: HOME,
            complete: true,
            written_for: None,
            offset: 0,
        }
    }

    pub(crate) fn rows() -> MemoryRows {
        let mut rows = MemoryRows::default();
        let mut commands: Vec<Command> = (1..=3).map(|number| Command::Register(Node::example(number, "/r"))).collect();
        commands.push(Command::CreateSet { members: vec![node(1), node(2)], wanted: 2, planned: true });
        commands.push(Command::OpenContainer { pipeline: PipelineId(1) });
        commands.push(Command::LeaseIndexes { container: HOME, from: 0, up_to: 100, lessee: 1, len: 0 });
        commands.iter().for_each(|command| _ = apply(&mut rows, command).unwrap().unwrap());
        rows
    }

    pub(crate) fn load(rows: &MemoryRows) -> Leader {
        let mut leader = Leader::load(Cluster::load(rows, 1).unwrap(), rows, Millis(1), NOW, SOFT).unwrap();
        (1..=3).for_each(|number| leader.cluster.on_registered(NOW, node(number), NodeUsage::default()));
        leader.check();
        leader
    }

    /// Nodes 1 and 2 of three hold a container, of which 100 indexes were given out.
    pub(crate) fn leader() -> Leader {
        load(&rows())
    }

    pub(crate) fn rules() -> LivenessRules {
        LivenessRules {
            now: NOW,
            receiving_since: Duration::ZERO,
            lost_after: Duration::from_secs(15),
            usual_replication: 2,
        }
    }

    /// An entry of the log.
    pub(crate) fn run(rows: &mut MemoryRows, leader: &mut Leader, command: &Command) -> Wakeups {
        let answer = apply(rows, command).unwrap();
        assert!(answer.is_ok(), "{command:?}: {answer:?}");
        let wakes = leader.on_applied(command, &answer, rules());
        leader.check();
        wakes
    }

    pub(crate) fn begin(
        rows: &mut MemoryRows,
        leader: &mut Leader,
        kind: JobKind,
        subject: &str,
        task: &JobTask,
    ) -> u64 {
        let id = leader.jobs.next_id();
        let row = JobRow { kind, subject: subject.to_owned(), started: Millis(1), task: task.clone(), end: None };
        run(rows, leader, &Command::BeginJob { id, row });
        id
    }

    /// What a client claims to have had from the leader before is nothing that this leader has to give: it would give
    /// it to another one a moment later.
    #[test]
    fn a_claim_takes_no_block_that_this_leader_gives_out() {
        let mut rows = rows();
        rows.put(namespace::tables::RESERVED, &[], vec![0; 8]);
        let mut leader = load(&rows);
        let lease = Command::LeaseIndexes { container: HOME, from: 100, up_to: 200, lessee: 1, len: 0 };
        run(&mut rows, &mut leader, &lease);
        let claim = |index| (Grant { block: block(index), file: InodeId(7) }, LeasedFor::NewFile);
        assert!(leader.begin_put("old", claim(99), false, NOW).is_ok(), "it may have been given out before");
        assert_eq!(leader.begin_put("thief", claim(100), false, NOW), Err(LeaseRefused::NotHeld));
        leader.block_leases.reserved(InodeId(50), 10, Generation(1001));
        let home = LeasedHome { container: HOME, set: None };
        leader.block_leases.grant("honest", home, &[block(100)], None, NOW).unwrap();
        leader.check();
    }

    /// A proposal whose proposer never learns that it was applied: the newcomer's containers are compared, and who went
    /// is asked what it has.
    #[test]
    fn containers_whose_members_changed_are_compared() {
        let set = || Command::SetMembers { pipeline: PipelineId(1), epoch: Epoch(1), members: vec![node(1), node(3)] };
        let carve = || Command::Carve {
            from: PipelineId(1),
            epoch: Epoch(1),
            containers: vec![HOME],
            members: vec![node(1), node(3)],
        };
        for command in [set(), carve()] {
            let (mut rows, mut leader) = (rows(), leader());
            assert_eq!(leader.repair.next_due(), None);
            let wakes = run(&mut rows, &mut leader, &command);
            assert_eq!(wakes, Wakeups { repair: true, ..Wakeups::default() }, "{command:?}");
            assert_eq!(leader.repair.next_check(NOW), Some(HOME), "{command:?}");
            assert!(leader.surplus.take_ask(node(2)), "{command:?}");
        }
    }

    /// Nobody is to release what the list of found blocks may lack.
    #[test]
    fn a_datanode_has_reported_its_found_blocks_when_all_of_its_catalogue_is_decided() {
        let mut rows = rows();
        assert_eq!(load(&rows).found_unreported().count(), 0, "nothing was restored");
        blocks::restore(&mut rows, Millis(1), Millis(2)).unwrap();
        let mut leader = load(&rows);
        let unreported = |leader: &Leader| leader.found_unreported().collect::<Vec<_>>();
        assert_eq!(unreported(&leader), [node(1), node(2), node(3)]);
        let judge = |leader: &mut Leader, index, may_be_put| {
            let orders = leader.decide_replicas(node(1), &[(reported(index), None, may_be_put)], false, NOW);
            leader.check();
            assert!(orders.delete.is_empty());
        };
        assert!(leader.on_catalogue(node(1), true, NOW));
        judge(&mut leader, 7, false);
        // As long as its client may put it, it is no found block yet.
        judge(&mut leader, 8, true);
        leader.on_catalogue_complete(node(1));
        assert_eq!((unreported(&leader).contains(&node(1)), leader.found.block_count()), (true, 1));
        judge(&mut leader, 8, false);
        assert_eq!((unreported(&leader), leader.found.block_count()), (vec![node(2), node(3)], 2));
        // It has been started anew, perhaps with a disk more.
        let process = leader.cluster.node(node(1)).unwrap().node.clone();
        leader.on_registered(&process, NodeUsage::default(), NOW).unwrap();
        assert!(unreported(&leader).contains(&node(1)));
        run(&mut rows, &mut leader, &Command::ReleaseFound { at: Millis(3) });
        assert_eq!((unreported(&leader), leader.found.block_count()), (vec![], 0));
    }

    #[test]
    fn a_disk_that_fails_is_told_once() {
        let mut leader = leader();
        let disk = |failure: &str| DiskReport { dir: "/a".into(), failure: failure.into(), ..DiskReport::default() };
        assert_eq!(leader.on_disks(node(1), vec![disk("")], NOW).shown, []);
        assert_eq!(leader.on_disks(node(1), vec![disk("cannot sync")], NOW).shown, [disk("cannot sync")]);
        assert_eq!(leader.on_disks(node(1), vec![disk("cannot sync")], NOW).shown, []);
        assert_eq!(leader.disks()[&node(1)], [disk("cannot sync")]);
        leader.check();
    }
}
