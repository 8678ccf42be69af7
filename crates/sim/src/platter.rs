//! What a volume has on its disk, and what a loss of power makes of it.
//!
//! Each replica is a pair of files, data and checksums with a header, or a record in a pack. What was written since the
//! last sync is a list of changes: a loss of power keeps any of them and loses any other, and tears some, in no order;
//! what was synced stays. `kill -9` loses nothing that was written.

use std::collections::{BTreeMap, BTreeSet};
use types::{BlockId, ChecksumKind, ChecksumSpec, ContainerId, FileId, Generation, Random};

/// Small, so that small blocks have many chunks.
pub(crate) const SPEC: ChecksumSpec = ChecksumSpec { kind: ChecksumKind::Crc32c, chunk_len: 16 };
const CHUNK: usize = SPEC.chunk_len as usize;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) block: BlockId,
    pub(crate) generation: Generation,
    pub(crate) file: Option<FileId>,
    pub(crate) home: Option<ContainerId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Open,
    Copying,
    Finalized { len: usize },
}

#[derive(Clone, Debug)]
pub(crate) struct Image {
    pub(crate) identity: Identity,
    pub(crate) stage: Stage,
    /// So many bytes are to be kept, and the checksum of their partial last chunk: a sync wrote that down before its
    /// bytes could be covered by the checksum of more.
    pub(crate) kept: (usize, u32),
    pub(crate) data: Vec<u8>,
    pub(crate) sums: Vec<u32>,
}

#[derive(Clone, Debug)]
enum Change {
    Header(Identity, Stage, (usize, u32)),
    Data(usize, Vec<u8>),
    Sums(usize, Vec<u32>),
    CutData(usize),
    CutSums(usize),
}

impl Image {
    fn apply(&mut self, change: &Change) {
        match change {
            Change::Header(identity, stage, kept) => {
                (self.identity, self.stage, self.kept) = (*identity, *stage, *kept);
            }
            Change::Data(at, bytes) => {
                let end = self.data.len().max(at + bytes.len());
                self.data.resize(end, 0);
                self.data[*at..at + bytes.len()].copy_from_slice(bytes);
            }
            Change::Sums(at, sums) => {
                let end = self.sums.len().max(at + sums.len());
                self.sums.resize(end, 0);
                self.sums[*at..at + sums.len()].copy_from_slice(sums);
            }
            Change::CutData(len) => self.data.resize(*len, 0),
            Change::CutSums(count) => self.sums.resize(*count, 0),
        }
    }

    /// Bytes that the checksums vouch for: whole chunks, and of the first that does not verify the longest piece its
    /// sum covers.
    pub(crate) fn sound_len(&self) -> usize {
        let covered = self.data.len().min(self.sums.len() * CHUNK);
        for (place, chunk) in self.data[..covered].chunks(CHUNK).enumerate() {
            let sum = self.sums[place];
            if SPEC.kind.of(chunk) != sum {
                let covered = (1..chunk.len()).rev().find(|len| SPEC.kind.of(&chunk[..*len]) == sum);
                let (kept_len, kept_sum) = self.kept;
                let kept = kept_len.checked_sub(place * CHUNK);
                let kept = kept.filter(|len| chunk.get(..*len).is_some_and(|bytes| SPEC.kind.of(bytes) == kept_sum));
                return place * CHUNK + covered.max(kept).unwrap_or(0);
            }
        }
        covered
    }

    /// Whether the chunk that a cut at `len` parts is sound: damage must not be covered by a new checksum.
    pub(crate) fn can_cut(&self, len: usize) -> bool {
        let place = len / CHUNK;
        let chunk = &self.data[(place * CHUNK).min(self.data.len())..self.data.len().min((place + 1) * CHUNK)];
        len == self.data.len() || len.is_multiple_of(CHUNK) || self.sums.get(place) == Some(&SPEC.kind.of(chunk))
    }

    /// Whether bytes up to `end` match their checksums, as a reader sees it.
    pub(crate) fn verifies(&self, end: usize) -> bool {
        self.data.len() >= end
            && self.data[..end].chunks(CHUNK).enumerate().all(|(place, chunk)| {
                let whole = &self.data[place * CHUNK..self.data.len().min((place + 1) * CHUNK)];
                let sum = self.sums.get(place).copied();
                // The last chunk may go on behind `end`.
                sum == Some(SPEC.kind.of(whole)) || sum == Some(SPEC.kind.of(chunk))
            })
    }
}

