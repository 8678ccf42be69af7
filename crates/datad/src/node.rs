//! What all parts of a datanode share.

use crate::beacon::Beacon;
use crate::budget::Budget;
use crate::changes::Changes;
use crate::config::Config;
use crate::contents::Contents;
use crate::copier::Copier;
use crate::deleter::Deleter;
use crate::disk_balance::DiskBalance;
use crate::heartbeat_progress::HeartbeatProgress;
use crate::owners::Owners;
use crate::scrub::Scrubber;
use crate::small::{Committer, SmallLinks};
use crate::stop::Stop;
use crate::telemetry::Telemetry;
use container::ReplicaInfo;
use disks::Disks;
use io::asking::AskOptions;
use io::poll::Watch;
use io::socket::SocketOptions;
use io::{Clock, Crew, OsRandom, SystemClock};
use std::collections::HashMap;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use types::{BlockId, Millis, Random, ReplicaState};
use wire::node;
use xfer::small::CallerLimits;

/// Between two attempts at what fails for the moment.
const MOMENT: Duration = Duration::from_millis(100);
/// A metadata server that takes longer to hear something is not waited for.
const TELL_WAIT: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) config: Config,
    /// Of this process, in all that it says to metadata servers.
    pub(crate) incarnation: node::Incarnation,
    pub(crate) disks: Disks,
    clock: SystemClock,
    pub(crate) budget: Budget,
    pub(crate) changes: Arc<Changes>,
    pub(crate) heartbeat_progress: HeartbeatProgress,
    pub(crate) deleter: Deleter,
    pub(crate) copier: Copier,
    pub(crate) owners: Owners,
    pub(crate) scrubber: Scrubber,
    pub(crate) disk_balance: DiskBalance,
    pub(crate) contents: Contents,
    pub(crate) stop: Stop,
    pub(crate) beacon: Beacon,
    /// Puts the replicas of small writes.
    pub(crate) committer: Committer,
    /// Takes them to other nodes.
    pub(crate) small_links: SmallLinks,
    /// The threads of write streams.
    pub(crate) streams: Crew,
    pub(crate) telemetry: Telemetry,
    transfers: Arc<Semaphore>,
    /// Blocks that streams are writing, and how many streams: two for a moment, when a writer comes back.
    writing: Mutex<HashMap<BlockId, usize>>,
}

