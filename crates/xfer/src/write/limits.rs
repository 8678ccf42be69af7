//! How long the parts of a write may take, for all who have a part in one.

use std::time::Duration;

/// What each node of a chain adds to the time that it may take to answer, as in HDFS's client.
pub const TIME_PER_NODE: Duration = Duration::from_secs(5);

/// A node that sends keepalives is judged by them (docs/adr/0008); one that sends none has HDFS's minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// A connection to a node below. No longer than `stalled`.
    pub connect: Duration,
    /// The answer to the setup, and `per_node` more for each node behind it. Clients wait 60 s.
    pub setup: Duration,
    pub per_node: Duration,
    /// A writer that sends nothing for so long is gone, with `per_node` as below, and one whose packet is not whole so
    /// long after its first byte; clients send a heartbeat each 30 s.
    pub writer_silent: Duration,
    /// A node below that owes an answer or takes no bytes for so long is gone, with `per_node` as above.
    pub below_silent: Duration,
    /// A node below that sends keepalives, owes an answer and says nothing at all for so long is gone: four keepalives.
    /// A stream is to go on within three seconds of the loss of a node.
    pub stalled: Duration,
    /// How often a node says that it lives, while those above wait for it.
    pub keepalive_interval: Duration,
}

impl Limits {
    pub const DEFAULT: Self = Self {
        connect: Duration::from_secs(2),
        setup: Duration::from_secs(30),
        per_node: TIME_PER_NODE,
        writer_silent: Duration::from_secs(120),
        below_silent: Duration::from_secs(60),
        stalled: Duration::from_secs(2),
        keepalive_interval: Duration::from_millis(500),
    };

    /// How long a node may take to answer the setup that has so many nodes behind it.
    pub fn setup_with(&self, behind_count: usize) -> Duration {
        self.setup.saturating_add(self.allowance(behind_count))
    }

    /// How long a node that owes an answer may make no progress that has so many nodes behind it.
    pub fn below_silent_with(&self, behind_count: usize) -> Duration {
        self.below_silent.saturating_add(self.allowance(behind_count))
    }

    /// How long those above may send nothing to a node that has so many nodes behind it: longer than they wait for it,
    /// and than it waits for those below. Whoever is nearest to the node that is gone is to find that out first.
    pub fn writer_silent_with(&self, behind_count: usize) -> Duration {
        self.writer_silent.saturating_add(self.allowance(behind_count))
    }

    fn allowance(&self, node_count: usize) -> Duration {
        self.per_node.saturating_mul(u32::try_from(node_count).unwrap_or(u32::MAX))
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// How long the bytes already sent by a writer are read and dropped after it was told of a failure. Closing at once
/// would reset the connection, and the news could be lost with it. Hadoop waits three seconds.
pub const LINGER: Duration = Duration::from_secs(3);

/// How long the last acks may take to leave.
pub const FLUSH: Duration = Duration::from_secs(10);

/// How long an answer may take to leave. It is small, and the first thing that goes there.
pub const ANSWER_WAIT: Duration = Duration::from_secs(10);
