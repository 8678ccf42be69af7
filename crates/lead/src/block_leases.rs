//! Block leases: ids under which clients may put small files. Soft state of the leader.
//!
//! ```text
//! leaseBlocks ──▶ out ──putFile──▶ committing ──applied──▶ the namespace owns it
//!                  │                                        (or refused: unowned)
//!                  └── holder silent past the limit ──▶ unowned: its replicas are deleted
//! ```
//!
//! Promise: a block is put only by the holder of its lease, as what it was given out for, and only while the lease
//! stands. A lease that timed out never stands again. A leader younger than the limit does not know the leases of its
//! predecessor. For that time it accepts every client's put and calls no block unowned. Where no id was ever reserved,
//! no lease can exist.
//!
//! The fate of a replica is decided in this order: first this module is asked, then the rows are searched for an owner.
//! A block that had no lease then, and has no owner after that, cannot get one any more.

mod holders;

pub use holders::HELD_COUNT_MAX;

use holders::Holders;
use namespace::read;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use types::rows::{Rows, RowsError};
use types::{BlockId, ContainerId, Epoch, FileId, Generation, InodeId, PipelineId};

#[derive(Debug)]
pub struct BlockLeases {
    /// When this leader began.
    since: Duration,
    limit: Duration,
    /// Leaders before this one may have given out ids.
    predecessor_may_have_leased: bool,
    holders: Holders,
    out: BTreeMap<BlockId, Out>,
    /// Puts that were begun.
    begun: u64,
    /// Blocks of puts that may still be committed though no caller waits for them any more, and how many had been begun
    /// then.
    doubted: BTreeMap<BlockId, u64>,
    /// Ids for files that are not given out yet, and the generation of the blocks that go with them.
    files: Range<u64>,
    generation: Generation,
}

/// What a block on lease may become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeasedFor {
    /// The one block of a small file, under an id that came with it.
    NewFile,
    /// The next of a file that is open.
    OpenFile,
}

#[derive(Debug)]
struct Out {
    file: FileId,
    leased_for: LeasedFor,
    home: LeasedHome,
    holder: Arc<str>,
    /// It is being put; true if its holder reported late nodes.
    committing: Option<bool>,
    /// Puts of it that were begun and not left.
    attempt_count: u32,
}

/// What is known of a block that is being put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeasedPut {
    pub home: LeasedHome,
    /// Not all of its nodes have confirmed that they have it.
    pub is_short: bool,
}

/// A block that is given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    pub block: BlockId,
    pub file: FileId,
}

/// Where the block will be at home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeasedHome {
    pub container: ContainerId,
    /// The nodes that the client got; `None` if that is not known any more. If the container has another pipeline when
    /// the block is put, some of its members may have no replica.
    pub set: Option<(PipelineId, Epoch)>,
}

/// Why ids are not given out, or not taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseRefused {
    /// Of files; some must be reserved first.
    NoIds,
    /// Of the holder, of all of its user, or at all.
    TooMany,
    /// The block is not the holder's, or not any more.
    NotHeld,
}

/// What is known of a put when no caller waits for it any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutFate {
    NotProposed,
    /// It was proposed, and may come about at any time.
    InDoubt,
    /// The log has decided it.
    Decided,
}

impl BlockLeases {
    pub fn load(rows: &dyn Rows, now: Duration, limit: Duration) -> Result<Self, RowsError> {
        let predecessor_may_have_leased = read::ever_reserved(rows)?;
        let (holders, out, doubted) = Default::default();
        let (files, generation) = (0..0, Generation(0));
        Ok(Self { since: now, limit, predecessor_may_have_leased, holders, out, begun: 0, doubted, files, generation })
    }

    /// Takes ids of files that were reserved by a command.
    pub fn reserved(&mut self, first: FileId, count: u32, generation: Generation) {
        self.files = first.0..first.0 + u64::from(count);
        self.generation = generation;
    }

    pub fn has_files(&self, count: usize) -> bool {
        self.files.end - self.files.start >= count as u64
    }

    /// Whether `holder` may have one block more.
    pub fn has_room(&mut self, holder: &str, now: Duration) -> bool {
        self.renew(holder, now);
        self.holders.has_room(holder, 1)
    }

