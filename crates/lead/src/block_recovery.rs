//! Recovery of a block whose writer is gone: which replicas are kept, and the length they agree on.
//!
//! Promise: acknowledged bytes are kept as long as one of the reported replicas has them. Every node of the chain has
//! every byte that was acknowledged, and each change of the chain raises the generation. So all replicas of the highest
//! generation have these bytes, unless a restart damaged the replica. The shortest undamaged one is therefore long
//! enough. If a restart damaged all of them, the longest is.
//!
//! A node reports a length and a generation. A recovery may go on with some of the replicas only. Those that it leaves
//! out become stale and are deleted. So the chosen replicas are verified first: a damaged one must not displace sound
//! ones. A single replica is always verified, because replicas from an earlier home elsewhere become stale as well.

use std::collections::BTreeSet;
use std::time::Duration;
use types::mutation::{self, Mutation};
use types::{Fitness, Generation, NodeId, ReplicaState};

/// How long members that do not answer are waited for when others have what is needed. A restart takes about as long.
const PATIENCE: Duration = Duration::from_secs(5);
/// The same when the nodes that answer may lack acknowledged bytes: they lost power, or have less than is recorded.
const PATIENCE_IN_DOUBT: Duration = Duration::from_secs(60);

/// A replica, fenced: no writer can change it any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FencedReplica {
    pub node: NodeId,
    pub state: ReplicaState,
    pub generation: Generation,
    pub len: u64,
}

/// What the block becomes, and the replicas to cut to that; others are too short or stale, and go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveryPlan {
    pub len: u64,
    pub nodes: Vec<NodeId>,
}

/// A put replica has all that was ever sent for the block under its generation; nothing can be beyond it. If something
/// is, the block was opened again under the same generation, as some clients do, and this node was not there.
pub(crate) fn was_left_behind(put: &FencedReplica, survivors: &[FencedReplica]) -> bool {
    let beyond = |other: &FencedReplica| other.generation == put.generation && other.len > put.len;
    put.state == ReplicaState::Finalized && survivors.iter().any(beyond)
}

/// Finds the length, at most that of `cut`. `generation` and `len` are what the namespace has recorded. `None`: nothing
/// of the block is left.
fn agree(survivors: &[FencedReplica], generation: Generation, len: u64, cut: Option<u64>) -> Option<RecoveryPlan> {
    let is_usable =
        |survivor: &&FencedReplica| survivor.generation >= generation && survivor.state != ReplicaState::Copying;
    let usable: Vec<&FencedReplica> = survivors.iter().filter(is_usable).collect();
    let usable: Vec<&FencedReplica> = usable.into_iter().filter(|one| !was_left_behind(one, survivors)).collect();
    let best_state = usable.iter().map(|survivor| survivor.state).max()?;
    let of_state = usable.iter().filter(|survivor| survivor.state == best_state);
    let youngest = of_state.clone().map(|survivor| survivor.generation).max()?;
    let of_youngest = of_state.filter(|survivor| survivor.generation == youngest).map(|survivor| survivor.len);
    let mut agreed = match best_state {
        // Each may lack acknowledged bytes, and none can have bytes that were not sent: only the longest is long enough
        // for sure, of whichever chain; the younger one may never have come about.
        ReplicaState::WaitingForRecovery | ReplicaState::Copying => usable.iter().map(|survivor| survivor.len).max()?,
        ReplicaState::Open | ReplicaState::Finalized => of_youngest.min()?,
    };
    if agreed < len {
        // Recorded lengths were acknowledged by every node at some time, or are a little more than that. So replicas of
        // at least the recorded length are preferred.
        agreed = usable.iter().map(|survivor| survivor.len).filter(|have| *have >= len).min().unwrap_or(agreed);
    }
    // A replica that has all bytes to be kept is as good as a longer one.
    let agreed = cut.map_or(agreed, |cut| agreed.min(cut));
    let nodes = usable.iter().filter(|survivor| survivor.len >= agreed).map(|survivor| survivor.node).collect();
    Some(RecoveryPlan { len: agreed, nodes })
}

/// What a recovery still has to ask, after it has asked every member; then, what it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Ask all other datanodes as well: [`RecoveryRound::others_said`].
    AskOthers,
    /// Have these read their replicas from end to end: [`RecoveryRound::was_read`].
    Read(Vec<NodeId>),
    Do(Step),
}

/// What a recovery does after it has asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Ask them again.
    Wait(&'static str),
    /// Nothing of the block is left.
    Nothing,
    /// Have these finish their replicas at this length.
    Finish(RecoveryPlan),
}

/// How long datanodes that never were members of the home, as far as is known, and do not answer are waited for when no
/// node has anything. The same for members that answer that they do not know.
const SILENT_OTHERS_WAIT: Duration = Duration::from_secs(60);

