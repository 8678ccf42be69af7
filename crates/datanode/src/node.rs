//! One owner of what a datanode has to report and to carry out.

use crate::changes::Changes;
use crate::copies::{Copies, Refusal};
use crate::damage::Damage;
use crate::deletions::Deletions;
use crate::held::Held;
use crate::servers::Servers;
use crate::session::{Session, Step};
use crate::tokens::Tokens;
use crate::told::Told;
use std::collections::BTreeSet;
use std::time::Duration;
use types::mutation::{self, Mutation};
use types::{BlockId, Generation, ReplicaState};
use wire::node::{
    CopyFailure, CopyOrder, Deletion, DiskBalanceOrder, HeartbeatRequest, Orders, Owner, RegisterResponse, ScrubOrder,
};

#[derive(Debug)]
pub struct Datanode {
    pub servers: Servers,
    changes: Changes,
    pub damage: Damage,
    pub deletions: Deletions,
    pub copies: Copies,
    /// Whether operations need tokens, and the keys of these.
    pub tokens: Tokens,
    is_report_due: bool,
}

/// What whoever waits is to be told after a change.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Due {
    /// The next heartbeat is to begin soon.
    pub report: bool,
    /// Disks for which there are orders to delete.
    pub deleters: BTreeSet<usize>,
}

/// What is to be done with an order to copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// Nothing: it is here.
    Here,
    Refused(Refusal),
    Copy,
}

/// Orders that others carry out.
#[derive(Clone, Debug, Default)]
pub struct Rest {
    pub owners: Vec<Owner>,
    pub scrub: Option<ScrubOrder>,
    pub disk_balance: Option<DiskBalanceOrder>,
    /// Why keys that came were not taken; for the log.
    pub keys_refused: Option<String>,
}

impl Datanode {
    /// `server_count`: metadata servers that the configuration names.
    pub fn new(disk_count: usize, server_count: usize) -> Self {
        Self {
            servers: Servers::new(server_count),
            changes: Changes::default(),
            damage: Damage::default(),
            deletions: Deletions::new(disk_count),
            copies: Copies::default(),
            tokens: Tokens::default(),
            is_report_due: false,
        }
    }

    /// To be asked after each change, and told to those who wait.
    pub fn take_due(&mut self) -> Due {
        Due { report: std::mem::take(&mut self.is_report_due), deleters: self.deletions.take_due() }
    }

    // ── what happens to replicas ──

    /// A replica is whole.
    pub fn was_put(&mut self, held: &Held) {
        self.changes.put(held.report());
        self.is_report_due = true;
    }

    /// It is younger than what was ordered deleted. The server that gave the order takes it for deleted until it hears
    /// of it; and takes what it hears of so for sound.
    pub fn was_kept(&mut self, now: Duration, held: &Held) {
        if held.state == ReplicaState::Finalized {
            self.was_put(held);
            self.damage.report_once_more(now, held.block);
        } else {
            self.was_left(now, held.block); // unless its writer makes it whole
        }
    }

    /// By an order. Nobody waits to hear of it.
    pub fn was_deleted(&mut self, block: BlockId) {
        self.damage.forget(block);
        self.changes.deleted(block);
    }

    /// A chain broke off and left its replica open.
    pub fn was_left(&mut self, now: Duration, block: BlockId) {
        self.changes.left(block, now);
    }

    pub fn found_damaged(&mut self, now: Duration, held: &Held) {
        self.damage.found(now, held.report());
        self.is_report_due = true;
    }

    /// It was read from end to end and is good: it always was, or a copy has taken its place.
    pub fn reads_well(&mut self, block: BlockId) {
        self.damage.forget(block);
    }

    // ── heartbeats to the server that leads ──

    /// What the next heartbeat tells of changes. Where a disk does not say what it has, changes are not told for a
    /// while: `sends_changes` is false. Replicas that were left open are told after `left_for`.
    pub fn begin_heartbeat(&mut self, now: Duration, sends_changes: bool, left_for: Duration) -> Told {
        if !sends_changes {
            return Told::default();
        }
        let batch = self.changes.take(now.checked_sub(left_for));
        self.is_report_due |= self.changes.is_waiting();
        Told { batch, ..Told::default() }
    }

