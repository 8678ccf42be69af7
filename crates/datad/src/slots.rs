//! Memory that this node shares with HDFS's clients on its machine, to tell them that a replica is no longer what it
//! was (operations 89 and 88).
//!
//! ```text
//! segment, 8192 B ── a client's, for as long as the connection stands that asked for it
//! ┌────────┬────────┬─ ─ ─┬────────┐
//! │ slot 0 │ slot 1 │     │  127   │   64 B each: a replica whose descriptors the client has (operation 87)
//! └────────┴────────┴─ ─ ─┴────────┘
//!   └ first word, in the machine's order: bit 63 valid (the client sets it, we clear it) │ 62 anchorable (never set
//!     here: it would free the client of verifying) │ 30..0 how often the client uses it
//! ```
//!
//! Promise: [`Slots::revoke`] tells all who hold a replica that it was deleted, replaced, or goes on under another
//! generation. A client can harm its own segments and no others: their names are drawn at random.

use io::{OsRandom, memory_file};
use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use types::{BlockId, Random};
use xfer::answer::Refusal;

const SEGMENT_LEN: u64 = 8192;
const SLOT_LEN: u64 = 64;
const SLOT_COUNT: u32 = (SEGMENT_LEN / SLOT_LEN) as u32;
/// Each takes a descriptor and a connection; a client has one for each 128 replicas that it holds. A guess.
const SEGMENT_COUNT_MAX: usize = 512;
/// Where the bits 56 to 63 of a word lie: it is stored to alone, as the client counts in the others meanwhile.
const VALID_OFFSET: u64 = if cfg!(target_endian = "little") { 7 } else { 0 };

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SegmentId(pub(crate) u64, pub(crate) u64);

#[derive(Debug, Default)]
pub(crate) struct Slots {
    shared: Mutex<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    segments: HashMap<SegmentId, Segment>,
    /// The same by blocks.
    of_blocks: BTreeSet<(BlockId, SegmentId, u32)>,
}

#[derive(Debug)]
struct Segment {
    file: Arc<File>,
    slots: Vec<Option<BlockId>>,
}

/// A segment, for as long as this is there.
#[derive(Debug)]
pub(crate) struct SegmentHold {
    slots: Arc<Slots>,
    id: SegmentId,
    file: Arc<File>,
}

/// A slot that is free again when this is dropped, unless it was kept.
#[derive(Debug)]
pub(crate) struct SlotHold {
    slots: Arc<Slots>,
    slot: Option<(SegmentId, u32)>,
}

impl SegmentHold {
    pub(crate) fn id(&self) -> SegmentId {
        self.id
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }
}

impl Drop for SegmentHold {
    fn drop(&mut self) {
        let mut shared = self.slots.lock();
        let segment = shared.segments.remove(&self.id).expect("it is there as long as this is");
        for (index, block) in (0..).zip(segment.slots) {
            if let Some(block) = block {
                shared.of_blocks.remove(&(block, self.id, index));
            }
        }
    }
}

impl SlotHold {
    /// The client has what it asked for: from now on it releases the slot.
    pub(crate) fn keep(mut self) {
        self.slot = None;
    }
}

impl Drop for SlotHold {
    fn drop(&mut self) {
        if let Some((id, index)) = self.slot {
            let _released_already = self.slots.release(id, index);
        }
    }
}

impl Shared {
    fn slot(&mut self, id: SegmentId, index: u32) -> Result<&mut Option<BlockId>, Refusal> {
        let segment = self.segments.get_mut(&id).ok_or_else(|| Refusal::error("no such segment is shared"))?;
        segment.slots.get_mut(index as usize).ok_or_else(|| Refusal::error(format!("a segment has no slot {index}")))
    }
}

impl Slots {
    /// A new segment.
    pub(crate) fn segment(self: &Arc<Self>) -> Result<SegmentHold, Refusal> {
        let file = Arc::new(memory_file::shared("levada slots", SEGMENT_LEN)?);
        let mut random = OsRandom::new();
        let id = SegmentId(random.next_u64(), random.next_u64());
        let mut shared = self.lock();
        if shared.segments.len() >= SEGMENT_COUNT_MAX {
            return Err(Refusal::error(format!("{SEGMENT_COUNT_MAX} segments are shared already")));
        }
        let slots = vec![None; SLOT_COUNT as usize];
        let former = shared.segments.insert(id, Segment { file: Arc::clone(&file), slots });
        assert!(former.is_none(), "128 bits were drawn twice");
        Ok(SegmentHold { slots: Arc::clone(self), id, file })
    }

