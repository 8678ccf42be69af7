//! What was promised to whom: the bytes that must be there, and as long as which nodes have kept what they had.

use crate::world::World;
use std::collections::BTreeMap;
use types::{BlockId, FileId, NodeId};

/// Bytes `start..end` of a file were acknowledged, and `holders` had them then.
#[derive(Clone, Debug)]
pub(crate) struct Promise {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) block: BlockId,
    /// With the number of times that each had lost power.
    pub(crate) holders: Vec<(NodeId, u64)>,
    /// On disk, so a loss of power is no excuse.
    pub(crate) durable: bool,
}

impl Promise {
    /// Whether one holder is left that lost nothing by a fault.
    pub(crate) fn holds(&self, world: &World) -> bool {
        self.holders.iter().any(|(node, falls)| {
            let number = World::node_number(*node);
            (self.durable || world.falls(number) == *falls) && !world.is_spoiled(number, self.block)
        })
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct File {
    pub(crate) tag: u64,
    pub(crate) sent: usize,
    pub(crate) closed: Option<usize>,
    /// Its deletion was asked for.
    pub(crate) doomed: bool,
    /// How often it was cut.
    pub(crate) cuts: u32,
    pub(crate) promises: Vec<Promise>,
}

#[derive(Default)]
pub(crate) struct Oracle {
    pub(crate) files: BTreeMap<FileId, File>,
}

impl Oracle {
    pub(crate) fn created(&mut self, id: FileId, tag: u64) {
        self.files.entry(id).or_default().tag = tag;
    }

    pub(crate) fn tag(&self, id: FileId) -> Option<u64> {
        self.files.get(&id).map(|file| file.tag)
    }

    pub(crate) fn sent(&mut self, id: FileId, len: usize) {
        let file = self.files.entry(id).or_default();
        file.sent = file.sent.max(len);
        file.closed = None;
    }

    pub(crate) fn closed(&mut self, id: FileId, len: usize) {
        self.files.entry(id).or_default().closed = Some(len);
    }

    pub(crate) fn doom(&mut self, id: FileId) {
        self.files.entry(id).or_default().doomed = true;
    }

    pub(crate) fn promise(&mut self, id: FileId, promise: Promise) {
        let promises = &mut self.files.entry(id).or_default().promises;
        for earlier in promises.iter_mut().filter(|earlier| earlier.block == promise.block) {
            // Who left the chain meanwhile may lose what it has.
            earlier.holders.clone_from(&promise.holders);
        }
        promises.push(promise);
    }

    /// The chain of a block goes on with these nodes alone; the others may lose what they have.
    pub(crate) fn go_on_with(&mut self, id: FileId, block: BlockId, nodes: &[NodeId]) {
        let promises = self.files.get_mut(&id).map_or(&mut [][..], |file| &mut file.promises);
        for promise in promises.iter_mut().filter(|promise| promise.block == block) {
            promise.holders.retain(|(node, _)| nodes.contains(node));
        }
    }

    /// One who held the block, `from` with what it has lost so far, deleted it; these have it, whole. What a loss of
    /// power had taken from it before is not with them either. Answers a promise that had a holder before (`held`), and
    /// has none now.
    pub(crate) fn hand_over(
        &mut self,
        from: (NodeId, u64),
        spoiled: bool,
        block: BlockId,
        to: &[(NodeId, u64)],
        held: impl Fn(&Promise) -> bool,
    ) -> Option<Promise> {
        let mut lost = None;
        for file in self.files.values_mut() {
            for promise in &mut file.promises {
                if promise.block != block || !promise.holders.iter().any(|(node, _)| *node == from.0) {
                    continue;
                }
                let had = |(node, falls): &(NodeId, u64)| *node == from.0 && (promise.durable || *falls == from.1);
                let handed = !spoiled && promise.holders.iter().any(had);
                let before = (!file.doomed && held(promise)).then(|| promise.clone());
                promise.holders.retain(|(node, _)| *node != from.0);
                for holder in to.iter().filter(|_| handed) {
                    if promise.holders.iter().all(|(node, _)| *node != holder.0) {
                        promise.holders.push(*holder);
                    }
                }
                lost = lost.or(before.filter(|_| promise.holders.is_empty()));
            }
        }
        lost
    }

    /// The file is to be cut to `len` bytes: what was promised behind that is so no more.
    pub(crate) fn cut(&mut self, id: FileId, len: usize) {
        let Some(file) = self.files.get_mut(&id) else { return };
        file.cuts += 1;
        file.closed = None;
        file.promises.retain(|promise| promise.start < len);
        file.promises.iter_mut().for_each(|promise| promise.end = promise.end.min(len));
    }

    /// The rows are as they were before: files and blocks that they do not know any more are nothing that readers of
    /// files are promised. Answers what was promised of such blocks, with what their bytes are made of.
    pub(crate) fn lose(
        &mut self,
        has_file: impl Fn(FileId) -> bool,
        has_block: impl Fn(BlockId) -> bool,
    ) -> BTreeMap<BlockId, (u64, Vec<Promise>)> {
        let mut lost: BTreeMap<BlockId, (u64, Vec<Promise>)> = BTreeMap::new();
        for (id, file) in &mut self.files {
            let (kept, gone) = std::mem::take(&mut file.promises).into_iter().partition(|one| has_block(one.block));
            file.promises = kept;
            if !has_file(*id) || !gone.is_empty() {
                file.closed = None;
            }
            // Of a file whose writer was believed when it named less, nothing is promised.
            let was_doomed = file.doomed;
            file.doomed |= !has_file(*id);
            for promise in gone.into_iter().filter(|_| !was_doomed) {
                lost.entry(promise.block).or_insert((file.tag, Vec::new())).1.push(promise);
            }
        }
        lost
    }

    /// With the number of cuts so far.
    pub(crate) fn promised(&self, id: FileId, world: &World) -> (u32, Vec<Promise>) {
        let Some(file) = self.files.get(&id) else { return (0, Vec::new()) };
        (file.cuts, file.promises.iter().filter(|promise| promise.holds(world)).cloned().collect())
    }
}