    /// Gives blocks of `home` to `holder`, each with the id of a file: of an open one, or a
    /// new one each.
    pub fn grant(
        &mut self,
        holder: &str,
        home: LeasedHome,
        blocks: &[BlockId],
        open: Option<FileId>,
        now: Duration,
    ) -> Result<(Vec<Grant>, Generation), LeaseRefused> {
        let file_count = if open.is_some() { 0 } else { blocks.len() };
        if !self.has_files(file_count) || self.generation == Generation(0) {
            return Err(LeaseRefused::NoIds);
        }
        self.renew(holder, now);
        if !self.holders.has_room(holder, blocks.len()) {
            return Err(LeaseRefused::TooMany);
        }
        let holder = self.holders.take(holder, blocks, now);
        let leased_for = if open.is_some() { LeasedFor::OpenFile } else { LeasedFor::NewFile };
        let mut file = || open.or_else(|| self.files.next().map(InodeId));
        let grants: Vec<Grant> =
            blocks.iter().filter_map(|block| Some(Grant { block: *block, file: file()? })).collect();
        for Grant { block, file } in &grants {
            let holder = Arc::clone(&holder);
            let out = Out { file: *file, leased_for, home, holder, committing: None, attempt_count: 0 };
            let before = self.out.insert(*block, out);
            assert!(before.is_none(), "{block} is on lease twice");
        }
        Ok((grants, self.generation))
    }

    /// `holder` does not want these any more.
    pub fn give_back(&mut self, holder: &str, blocks: impl Iterator<Item = BlockId>) {
        for block in blocks {
            if self.out.get(&block).is_some_and(|out| *out.holder == *holder && out.committing.is_none()) {
                self.end_put(block);
            }
        }
    }

    /// A client renews its leases. One that was silent past the limit begins anew, without what it held.
    pub fn renew(&mut self, holder: &str, now: Duration) {
        let Some(renewed) = self.holders.renewed(holder) else { return };
        if now.saturating_sub(renewed) <= self.limit {
            self.holders.renew(holder, now);
        } else {
            self.drop_holder(holder);
        }
    }

    /// Drops holders that were silent past the limit.
    pub fn sweep(&mut self, now: Duration) {
        for name in self.holders.expired(now, self.limit) {
            self.drop_holder(&name);
        }
    }

    fn drop_holder(&mut self, name: &str) {
        for block in self.holders.remove(name) {
            // What is being put is decided by that.
            if self.out.get(&block).is_some_and(|out| out.committing.is_none()) {
                self.out.remove(&block);
            }
        }
    }

    /// `holder` puts a file with this block and id, which some nodes may lack (`is_short`). The block's home; it counts
    /// as held until [`BlockLeases::leave_put`], or longer. `given_before`: a leader before this one may have given it
    /// out.
    pub(crate) fn begin_put(
        &mut self,
        holder: &str,
        (put, put_as): (Grant, LeasedFor),
        is_short: bool,
        given_before: bool,
        now: Duration,
    ) -> Result<LeasedHome, LeaseRefused> {
        self.renew(holder, now);
        let is_believed = given_before && self.is_in_first_lease_time(now);
        self.begun += 1;
        match self.out.get_mut(&put.block) {
            Some(out) if *out.holder == *holder && out.file == put.file && out.leased_for == put_as => {
                // An attempt before this one may come about, too.
                out.committing = Some(is_short || out.committing == Some(true));
                out.attempt_count += 1;
                Ok(out.home)
            }
            None if is_believed => {
                let home = LeasedHome { container: put.block.born_in(), set: None };
                let (file, holder) = (put.file, Arc::from(holder));
                let out = Out { file, leased_for: put_as, home, holder, committing: Some(is_short), attempt_count: 1 };
                self.out.insert(put.block, out);
                Ok(home)
            }
            _ => Err(LeaseRefused::NotHeld),
        }
    }

    /// The put was applied, or certainly was not. A lease ends with either: a client takes another block then.
    fn end_put(&mut self, block: BlockId) {
        self.doubted.remove(&block);
        if let Some(out) = self.out.remove(&block) {
            self.holders.release(&out.holder, block);
        }
    }

    /// What is known of a block whose put was applied a moment ago. `None`: another leader gave it out.
    pub fn put_of(&self, block: BlockId) -> Option<LeasedPut> {
        let out = self.out.get(&block)?;
        Some(LeasedPut { home: out.home, is_short: out.committing? })
    }

    /// Of the put that was begun last.
    pub(crate) fn last_put(&self) -> u64 {
        self.begun
    }

