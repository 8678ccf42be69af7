//! Clients that hold block leases, by their users and the names they give themselves, and the leases of each user.
//!
//! Promise: a holder is listed while it holds a block, and its name is stored once. The leases of one user, under
//! whatever names and from wherever, are limited far below the limit for all: no user takes the places of the others.

use crate::places::Places;
use namespace::user_of;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use types::BlockId;

/// Ids one holder may have out. A client with more writers than that is several clients.
pub const HELD_COUNT_MAX: usize = 4096;
/// Ids out at all, some 100 bytes each.
const IDS: Places = Places { max: 1 << 20 };
/// Holders at all, with names of up to 400 bytes: some 35 MB. A guess: a client is a process, and may have no lease.
const HOLDERS: Places = Places { max: 1 << 16 };
const _: () = assert!(HELD_COUNT_MAX <= IDS.of_one());

#[derive(Debug, Default)]
pub(super) struct Holders {
    by_name: BTreeMap<Arc<str>, Holder>,
    users: BTreeMap<Box<str>, Share>,
    /// Ids that all of them have.
    block_count: usize,
}

#[derive(Debug)]
struct Holder {
    renewed: Duration,
    blocks: BTreeSet<BlockId>,
}

/// What the holders of one user have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Share {
    holder_count: usize,
    block_count: usize,
}

impl Holders {
    /// True if `name` may take `count` more.
    pub(super) fn has_room(&self, name: &str, count: usize) -> bool {
        let holder = self.by_name.get(name);
        let share = self.users.get(user_of(name)).copied().unwrap_or_default();
        let held_count = holder.map_or(0, |holder| holder.blocks.len());
        (holder.is_some() || HOLDERS.has_room(self.by_name.len(), share.holder_count, 1))
            && held_count + count <= HELD_COUNT_MAX
            && IDS.has_room(self.block_count, share.block_count, count)
    }

    /// `name` holds these from now on. Its name as it is kept.
    pub(super) fn take(&mut self, name: &str, blocks: &[BlockId], now: Duration) -> Arc<str> {
        let name = self.by_name.get_key_value(name).map_or_else(|| Arc::from(name), |(kept, _)| Arc::clone(kept));
        if blocks.is_empty() {
            return name;
        }
        let share = self.users.entry(user_of(&name).into()).or_default();
        let holder = self.by_name.entry(Arc::clone(&name)).or_insert_with(|| {
            share.holder_count += 1;
            Holder { renewed: now, blocks: BTreeSet::new() }
        });
        holder.renewed = now;
        let before = holder.blocks.len();
        holder.blocks.extend(blocks);
        share.block_count += holder.blocks.len() - before;
        self.block_count += holder.blocks.len() - before;
        name
    }

    /// `name` holds the block no more.
    pub(super) fn release(&mut self, name: &str, block: BlockId) {
        let Some(holder) = self.by_name.get_mut(name) else { return };
        if !holder.blocks.remove(&block) {
            return;
        }
        let is_empty = holder.blocks.is_empty();
        if is_empty {
            self.by_name.remove(name);
        }
        self.give_back(name, 1, is_empty);
    }

    /// What it held.
    pub(super) fn remove(&mut self, name: &str) -> BTreeSet<BlockId> {
        let Some(holder) = self.by_name.remove(name) else { return BTreeSet::new() };
        self.give_back(name, holder.blocks.len(), true);
        holder.blocks
    }

    fn give_back(&mut self, name: &str, block_count: usize, is_gone: bool) {
        let user = user_of(name);
        let share = self.users.get_mut(user).expect("the user of a holder has a share");
        assert!(share.block_count >= block_count && share.holder_count > 0, "{share:?} gives back {block_count}");
        share.block_count -= block_count;
        share.holder_count -= usize::from(is_gone);
        self.block_count -= block_count;
        if *share == Share::default() {
            self.users.remove(user);
        }
    }

    pub(super) fn renewed(&self, name: &str) -> Option<Duration> {
        self.by_name.get(name).map(|holder| holder.renewed)
    }

    pub(super) fn renew(&mut self, name: &str, now: Duration) {
        if let Some(holder) = self.by_name.get_mut(name) {
            holder.renewed = now;
        }
    }