/// A place among the transfers; free again when dropped.
#[derive(Debug)]
pub(crate) struct Transfer(#[expect(dead_code, reason = "held, not read")] OwnedSemaphorePermit);

/// A block is being written for as long as this is there.
#[derive(Debug)]
pub(crate) struct Writing {
    node: Arc<Node>,
    block: BlockId,
}

impl Node {
    pub(crate) fn new(config: Config, disks: Disks) -> std::io::Result<Self> {
        let transfers = config.limits.transfer_count_max.min(Semaphore::MAX_PERMITS);
        let changes = Arc::new(Changes::default());
        let trees = disks.trees();
        let socket = SocketOptions { congestion: config.congestion.clone(), ..SocketOptions::default() };
        let connect_time_max = Duration::from_millis(config.limits.connect_ms);
        let small = AskOptions { socket, connect_time_max };
        let clock = SystemClock::new();
        // Zero is none.
        let nonce = OsRandom::new().next_u64().max(1);
        let incarnation = node::Incarnation { start_ms: clock.now().0, nonce };
        Ok(Self {
            incarnation,
            committer: Committer::start(&disks, &changes)?,
            small_links: SmallLinks::new(small, CallerLimits::default()),
            budget: Budget::new(config.memory),
            deleter: Deleter::new(disks.disks().len()),
            disks,
            clock,
            changes,
            heartbeat_progress: HeartbeatProgress::default(),
            copier: Copier::default(),
            owners: Owners::default(),
            scrubber: Scrubber::default(),
            disk_balance: DiskBalance::default(),
            contents: Contents::new(trees),
            stop: Stop::new()?,
            beacon: Beacon::default(),
            streams: Crew::new("write stream"),
            telemetry: Telemetry::default(),
            transfers: Arc::new(Semaphore::new(transfers)),
            writing: Mutex::default(),
            config,
        })
    }

    /// It counts into a registry from then on.
    pub(crate) fn counting(self, telemetry: Telemetry) -> Self {
        Self { telemetry, ..self }
    }

    /// Time since the node started, for limits.
    pub(crate) fn now(&self) -> Duration {
        self.clock.monotonic()
    }

    /// What the machine's clock says, for what outlives the process.
    pub(crate) fn wall(&self) -> Millis {
        self.clock.now()
    }

    /// The block pool, once the metadata server has told it; kept with the disks.
    pub(crate) fn pool(&self) -> Option<String> {
        self.disks.pool()
    }

    pub(crate) fn set_options(&self, socket: &impl AsFd) {
        let options = SocketOptions { congestion: self.config.congestion.clone(), ..SocketOptions::default() };
        if let Err(error) = io::socket::apply(socket, &options) {
            tracing::debug!(%error, "options of a socket"); // it broke already; whoever uses it will see
        }
    }

    /// `None` when as many are under way as may be.
    pub(crate) fn transfer(&self) -> Option<Transfer> {
        Arc::clone(&self.transfers).try_acquire_owned().ok().map(Transfer)
    }

    pub(crate) fn transfer_count(&self) -> usize {
        let max = self.config.limits.transfer_count_max.min(Semaphore::MAX_PERMITS);
        max - self.transfers.available_permits()
    }

    /// Returns when no transfer is under way; none can begin after it.
    pub(crate) async fn transfers_ended(&self) {
        let max = self.config.limits.transfer_count_max.min(Semaphore::MAX_PERMITS);
        if let Ok(all) = self.transfers.acquire_many(max.try_into().unwrap_or(u32::MAX)).await {
            all.forget();
        }
    }

    /// How long one node waits for what others have just now.
    pub(crate) fn crowded(&self) -> Duration {
        Duration::from_millis(self.config.limits.crowded_ms)
    }

    /// Tries again, for a while, what fails for a reason that may soon be gone. Blocks.
    pub(crate) fn patiently<T, E>(
        &self,
        attempt: impl Fn() -> Result<T, E>,
        is_momentary: impl Fn(&E) -> bool,
    ) -> Result<T, E> {
        let until = self.now() + self.crowded();
        loop {
            match attempt() {
                Err(error) if is_momentary(&error) && self.now() < until && !self.stop.is_set() => {
                    // Until then, or the end of the node.
                    let _ = io::poll::poll(&[Watch { fd: self.stop.as_fd(), read: true, write: false }], Some(MOMENT));
                }
                done => return done,
            }
        }
    }

    /// Has the metadata server hear how full the disks are: who is refused now asks it for another node, and if there
    /// is none, it is to know why. Blocks.
    pub(crate) fn report_full(&self) {
        let before = self.heartbeat_progress.begun(); // the one that is called for now may be over before this thread goes on
        self.changes.came.notify_one();
        if !self.heartbeat_progress.wait(before, TELL_WAIT) {
            tracing::debug!("the metadata server has not acknowledged yet that there is no space");
        }
    }

    pub(crate) fn writing(self: &Arc<Self>, block: BlockId) -> Writing {
        *self.lock_writing().entry(block).or_insert(0) += 1;
        Writing { node: Arc::clone(self), block }
    }

    /// The replica of a broken chain, unless it was taken up since.
    pub(crate) fn left_open(&self, block: BlockId) -> Option<node::Replica> {
        let info = self.disks.find(block).ok()??;
        let left = info.state == ReplicaState::Open && !info.has_writer && !self.is_writing(block);
        left.then(|| report(&info))
    }

    pub(crate) fn is_writing(&self, block: BlockId) -> bool {
        self.lock_writing().contains_key(&block)
    }

    fn lock_writing(&self) -> MutexGuard<'_, HashMap<BlockId, usize>> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A replica is whole: the metadata server is to hear of it soon.
    pub(crate) fn was_put(&self, block: BlockId) {
        match self.disks.find(block) {
            Ok(Some(info)) => self.changes.put(report(&info)),
            Ok(None) => {} // deleted meanwhile
            Err(error) => tracing::error!(%block, %error, "a replica that was just put is not found"),
        }
    }

    /// A chain broke off and left its replica open.
    pub(crate) fn was_left(&self, block: BlockId) {
        self.changes.left(block, self.now());
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        let mut writing = self.node.lock_writing();
        if let Some(count) = writing.get_mut(&self.block) {
            *count -= 1;
            if *count == 0 {
                writing.remove(&self.block);
            }
        }
    }
}

/// A replica as the metadata server is told of it.
pub(crate) fn report(info: &ReplicaInfo) -> node::Replica {
    node::Replica {
        block: info.identity.block.0,
        generation: info.identity.generation.0,
        len: info.len,
        file: info.identity.file.0,
        home: info.identity.home.0,
        state: info.state.into(),
    }
}