    /// No caller waits any more for the put of that number. One in doubt may still be committed. Until the log decides,
    /// the block stays on lease; otherwise its replicas would be unowned, and deleted before their file exists.
    ///
    /// Entries apply in order: if a put is decided, all puts abandoned before it was begun are decided too. Another
    /// attempt at the same block that is undecided, or was never proposed, ends nothing.
    pub fn leave_put(&mut self, block: BlockId, number: u64, fate: PutFate) {
        if let Some(out) = self.out.get_mut(&block).filter(|out| out.committing.is_some()) {
            // Called by what is dropped, perhaps while its thread unwinds: a second panic would end the process.
            debug_assert!(out.attempt_count > 0, "a put of {block} is left twice");
            out.attempt_count = out.attempt_count.saturating_sub(1);
        }
        match fate {
            PutFate::NotProposed => {}
            PutFate::InDoubt => _ = self.doubted.insert(block, self.begun),
            PutFate::Decided => {
                let left = self.doubted.iter().filter(|(_, begun)| **begun < number).map(|(block, _)| *block);
                for decided in left.collect::<Vec<_>>() {
                    self.doubted.remove(&decided);
                    self.settle_put(decided);
                }
            }
        }
        self.settle_put(block);
    }

    /// Ends the lease of a block of which no put is under way, or in doubt.
    fn settle_put(&mut self, block: BlockId) {
        let is_under_way = self.out.get(&block).is_some_and(|out| out.attempt_count > 0);
        if !is_under_way && !self.doubted.contains_key(&block) {
            self.end_put(block);
        }
    }

    /// True if a file may still be put with this block.
    pub fn may_be_put(&self, block: BlockId, now: Duration) -> bool {
        match self.out.get(&block) {
            Some(out) if out.committing.is_some() => true,
            Some(out) => {
                let renewed = self.holders.renewed(&out.holder);
                renewed.is_some_and(|renewed| now.saturating_sub(renewed) <= self.limit)
            }
            None => self.is_in_first_lease_time(now),
        }
    }

    /// Containers of blocks that are out; `None`: any may have some.
    pub fn homes(&self, now: Duration) -> Option<BTreeSet<ContainerId>> {
        (!self.is_in_first_lease_time(now)).then(|| self.out.values().map(|out| out.home.container).collect())
    }

    /// Whether clients may hold ids: of this leader, or of one before it.
    pub fn any_out(&self, now: Duration) -> bool {
        !self.out.is_empty() || self.is_in_first_lease_time(now)
    }

    pub fn len(&self) -> usize {
        self.out.len()
    }

    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// Holders and blocks agree, both ways. Looks at everything.
    pub fn check(&self) {
        self.holders.check();
        for (holder, block) in self.holders.held() {
            let out = self.out.get(&block).map(|out| &*out.holder);
            assert_eq!(out, Some(holder), "{block} is out to who holds it");
        }
        for (block, out) in &self.out {
            let is_put = out.attempt_count > 0 || self.doubted.contains_key(block);
            assert_eq!(out.committing.is_some(), is_put, "{block} is being put while somebody puts it");
            let is_held = out.committing.is_some() || self.holders.holds(&out.holder, *block);
            assert!(is_held, "{block} is out, is not being put, and {} does not hold it", out.holder);
        }
        assert!(self.doubted.values().all(|begun| *begun <= self.begun), "a put was left before it was begun");
        assert!(self.files.start <= self.files.end, "ids of files are counted upwards: {:?}", self.files);
    }

