//! What containers hold, as hash trees over the checksums: so that members of a sealed one find where they differ in a
//! few questions.
//!
//! ```text
//! question ──▶ a tree that was looked through of late? ──yes──▶ sums, or leaves
//!                   └ no: "still being made", and the container waits for a thread
//! thread ──▶ index: replicas of the container ──▶ leaves as before, where generation and length are ──▶ the tree, its file
//!   │                                          └▶ others: their checksums are read, at most so many bytes a second
//!   └ a disk was given up meanwhile: nobody waits for it, what it had noted is forgotten, and another one goes on
//! ```
//!
//! Promise: an answer is given at once, out of memory, or is that there is none yet; one container is looked through at
//! a time; trees take a bounded part of memory, and the ones asked for last stay. A leaf that decides something can be
//! had anew from the disk; and after each scrub all are made anew, so what changed on a disk behind our back is seen as
//! well.
//!
//! A tree covers the container's own blocks that are at home in it. Those that moved there from other containers are
//! few, and compared one by one.

mod file;

use crate::rate_limit::RateLimit;
use crate::replicas::Replicas;
use crate::stop::Stop;
use container::ReplicaError;
use hdfs::Exception;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use types::{BlockId, ContainerId, Generation, ReplicaState};
use wire::tree::{ANEW_COUNT_MAX, Content, HashTree, Leaf, TREE_NODE_COUNT_MAX, TreeRequest, TreeResponse};

/// Replicas looked up at a time.
const STEP_COUNT: usize = 1000;
/// Checksums read at a time.
const PIECE_LEN: u64 = 64 << 20;
/// A tree that was looked through so long ago is looked through again before it answers. A comparison takes seconds.
const FRESH_FOR: Duration = Duration::from_secs(60);
/// Leaves in memory, each forty bytes, unless one tree alone has more.
const LEAF_COUNT_MAX: usize = 400_000;
/// What a tree counts as beside its leaves, so that those of containers that are not here have a limit too.
const TREE_WEIGHT: usize = 100;
/// Containers that wait.
const WAITING_COUNT_MAX: usize = 1000;
/// Blocks that were put since their container was looked through last. With more, no tree is believed.
const PUT_COUNT_MAX: usize = 10_000;
/// Until a disk that does not answer is tried again.
const REST: Duration = Duration::from_secs(1);
/// Bytes of checksums a second: those of five gigabytes in two seconds.
const LEN_PER_S: u64 = 20 << 20;

#[derive(Debug)]
pub(crate) struct Contents {
    replicas: Arc<Replicas>,
    stop: Arc<Stop>,
    /// Where trees are kept.
    dir: PathBuf,
    state: Mutex<State>,
    /// There is something to be done.
    came: Notify,
    rate: RateLimit,
}

#[derive(Debug, Default)]
struct State {
    trees: BTreeMap<ContainerId, Kept>,
    /// Leaves of all trees, and [`TREE_WEIGHT`] for each.
    weight: usize,
    /// Counts questions, to know which tree was asked for last.
    turn: u64,
    waiting: VecDeque<ContainerId>,
    /// Counts containers that were looked through. What was begun under an earlier number was given up.
    round: u64,
    /// Put again under the same generation, perhaps since a tree was made.
    put: BTreeSet<BlockId>,
    /// Containers that have a file, so that nobody has to ask the disk.
    files: BTreeSet<ContainerId>,
    /// Files that are to be removed.
    spoilt: BTreeSet<ContainerId>,
}

#[derive(Debug)]
struct Kept {
    tree: Arc<HashTree>,
    /// When it was as the index is; `None`: something was put since.
    checked: Option<Duration>,
    turn: u64,
}

/// What a tree counts as among those that are kept.
fn weight(tree: &HashTree) -> usize {
    tree.len() + TREE_WEIGHT
}

impl State {
    fn remove(&mut self, home: ContainerId) {
        let gone = self.trees.remove(&home);
        self.weight -= gone.map_or(0, |gone| weight(&gone.tree));
    }
}