    /// A disk did not say whether replicas that were left open are so still: that is told later.
    pub fn did_not_look(&mut self, told: &mut Told) {
        let left = std::mem::take(&mut told.batch.left);
        self.changes.give_back(crate::changes::Batch { left, ..Default::default() });
    }

    /// The heartbeat, but for what is neither a change nor an order. `left_open`: of [`Told::left`], those that are so
    /// still.
    pub fn heartbeat(&mut self, now: Duration, told: &mut Told, left_open: &[Held]) -> HeartbeatRequest {
        told.bad = self.damage.report(now);
        HeartbeatRequest {
            put: told.batch.put.clone(),
            deleted: told.batch.deleted.clone(),
            stale: left_open.iter().map(Held::report).collect(),
            copying: self.copies.known(),
            copy_failures: self.copies.failures(now),
            bad: told.bad.clone(),
            token_revision: self.tokens.revision(),
            deletions_waiting: u32::try_from(self.deletions.count()).unwrap_or(u32::MAX),
            ..HeartbeatRequest::default()
        }
    }

    /// The server answered, as the one that leads or as one that stands by.
    pub fn answered(&mut self, told: Told, leads: bool) {
        if leads {
            self.damage.acknowledge(&told.bad);
        } else {
            self.unanswered(told);
        }
    }

    pub fn unanswered(&mut self, told: Told) {
        if mutation::is(Mutation::ForgetUnheard) {
            return;
        }
        self.changes.give_back(told.batch);
    }

    // ── sessions ──

    /// What comes next in a session. One that leads anew is to hear all that is known of damage: no catalogue tells it.
    pub fn next(&mut self, session: &mut Session, now: Duration) -> Step {
        let step = session.next(now, self.changes.overflow_count());
        if let Step::Greet { leads } = step {
            // Before the catalogue: a large node must not wait minutes until it may be used.
            self.servers.note(session.number(), leads);
            if leads {
                self.damage.report_again(now);
            }
        }
        step
    }

    /// A session ended for good. What its last heartbeat told may not have been heard.
    pub fn session_ended(&mut self, number: usize) {
        self.servers.end(number);
        if mutation::is(Mutation::ForgetEndedSessions) {
            return;
        }
        self.changes.overflow();
        self.is_report_due = true;
    }

    /// A server has registered this node. What it says of tokens counts if it leads. `Err`: its keys are not taken.
    pub fn registered(&mut self, answer: &RegisterResponse) -> Result<(), String> {
        if answer.standby || !self.believe(answer.term) {
            return Ok(());
        }
        match &answer.tokens {
            Some(said) => self.tokens.hear_all(said),
            None => {
                self.tokens.hear_nothing();
                Ok(())
            }
        }
    }

    // ── orders ──

    /// Whether a server of this term is believed. By whatever answer the node hears of a later one: what a former
    /// leader ordered away stays until the next one says so.
    fn believe(&mut self, term: u64) -> bool {
        let term_before = self.servers.term();
        if !self.servers.is_believed(term) {
            return false;
        }
        if term > term_before && !mutation::is(Mutation::KeepFormerOrders) {
            self.deletions.withdraw_all();
        }
        true
    }

    /// Takes orders, which count from the server that leads alone, and from none that another one has followed.
    /// `places`: what is to be deleted, by the disks that may have it.
    pub fn obey(&mut self, now: Duration, orders: Orders, places: impl IntoIterator<Item = (usize, Deletion)>) -> Rest {
        if orders.standby || !self.believe(orders.term) {
            return Rest::default();
        }
        let keys_refused = orders.tokens.as_ref().and_then(|said| self.tokens.hear(said).err());
        for (disk, Deletion { block, generation_at_most }) in places {
            self.deletions.order(disk, BlockId(block), Generation(generation_at_most));
        }
        if orders.tell_all {
            self.changes.overflow();
            self.is_report_due = true;
            self.damage.report_again(now);
        }
        for copy in orders.copy {
            // The metadata server gives no order to delete together with one to copy the same, so this is from before.
            self.deletions.withdraw(BlockId(copy.block));
            self.copies.order(copy);
        }
        Rest { owners: orders.owners, scrub: orders.scrub, disk_balance: orders.disk_balance, keys_refused }
    }

