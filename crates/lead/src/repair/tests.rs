//! Tests of the relations between the parts of [`Repair`].

use super::*;
use types::InodeId;

const HOME: ContainerId = ContainerId(1);
const GENERATION: Generation = Generation(5);

fn node(number: u8) -> NodeId {
    NodeId([number; 16])
}

fn block(index: u32) -> BlockId {
    BlockId::new(HOME, index)
}

fn at(second: u64) -> Duration {
    Duration::from_secs(second)
}

fn lack(index: u32, to: u8, sources: &[u8]) -> Lack {
    let (node, sources) = (node(to), sources.iter().map(|number| node(*number)).collect());
    let (file, home, unfit) = (InodeId(20_000), HOME, false);
    Lack { block: block(index), generation: GENERATION, len: 7, file, home, node, sources, unfit }
}

/// A memory that is checked after each event.
#[derive(Default)]
struct Checked(Repair);

impl Checked {
    fn on<T>(&mut self, event: impl FnOnce(&mut Repair) -> T) -> T {
        let answer = event(&mut self.0);
        self.0.check();
        answer
    }
}

/// Two blocks are copied, one of them fails from all its sources: the container is compared when both have ended, after
/// a pause.
#[test]
fn a_container_is_compared_after_its_last_copy() {
    let mut repair = Checked::default();
    assert!(repair.on(|repair| repair.on_lack(lack(1, 1, &[2, 3]))));
    assert!(repair.on(|repair| repair.on_lack(lack(2, 1, &[2]))));
    assert_eq!(repair.on(|repair| repair.orders(node(1), at(0))).len(), 2);
    for source in [2, 3] {
        repair.on(|repair| repair.on_failed(node(1), block(1), Some(node(source)), at(1)));
        assert_eq!(repair.0.next_due(), None, "the other block is being copied");
    }
    repair.on(|repair| repair.on_put(node(1), block(2), GENERATION, at(2)));
    assert_eq!((repair.0.next_due(), repair.0.is_open(HOME)), (Some(at(4)), false));
    assert_eq!(repair.on(|repair| repair.next_check(at(4))), Some(HOME));
    repair.on(|repair| repair.on_lack(lack(1, 1, &[2])));
    repair.on(|repair| repair.on_left(node(1), &BTreeSet::from([HOME]), at(5)));
    assert_eq!((repair.0.next_due(), repair.0.progress().lack_count), (Some(at(5)), 0));
}

#[test]
fn a_missing_block_is_found_by_a_node_that_puts_it() {
    let mut repair = Checked::default();
    assert!(repair.on(|repair| repair.on_lack(lack(1, 1, &[]))));
    assert!(!repair.on(|repair| repair.on_lack(lack(1, 2, &[]))), "it is known");
    let reported =
        ReportedReplica { block: block(1), generation: GENERATION, len: 7, file: None, home: None, finalized: true };
    assert!(!repair.0.is_useless(node(1), &reported));
    repair.on(|repair| repair.on_bad(block(1), node(1), GENERATION));
    assert!(repair.0.is_useless(node(1), &reported), "it is damaged");
    let again = |repair: &mut Checked, second| repair.on(|repair| repair.next_to_reread(at(second), |_| true));
    assert_eq!((again(&mut repair, 0), again(&mut repair, 20)), (None, Some((block(1), node(1)))));
    repair.on(|repair| repair.on_put(node(1), block(1), GENERATION, at(21)));
    assert!(!repair.0.is_missing(block(1)) && !repair.0.is_bad(block(1), node(1), GENERATION));
    assert_eq!(again(&mut repair, 9000), None);
}

#[test]
fn damage_is_a_reason_to_compare_the_block_when_it_is_found_and_when_it_is_gone() {
    let mut repair = Checked::default();
    for _ in 0..2 {
        repair.on(|repair| repair.on_bad(block(1), node(1), GENERATION));
    }
    assert_eq!(repair.on(|repair| repair.take_doubts(10)), [block(1)]);
    assert_eq!(repair.on(|repair| repair.on_registered(node(1))), [block(1)]);
    assert!(repair.on(|repair| repair.on_verified(block(1), node(1))));
    assert!(!repair.on(|repair| repair.on_verified(block(1), node(1))), "nothing bad was known");
    assert_eq!(repair.on(|repair| repair.take_doubts(10)), [block(1)]);
}

/// A surplus replica is a source: the block is compared if a member lacks it that has no order to copy it.
#[test]
fn a_source_that_appears_is_used() {
    let mut repair = Checked::default();
    repair.on(|repair| repair.on_absent(block(1), node(1), HOME));
    repair.on(|repair| repair.on_surplus(block(2)));
    assert_eq!(repair.on(|repair| repair.take_doubts(10)), []);
    repair.on(|repair| repair.on_surplus(block(1)));
    assert_eq!(repair.on(|repair| repair.take_doubts(10)), [block(1)]);
    repair.on(|repair| repair.on_lack(lack(1, 1, &[2])));
    repair.on(|repair| repair.on_surplus(block(1)));
    assert_eq!(repair.on(|repair| repair.take_doubts(10)), [], "it is being copied");
}

#[test]
fn a_block_that_no_file_has_leaves_nothing_behind() {
    let mut repair = Checked::default();
    repair.on(|repair| repair.on_lack(lack(1, 1, &[])));
    repair.on(|repair| repair.on_bad(block(1), node(2), GENERATION));
    repair.on(|repair| repair.on_absent(block(1), node(1), HOME));
    repair.on(|repair| repair.set_moving(block(1), ContainerId(2)));
    repair.on(|repair| repair.on_lack(Lack { home: ContainerId(2), ..lack(1, 3, &[2]) }));
    assert!(repair.0.is_copied(block(1)));
    repair.on(|repair| repair.forget_block(block(1)));
    let progress = repair.0.progress();
    assert_eq!((progress.missing_count, progress.bad_count, repair.0.absent().count()), (0, 0, 0));
    assert!(!repair.0.is_copied(block(1)), "it moves nowhere");
    repair.on(|repair| repair.on_lost(node(3), at(1)));
    assert_eq!((repair.0.progress().lack_count, repair.0.pending_count()), (0, 0));
}