impl Contents {
    pub(crate) fn new(replicas: Arc<Replicas>, stop: Arc<Stop>) -> Self {
        let dir = replicas.disks.trees();
        let state = State { files: file::all(&dir), ..State::default() };
        Self { replicas, stop, dir, state: Mutex::new(state), came: Notify::new(), rate: RateLimit::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn answer(&self, request: &TreeRequest) -> Result<TreeResponse, Exception> {
        let home = ContainerId(request.home);
        if request.nodes.len() > TREE_NODE_COUNT_MAX || request.anew.len() > ANEW_COUNT_MAX {
            return Err(Exception::io(format!("{TREE_NODE_COUNT_MAX} nodes or {ANEW_COUNT_MAX} replicas at a time")));
        }
        if !request.anew.is_empty() {
            let leaves = request.anew.iter().filter_map(|block| self.anew(BlockId(*block)));
            return Ok(TreeResponse { leaves: leaves.collect(), ..TreeResponse::default() });
        }
        let Some(tree) = self.tree(home) else {
            return Ok(TreeResponse { building: true, ..TreeResponse::default() });
        };
        tree.answer(request).map_err(|error| Exception::io(error.to_string()))
    }

    /// The tree, if it is of late; if not, a thread is to see to it.
    fn tree(&self, home: ContainerId) -> Option<Arc<HashTree>> {
        let mut state = self.lock();
        state.turn += 1;
        let turn = state.turn;
        if let Some(kept) = state.trees.get_mut(&home)
            && kept.checked.is_some_and(|checked| self.replicas.now().saturating_sub(checked) <= FRESH_FOR)
        {
            kept.turn = turn;
            return Some(Arc::clone(&kept.tree));
        }
        if state.waiting.len() < WAITING_COUNT_MAX && !state.waiting.contains(&home) {
            state.waiting.push_back(home);
        }
        self.came.notify_one();
        None
    }

    /// A replica is about to be put that was here before perhaps, or has just been put: what is known of that one
    /// counts no more. Waits for no disk: the trees lie on one, and the replica perhaps on another.
    pub(crate) fn put(&self, block: BlockId) {
        let home = block.born_in();
        let known = {
            let state = self.lock();
            let known = state.trees.get(&home).map(|kept| kept.tree.leaf(block).is_some());
            known.unwrap_or_else(|| state.files.contains(&home))
        };
        if known {
            self.forget(home, block);
        }
    }

    /// All replicas were just read: what is remembered of their checksums is to be read again as well, when somebody
    /// asks.
    pub(crate) fn forget_all(&self) {
        Self::spoil_all(&mut self.lock());
        self.came.notify_one();
    }

    fn spoil_all(state: &mut State) {
        state.trees.clear();
        state.weight = 0;
        let files = std::mem::take(&mut state.files);
        state.spoilt.extend(files);
    }

    fn forget(&self, home: ContainerId, block: BlockId) {
        let mut state = self.lock();
        if state.put.len() >= PUT_COUNT_MAX {
            Self::spoil_all(&mut state);
            state.put.clear();
        }
        state.put.insert(block);
        if let Some(kept) = state.trees.get_mut(&home) {
            kept.checked = None;
        }
        if state.files.remove(&home) {
            state.spoilt.insert(home);
        }
        if !state.spoilt.is_empty() {
            self.came.notify_one();
        }
    }

    /// Does what there is to do, one thing after the other.
    async fn work(self: &Arc<Self>) {
        while !self.stop.is_set() {
            let at = Arc::clone(self);
            // Files first: nobody may read one that is spoilt.
            if !self.lock().spoilt.is_empty() {
                if self.replicas.disks.for_all(move |_| at.remove_spoilt()).await.is_err() {
                    tokio::time::sleep(REST).await;
                }
                continue;
            }
            let Some(home) = self.lock().waiting.front().copied() else { return };
            match self.replicas.disks.for_all(move |_| at.look_through(home)).await {
                Ok(Ok(Some(tree))) => self.keep(home, tree, self.replicas.now()),
                Ok(Ok(None)) => {} // the node stops
                Ok(Err(error)) => tracing::warn!(%home, %error, "a container could not be looked through"),
                Err(error) => {
                    tracing::warn!(%home, %error, "scan of a container was not finished; it is scanned again later");
                    self.give_up(home);
                }
            }
            self.lock().waiting.retain(|waiting| *waiting != home);
        }
    }

    /// Whoever looks through this container hangs. What was to be read again was said to that one, so all is.
    fn give_up(&self, home: ContainerId) {
        let mut state = self.lock();
        state.round += 1;
        state.remove(home);
        state.files.remove(&home);
        state.spoilt.insert(home);
    }

    fn remove_spoilt(&self) {
        loop {
            let Some(home) = self.lock().spoilt.pop_first() else { return };
            if self.replicas.disks.has_trees()
                && let Err(error) = file::remove(&self.dir, home)
            {
                tracing::warn!(%home, %error, "the file of a hash tree was not removed");
            }
        }
    }

    fn keep(&self, home: ContainerId, tree: HashTree, now: Duration) {
        let mut state = self.lock();
        let turn = state.turn;
        // Put since the thread read it: it is looked through again before anybody believes it.
        let is_old = state.put.iter().any(|block| tree.leaf(*block).is_some());
        let checked = (!is_old).then_some(now);
        if tree.is_empty() {
            state.files.remove(&home);
        }
        state.remove(home);
        state.weight += weight(&tree);
        state.trees.insert(home, Kept { tree: Arc::new(tree), checked, turn });
        // Of a container that is not here an answer is kept, and nothing of it when that is old.
        let is_old = |kept: &Kept| kept.checked.is_none_or(|checked| now.saturating_sub(checked) > FRESH_FOR);
        let empty = state.trees.iter().filter(|(id, kept)| **id != home && kept.tree.is_empty() && is_old(kept));
        let empty: Vec<ContainerId> = empty.map(|(id, _)| *id).collect();
        empty.into_iter().for_each(|id| state.remove(id));
        while state.weight > LEAF_COUNT_MAX && state.trees.len() > 1 {
            let oldest = state.trees.iter().filter(|(id, _)| **id != home).min_by_key(|(_, kept)| kept.turn);
            let Some(oldest) = oldest.map(|(id, _)| *id) else { break };
            state.remove(oldest);
        }
    }

    /// The tree as the index has it now. What is known from before is not read again.
    fn look_through(&self, home: ContainerId) -> Result<Option<HashTree>, ReplicaError> {
        let (known, put, is_kept, round) = {
            let mut state = self.lock();
            state.round += 1;
            // Named before anything is read: what is put from now on spoils the file that is written below.
            let is_kept = !state.files.insert(home);
            let put: Vec<BlockId> = state.put.iter().copied().filter(|block| block.born_in() == home).collect();
            put.iter().for_each(|block| _ = state.put.remove(block));
            (state.trees.get(&home).map(|kept| Arc::clone(&kept.tree)), put, is_kept, state.round)
        };
        let is_over = || self.stop.is_set() || self.lock().round != round;
        let read = || file::read(&self.dir, home).map(Arc::new);
        let known = known
            .or_else(|| if is_kept && self.replicas.disks.has_trees() { read() } else { None })
            .unwrap_or_default();
        let mut leaves = Vec::new();
        let mut from = BlockId::new(home, 0);
        let mut changed = 0;
        'all: loop {
            let infos = self.replicas.disks.replicas(from, STEP_COUNT)?;
            for info in &infos {
                let identity = info.identity;
                if identity.block.born_in() != home {
                    break 'all;
                }
                let is_here = identity.home == home || identity.home == ContainerId(0);
                let leaves_soon = self.replicas.is_ordered_away(identity.block, identity.generation);
                if info.state != ReplicaState::Finalized || !is_here || leaves_soon {
                    continue;
                }
                let same = |leaf: &&Leaf| {
                    leaf.generation == identity.generation.0 && leaf.len == info.len && !put.contains(&identity.block)
                };
                if let Some(leaf) = known.leaf(identity.block).filter(same) {
                    leaves.push(*leaf);
                    continue;
                }
                changed += 1;
                leaves.extend(self.read(identity.block, identity.generation)?);
                if is_over() {
                    return Ok(None);
                }
            }
            match infos.last().and_then(|last| last.identity.block.0.checked_add(1)) {
                Some(next) if infos.len() == STEP_COUNT => from = BlockId(next),
                _ => break,
            }
        }
        let tree = HashTree::new(leaves);
        if (changed > 0 || tree.len() != known.len())
            && self.replicas.disks.has_trees()
            && !is_over()
            && let Err(error) = file::write(&self.dir, home, &tree)
        {
            tracing::warn!(%home, %error, "a hash tree was not kept on disk");
        }
        Ok(Some(tree))
    }

    /// A leaf from the disk, and no other one is believed from now on.
    fn anew(&self, block: BlockId) -> Option<Leaf> {
        self.forget(block.born_in(), block);
        let info = self.replicas.disks.find(block).ok()??;
        let counts =
            info.state == ReplicaState::Finalized && !self.replicas.is_ordered_away(block, info.identity.generation);
        if !counts {
            return None;
        }
        self.read(block, info.identity.generation).ok().flatten()
    }

    /// `None`: it is not there any more.
    fn read(&self, block: BlockId, generation: Generation) -> Result<Option<Leaf>, ReplicaError> {
        match self.content(block, generation) {
            Ok(leaf) => Ok(Some(leaf)),
            Err(ReplicaError::NotFound { .. } | ReplicaError::State { .. }) => Ok(None),
            Err(error) if error.is_damage() => {
                // It is read from end to end, and told of.
                let _damage_is_told = self.replicas.verify(block);
                let len = self.replicas.disks.find(block)?.map_or(0, |info| info.len);
                Ok(Some(Leaf { block: block.0, generation: generation.0, len, content: Content::UNREADABLE }))
            }
            Err(error) => Err(error),
        }
    }

    fn content(&self, block: BlockId, generation: Generation) -> Result<Leaf, ReplicaError> {
        let reader = self.replicas.disks.read(block, generation)?;
        let spec = reader.checksum();
        let chunk_len = u64::from(spec.chunk_len);
        let step = chunk_len * (PIECE_LEN / chunk_len).max(1);
        let mut content = Content::new(spec);
        let mut sums = Vec::new();
        let mut at = 0;
        while at < reader.len() {
            let piece = step.min(reader.len() - at);
            sums.clear();
            reader.sums(at, piece, &mut sums)?;
            content.add(&sums);
            self.rate.wait(self.replicas.now(), sums.len() as u64, LEN_PER_S);
            at += piece;
        }
        let generation = reader.identity().generation.0;
        Ok(Leaf { block: block.0, generation, len: reader.len(), content: content.value() })
    }
}

/// Looks through containers, and removes files, until the task is dropped.
pub(crate) async fn run(contents: Arc<Contents>) {
    loop {
        contents.came.notified().await;
        let at = Arc::clone(&contents);
        // A panic ends what is at work, and the next question begins anew.
        let _a_panic_was_reported = io::task::spawn("contents", async move { at.work().await }).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Somebody asks for trees of containers that are not here, one after the other.
    #[test]
    fn containers_that_are_not_here_leave_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let disks = disks::open(&[dir.path().to_owned()], &container::Options::default()).unwrap();
        let replicas = Arc::new(Replicas::new(disks, 1, io::SystemClock::new()));
        let contents = Contents::new(replicas, Arc::new(Stop::new().unwrap()));
        let keep = |number: u64, now: u64| {
            let home = ContainerId(number);
            contents.lock().files.insert(home); // as whoever looks through it does first
            contents.keep(home, HashTree::default(), Duration::from_secs(now));
        };
        (0..6_000).for_each(|number| keep(number, 1));
        assert!(contents.lock().trees.len() <= LEAF_COUNT_MAX / TREE_WEIGHT);
        assert!(contents.lock().files.is_empty());
        keep(1, 1000);
        let state = contents.lock();
        assert_eq!((state.trees.len(), state.weight), (1, TREE_WEIGHT));
    }
}
