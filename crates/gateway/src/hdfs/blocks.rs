//! Blocks that an edge has handed out: numbers of its own for pieces of files that were opened.
//!
//! How the store cuts a file is no matter here: a block of the edge is as long as the file's status says, so programs
//! that split their work by blocks do so as at the store.

use crate::opened::Opened;
use edge::Content;
use hdfs::proto::{DatanodeInfoProto, ExtendedBlockProto, LocatedBlockProto, LocatedBlocksProto, StorageTypeProto};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Files whose blocks are known. Of those handed out longest ago reads fail, and clients ask for new ones. A guess.
const FILE_COUNT_MAX: usize = 16 << 10;
/// Those of them that are held open: each has places of blocks, and may have files of replicas. Of the others their
/// names are kept, and by these they are opened anew for what is not kept. A guess: files that are read at a time.
const OPEN_COUNT_MAX: usize = 256;
/// Blocks of one answer; clients ask for those behind. A guess.
const BLOCK_COUNT_MAX: usize = 10_000;
/// Blocks of a file: the low bits of an id.
const INDEX_BITS: u32 = 20;
/// A file of the shortest blocks has fewer than the bits have room for, whatever its length.
const BLOCK_LEN_MIN: u64 = 1 << 20;
/// Of ids: the rest is chance, and none is negative to a Java client.
const ID_MASK: u64 = (i64::MAX as u64) >> INDEX_BITS << INDEX_BITS;
pub(super) const POOL: &str = "levada-edge";
/// Of all blocks: they are never changed.
pub(super) const GENERATION: u64 = 1;

#[derive(Debug)]
pub(super) struct Blocks {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// By the id of the first block.
    files: HashMap<u64, Handed>,
    /// What a user has opened already keeps its ids: clients that ask again expect the same.
    ids: HashMap<Owner, u64>,
    /// Those that are held open, by the turn in which they were handed out or read last.
    open: BTreeMap<u64, u64>,
    turn: u64,
}

/// Who opened what.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Owner {
    user: String,
    bytes: Bytes,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Bytes {
    Kept(Content),
    /// Of a file that is being written.
    Written {
        id: u64,
        len: u64,
    },
}

#[derive(Debug)]
struct Handed {
    opened: Arc<Opened>,
    owner: Owner,
    /// Of its use.
    turn: u64,
}

/// A block, as somebody wants to read it.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) opened: Arc<Opened>,
    /// Where it begins in the file.
    pub(super) offset: u64,
    pub(super) len: u64,
}

/// How a file is cut.
fn block_len(opened: &Opened) -> u64 {
    let least = opened.len().div_ceil((1 << INDEX_BITS) - 1);
    opened.status.block_len.max(BLOCK_LEN_MIN).max(least)
}

/// Blocks of the store as they are shown in a listing: how the file is cut is the store's, where it is read is here.
/// Numbers and tokens are the store's own, and do not pass; who opens the file is told those of the edge.
pub(super) fn hide(located: &mut LocatedBlocksProto, node: &DatanodeInfoProto) {
    (located.under_construction, located.is_last_block_complete) = (false, true);
    for block in located.blocks.iter_mut().chain(&mut located.last_block) {
        let (pool_id, num_bytes) = (POOL.into(), block.b.num_bytes);
        *block = LocatedBlockProto {
            b: ExtendedBlockProto { pool_id, block_id: 0, generation_stamp: GENERATION, num_bytes },
            offset: block.offset,
            ..block_at(node)
        };
    }
}

fn block_at(node: &DatanodeInfoProto) -> LocatedBlockProto {
    LocatedBlockProto {
        locs: vec![node.clone()],
        corrupt: false,
        is_cached: vec![false],
        storage_types: vec![StorageTypeProto::Disk.into()],
        storage_i_ds: vec![POOL.into()],
        ..LocatedBlockProto::default()
    }
}

impl Blocks {
    pub(super) fn new() -> Self {
        Self { state: Mutex::default() }
    }

