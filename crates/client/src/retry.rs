//! How often something is tried again, and how long the pauses are: pure.

use std::collections::HashSet;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;
use xfer::fault::Fault;

/// The pauses between attempts; when they end, the last attempt was the last.
#[derive(Clone, Debug)]
pub(crate) struct Pauses {
    next: Duration,
    growth: Growth,
    left_count: u32,
}

#[derive(Clone, Copy, Debug)]
enum Growth {
    By(Duration),
    Doubling,
}

/// HDFS's client waits 400 ms at first; ours less, since our servers are ready almost at once.
const UNREADY_PAUSE: Duration = Duration::from_millis(25);
const UNREADY_COUNT: u32 = 10;

impl Pauses {
    /// For a call that the metadata server is not ready for, as a replica is not reported yet.
    pub(crate) fn until_ready() -> Self {
        Self::doubling(UNREADY_PAUSE, UNREADY_COUNT)
    }

    /// Each is longer than the one before by the first one.
    fn growing(first: Duration, count: u32) -> Self {
        Self { next: first, growth: Growth::By(first), left_count: count }
    }

    fn doubling(first: Duration, count: u32) -> Self {
        Self { next: first, growth: Growth::Doubling, left_count: count }
    }
}

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.left_count = self.left_count.checked_sub(1)?;
        let pause = self.next;
        self.next = match self.growth {
            Growth::By(step) => pause + step,
            Growth::Doubling => pause * 2,
        };
        Some(pause)
    }
}

/// Rounds over all replicas of a block before a read gives up: `dfs.client.max.block.acquire.failures`.
const READ_ROUNDS: u32 = 3;

/// Times that one read asks for another token: as Java's client does, and once more where the keys have just rolled.
const TOKEN_COUNT_MAX: u32 = 2;

/// What one read has gone through: which nodes were tried in this round, and what became of it.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    tried: HashSet<Arc<str>>,
    faults: Vec<(Arc<str>, Fault)>,
    pauses: Pauses,
    token_count: u32,
}

impl Attempt {
    pub(crate) fn new(pause: Duration) -> Self {
        let pauses = Pauses::growing(pause, READ_ROUNDS - 1);
        Self { tried: HashSet::new(), faults: Vec::new(), pauses, token_count: 0 }
    }

    /// Nodes that are not to be asked again in this round.
    pub(crate) fn tried(&self) -> &HashSet<Arc<str>> {
        &self.tried
    }

    /// A node did not take the block's token. True: the block is to be asked for again, and then the same node.
    pub(crate) fn wants_token(&mut self, fault: &Fault) -> bool {
        let is_wanted = fault.is_token_refusal() && self.token_count < TOKEN_COUNT_MAX;
        self.token_count += u32::from(is_wanted);
        is_wanted
    }

    pub(crate) fn on_fault(&mut self, addr: &Arc<str>, fault: Fault) {
        self.tried.insert(Arc::clone(addr));
        self.faults.push((Arc::clone(addr), fault));
    }

    /// All nodes have failed: how long to wait before a new round over all of them. `None`: there is none.
    pub(crate) fn next_round(&mut self) -> Option<Duration> {
        let pause = self.pauses.next()?;
        self.tried.clear();
        self.faults.clear();
        Some(pause)
    }

    /// What became of this round, for an error.
    pub(crate) fn told(&self) -> String {
        told(&self.faults)
    }
}

/// What was tried, in one line for an error.
pub(crate) fn told<A: Display, F: Display>(faults: &[(A, F)]) -> String {
    if faults.is_empty() {
        return "the metadata server names no node that has it".into();
    }
    let lines: Vec<String> = faults.iter().map(|(addr, fault)| format!("{addr}: {fault}")).collect();
    lines.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(pauses: Pauses) -> Vec<u128> {
        pauses.map(|pause| pause.as_millis()).collect()
    }

    #[test]
    fn pauses_grow_and_end() {
        assert_eq!(ms(Pauses::growing(Duration::from_millis(5), 3)), [5, 10, 15]);
        assert_eq!(ms(Pauses::doubling(Duration::from_millis(5), 4)), [5, 10, 20, 40]);
        assert_eq!(ms(Pauses::doubling(Duration::from_millis(5), 0)), []);
    }

    /// Three rounds, and an error that names the nodes of the last one only.
    #[test]
    fn a_new_round_begins_with_all_nodes_again() {
        let mut attempt = Attempt::new(Duration::from_millis(7));
        let addr: Arc<str> = "h:1".into();
        let mut pauses = Vec::new();
        loop {
            attempt.on_fault(&addr, Fault::Silent);
            assert!(attempt.tried().contains(&addr));
            assert_eq!(attempt.told(), "h:1: no answer in time");
            let Some(pause) = attempt.next_round() else { break };
            assert!(attempt.tried().is_empty());
            pauses.push(pause.as_millis());
        }
        assert_eq!(pauses, [7, 14]);
    }
}