/// What a datanode reported of the block, after it fenced its replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryReply {
    Silence,
    /// The node cannot tell: the replica may be on a disk that it started without.
    Unknown,
    Nothing,
    Replica(FencedReplica),
    /// It was verified, and does not match its checksums. Its length is used; its bytes only when no better replica can
    /// exist.
    Damaged(FencedReplica),
}

impl RecoveryReply {
    /// A node shows this replica as fenced for a recovery of that generation. A replica that is as young, or younger,
    /// cannot be fenced for it, and a node refuses to: who shows one is wrong, and would outdo all others by it.
    pub fn fenced(replica: FencedReplica, recovery: Generation) -> Self {
        if replica.generation < recovery { Self::Replica(replica) } else { Self::Unknown }
    }
}

/// A recovery, as the namespace knows of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedBlock {
    /// As recorded.
    pub generation: Generation,
    pub len: u64,
    /// The block was whole, and is to be cut to this.
    pub cut: Option<u64>,
}

impl RecordedBlock {
    /// What must be there.
    fn recorded(&self) -> u64 {
        self.cut.unwrap_or(self.len)
    }

    fn agree(&self, survivors: &[FencedReplica]) -> Option<RecoveryPlan> {
        agree(survivors, self.generation, self.recorded(), self.cut)
    }

    /// Whether it is as good as certain that the block never got a byte. None was recorded, every member answers, at
    /// least one of them never had the block, and no node has even a stale replica. A member that cannot tell would
    /// have been alone in the block's chain from the first byte on.
    fn was_never_begun(&self, members: &[RecoveryReply], others: &[RecoveryReply]) -> bool {
        let has_none = |shown: &RecoveryReply| matches!(shown, RecoveryReply::Nothing | RecoveryReply::Unknown);
        self.len == 0
            && self.cut.is_none()
            && members.iter().all(has_none)
            && members.contains(&RecoveryReply::Nothing)
            && !others.iter().any(shows_some)
    }

    /// Whether the replicas that the recovery uses are verified first: a member of the home takes no part, and may have
    /// the only sound one. If all take part, damage on one is repaired from the others later; with a single one there
    /// are none. A block that is truncated may be years old, and a former member may still have it: it is always
    /// verified.
    fn must_be_read(&self, members: &[RecoveryReply], agreed: &RecoveryPlan) -> bool {
        let takes_part = |shown: &RecoveryReply| match shown {
            RecoveryReply::Replica(survivor) | RecoveryReply::Damaged(survivor) => {
                agreed.nodes.contains(&survivor.node)
            }
            RecoveryReply::Silence | RecoveryReply::Unknown | RecoveryReply::Nothing => false,
        };
        self.cut.is_some() || agreed.nodes.len() < 2 || !members.iter().all(takes_part)
    }

    /// Whether all other datanodes are asked as well. The home may have got other members since the block was begun, so
    /// the nodes of its chain are no members any more. Or the members may have been restarted.
    fn asks_others(&self, members: &[RecoveryReply]) -> bool {
        let survivors = survivors(members);
        let agreed = self.agree(&survivors);
        !agreed.is_some_and(|agreed| agreed.len > 0 && is_sound(&survivors, &agreed, self.recorded()))
    }

    /// Decides on the answers. `others` are those of all datanodes that are no members, if they were asked. `waited` is
    /// the time since the recovery began.
    fn next_step(&self, members: &[RecoveryReply], others: &[RecoveryReply], waited: Duration) -> Step {
        let is_silent = |shown: &&RecoveryReply| matches!(shown, RecoveryReply::Silence | RecoveryReply::Unknown);
        let silent = |shown: &[RecoveryReply]| match mutation::is(Mutation::RecoverWithoutWaiting) {
            true => 0,
            false => shown.iter().filter(is_silent).count(),
        };
        let is_damaged = |shown: &RecoveryReply| matches!(shown, RecoveryReply::Damaged(_));
        let mut survivors = survivors(members);
        let on_members = self.agree(&survivors).is_some_and(|agreed| agreed.len > 0);
        survivors.extend(self::survivors(others));
        // A node that is no member and does not answer may never have had the block. It is waited for only if the
        // members have none of it, and without limit only if bytes are known to exist.
        let is_somewhere = others.iter().any(shows_some) || members.iter().any(is_damaged) || self.len > 0;
        let awaited = is_somewhere || waited < SILENT_OTHERS_WAIT;
        let silent_others = if awaited && !on_members { silent(others) } else { 0 };
        let gives_up = waited >= SILENT_OTHERS_WAIT && self.was_never_begun(members, others);
        let silent_count = if gives_up { 0 } else { silent(members) + silent_others };
        let shown = || members.iter().chain(others);
        if shown().any(is_damaged) {
            // Bytes that are cut off in any case make no replica better.
            let len = |survivors: &[FencedReplica]| self.agree(survivors).map_or(0, |agreed| agreed.len);
            let all: Vec<FencedReplica> = shown().filter_map(survivor).collect();
            if len(&survivors) < len(&all) {
                if silent_count > 0 {
                    return Step::Wait("replicas that were read are damaged, and not all nodes answer");
                }
                survivors = all;
            }
        }
        match next_step(&survivors, silent_count, waited, self) {
            // Recorded bytes were acknowledged: a node that has them may return.
            Step::Nothing if self.len > 0 => Step::Wait("no node shows bytes that were acknowledged"),
            Step::Finish(agreed) if silent_count > 0 && self.cut.is_some_and(|cut| agreed.len < cut) => {
                Step::Wait("those who answer have less of the block than shall be left")
            }
            step => step,
        }
    }
}