    /// Those whose last renewal is longer ago than `limit`.
    pub(super) fn expired(&self, now: Duration, limit: Duration) -> Vec<Arc<str>> {
        let expired = self.by_name.iter().filter(|(_, holder)| now.saturating_sub(holder.renewed) > limit);
        expired.map(|(name, _)| Arc::clone(name)).collect()
    }

    pub(super) fn holds(&self, name: &str, block: BlockId) -> bool {
        self.by_name.get(name).is_some_and(|holder| holder.blocks.contains(&block))
    }

    /// Each holder with each of its blocks.
    pub(super) fn held(&self) -> impl Iterator<Item = (&str, BlockId)> {
        self.by_name.iter().flat_map(|(name, holder)| holder.blocks.iter().map(|block| (&**name, *block)))
    }

    /// Each user's count is the sum of its holders', and none has more than its share. Looks at everything.
    pub(super) fn check(&self) {
        let mut users: BTreeMap<Box<str>, Share> = BTreeMap::new();
        assert!(self.by_name.len() <= HOLDERS.max, "{} holders are remembered", self.by_name.len());
        for (name, holder) in &self.by_name {
            let count = holder.blocks.len();
            assert!((1..=HELD_COUNT_MAX).contains(&count), "a holder has {count} blocks");
            let share = users.entry(user_of(name).into()).or_default();
            share.holder_count += 1;
            share.block_count += holder.blocks.len();
        }
        assert_eq!(users, self.users, "what the holders of each user have");
        assert_eq!(users.values().map(|share| share.block_count).sum::<usize>(), self.block_count);
        for (user, share) in &users {
            let is_bounded = share.holder_count <= HOLDERS.of_one() && share.block_count <= IDS.of_one();
            assert!(is_bounded, "{user} has {share:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::ContainerId;

    const NOW: Duration = Duration::ZERO;

    fn block(index: usize) -> BlockId {
        BlockId::new(ContainerId(1), index as u32)
    }

    fn name(user: usize, number: usize) -> String {
        namespace::holder_name(&format!("user{user}"), &number.to_string())
    }

    /// Holders of one user with as many blocks each, until there is no room. How many there were.
    fn fill(holders: &mut Holders, user: usize, held_count: usize) -> usize {
        (0..)
            .find(|number| {
                let name = name(user, *number);
                if !holders.has_room(&name, held_count) {
                    return true;
                }
                let blocks: Vec<BlockId> = (0..held_count).map(block).collect();
                holders.take(&name, &blocks, NOW);
                false
            })
            .unwrap()
    }

    #[test]
    fn one_user_takes_its_share_and_no_more() {
        let mut holders = Holders::default();
        assert_eq!(fill(&mut holders, 1, HELD_COUNT_MAX) * HELD_COUNT_MAX, IDS.of_one());
        assert!(holders.has_room(&name(2, 0), HELD_COUNT_MAX));
        holders.check();
        holders.release(&name(1, 0), block(0));
        assert!(holders.has_room(&name(1, 0), 1) && !holders.has_room(&name(1, 0), 2));
        assert_eq!(holders.remove(&name(1, 0)).len(), HELD_COUNT_MAX - 1);
        holders.check();
        assert!(holders.has_room(&name(1, 0), HELD_COUNT_MAX));
    }

    /// Four users take what is free to all, and others still find a place.
    #[test]
    fn names_are_bounded() {
        let mut holders = Holders::default();
        let counts = [1, 2, 3, 4].map(|user| fill(&mut holders, user, 1));
        assert_eq!(counts[..3], [HOLDERS.of_one(); 3]);
        assert_eq!(counts[3], HOLDERS.of_one() / 2);
        assert!(!holders.has_room(&name(4, 0xffff), 1) && holders.has_room(&name(5, 0), 1));
        assert!(holders.has_room(&name(1, 0), 0), "who has a place keeps it");
        let rest = (5..).map(|user| fill(&mut holders, user, 1)).take_while(|count| *count > 0).sum::<usize>();
        assert_eq!(counts.iter().sum::<usize>() + rest, HOLDERS.max);
        holders.release(&name(1, 0), block(0));
        assert!(holders.has_room(&name(900, 0), 1), "who holds nothing has no place");
        holders.check();
    }

    #[test]
    fn a_name_is_kept_once() {
        let mut holders = Holders::default();
        let first = holders.take("a", &[block(1)], NOW);
        let second = holders.take("a", &[block(2)], NOW);
        assert!(Arc::ptr_eq(&first, &second));
    }
}