    /// What is to be done with an order to copy. `is_writing`: a stream is at the block; `is_held_up`: the disk that
    /// has it does not answer.
    pub fn begin_copy(&self, order: &CopyOrder, held: Option<&Held>, is_writing: bool, is_held_up: bool) -> Begin {
        match () {
            () if self.deletions.is_ordered(BlockId(order.block), Generation(order.generation)) => {
                Begin::Refused(Refusal::Deleting)
            }
            () if held.is_some_and(|held| held.serves(order)) => Begin::Here,
            () if is_writing => Begin::Refused(Refusal::Writing),
            () if is_held_up => Begin::Refused(Refusal::HeldUp),
            () if order.sources.is_empty() => Begin::Refused(Refusal::NoSource),
            () => Begin::Copy,
        }
    }

    /// A worker has done what it could. False: it was written off, and ends.
    pub fn end_copy(&mut self, now: Duration, number: u64, failures: Vec<CopyFailure>) -> bool {
        let counts = self.copies.finish(number);
        if counts && !failures.is_empty() {
            self.copies.failed(now, failures);
            self.is_report_due = true;
        }
        counts
    }

    /// Every relation between the parts.
    pub fn check(&self) {
        self.servers.check();
        self.changes.check();
        self.damage.check();
        self.deletions.check();
        self.copies.check();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copies::COPY_COUNT_MAX;
    use crate::session::Standing;
    use wire::node::Source;

    const NOW: Duration = Duration::from_secs(100);
    const LEFT_FOR: Duration = Duration::from_secs(10);

    fn held(block: u64) -> Held {
        Held { block: BlockId(block), ..Held::EXAMPLE }
    }

    fn copy(block: u64) -> CopyOrder {
        let sources = vec![Source::default()];
        CopyOrder { block, generation: 1001, len: 10, sources, ..CopyOrder::default() }
    }

    fn heartbeat(node: &mut Datanode) -> (Told, HeartbeatRequest) {
        let mut told = node.begin_heartbeat(NOW, true, LEFT_FOR);
        let request = node.heartbeat(NOW, &mut told, &[]);
        node.check();
        (told, request)
    }

    /// What comes next; a catalogue is told at once.
    fn next(node: &mut Datanode, session: &mut Session, now: Duration) -> Step {
        let step = node.next(session, now);
        if step == Step::Catalogue {
            session.told_all(now);
        }
        step
    }

    /// It hears nothing but that the node lives: what it was told goes to the leader.
    #[test]
    fn a_server_that_stands_by_has_heard_nothing() {
        let mut node = Datanode::new(1, 3);
        node.was_put(&held(1));
        node.found_damaged(NOW, &held(2));
        assert_eq!(node.take_due(), Due { report: true, ..Due::default() });
        let (told, first) = heartbeat(&mut node);
        node.answered(told, false);
        let (told, second) = heartbeat(&mut node);
        assert_eq!((first.put.len(), first.bad.len()), (1, 1));
        assert_eq!(first, second);
        node.answered(told, true);
        let (_, third) = heartbeat(&mut node);
        assert_eq!((third.put, third.bad), (vec![], vec![held(2).report()]), "for some seconds more");
    }

    #[test]
    fn an_order_to_copy_takes_back_one_to_delete() {
        let mut node = Datanode::new(1, 3);
        let delete = |block| (0, Deletion { block, generation_at_most: 1001 });
        node.obey(NOW, Orders::default(), [delete(1), delete(2)]);
        assert_eq!(node.take_due().deleters, BTreeSet::from([0]));
        assert_eq!(node.begin_copy(&copy(1), None, false, false), Begin::Refused(Refusal::Deleting));
        node.obey(NOW, Orders { copy: vec![copy(1)], ..Orders::default() }, []);
        node.check();
        assert_eq!(node.begin_copy(&copy(1), None, false, false), Begin::Copy);
        assert_eq!(node.deletions.take(0), [(BlockId(2), Generation(1001))]);
    }

    #[test]
    fn an_order_is_not_begun_with_where_others_are_at_the_block() {
        let node = Datanode::new(1, 3);
        assert_eq!(node.begin_copy(&copy(1), Some(&held(1)), true, true), Begin::Here);
        assert_eq!(node.begin_copy(&copy(1), None, true, false), Begin::Refused(Refusal::Writing));
        assert_eq!(node.begin_copy(&copy(1), None, false, true), Begin::Refused(Refusal::HeldUp));
        let nowhere = CopyOrder { sources: Vec::new(), ..copy(1) };
        assert_eq!(node.begin_copy(&nowhere, None, false, false), Begin::Refused(Refusal::NoSource));
    }

    #[test]
    fn a_copy_that_failed_is_reported_soon() {
        let mut node = Datanode::new(1, 3);
        node.obey(NOW, Orders { copy: vec![copy(1), copy(2)], ..Orders::default() }, []);
        let number = node.copies.begin(COPY_COUNT_MAX, 0).unwrap();
        assert_eq!(node.copies.take(number, false), Some(copy(1)));
        assert!(node.end_copy(NOW, number, vec![CopyFailure { block: 1, ..CopyFailure::default() }]));
        assert!(node.take_due().report);
        assert!(!node.end_copy(NOW, number, vec![CopyFailure::default()]) && !node.take_due().report);
        let (_, request) = heartbeat(&mut node);
        assert_eq!((request.copying, request.copy_failures.len()), (vec![2], 1));
    }

    /// Block 1 is damaged, and the server has acknowledged that. Answers when.
    fn report_damage(node: &mut Datanode) -> Duration {
        node.found_damaged(NOW, &held(1));
        let (told, _) = heartbeat(node);
        node.answered(told, true);
        let later = NOW + LEFT_FOR;
        assert_eq!(node.damage.report(later), []);
        later
    }

    /// A metadata server that had a report of it once more would believe that.
    #[test]
    fn what_is_gone_is_not_damaged() {
        let mut node = Datanode::new(1, 3);
        node.found_damaged(NOW, &held(1));
        node.was_deleted(BlockId(1));
        node.found_damaged(NOW, &held(2));
        node.reads_well(BlockId(2));
        let (_, request) = heartbeat(&mut node);
        assert_eq!((request.bad, request.deleted), (vec![], vec![1]));
    }

    /// The server takes what it hears of so for sound, so it hears of the damage in the same heartbeat.
    #[test]
    fn a_damaged_replica_that_was_too_young_to_be_deleted_is_still_damaged() {
        let mut node = Datanode::new(1, 3);
        let later = report_damage(&mut node);
        node.was_kept(later, &held(1));
        node.was_kept(later, &Held { state: ReplicaState::Open, ..held(2) });
        let mut told = node.begin_heartbeat(later, true, LEFT_FOR);
        let request = node.heartbeat(later, &mut told, &[]);
        assert_eq!((request.put, request.bad), (vec![held(1).report()], vec![held(1).report()]));
    }

    #[test]
    fn a_server_that_asks_for_all_has_it_all_again() {
        let mut node = Datanode::new(1, 3);
        let later = report_damage(&mut node);
        node.obey(later, Orders { tell_all: true, ..Orders::default() }, []);
        let mut session = Session::new(0, Standing::Leads { term: 1 }, later);
        let steps = |node: &mut Datanode, session: &mut Session| [0, 1].map(|_| next(node, session, later));
        assert_eq!(steps(&mut node, &mut session), [Step::Greet { leads: true }, Step::Catalogue]);
        assert_eq!(
            next(&mut node, &mut session, later),
            Step::Rest { leads: true },
            "that came after it was asked for"
        );
        node.obey(later, Orders { tell_all: true, ..Orders::default() }, []);
        assert_eq!(steps(&mut node, &mut session), [Step::Catalogue, Step::Rest { leads: true }]);
        assert_eq!(node.damage.report(later), [held(1).report()]);
    }

    /// Its orders are from a time when it led: what it wants deleted may be wanted since.
    #[test]
    fn orders_of_a_leader_of_before_count_for_nothing() {
        let mut node = Datanode::new(1, 3);
        let delete = || [(0, Deletion { block: 1, generation_at_most: 1001 })];
        let orders = |term, standby| Orders { term, standby, copy: vec![copy(2)], ..Orders::default() };
        node.obey(NOW, Orders { term: 5, ..Orders::default() }, []);
        node.obey(NOW, orders(4, false), delete());
        node.obey(NOW, orders(6, true), delete());
        assert_eq!((node.deletions.count(), node.copies.known_count()), (0, 0));
        node.obey(NOW, orders(5, false), delete());
        assert_eq!((node.deletions.count(), node.copies.known_count()), (1, 1));
    }

    /// Of the replicas that the former leader had asked for before, none may be left.
    #[test]
    fn what_a_former_leader_ordered_away_stays_until_the_next_one_says_so() {
        let mut node = Datanode::new(1, 3);
        let delete = |block| (0, Deletion { block, generation_at_most: 1001 });
        let orders = |term| Orders { term, ..Orders::default() };
        node.obey(NOW, orders(5), (1..=200).map(delete));
        assert_eq!(node.deletions.take(0).len(), 100);
        node.obey(NOW, orders(6), []);
        node.deletions.give_back(0);
        node.check();
        assert_eq!(node.deletions.count(), 0);
        node.obey(NOW, orders(6), [delete(7)]);
        assert_eq!(node.deletions.take(0), [(BlockId(7), Generation(1001))]);
        node.deletions.give_back(0);
        assert_eq!(node.deletions.count(), 1, "a disk that does not answer costs no order of this leader");
    }

    /// The later leader may be heard of first as it registers the node.
    #[test]
    fn a_registration_withdraws_what_a_former_leader_ordered_away() {
        let mut node = Datanode::new(1, 1);
        let orders = |term| Orders { term, ..Orders::default() };
        node.obey(NOW, orders(5), [(0, Deletion { block: 1, generation_at_most: 1001 })]);
        node.registered(&RegisterResponse { term: 6, ..RegisterResponse::default() }).unwrap();
        node.obey(NOW, orders(6), []);
        assert_eq!(node.deletions.count(), 0);
    }

    #[test]
    fn what_a_session_told_as_it_ended_is_told_again() {
        let mut node = Datanode::new(1, 1);
        let mut session = Session::new(0, Standing::Leads { term: 1 }, NOW);
        (0..2).for_each(|_| _ = next(&mut node, &mut session, NOW));
        assert_eq!(next(&mut node, &mut session, NOW), Step::Rest { leads: true });
        node.was_put(&held(1));
        let (told, _) = heartbeat(&mut node);
        drop(told); // with the task of a session
        node.session_ended(3);
        assert_eq!(next(&mut node, &mut session, NOW), Step::Catalogue);
    }

    /// One is with a server that leads no more, which nobody knows yet: what it is told then the other one's never
    /// hears.
    #[test]
    fn what_only_a_catalogue_tells_is_told_in_each_session_with_a_leader() {
        let mut node = Datanode::new(1, 2);
        let mut sessions = [0, 1].map(|number| Session::new(number, Standing::Leads { term: 1 }, NOW));
        for session in &mut sessions {
            (0..2).for_each(|_| _ = next(&mut node, session, NOW));
        }
        node.session_ended(2);
        for session in &mut sessions {
            assert_eq!(next(&mut node, session, NOW), Step::Catalogue);
            assert_eq!(next(&mut node, session, NOW), Step::Rest { leads: true });
        }
    }

    #[test]
    fn one_of_two_sessions_with_a_leader_is_enough() {
        let mut node = Datanode::new(1, 2);
        for number in [1, 3] {
            let mut session = Session::new(number, Standing::Leads { term: 1 }, NOW);
            next(&mut node, &mut session, NOW);
        }
        node.session_ended(3);
        assert!(node.servers.has_leader());
    }

    #[test]
    fn a_server_that_leads_anew_hears_of_damage() {
        let mut node = Datanode::new(1, 3);
        let mut session = Session::new(2, Standing::Leads { term: 1 }, LEFT_FOR);
        let later = report_damage(&mut node);
        assert_eq!(node.next(&mut session, later), Step::Greet { leads: true });
        assert!(node.servers.has_leader());
        assert_eq!(node.damage.report(later), [held(1).report()]);
    }

    #[test]
    fn what_was_left_is_looked_at_until_a_disk_says_what_became_of_it() {
        let mut node = Datanode::new(1, 3);
        node.was_left(NOW - LEFT_FOR, BlockId(1));
        let mut told = node.begin_heartbeat(NOW, true, LEFT_FOR);
        assert_eq!(told.left(), [BlockId(1)]);
        node.did_not_look(&mut told);
        assert_eq!(told.left(), []);
        let mut told = node.begin_heartbeat(NOW, true, LEFT_FOR);
        let request = node.heartbeat(NOW, &mut told, &[held(1)]);
        assert_eq!(request.stale, [held(1).report()]);
        assert_eq!(node.begin_heartbeat(NOW, true, LEFT_FOR), Told::default());
    }
}