/// One attempt of a recovery: the answers so far.
#[derive(Debug)]
pub struct RecoveryRound {
    recorded: RecordedBlock,
    members: Vec<RecoveryReply>,
    /// Of all datanodes that are no members, once they were asked.
    others: Option<Vec<RecoveryReply>>,
    /// Their replicas were read, and are as they should be.
    read: BTreeSet<NodeId>,
}

impl RecoveryRound {
    pub fn new(recorded: RecordedBlock, members: Vec<RecoveryReply>) -> Self {
        Self { recorded, members, others: None, read: BTreeSet::new() }
    }

    pub fn others_said(&mut self, others: Vec<RecoveryReply>) {
        self.others = Some(others);
    }

    /// The answer of a node that was to verify its replica; `None` if no answer came.
    pub fn was_read(&mut self, node: NodeId, fitness: Option<Fitness>) {
        let all = self.members.iter_mut().chain(self.others.iter_mut().flatten());
        for shown in all {
            let Some(replica) = survivor(shown).filter(|replica| replica.node == node) else { continue };
            match fitness {
                Some(Fitness::Fit) => _ = self.read.insert(node),
                Some(Fitness::Unfit) => *shown = RecoveryReply::Damaged(replica),
                Some(Fitness::Readable | Fitness::Absent | Fitness::Busy) | None => *shown = RecoveryReply::Silence,
            }
        }
    }

    /// Of the longest replica that was shown.
    pub fn len_max(&self) -> u64 {
        let shown = self.members.iter().chain(self.others.iter().flatten());
        shown.filter_map(survivor).map(|replica| replica.len).max().unwrap_or_default()
    }

    /// These nodes finished their replicas. Returns those that have to verify theirs before the recovery may go on with
    /// them alone, since all others are stale from then on. None has to if all finished that were to, or if one of them
    /// was verified before. A node that did not finish may have the only sound replica. If none that is verified now is
    /// fit, the recovery must begin again.
    pub fn to_be_read(&self, agreed: &RecoveryPlan, finished: &[NodeId]) -> Vec<NodeId> {
        let shown = || self.members.iter().chain(self.others.iter().flatten());
        // A replica that is known to be damaged is used only if there is no better one.
        let is_known = |node: &NodeId| {
            let found_at_start = |replica: &FencedReplica| replica.state == ReplicaState::WaitingForRecovery;
            self.read.contains(node)
                || shown().any(|shown| match shown {
                    RecoveryReply::Replica(replica) => replica.node == *node && found_at_start(replica),
                    RecoveryReply::Damaged(replica) => replica.node == *node,
                    RecoveryReply::Silence | RecoveryReply::Unknown | RecoveryReply::Nothing => false,
                })
        };
        let did_all = agreed.nodes.iter().all(|node| finished.contains(node));
        if did_all || finished.iter().any(is_known) { Vec::new() } else { finished.to_vec() }
    }

    /// `waited` is the time since the recovery began.
    pub fn next(&self, waited: Duration) -> Next {
        if self.others.is_none() && self.recorded.asks_others(&self.members) {
            return Next::AskOthers;
        }
        let others = self.others.as_deref().unwrap_or_default();
        let step = self.recorded.next_step(&self.members, others, waited);
        if let Step::Finish(agreed) = &step
            && self.recorded.must_be_read(&self.members, agreed)
        {
            let unread = self.unread(agreed);
            if !unread.is_empty() {
                return Next::Read(unread);
            }
        }
        Next::Do(step)
    }

