//! What one datanode has to tell and was ordered to do, as its surroundings see it: the shipped
//! [`datanode::Datanode`] is held against that.
//!
//! Promise: a violation is told where it happens, not by the blocks that it may cost much later. What was told is
//! judged by the messages, what was done by the deletions that are begun.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::{BlockId, Generation};
use wire::node::{Deletion, HeartbeatRequest, Orders, Replica};

/// Beyond the time that a heartbeat may be under way: the next heartbeat, or a catalogue, has told of a change by then.
const TOLD_WITHIN: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// The highest term that a server named as one that leads.
    term: u64,
    /// By whom the deletion of a block was ordered last, and when.
    ordered: BTreeMap<BlockId, (u64, Duration)>,
    /// Being deleted.
    in_hand: BTreeSet<BlockId>,
    blocks: BTreeMap<BlockId, Track>,
    change_count: u64,
    /// What heartbeats have told that are not answered yet, by their sessions.
    under_way: BTreeMap<usize, Vec<(BlockId, u64)>>,
}

/// What became of a block. Changes are numbered through.
#[derive(Debug, Default)]
struct Track {
    changes: Vec<(u64, Duration, Change)>,
    told: u64,
    heard: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Put(Replica),
    Deleted,
}

/// What the server that leads should hear of, as it is when all is told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark(u64);

impl Ledger {
    pub(crate) fn changed(&mut self, now: Duration, block: BlockId, change: Change) {
        self.change_count += 1;
        self.blocks.entry(block).or_default().changes.push((self.change_count, now, change));
    }

    /// A heartbeat of this session is sent. An error: it tells what is no longer so after what came later.
    pub(crate) fn telling(&mut self, session: usize, request: &HeartbeatRequest) -> Result<(), String> {
        let put = request.put.iter().map(|replica| (replica.block_id(), Change::Put(*replica)));
        let deleted = request.deleted.iter().map(|block| (BlockId(*block), Change::Deleted));
        let (mut told, mut outcome) = (Vec::new(), Ok(()));
        for (block, change) in put.chain(deleted) {
            let Some(track) = self.blocks.get_mut(&block) else { continue };
            let Some((number, ..)) = track.changes.iter().rfind(|(.., known)| *known == change).copied() else {
                continue;
            };
            if number < track.told {
                outcome = Err(format!("{change:?} of {block:?} is told after what came later"));
            }
            track.told = track.told.max(number);
            told.push((block, number));
        }
        self.under_way.insert(session, told);
        outcome
    }

    /// The server that leads has answered the heartbeat.
    pub(crate) fn heard(&mut self, session: usize) {
        for (block, number) in self.under_way.remove(&session).unwrap_or_default() {
            let track = self.blocks.entry(block).or_default();
            track.heard = track.heard.max(number);
        }
    }

    /// Nobody has, or one that stands by.
    pub(crate) fn unheard(&mut self, session: usize) {
        self.under_way.remove(&session);
    }

    /// All that is here is about to be told.
    pub(crate) fn mark(&self) -> Mark {
        Mark(self.change_count)
    }

    /// A page of that is sent.
    pub(crate) fn page(&mut self, from: BlockId, through: BlockId, Mark(mark): Mark) {
        for (_, track) in self.blocks.range_mut(from..=through) {
            track.told = track.told.max(track.last().min(mark));
        }
    }

    /// The server that leads has heard all of it.
    pub(crate) fn heard_all(&mut self, Mark(mark): Mark) {
        self.blocks.values_mut().for_each(|track| track.heard = track.heard.max(track.last().min(mark)));
    }

    /// A change that the server that leads has not heard of, though a heartbeat to it began so long after it, and none
    /// that tells of it is under way. `wait`: how long one may be.
    pub(crate) fn overdue(&self, begun: Duration, wait: Duration) -> Option<String> {
        let is_under_way = |block: &BlockId| self.under_way.values().flatten().any(|(told, _)| told == block);
        let (block, track) = self.blocks.iter().find(|(block, track)| {
            let last = track.changes.last().filter(|(number, ..)| *number > track.heard);
            last.is_some_and(|(_, at, _)| *at + wait + TOLD_WITHIN < begun) && !is_under_way(block)
        })?;
        Some(format!("{:?} of {block:?} is told to nobody", track.changes.last()))
    }

    /// A server gives orders. True: another one is known to have followed it as the leader.
    pub(crate) fn ordered(&mut self, now: Duration, orders: &Orders) -> bool {
        if orders.standby || orders.term < self.term {
            return !orders.standby;
        }
        self.term = orders.term;
        for Deletion { block, .. } in &orders.delete {
            self.ordered.insert(BlockId(*block), (orders.term, now));
        }
        for copy in &orders.copy {
            self.ordered.remove(&BlockId(copy.block));
        }
        false
    }

    /// Another server is known to have followed the leader of this term.
    pub(crate) fn is_of_before(&self, term: u64) -> bool {
        term < self.term
    }

    /// A deletion that waits though the leader that ordered it has been followed by another. `waits`: which of them do.
    pub(crate) fn waiting(&self, waits: impl Fn(BlockId) -> bool) -> Option<String> {
        let of_before =
            self.ordered.iter().filter(|(block, (term, _))| *term < self.term && !self.in_hand.contains(block));
        let (block, (by, _)) = of_before.into_iter().find(|(block, _)| waits(**block))?;
        Some(format!(
            "is about to delete {block:?} by an order of the term {by}, and knows of the leader of {}",
            self.term
        ))
    }

    /// Deletions are begun. An error: the leader that ordered one has been followed by another.
    pub(crate) fn deleting(&mut self, batch: &[(BlockId, Generation)]) -> Result<(), String> {
        self.in_hand = batch.iter().map(|(block, _)| *block).collect();
        let by = |block: &BlockId| self.ordered.get(block).map(|(term, _)| *term);
        match batch.iter().find(|(block, _)| by(block).is_some_and(|term| term < self.term)) {
            Some((block, _)) => {
                let (by, term) = (by(block), self.term);
                Err(format!("deletes {block:?} by an order of the term {by:?}, and knows of the leader of {term}"))
            }
            None => Ok(()),
        }
    }

    /// When the deletion of a block was ordered last.
    pub(crate) fn ordered_at(&self, block: BlockId) -> Option<Duration> {
        self.ordered.get(&block).map(|(_, at)| *at)
    }
}

impl Track {
    fn last(&self) -> u64 {
        self.changes.last().map_or(0, |(number, ..)| *number)
    }
}
