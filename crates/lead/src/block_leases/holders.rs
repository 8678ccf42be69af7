//! Clients that hold block leases, by the names they give themselves, and the number of leases of each of their hosts.
//!
//! Promise: a holder is listed while it holds a block, and its name is stored once. The leases of one host, under
//! whatever names, are limited far below the limit for all. So no client takes the places of the others.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use types::BlockId;

/// Ids one holder may have out. A client with more writers than that is several clients.
pub const HELD_COUNT_MAX: usize = 4096;
/// Ids out at all, some 100 bytes each.
pub(super) const OUT_COUNT_MAX: usize = 1 << 20;
/// Holders at all, with names of up to 400 bytes: some 35 MB. A guess: a client is a process, and may have no lease.
const COUNT_MAX: usize = 1 << 16;
/// Holders on one host: an eighth of all. A guess, far above the processes of a machine.
const HOST_COUNT_MAX: usize = COUNT_MAX / 8;
/// Ids that the holders on one host may have out: an eighth of all.
const HOST_HELD_COUNT_MAX: usize = OUT_COUNT_MAX / 8;
const _: () = assert!(HELD_COUNT_MAX <= HOST_HELD_COUNT_MAX);

#[derive(Debug, Default)]
pub(super) struct Holders {
    by_name: BTreeMap<Arc<str>, Holder>,
    hosts: BTreeMap<IpAddr, Share>,
}

#[derive(Debug)]
struct Holder {
    /// Where it took its first block.
    host: IpAddr,
    renewed: Duration,
    blocks: BTreeSet<BlockId>,
}

/// What the holders on one host have.
#[derive(Debug, Default, PartialEq, Eq)]
struct Share {
    holder_count: usize,
    block_count: usize,
}

impl Holders {
    /// True if `name`, which calls from `host`, may take `count` more.
    pub(super) fn has_room(&self, name: &str, host: IpAddr, count: usize) -> bool {
        let holder = self.by_name.get(name);
        let host = holder.map_or(host, |holder| holder.host);
        let share = self.hosts.get(&host);
        let held_count = holder.map_or(0, |holder| holder.blocks.len());
        let has_place = self.by_name.len() < COUNT_MAX && share.is_none_or(|share| share.holder_count < HOST_COUNT_MAX);
        (holder.is_some() || has_place)
            && held_count + count <= HELD_COUNT_MAX
            && share.map_or(0, |share| share.block_count) + count <= HOST_HELD_COUNT_MAX
    }

    /// `name` holds these from now on. Its name as it is kept.
    pub(super) fn take(&mut self, name: &str, host: IpAddr, blocks: &[BlockId], now: Duration) -> Arc<str> {
        let name = self.by_name.get_key_value(name).map_or_else(|| Arc::from(name), |(kept, _)| Arc::clone(kept));
        if blocks.is_empty() {
            return name;
        }
        let hosts = &mut self.hosts;
        let holder = self.by_name.entry(Arc::clone(&name)).or_insert_with(|| {
            hosts.entry(host).or_default().holder_count += 1;
            Holder { host, renewed: now, blocks: BTreeSet::new() }
        });
        holder.renewed = now;
        let before = holder.blocks.len();
        holder.blocks.extend(blocks);
        hosts.entry(holder.host).or_default().block_count += holder.blocks.len() - before;
        name
    }

    /// `name` holds the block no more.
    pub(super) fn release(&mut self, name: &str, block: BlockId) {
        let Some(holder) = self.by_name.get_mut(name) else { return };
        if !holder.blocks.remove(&block) {
            return;
        }
        let (host, is_empty) = (holder.host, holder.blocks.is_empty());
        if is_empty {
            self.by_name.remove(name);
        }
        self.give_back(host, 1, is_empty);
    }

    /// What it held.
    pub(super) fn remove(&mut self, name: &str) -> BTreeSet<BlockId> {
        let Some(holder) = self.by_name.remove(name) else { return BTreeSet::new() };
        self.give_back(holder.host, holder.blocks.len(), true);
        holder.blocks
    }

    fn give_back(&mut self, host: IpAddr, block_count: usize, is_gone: bool) {
        let share = self.hosts.get_mut(&host).expect("the host of a holder has a share");
        assert!(share.block_count >= block_count && share.holder_count > 0, "{share:?} gives back {block_count}");
        share.block_count -= block_count;
        share.holder_count -= usize::from(is_gone);
        if *share == Share::default() {
            self.hosts.remove(&host);
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

    /// Each host's count is the sum of its holders', and none has more than its share. Looks at everything.
    pub(super) fn check(&self) {
        let mut hosts: BTreeMap<IpAddr, Share> = BTreeMap::new();
        assert!(self.by_name.len() <= COUNT_MAX, "{} holders are remembered", self.by_name.len());
        for holder in self.by_name.values() {
            let count = holder.blocks.len();
            assert!((1..=HELD_COUNT_MAX).contains(&count), "a holder has {count} blocks");
            let share = hosts.entry(holder.host).or_default();
            share.holder_count += 1;
            share.block_count += holder.blocks.len();
        }
        assert_eq!(hosts, self.hosts, "what the holders on each host have");
        for (host, share) in &hosts {
            let is_bounded = share.holder_count <= HOST_COUNT_MAX && share.block_count <= HOST_HELD_COUNT_MAX;
            assert!(is_bounded, "{host} has {share:?}");
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

    fn host(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    /// Holders of one host with as many blocks each, until there is no room. How many there were.
    fn fill(holders: &mut Holders, at: u8, held_count: usize) -> usize {
        (0..)
            .find(|number| {
                let name = format!("{at}-{number}");
                if !holders.has_room(&name, host(at), held_count) {
                    return true;
                }
                let blocks: Vec<BlockId> = (0..held_count).map(block).collect();
                holders.take(&name, host(at), &blocks, NOW);
                false
            })
            .unwrap()
    }

    #[test]
    fn one_host_takes_its_share_and_no_more() {
        let mut holders = Holders::default();
        assert_eq!(fill(&mut holders, 1, HELD_COUNT_MAX) * HELD_COUNT_MAX, HOST_HELD_COUNT_MAX);
        assert!(!holders.has_room("1-0", host(2), 1), "it counts where it began");
        assert!(holders.has_room("other", host(2), HELD_COUNT_MAX));
        holders.check();
        holders.release("1-0", block(0));
        assert!(holders.has_room("1-0", host(1), 1) && !holders.has_room("1-0", host(1), 2));
        assert_eq!(holders.remove("1-0").len(), HELD_COUNT_MAX - 1);
        holders.check();
        assert!(holders.has_room("1-0", host(1), HELD_COUNT_MAX));
    }

    #[test]
    fn names_are_bounded() {
        let mut holders = Holders::default();
        for at in 0..8 {
            assert_eq!(fill(&mut holders, at, 1), HOST_COUNT_MAX);
        }
        assert!(!holders.has_room("one more", host(9), 1));
        assert!(holders.has_room("0-0", host(0), 1), "who has a place keeps it");
        holders.release("0-0", block(0));
        assert!(holders.has_room("one more", host(9), 1), "who holds nothing has no place");
        holders.check();
    }

    #[test]
    fn a_name_is_kept_once() {
        let mut holders = Holders::default();
        let first = holders.take("a", host(1), &[block(1)], NOW);
        let second = holders.take("a", host(1), &[block(2)], NOW);
        assert!(Arc::ptr_eq(&first, &second));
    }
}