    /// The blocks that have bytes of `len` from `offset` on, for this user, at this node.
    pub(super) fn hand_out(
        &self,
        user: &str,
        opened: Opened,
        offset: u64,
        len: u64,
        node: &DatanodeInfoProto,
    ) -> LocatedBlocksProto {
        let (file_len, block_len) = (opened.len(), block_len(&opened));
        // No block of an empty file is ever asked for.
        let first = if file_len > 0 { self.keep(user, opened) } else { 0 };
        let located = |index: u64| {
            let offset = index * block_len;
            LocatedBlockProto {
                b: ExtendedBlockProto {
                    pool_id: POOL.into(),
                    block_id: first + index,
                    generation_stamp: GENERATION,
                    num_bytes: Some(block_len.min(file_len - offset)),
                },
                offset,
                ..block_at(node)
            }
        };
        let end = offset.saturating_add(len).min(file_len);
        let count = file_len.div_ceil(block_len);
        let wanted = (offset / block_len).min(count)..if end > offset { end.div_ceil(block_len) } else { 0 };
        LocatedBlocksProto {
            file_length: file_len,
            blocks: wanted.take(BLOCK_COUNT_MAX).map(located).collect(),
            under_construction: false,
            last_block: count.checked_sub(1).map(located),
            is_last_block_complete: true,
        }
    }

    /// The id of its first block.
    fn keep(&self, user: &str, opened: Opened) -> u64 {
        let written = Bytes::Written { id: opened.status.id, len: opened.len() };
        let owner = Owner { user: user.to_owned(), bytes: opened.content().map_or(written, Bytes::Kept) };
        let mut state = self.state();
        state.turn += 1;
        let turn = state.turn;
        let known = state.ids.get(&owner).copied();
        let first = known.unwrap_or_else(|| {
            loop {
                let mut drawn = [0; 8];
                io::random::fill(&mut drawn);
                let id = u64::from_be_bytes(drawn) & ID_MASK;
                if !state.files.contains_key(&id) {
                    break id;
                }
            }
        });
        if known.is_none() && state.files.len() >= FILE_COUNT_MAX {
            state.drop_oldest();
        }
        state.ids.insert(owner.clone(), first);
        let before = state.files.insert(first, Handed { opened: Arc::new(opened), owner, turn });
        state.hold_open(first, before.map(|before| before.turn), turn);
        first
    }

    pub(super) fn find(&self, id: u64) -> Option<Block> {
        let first = id & ID_MASK;
        let mut state = self.state();
        state.turn += 1;
        let turn = state.turn;
        let handed = state.files.get_mut(&first)?;
        let before = std::mem::replace(&mut handed.turn, turn);
        let opened = Arc::clone(&handed.opened);
        state.hold_open(first, Some(before), turn);
        drop(state);
        let (file_len, block_len) = (opened.len(), block_len(&opened));
        let offset = (id - first).checked_mul(block_len).filter(|offset| *offset < file_len)?;
        Some(Block { len: block_len.min(file_len - offset), opened, offset })
    }

    /// Nothing is left half done while it is held.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn drop_oldest(&mut self) {
        let oldest = self.files.iter().min_by_key(|(_, handed)| handed.turn).map(|(first, _)| *first);
        if let Some(oldest) = oldest {
            self.remove(oldest);
        }
    }

    fn remove(&mut self, first: u64) {
        if let Some(handed) = self.files.remove(&first) {
            self.ids.remove(&handed.owner);
            self.open.remove(&handed.turn);
        }
    }

    /// It is used now; the one that was not for longest is held open no more.
    fn hold_open(&mut self, first: u64, before: Option<u64>, turn: u64) {
        if let Some(before) = before {
            self.open.remove(&before);
        }
        self.open.insert(turn, first);
        while self.open.len() > OPEN_COUNT_MAX
            && let Some((_, idle)) = self.open.pop_first()
        {
            // One that is being written cannot be opened anew as it was: its reader asks for it again.
            if self.files.get(&idle).is_some_and(|handed| !handed.opened.rest()) {
                self.remove(idle);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdfs::proto::TokenProto;

    #[test]
    fn what_is_listed_names_no_server_and_no_token_of_the_store() {
        let token = TokenProto { password: vec![7].into(), ..TokenProto::default() };
        let block = LocatedBlockProto {
            b: ExtendedBlockProto { pool_id: "BP-1".into(), block_id: 7, num_bytes: Some(5), ..Default::default() },
            offset: 10,
            block_token: token.clone(),
            block_tokens: vec![token],
            locs: vec![DatanodeInfoProto { location: Some("/far".into()), ..Default::default() }; 3],
            ..LocatedBlockProto::default()
        };
        let mut located =
            LocatedBlocksProto { blocks: vec![block.clone()], last_block: Some(block), ..Default::default() };
        let node = DatanodeInfoProto { location: Some("/near".into()), ..Default::default() };
        hide(&mut located, &node);
        for block in located.blocks.iter().chain(&located.last_block) {
            assert_eq!((block.offset, block.b.num_bytes, block.b.block_id), (10, Some(5), 0));
            assert_eq!((&block.locs, &block.block_token), (&vec![node.clone()], &TokenProto::default()));
            assert!(block.block_tokens.is_empty());
        }
    }
}