pub(crate) fn sums_of(data: &[u8]) -> Vec<u32> {
    data.chunks(CHUNK).map(|chunk| SPEC.kind.of(chunk)).collect()
}

/// One replica's files.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    /// As every process sees it.
    now: Image,
    /// As it is after a loss of power, if no change made it; `None`: the names themselves were never synced.
    durable: Option<Image>,
    changes: Vec<Change>,
    /// So many of them were synced before the names were: they are there if the names are.
    synced_count: usize,
    /// A sync of it failed: what was not on disk then may never come there, though every process sees it.
    doubtful: bool,
    /// A sync was believed all the same.
    falsely_durable: bool,
}

impl Stored {
    pub(crate) fn new(identity: Identity, stage: Stage) -> Self {
        let now = Image { identity, stage, kept: (0, 0), data: Vec::new(), sums: Vec::new() };
        Self {
            now,
            durable: None,
            changes: vec![Change::Header(identity, stage, (0, 0))],
            synced_count: 0,
            doubtful: false,
            falsely_durable: false,
        }
    }

    pub(crate) fn image(&self) -> &Image {
        &self.now
    }

    fn change(&mut self, change: Change) {
        self.now.apply(&change);
        self.changes.push(change);
    }

    pub(crate) fn set_header(&mut self, identity: Identity, stage: Stage) {
        self.change(Change::Header(identity, stage, self.now.kept));
    }

    /// Writes down that all bytes so far are to be kept.
    pub(crate) fn keep(&mut self) {
        let Image { data, sums, .. } = &self.now;
        let tail = if data.len() % CHUNK == 0 { 0 } else { sums.last().copied().unwrap_or(0) };
        self.now.kept = (data.len(), tail);
        self.set_header(self.now.identity, self.now.stage);
    }

    pub(crate) fn write_data(&mut self, at: usize, bytes: &[u8]) {
        self.change(Change::Data(at, bytes.to_vec()));
    }

    pub(crate) fn write_sums(&mut self, at: usize, sums: &[u32]) {
        self.change(Change::Sums(at, sums.to_vec()));
    }

    pub(crate) fn cut(&mut self, len: usize) {
        let keep = len - len % CHUNK;
        let sum = SPEC.kind.of(&self.now.data[keep..len]);
        if self.now.kept.0 > len {
            self.now.kept = (len, if len > keep { sum } else { 0 });
        }
        if len > keep {
            self.write_sums(keep / CHUNK, &[sum]);
        }
        self.change(Change::CutData(len));
        self.change(Change::CutSums(len.div_ceil(CHUNK)));
    }

    /// How many changes there are: what a sync that begins now will make durable.
    pub(crate) fn written(&self) -> usize {
        self.changes.len()
    }

    /// The first `count` changes are on disk. Their names too, if `named`.
    pub(crate) fn synced(&mut self, count: usize, named: bool) {
        if self.doubtful {
            self.falsely_durable = true;
            return; // it is called a success, and is none
        }
        let rest = self.changes.split_off(count.min(self.changes.len()));
        match &mut self.durable {
            Some(image) => self.changes.iter().for_each(|change| image.apply(change)),
            None if named => {
                let mut image = Self::new(self.now.identity, Stage::Copying).now;
                self.changes.iter().for_each(|change| image.apply(change));
                self.durable = Some(image);
            }
            None => {
                // Bytes without a name: they count once the name is synced, so they stay in the list.
                self.synced_count = self.changes.len();
                self.changes.extend(rest);
                return;
            }
        }
        (self.changes, self.synced_count) = (rest, 0);
    }

    /// As [`Self::synced`], for the data file alone.
    pub(crate) fn synced_data(&mut self, count: usize) {
        let Some(image) = self.durable.as_mut().filter(|_| !self.doubtful) else { return };
        let mut place = 0;
        self.changes.retain(|change| {
            place += 1;
            let is_data = matches!(change, Change::Data(..) | Change::CutData(_)) && place <= count;
            if is_data {
                image.apply(change);
            }
            !is_data
        });
    }

    pub(crate) fn sync_failed(&mut self) {
        self.doubtful = true;
    }

    /// All of it was written anew, so the next sync that succeeds tells the truth.
    pub(crate) fn write_again(&mut self) {
        self.doubtful = false;
    }