    fn is_in_first_lease_time(&self, now: Duration) -> bool {
        self.predecessor_may_have_leased && now.saturating_sub(self.since) <= self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::rows::{MemoryRows, RowsMut};

    const HOME: ContainerId = ContainerId(1);
    const PLACE: LeasedHome = LeasedHome { container: HOME, set: Some((PipelineId(3), Epoch(2))) };

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn block(index: u32) -> BlockId {
        BlockId::new(HOME, index)
    }

    /// A leader since second 100, with a limit of 60 s; `a` holds blocks 0 and 1.
    fn leader(predecessor_may_have_leased: bool) -> (BlockLeases, Vec<Grant>) {
        let mut rows = MemoryRows::default();
        if predecessor_may_have_leased {
            rows.put(namespace::tables::RESERVED, &[], vec![0; 8]);
        }
        let mut leases = BlockLeases::load(&rows, at(100), at(60)).unwrap();
        assert_eq!(leases.grant("a", PLACE, &[block(0)], None, at(100)), Err(LeaseRefused::NoIds));
        leases.reserved(InodeId(50), 10, Generation(1001));
        let (grants, generation) = leases.grant("a", PLACE, &[block(0), block(1)], None, at(100)).unwrap();
        assert_eq!(generation, Generation(1001));
        (leases, grants)
    }

    #[test]
    fn a_lease_stands_while_it_is_renewed_and_never_again() {
        let (mut leases, grants) = leader(false);
        leases.renew("a", at(150));
        assert!(leases.may_be_put(block(0), at(210)));
        assert!(!leases.may_be_put(block(0), at(211)));
        assert!(!leases.may_be_put(block(2), at(110)), "nobody has it");
        assert!(leases.any_out(at(110)));
        leases.renew("a", at(211));
        assert!(!leases.may_be_put(block(0), at(211)), "too late");
        assert_eq!(
            leases.begin_put("a", (grants[0], LeasedFor::NewFile), false, true, at(211)),
            Err(LeaseRefused::NotHeld)
        );
        leases.grant("a", PLACE, &[block(5)], None, at(212)).unwrap();
        assert_eq!(
            leases.begin_put("a", (grants[0], LeasedFor::NewFile), false, true, at(213)),
            Err(LeaseRefused::NotHeld)
        );
        leases.check();
    }

    #[test]
    fn a_block_is_put_once_by_its_holder() {
        let (mut leases, grants) = leader(false);
        assert_eq!(
            leases.begin_put("b", (grants[0], LeasedFor::NewFile), false, true, at(101)),
            Err(LeaseRefused::NotHeld)
        );
        let other_file = Grant { file: InodeId(51), ..grants[0] };
        let as_the_next = (grants[0], LeasedFor::OpenFile);
        assert_eq!(leases.begin_put("a", as_the_next, false, true, at(101)), Err(LeaseRefused::NotHeld));
        assert_eq!(
            leases.begin_put("a", (other_file, LeasedFor::NewFile), false, true, at(101)),
            Err(LeaseRefused::NotHeld)
        );
        assert_eq!(leases.begin_put("a", (grants[0], LeasedFor::NewFile), false, true, at(101)), Ok(PLACE));
        leases.check();
        leases.give_back("a", [block(0)].into_iter());
        leases.give_back("b", [block(1)].into_iter());
        assert!(leases.may_be_put(block(1), at(101)), "it is not b's to give");
        leases.sweep(at(1000));
        leases.check();
        assert!(leases.may_be_put(block(0), at(1000)), "it is being put");
        assert!(!leases.may_be_put(block(1), at(1000)));
        leases.end_put(block(0));
        leases.check();
        assert_eq!(
            leases.begin_put("a", (grants[0], LeasedFor::NewFile), false, true, at(101)),
            Err(LeaseRefused::NotHeld)
        );
        assert_eq!(leases.len(), 0);
    }

    /// The leader before may have given out anything.
    #[test]
    fn a_young_leader_believes_its_clients() {
        let (mut leases, _) = leader(true);
        assert!(leases.may_be_put(block(9), at(160)));
        assert_eq!(leases.homes(at(160)), None);
        let strange = Grant { block: block(9), file: InodeId(7) };
        assert_eq!(
            leases.begin_put("z", (strange, LeasedFor::NewFile), false, true, at(160)),
            Ok(LeasedHome { set: None, ..PLACE })
        );
        leases.check();
        assert!(leases.may_be_put(block(9), at(161)), "until it is applied");
        leases.end_put(block(9));
        leases.check();
        assert!(!leases.may_be_put(block(9), at(161)));
        assert_eq!(
            leases.begin_put("z", (strange, LeasedFor::NewFile), false, true, at(161)),
            Err(LeaseRefused::NotHeld)
        );
        assert_eq!(leases.homes(at(161)), Some(BTreeSet::from([HOME])));
    }

    /// A leader that hears no majority for a while sends its callers away, and what it proposed comes about when it
    /// hears them again.
    #[test]
    fn a_put_that_nobody_waits_for_any_more_may_come_about() {
        let (mut leases, grants) = leader(false);
        assert_eq!(leases.begin_put("a", (grants[0], LeasedFor::NewFile), false, true, at(101)), Ok(PLACE));
        leases.check();
        let first = leases.last_put();
        leases.leave_put(block(0), first, PutFate::InDoubt);
        leases.sweep(at(1000));
        leases.check();
        assert!(leases.may_be_put(block(0), at(1000)), "its replicas are not nobody's");
        leases.leave_put(block(9), first, PutFate::Decided);
        assert!(leases.may_be_put(block(0), at(1000)), "that was begun before");
        assert_eq!(
            leases.begin_put("a", (grants[0], LeasedFor::NewFile), false, true, at(1000)),
            Ok(PLACE),
            "and its client may ask again"
        );
        let second = leases.last_put();
        leases.leave_put(block(0), second, PutFate::NotProposed);
        assert!(leases.may_be_put(block(0), at(1000)), "the first one may still come about");
        assert_eq!(leases.begin_put("a", (grants[0], LeasedFor::NewFile), false, true, at(1000)), Ok(PLACE));
        let third = leases.last_put();
        leases.leave_put(block(0), third, PutFate::InDoubt);
        leases.check();
        leases.leave_put(block(9), third + 1, PutFate::Decided);
        assert!(!leases.may_be_put(block(0), at(1000)), "what comes later in the log tells of all before");
        assert!(leases.doubted.is_empty());
    }

    /// A client that asks again while its first call waits for the log: the first put may come about, whatever becomes
    /// of the second.
    #[test]
    fn a_put_that_is_under_way_is_not_ended_by_another_attempt() {
        for fate in [PutFate::NotProposed, PutFate::Decided] {
            let (mut leases, grants) = leader(false);
            leases.begin_put("a", (grants[0], LeasedFor::NewFile), false, true, at(101)).unwrap();
            let first = leases.last_put();
            leases.begin_put("a", (grants[0], LeasedFor::NewFile), false, true, at(101)).unwrap();
            leases.leave_put(block(0), leases.last_put(), fate);
            leases.check();
            assert!(leases.may_be_put(block(0), at(1000)), "{fate:?}: the first one is under way");
            // Another put that the log decided was begun after the first one, which nobody has left.
            leases.begin_put("a", (grants[1], LeasedFor::NewFile), false, true, at(101)).unwrap();
            leases.leave_put(block(1), leases.last_put(), PutFate::Decided);
            assert!(leases.may_be_put(block(0), at(1000)), "{fate:?}");
            leases.leave_put(block(0), first, PutFate::Decided);
            assert!(!leases.may_be_put(block(0), at(1000)), "{fate:?}");
            leases.check();
        }
    }

    #[test]
    fn blocks_of_an_open_file_take_no_ids_of_files() {
        let (mut leases, _) = leader(false);
        let open = InodeId(40);
        let left = leases.files.clone();
        let (grants, _) = leases.grant("a", PLACE, &[block(3), block(4)], Some(open), at(100)).unwrap();
        assert_eq!(grants, [block(3), block(4)].map(|block| Grant { block, file: open }));
        assert_eq!(leases.files, left);
        let whole = (grants[0], LeasedFor::NewFile);
        assert_eq!(leases.begin_put("a", whole, false, true, at(101)), Err(LeaseRefused::NotHeld));
        let next = |grant| (grant, LeasedFor::OpenFile);
        assert_eq!(leases.begin_put("a", next(grants[1]), false, true, at(101)), Ok(PLACE));
        leases.check();
        let other = Grant { file: InodeId(41), ..grants[0] };
        assert_eq!(leases.begin_put("a", next(other), false, true, at(101)), Err(LeaseRefused::NotHeld));
    }

    #[test]
    fn what_is_given_back_is_nobodys() {
        let (mut leases, grants) = leader(false);
        leases.give_back("a", [block(0), block(7)].into_iter());
        leases.check();
        assert!(!leases.may_be_put(block(0), at(101)));
        assert!(leases.may_be_put(block(1), at(101)));
        assert_eq!(
            leases.begin_put("a", (grants[0], LeasedFor::NewFile), false, true, at(101)),
            Err(LeaseRefused::NotHeld)
        );
    }

    #[test]
    fn one_client_can_not_take_everything() {
        let (mut leases, _) = leader(false);
        leases.reserved(InodeId(100), 60_000, Generation(1002));
        let blocks: Vec<BlockId> = (10..10 + HELD_COUNT_MAX as u32).map(block).collect();
        assert_eq!(leases.grant("a", PLACE, &blocks, None, at(101)), Err(LeaseRefused::TooMany));
        assert!(leases.grant("a", PLACE, &blocks[2..], None, at(101)).is_ok());
        assert!(leases.grant("b", PLACE, &[block(9000)], None, at(101)).is_ok());
        leases.give_back("a", blocks.into_iter().chain([block(0), block(1)]));
        assert_eq!(leases.len(), 1);
        leases.check();
        assert_eq!(leases.holders.renewed("a"), None, "a client that holds nothing is not remembered");
    }

    #[test]
    fn one_user_can_not_take_everything_under_many_names() {
        let (mut leases, _) = leader(false);
        let open = Some(InodeId(40));
        let mut ask = |user: &str, home: u64| {
            let blocks = (0..HELD_COUNT_MAX as u32).map(|index| BlockId::new(ContainerId(home), index));
            let name = namespace::holder_name(user, &format!("name {home}"));
            leases.grant(&name, PLACE, &blocks.collect::<Vec<_>>(), open, at(101)).map(drop)
        };
        let refused = (2..1000).find(|home| ask("ann", *home) == Err(LeaseRefused::TooMany));
        assert!(refused.is_some());
        assert_eq!(ask("ben", 1000), Ok(()));
        leases.check();
    }
}