    /// A replica that was found at a start was read when it was fenced.
    fn unread(&self, agreed: &RecoveryPlan) -> Vec<NodeId> {
        let shown = self.members.iter().chain(self.others.iter().flatten());
        let unread = shown.filter_map(|shown| match shown {
            RecoveryReply::Replica(replica) if replica.state != ReplicaState::WaitingForRecovery => Some(replica.node),
            _ => None,
        });
        unread.filter(|node| agreed.nodes.contains(node) && !self.read.contains(node)).collect()
    }
}

fn survivors(shown: &[RecoveryReply]) -> Vec<FencedReplica> {
    shown.iter().filter(|shown| matches!(shown, RecoveryReply::Replica(_))).filter_map(survivor).collect()
}

/// Damaged or not.
fn survivor(shown: &RecoveryReply) -> Option<FencedReplica> {
    match shown {
        RecoveryReply::Replica(survivor) | RecoveryReply::Damaged(survivor) => Some(*survivor),
        RecoveryReply::Silence | RecoveryReply::Unknown | RecoveryReply::Nothing => None,
    }
}

fn shows_some(shown: &RecoveryReply) -> bool {
    survivor(shown).is_some()
}

/// Decides on the answers: `survivors` showed a replica, `silent_count` did not answer, the others have none.
fn next_step(survivors: &[FencedReplica], silent_count: usize, waited: Duration, recorded: &RecordedBlock) -> Step {
    let agreed = recorded.agree(survivors);
    if silent_count > 0 && agreed.is_none() {
        // A node that does not answer may have all of it. It must return, or the file must be deleted.
        return Step::Wait("no replica was found, and not all nodes answer");
    }
    let sound = agreed.as_ref().is_some_and(|agreed| is_sound(survivors, agreed, recorded.recorded()));
    if silent_count > 0 && waited < if sound { PATIENCE } else { PATIENCE_IN_DOUBT } {
        return Step::Wait("not all nodes answer");
    }
    match agreed.filter(|agreed| agreed.len > 0) {
        Some(agreed) => Step::Finish(agreed),
        None => Step::Nothing,
    }
}