    fn lose_power(&mut self, random: &mut dyn Random) -> bool {
        self.doubtful = false;
        let named = self.durable.is_some();
        if !named && random.below(3) == 0 {
            return false;
        }
        let mut image = self.durable.take().unwrap_or(Image {
            identity: self.now.identity,
            stage: Stage::Copying,
            kept: (0, 0),
            data: Vec::new(),
            sums: Vec::new(),
        });
        // Sometimes nearly all was written back, sometimes nearly nothing.
        let luck = 1 + random.below(4);
        let synced_count = std::mem::take(&mut self.synced_count);
        for (place, change) in std::mem::take(&mut self.changes).into_iter().enumerate() {
            if place < synced_count {
                image.apply(&change);
                continue;
            }
            if random.below(luck + 1) == 0 {
                continue;
            }
            match change {
                Change::Data(at, bytes) if bytes.len() > 1 && random.below(4) == 0 => {
                    let torn = 1 + random.below(bytes.len() - 1);
                    image.apply(&Change::Data(at, bytes[..torn].to_vec()));
                }
                change => image.apply(&change),
            }
        }
        self.now = image.clone();
        self.durable = Some(image);
        true
    }

    fn flip_bit(&mut self, random: &mut dyn Random) -> Option<usize> {
        let len = self.now.data.len();
        if len == 0 {
            return None;
        }
        let (at, bit) = (random.below(len), random.below(8));
        self.now.data[at] ^= 1 << bit;
        if let Some(byte) = self.durable.as_mut().and_then(|image| image.data.get_mut(at)) {
            *byte ^= 1 << bit;
        }
        Some(at)
    }
}

/// Open replicas and finalized ones. A small block can be both while it is opened again: its record stays in the pack.
#[derive(Default)]
pub(crate) struct Platter {
    pub(crate) open: BTreeMap<BlockId, Stored>,
    pub(crate) shelf: BTreeMap<BlockId, Stored>,
    /// Removed, and the removal not synced.
    removed: Vec<(BlockId, bool, Stored)>,
}

impl Platter {
    pub(crate) fn remove_open(&mut self, block: BlockId) {
        if let Some(stored) = self.open.remove(&block) {
            self.removed.push((block, false, stored));
        }
    }

    pub(crate) fn remove_shelved(&mut self, block: BlockId) {
        if let Some(stored) = self.shelf.remove(&block) {
            self.removed.push((block, true, stored));
        }
    }

    pub(crate) fn used_len(&self) -> usize {
        self.open.values().chain(self.shelf.values()).map(|stored| stored.image().data.len()).sum()
    }

    /// The disk is gone.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn blocks(&self) -> BTreeSet<BlockId> {
        self.open.keys().chain(self.shelf.keys()).copied().collect()
    }

    /// A sync of directories, as each put has it, makes removals before it durable.
    pub(crate) fn forget_removed(&mut self) {
        self.removed.clear();
    }

    pub(crate) fn lose_power(&mut self, random: &mut dyn Random) {
        for (block, shelved, stored) in std::mem::take(&mut self.removed) {
            let place = if shelved { &mut self.shelf } else { &mut self.open };
            if random.below(2) == 0 && stored.durable.is_some() {
                place.entry(block).or_insert(stored);
            }
        }
        self.open.retain(|_, stored| stored.lose_power(random));
        self.shelf.retain(|_, stored| stored.lose_power(random));
    }

    /// Replicas that somebody calls durable, though the sync that says so came after one that failed.
    pub(crate) fn falsely_durable(&self) -> Vec<BlockId> {
        let all = self.open.iter().chain(&self.shelf);
        all.filter(|(_, stored)| stored.falsely_durable).map(|(block, _)| *block).collect()
    }

    /// Finalized replicas whose bytes verify.
    pub(crate) fn sound_blocks(&self) -> BTreeSet<BlockId> {
        let sound = self.shelf.iter().filter(|(_, stored)| stored.now.verifies(stored.now.data.len()));
        sound.map(|(block, _)| *block).collect()
    }

    /// Turns over a bit of a finalized replica of one of these blocks; which, or none.
    pub(crate) fn flip_bit(&mut self, among: &BTreeSet<BlockId>, random: &mut dyn Random) -> Option<(BlockId, usize)> {
        let blocks: Vec<BlockId> = self.shelf.keys().copied().filter(|block| among.contains(block)).collect();
        if blocks.is_empty() {
            return None;
        }
        let block = blocks[random.below(blocks.len())];
        let place = self.shelf.get_mut(&block)?.flip_bit(random)?;
        Some((block, place))
    }
}