    /// A client will hold a replica of this block, and looks at this slot.
    pub(crate) fn take(self: &Arc<Self>, id: SegmentId, index: u32, block: BlockId) -> Result<SlotHold, Refusal> {
        let mut shared = self.lock();
        let slot = shared.slot(id, index)?;
        if slot.is_some() {
            return Err(Refusal::error(format!("slot {index} is taken")));
        }
        *slot = Some(block);
        shared.of_blocks.insert((block, id, index));
        drop(shared);
        Ok(SlotHold { slots: Arc::clone(self), slot: Some((id, index)) })
    }

    /// The client does not hold it any more.
    pub(crate) fn release(&self, id: SegmentId, index: u32) -> Result<(), Refusal> {
        let mut shared = self.lock();
        let slot = shared.slot(id, index)?;
        let block = slot.take().ok_or_else(|| Refusal::error(format!("slot {index} is free")))?;
        shared.of_blocks.remove(&(block, id, index));
        Ok(())
    }

    /// The replica is no longer what it was: who holds it is to ask anew.
    pub(crate) fn revoke(&self, block: BlockId) {
        let shared = self.lock();
        let first = (block, SegmentId(0, 0), 0);
        for (_, id, index) in shared.of_blocks.range(first..).take_while(|(held, _, _)| *held == block) {
            let offset = u64::from(*index) * SLOT_LEN + VALID_OFFSET;
            if let Err(error) = memory_file::store_byte(&shared.segments[id].file, offset, 0) {
                tracing::error!(%block, %error, "a client was not told that its replica is gone");
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    const VALID: u64 = 1 << 63;
    const BLOCK: BlockId = BlockId(7);

    /// As a client does when it takes a slot, and while it uses it twice.
    fn set(file: &File, index: u64, word: u64) {
        file.write_all_at(&word.to_ne_bytes(), index * SLOT_LEN).unwrap();
    }

    fn word(file: &File, index: u64) -> u64 {
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes, index * SLOT_LEN).unwrap();
        u64::from_ne_bytes(bytes)
    }

    #[test]
    fn who_holds_a_replica_sees_that_it_is_gone() {
        let slots = Arc::new(Slots::default());
        let (one, other) = (slots.segment().unwrap(), slots.segment().unwrap());
        for (segment, index, block) in [(&one, 3, BLOCK), (&other, 0, BLOCK), (&one, 4, BlockId(8))] {
            set(segment.file(), index, VALID | 2);
            slots.take(segment.id(), index as u32, block).unwrap().keep();
        }
        slots.revoke(BLOCK);
        assert_eq!((word(one.file(), 3), word(other.file(), 0)), (2, 2), "told, and its count is left alone");
        assert_eq!(word(one.file(), 4), VALID | 2, "another block");
    }

    #[test]
    fn a_slot_is_one_replicas_until_it_is_released() {
        let slots = Arc::new(Slots::default());
        let segment = slots.segment().unwrap();
        let id = segment.id();
        drop(slots.take(id, 5, BLOCK).unwrap());
        slots.take(id, 5, BLOCK).unwrap().keep();
        assert!(slots.take(id, 5, BlockId(8)).is_err() && slots.take(id, SLOT_COUNT, BLOCK).is_err());
        slots.release(id, 5).unwrap();
        assert!(slots.release(id, 5).is_err());
        let stranger = SegmentId(id.0 ^ 1, id.1);
        assert!(slots.take(stranger, 0, BLOCK).is_err() && slots.release(stranger, 0).is_err());
        // A client that ends releases nothing.
        slots.take(id, 6, BLOCK).unwrap().keep();
        drop(segment);
        assert!(slots.lock().of_blocks.is_empty() && slots.take(id, 0, BLOCK).is_err());
    }

    #[test]
    fn segments_are_bounded() {
        let slots = Arc::new(Slots::default());
        let mut held: Vec<_> = (0..SEGMENT_COUNT_MAX).map(|_| slots.segment().unwrap()).collect();
        assert!(slots.segment().is_err());
        held.pop();
        assert!(slots.segment().is_ok());
    }
}