/// All recorded bytes are there, on a node that was not restarted.
fn is_sound(survivors: &[FencedReplica], agreed: &RecoveryPlan, recorded: u64) -> bool {
    let never_fell = |survivor: &FencedReplica| survivor.state != ReplicaState::WaitingForRecovery;
    let mut taken = survivors.iter().filter(|survivor| agreed.nodes.contains(&survivor.node));
    agreed.len >= recorded && taken.any(never_fell)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ReplicaState::{Finalized, Open, WaitingForRecovery};

    /// Replicas on nodes 1, 2, …; the block is recorded with generation 10.
    fn check(recorded: u64, replicas: &[(ReplicaState, u64, u64)], len: u64, nodes: &[u8]) {
        let survivors: Vec<FencedReplica> = replicas
            .iter()
            .zip(1..)
            .map(|((state, generation, len), number)| FencedReplica {
                node: NodeId([number; 16]),
                state: *state,
                generation: Generation(*generation),
                len: *len,
            })
            .collect();
        let nodes = nodes.iter().map(|number| NodeId([*number; 16])).collect();
        assert_eq!(
            agree(&survivors, Generation(10), recorded, None),
            Some(RecoveryPlan { len, nodes }),
            "{replicas:?}"
        );
    }

    #[test]
    fn open_replicas_meet_at_the_shortest() {
        check(0, &[(Open, 10, 700), (Open, 10, 500), (Open, 10, 600)], 500, &[1, 2, 3]);
    }

    #[test]
    fn a_put_replica_wins() {
        check(0, &[(Open, 10, 700), (Finalized, 10, 900), (Open, 10, 900)], 900, &[2, 3]);
    }

    #[test]
    fn a_restarted_node_counts_only_if_nobody_else_is_there() {
        check(0, &[(WaitingForRecovery, 10, 300), (Open, 10, 500)], 500, &[2]);
        check(0, &[(WaitingForRecovery, 10, 300), (WaitingForRecovery, 10, 500)], 500, &[2]);
    }

    /// Node 1 was to go on alone, its chain did not come about, and then it lost power in mid-write.
    #[test]
    fn a_younger_generation_does_not_outweigh_bytes_when_all_fell() {
        check(0, &[(WaitingForRecovery, 11, 64), (WaitingForRecovery, 10, 75)], 75, &[2]);
        check(0, &[(WaitingForRecovery, 11, 80), (WaitingForRecovery, 10, 75)], 80, &[1]);
    }

    /// Node 1 left the chain before the rest was written.
    #[test]
    fn who_left_the_chain_does_not_shorten_the_block() {
        check(0, &[(Open, 10, 100), (Open, 11, 800), (Open, 11, 900)], 800, &[2, 3]);
        check(0, &[(Open, 9, 100), (Open, 10, 800)], 800, &[2]);
    }

    #[test]
    fn what_was_recorded_is_not_lost_if_somebody_has_it() {
        check(400, &[(Open, 10, 100), (Open, 10, 500), (Open, 10, 450)], 450, &[2, 3]);
        check(400, &[(Open, 10, 100), (WaitingForRecovery, 10, 400)], 400, &[2]);
        // Some writers record what they sent.
        check(400, &[(Open, 10, 100), (Open, 10, 150)], 100, &[1, 2]);
    }

    /// Node 1 was down when an append began that took no new generation.
    #[test]
    fn what_was_put_before_an_append_does_not_shorten_it() {
        check(500, &[(Finalized, 10, 500), (Open, 10, 800), (Open, 10, 900)], 800, &[2, 3]);
        check(500, &[(Finalized, 10, 500), (Finalized, 10, 900), (Open, 10, 900)], 900, &[2, 3]);
        check(500, &[(Finalized, 10, 500), (WaitingForRecovery, 10, 700)], 700, &[2]);
        check(500, &[(Finalized, 10, 500), (Open, 10, 500)], 500, &[1, 2]);
    }

    /// Such a one would be the youngest, and what it says the length would be.
    #[test]
    fn a_replica_that_cannot_be_fenced_is_no_evidence() {
        let of = |generation| FencedReplica {
            node: NodeId([1; 16]),
            state: Finalized,
            generation: Generation(generation),
            len: 5,
        };
        assert_eq!(RecoveryReply::fenced(of(19), Generation(20)), RecoveryReply::Replica(of(19)));
        for generation in [20, 21, u64::MAX] {
            assert_eq!(RecoveryReply::fenced(of(generation), Generation(20)), RecoveryReply::Unknown);
        }
    }

    #[test]
    fn stale_replicas_are_nothing() {
        let stale = FencedReplica { node: NodeId([1; 16]), state: Finalized, generation: Generation(9), len: 5 };
        assert_eq!(agree(&[stale], Generation(10), 0, None), None);
        assert_eq!(agree(&[], Generation(10), 0, None), None);
    }

    #[test]
    fn who_may_lack_acknowledged_bytes_is_not_believed_soon() {
        let check = |state, len, recorded, wanted| {
            let survivors = [FencedReplica { node: NodeId([1; 16]), state, generation: Generation(1001), len }];
            let agreed = agree(&survivors, Generation(1001), recorded, None);
            assert_eq!(is_sound(&survivors, &agreed.unwrap(), recorded), wanted, "{state:?} {len} of {recorded}");
        };
        check(Open, 5, 0, true);
        check(Finalized, 5, 5, true);
        check(Open, 5, 6, false);
        check(WaitingForRecovery, 5, 5, false);
    }

    #[test]
    fn silent_members_are_waited_for_and_forever_if_nobody_has_anything() {
        let open = FencedReplica { node: NodeId([1; 16]), state: Open, generation: Generation(10), len: 5 };
        let recorded = RecordedBlock { generation: Generation(10), len: 0, cut: None };
        let step = |survivors: &[FencedReplica], silent, seconds| {
            next_step(survivors, silent, Duration::from_secs(seconds), &recorded)
        };
        assert!(matches!(step(&[open], 1, 4), Step::Wait(_)));
        assert!(matches!(step(&[open], 1, 5), Step::Finish(_)));
        assert!(matches!(step(&[open], 0, 0), Step::Finish(_)));
        assert!(matches!(step(&[], 1, 1_000_000), Step::Wait(_)));
        assert_eq!(step(&[], 0, 0), Step::Nothing);
        assert_eq!(step(&[FencedReplica { len: 0, ..open }], 0, 0), Step::Nothing);
    }

    fn shown(number: u8, state: ReplicaState, generation: u64, len: u64) -> RecoveryReply {
        RecoveryReply::Replica(FencedReplica {
            node: NodeId([number; 16]),
            state,
            generation: Generation(generation),
            len,
        })
    }

    /// The members came while the block was open: they have nothing, or something old, and those who have it are
    /// elsewhere.
    #[test]
    fn bytes_are_looked_for_where_the_home_is_no_more() {
        let recorded = RecordedBlock { generation: Generation(10), len: 0, cut: None };
        let step = |members: &[RecoveryReply], others: &[RecoveryReply], seconds| {
            recorded.next_step(members, others, Duration::from_secs(seconds))
        };
        let finish = |len, number| Step::Finish(RecoveryPlan { len, nodes: vec![NodeId([number; 16])] });
        for members in
            [&[RecoveryReply::Nothing, RecoveryReply::Nothing][..], &[shown(1, Open, 9, 50), RecoveryReply::Nothing]]
        {
            assert!(recorded.asks_others(members), "{members:?}");
            assert_eq!(
                step(members, &[RecoveryReply::Nothing, shown(5, Open, 10, 80)], 0),
                finish(80, 5),
                "{members:?}"
            );
            assert_eq!(step(members, &[RecoveryReply::Nothing], 0), Step::Nothing, "{members:?}");
        }
        let nothing = [RecoveryReply::Nothing];
        assert!(matches!(step(&nothing, &[RecoveryReply::Silence], 59), Step::Wait(_)));
        assert_eq!(step(&nothing, &[RecoveryReply::Silence], 60), Step::Nothing);
        // Somebody shows it, so whoever is silent may have more.
        assert!(matches!(step(&nothing, &[RecoveryReply::Silence, shown(5, Open, 10, 80)], 4), Step::Wait(_)));
        // All members fell: somebody else may have all of it.
        assert!(recorded.asks_others(&[shown(1, WaitingForRecovery, 10, 50)]));
        assert_eq!(step(&[shown(1, WaitingForRecovery, 10, 50)], &[shown(5, Open, 10, 80)], 0), finish(80, 5));
        assert!(!recorded.asks_others(&[shown(1, Open, 10, 50), RecoveryReply::Silence]));
    }

    #[test]
    fn recorded_bytes_are_never_given_up_and_a_cut_waits_for_what_shall_be_left() {
        let long = Duration::from_secs(1_000_000);
        let appended = RecordedBlock { generation: Generation(10), len: 80, cut: None };
        assert!(matches!(
            appended.next_step(&[RecoveryReply::Nothing], &[RecoveryReply::Nothing], long),
            Step::Wait(_)
        ));
        let cut = RecordedBlock { cut: Some(30), ..appended };
        let whole = [shown(1, Finalized, 10, 80)];
        assert_eq!(
            cut.next_step(&whole, &[], Duration::ZERO),
            Step::Finish(RecoveryPlan { len: 30, nodes: vec![NodeId([1; 16])] })
        );
        let short = [shown(1, WaitingForRecovery, 10, 20), RecoveryReply::Silence];
        assert!(matches!(cut.next_step(&short, &[], long), Step::Wait(_)));
    }

    /// Node 1 has rotted, and shows what it always showed; nodes 2 and 3 do not answer.
    #[test]
    fn who_goes_on_without_others_is_read_before_it_is_believed() {
        let recorded = RecordedBlock { generation: Generation(10), len: 0, cut: None };
        let long = Duration::from_secs(1_000_000);
        let finish = |numbers: &[u8]| {
            let nodes = numbers.iter().map(|number| NodeId([*number; 16])).collect();
            Next::Do(Step::Finish(RecoveryPlan { len: 80, nodes }))
        };
        let (first, second) = (NodeId([1; 16]), NodeId([2; 16]));
        let put = |number| shown(number, Finalized, 10, 80);
        let all_there = RecoveryRound::new(recorded, vec![put(1), put(2), put(3)]);
        assert_eq!(all_there.next(Duration::ZERO), finish(&[1, 2, 3]), "damage is mended from the others");
        let alone = || RecoveryRound::new(recorded, vec![put(1), RecoveryReply::Silence, RecoveryReply::Silence]);
        assert!(matches!(alone().next(Duration::from_secs(4)), Next::Do(Step::Wait(_))));
        assert_eq!(alone().next(Duration::from_secs(5)), Next::Read(vec![first]));
        let mut sound = alone();
        sound.was_read(first, Some(Fitness::Fit));
        assert_eq!(sound.next(Duration::from_secs(5)), finish(&[1]));
        let mut rotten = alone();
        rotten.was_read(first, Some(Fitness::Unfit));
        assert_eq!(rotten.next(long), Next::AskOthers);
        rotten.others_said(vec![RecoveryReply::Nothing]);
        assert!(matches!(rotten.next(long), Next::Do(Step::Wait(_))), "one of the silent ones may have better");
        let mut silent = alone();
        silent.was_read(first, None);
        silent.others_said(vec![]);
        assert!(matches!(silent.next(long), Next::Do(Step::Wait(_))));
        // One of them is back.
        let mut two = RecoveryRound::new(recorded, vec![put(1), put(2), RecoveryReply::Silence]);
        assert_eq!(two.next(long), Next::Read(vec![first, second]));
        two.was_read(first, Some(Fitness::Unfit));
        assert_eq!(two.next(long), Next::Read(vec![second]));
        two.was_read(second, Some(Fitness::Fit));
        assert_eq!(two.next(long), finish(&[2]));
        // It is elsewhere, since the home has got other members.
        let mut moved = RecoveryRound::new(recorded, vec![put(1), RecoveryReply::Nothing, RecoveryReply::Nothing]);
        assert_eq!(moved.next(Duration::ZERO), Next::Read(vec![first]));
        moved.was_read(first, Some(Fitness::Unfit));
        assert_eq!(moved.next(Duration::ZERO), Next::AskOthers);
        moved.others_said(vec![put(2)]);
        assert_eq!(moved.next(Duration::ZERO), Next::Read(vec![second]));
        moved.was_read(second, Some(Fitness::Fit));
        assert_eq!(moved.next(Duration::ZERO), finish(&[2]));
    }

    /// All members show a replica, so none was read; but only node 1 finishes, and it has rotted. Nodes 2 and 3 would
    /// be deleted.
    #[test]
    fn who_finishes_alone_is_read_before_it_is_recorded() {
        let recorded = RecordedBlock { generation: Generation(10), len: 0, cut: None };
        let put = |number| shown(number, Finalized, 10, 80);
        let node = |number| NodeId([number; 16]);
        let agreed =
            |numbers: &[u8]| RecoveryPlan { len: 80, nodes: numbers.iter().map(|number| node(*number)).collect() };
        let all_there = RecoveryRound::new(recorded, vec![put(1), put(2), put(3)]);
        let all = agreed(&[1, 2, 3]);
        assert_eq!(all_there.to_be_read(&all, &[node(1), node(2), node(3)]), []);
        assert_eq!(all_there.to_be_read(&all, &[node(1)]), [node(1)]);
        let mut read = RecoveryRound::new(recorded, vec![put(1), put(2), RecoveryReply::Silence]);
        read.was_read(node(1), Some(Fitness::Fit));
        read.was_read(node(2), Some(Fitness::Fit));
        assert_eq!(read.to_be_read(&agreed(&[1, 2]), &[node(2)]), []);
    }

    /// A block that is cut was whole for long: what rotted meanwhile must not cost who is sound, whether a member or
    /// not.
    #[test]
    fn a_block_is_read_before_it_is_cut() {
        let cut = RecordedBlock { generation: Generation(10), len: 80, cut: Some(30) };
        let node = |number| NodeId([number; 16]);
        let finish = |number| Next::Do(Step::Finish(RecoveryPlan { len: 30, nodes: vec![node(number)] }));
        let mut round = RecoveryRound::new(cut, vec![shown(1, Finalized, 10, 80), shown(2, Finalized, 10, 80)]);
        assert_eq!(round.next(Duration::ZERO), Next::Read(vec![node(1), node(2)]));
        round.was_read(node(1), Some(Fitness::Unfit));
        round.was_read(node(2), Some(Fitness::Unfit));
        assert_eq!(round.next(Duration::ZERO), Next::AskOthers);
        round.others_said(vec![shown(3, Finalized, 10, 80)]);
        assert_eq!(round.next(Duration::ZERO), Next::Read(vec![node(3)]));
        round.was_read(node(3), Some(Fitness::Fit));
        assert_eq!(round.next(Duration::ZERO), finish(3));
        // Node 2 was cut before, and fell: it has all that shall be left, though the damaged one shows more.
        let mut round =
            RecoveryRound::new(cut, vec![shown(1, Finalized, 10, 80), shown(2, WaitingForRecovery, 10, 30)]);
        round.was_read(node(1), Some(Fitness::Unfit));
        round.others_said(vec![RecoveryReply::Nothing]);
        assert_eq!(round.next(Duration::ZERO), finish(2));
    }

    /// What is damaged is better than nothing, and than what lacks bytes that it tells of, once everybody has spoken.
    #[test]
    fn damage_is_taken_when_nobody_is_left_who_may_have_better() {
        let recorded = RecordedBlock { generation: Generation(10), len: 0, cut: None };
        let first = NodeId([1; 16]);
        let mut alone = RecoveryRound::new(recorded, vec![shown(1, Finalized, 10, 80), RecoveryReply::Nothing]);
        alone.was_read(first, Some(Fitness::Unfit));
        alone.others_said(vec![RecoveryReply::Nothing]);
        assert_eq!(alone.next(Duration::ZERO), Next::Do(Step::Finish(RecoveryPlan { len: 80, nodes: vec![first] })));
        let short = |third| {
            let members = vec![shown(1, Finalized, 10, 80), shown(2, WaitingForRecovery, 10, 30), third];
            let mut round = RecoveryRound::new(recorded, members);
            round.was_read(first, Some(Fitness::Unfit));
            round.others_said(vec![]);
            round.next(Duration::from_secs(1_000_000))
        };
        assert!(matches!(short(RecoveryReply::Silence), Next::Do(Step::Wait(_))));
        assert_eq!(short(RecoveryReply::Nothing), Next::Do(Step::Finish(RecoveryPlan { len: 80, nodes: vec![first] })));
    }

    /// Node 1 has rotted. Node 2 was cut to what shall be left, and fell before it was put.
    #[test]
    fn damage_is_not_taken_for_bytes_that_are_cut_off() {
        let cut = RecordedBlock { generation: Generation(10), len: 80, cut: Some(50) };
        let (first, second) = (NodeId([1; 16]), NodeId([2; 16]));
        let step = |len| {
            let mut round = RecoveryRound::new(cut, vec![shown(1, Finalized, 10, 80)]);
            round.was_read(first, Some(Fitness::Unfit));
            round.others_said(vec![shown(2, WaitingForRecovery, 10, len)]);
            round.next(Duration::ZERO)
        };
        let finish = |node| Next::Do(Step::Finish(RecoveryPlan { len: 50, nodes: vec![node] }));
        assert_eq!(step(50), finish(second));
        assert_eq!(step(49), finish(first), "it lacks a byte that shall be left");
    }

    /// A file was to have one copy, so its block moved to a home of one member, which has rotted. Those of the home
    /// before still have it.
    #[test]
    fn who_is_alone_in_its_home_is_read_before_it_is_believed() {
        let cut = RecordedBlock { generation: Generation(10), len: 80, cut: Some(50) };
        let (first, second) = (NodeId([1; 16]), NodeId([2; 16]));
        let mut round = RecoveryRound::new(cut, vec![shown(1, Finalized, 10, 80)]);
        assert_eq!(round.next(Duration::ZERO), Next::Read(vec![first]));
        round.was_read(first, Some(Fitness::Unfit));
        assert_eq!(round.next(Duration::ZERO), Next::AskOthers);
        round.others_said(vec![shown(2, Finalized, 10, 80), RecoveryReply::Nothing]);
        assert_eq!(round.next(Duration::ZERO), Next::Read(vec![second]));
        round.was_read(second, Some(Fitness::Fit));
        let agreed = RecoveryPlan { len: 50, nodes: vec![second] };
        assert_eq!(round.next(Duration::ZERO), Next::Do(Step::Finish(agreed)));
    }

    /// Reading is part of fencing what a crash left, and while it is written nobody is asked to read.
    #[test]
    fn what_was_found_at_a_start_is_not_read_again() {
        let recorded = RecordedBlock { generation: Generation(10), len: 0, cut: None };
        let mut fell = RecoveryRound::new(recorded, vec![shown(1, WaitingForRecovery, 10, 30), RecoveryReply::Nothing]);
        fell.others_said(vec![]);
        let agreed = RecoveryPlan { len: 30, nodes: vec![NodeId([1; 16])] };
        assert_eq!(fell.next(Duration::ZERO), Next::Do(Step::Finish(agreed)));
    }

    /// The writer died before its last block got a byte, and one member was started without one of its disks: a file
    /// must not stay open until somebody brings the disk back.
    #[test]
    fn who_cannot_say_is_not_waited_for_for_ever_where_nothing_was_ever_shown() {
        let begun = RecordedBlock { generation: Generation(10), len: 0, cut: None };
        let step = |recorded: &RecordedBlock, members: &[RecoveryReply], seconds| {
            recorded.next_step(members, &[RecoveryReply::Nothing, RecoveryReply::Unknown], Duration::from_secs(seconds))
        };
        let waits = |recorded: &RecordedBlock, members: &[RecoveryReply]| {
            matches!(step(recorded, members, 1_000_000), Step::Wait(_))
        };
        let one_cannot_say = [RecoveryReply::Nothing, RecoveryReply::Unknown, RecoveryReply::Nothing];
        assert!(matches!(step(&begun, &one_cannot_say, 59), Step::Wait(_)));
        assert_eq!(step(&begun, &one_cannot_say, 60), Step::Nothing);
        assert!(
            waits(&begun, &[RecoveryReply::Nothing, RecoveryReply::Unknown, RecoveryReply::Silence]),
            "one may have gone on with it alone"
        );
        assert!(waits(&begun, &[RecoveryReply::Unknown]), "nobody else was ever to have it");
        assert!(waits(&begun, &[shown(1, Open, 9, 50), RecoveryReply::Unknown]), "its chain went on without that one");
        assert!(waits(&RecordedBlock { len: 5, ..begun }, &one_cannot_say), "bytes were acknowledged");
        assert!(waits(&RecordedBlock { cut: Some(5), ..begun }, &one_cannot_say));
        // Whoever shows it is believed as soon as before.
        assert!(matches!(step(&begun, &[shown(1, Open, 10, 50), RecoveryReply::Unknown], 5), Step::Finish(_)));
    }
}
