//! What all operations of data transfer share: the replicas, who is admitted, memory, limits and the end of the node.

use crate::admission::Admission;
use crate::budget::{Budget, Reservation};
use crate::config::{Config, Limits};
use crate::fronts::Fronts;
use crate::log_limits::LogLimits;
use crate::operations::Operations;
use crate::outside::Outside;
use crate::outward::Outward;
use crate::replicas::Replicas;
use crate::stop::Stop;
use io::poll::Watch;
use io::socket::SocketOptions;
use std::os::fd::AsFd;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Until an operation that was ended has certainly given back its memory, and others are ended. A guess.
const ENDED_WAIT: Duration = Duration::from_millis(200);
/// Slow readers that are ended for one write stream, which takes as much memory as a few of them.
const ENDED_COUNT_MAX: usize = 16;

/// Between two attempts at what fails for the moment.
const MOMENT: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) struct DataService {
    pub(crate) replicas: Arc<Replicas>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) budget: Budget,
    /// For what asks for operations, until it is whole.
    pub(crate) fronts: Arc<Fronts>,
    pub(crate) outward: Arc<Outward>,
    pub(crate) outside: Arc<Outside>,
    pub(crate) operations: Arc<Operations>,
    pub(crate) limits: Limits,
    /// Of connections, those that come and those to other nodes.
    pub(crate) sockets: SocketOptions,
    pub(crate) stop: Arc<Stop>,
    pub(crate) log_limits: LogLimits,
    /// Where readers on this machine get descriptors, if they do.
    pub(crate) socket_path: OnceLock<String>,
}

impl DataService {
    pub(crate) fn new(
        replicas: Arc<Replicas>,
        admission: Arc<Admission>,
        operations: Arc<Operations>,
        stop: Arc<Stop>,
        config: &Config,
    ) -> Self {
        let (budget_len, fronts) = Fronts::of(config.memory);
        let budget = Budget::new(budget_len);
        Self {
            outward: Arc::new(Outward::new(Arc::clone(&replicas), budget.clone())),
            outside: Arc::new(Outside::of(config)),
            replicas,
            admission,
            budget,
            fronts,
            operations,
            limits: config.limits.clone(),
            sockets: SocketOptions { congestion: config.congestion.clone(), ..SocketOptions::default() },
            stop,
            log_limits: LogLimits::default(),
            socket_path: OnceLock::new(),
        }
    }

    /// Time since the node started, for limits.
    pub(crate) fn now(&self) -> Duration {
        self.replicas.now()
    }

    pub(crate) fn set_options(&self, socket: &impl AsFd) {
        if let Err(error) = io::socket::apply(socket, &self.sockets) {
            tracing::debug!(%error, "options of a socket"); // it broke already; whoever uses it will see
        }
    }

    /// Takes memory for a read. Where there is none, slow readers are ended for it, one after the other.
    pub(crate) async fn room_for_read<T>(&self, mut take: impl FnMut() -> Option<T>) -> Option<T> {
        loop {
            let taken = take();
            if taken.is_some() || !self.end_slowest().await {
                return taken;
            }
        }
    }

    /// Ends the slowest reader, for its memory. False: there is none that is slow.
    pub(crate) async fn end_slowest(&self) -> bool {
        let mut freed = pin!(self.budget.freed());
        freed.as_mut().enable();
        let is_ended = self.admission.end_slowest();
        if is_ended {
            let _or_long_enough = tokio::time::timeout(ENDED_WAIT, freed).await;
        }
        is_ended
    }

    /// Memory for a write stream with so many nodes behind this one; see [`Budget::take_within`]. Where there is none,
    /// and readers have what is missing, slow ones are ended before it is waited for. Blocks.
    pub(crate) fn room_for_stream(&self, len: u64, behind_count: usize, limit: Duration) -> Option<Reservation> {
        let take_within = |limit| self.budget.take_within(len, behind_count, limit);
        let mut taken = take_within(Duration::ZERO);
        for _ in 0..ENDED_COUNT_MAX {
            let helps = || self.budget.readers_have(len, behind_count) && self.admission.end_slowest();
            if taken.is_some() || !helps() {
                break;
            }
            taken = take_within(ENDED_WAIT);
        }
        taken.or_else(|| take_within(limit))
    }

    /// How long one node waits for what others have just now.
    pub(crate) fn crowded(&self) -> Duration {
        Duration::from_millis(self.limits.crowded_ms)
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
}
