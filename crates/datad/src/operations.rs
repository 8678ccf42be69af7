//! Operations of data transfer: how many, how long, how many bytes, and what became of them.

use datanode::tokens::{self, REASONS};
use metrics::{Counter, Histogram, Registry};
use std::time::Duration;

/// What is counted by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// A client, or a node that copies, reads (op 81).
    Read,
    /// A client reads many ranges of many blocks (op 201).
    ReadRanges,
    /// A client asks where the columns of a file lie (op 202).
    Layout,
    /// This node is one of a chain (op 80).
    Write,
    /// A client has this node take a copy (op 80, from a node that transfers).
    CopyIn,
    /// A client has this node send a copy (op 86).
    Transfer,
    /// A small replica in one request (op 200).
    SmallPut,
    /// The digest of a block (op 85).
    Checksum,
    /// A reader on this machine gets the descriptors of a replica (op 87).
    Descriptors,
    /// A copy that the metadata server ordered: read from another node, put, read back.
    Repair,
}

const ALL: [(Operation, &str); 10] = [
    (Operation::Read, "read"),
    (Operation::ReadRanges, "read_ranges"),
    (Operation::Layout, "layout"),
    (Operation::Write, "write"),
    (Operation::CopyIn, "copy_in"),
    (Operation::Transfer, "transfer"),
    (Operation::SmallPut, "small_put"),
    (Operation::Checksum, "checksum"),
    (Operation::Descriptors, "descriptors"),
    (Operation::Repair, "repair"),
];

#[derive(Debug)]
pub(crate) struct Operations {
    /// In the order of [`ALL`].
    rows: Vec<Row>,
    /// Tokens that were refused, in the order of [`REASONS`].
    token_refusals: Vec<Counter>,
    handshake_refusals: Counter,
}

#[derive(Debug)]
struct Row {
    times: Histogram,
    bytes: Counter,
    refused: Counter,
    broken: Counter,
}

impl Operations {
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let times = registry.latencies(
            "levada_transfer_duration_seconds",
            "Time from an operation's request to its end; of streams, until the last packet is put",
            &["op"],
        );
        let bytes =
            registry.counters("levada_transfer_bytes_total", "Bytes of replicas that operations moved", &["op"]);
        let errors = registry.counters(
            "levada_transfer_errors_total",
            "Operations that were refused, and those that broke off: peers that leave are among them",
            &["op", "error"],
        );
        let row = |(_, name): (Operation, &str)| Row {
            times: times.with(&[name]),
            bytes: bytes.with(&[name]),
            refused: errors.with(&[name, "refused"]),
            broken: errors.with(&[name, "broken"]),
        };
        let refusals =
            registry.counters("levada_token_refusals_total", "Operations whose block token was refused", &["reason"]);
        let token_refusals = REASONS.into_iter().map(|reason| refusals.with(&[reason])).collect();
        let handshake_refusals = registry.counter(
            "levada_handshake_refusals_total",
            "Connections that did not prove what they had to before their first operation",
        );
        Self { rows: ALL.into_iter().map(row).collect(), token_refusals, handshake_refusals }
    }

    /// A block token does not admit an operation.
    pub(crate) fn token_refused(&self, refused: &tokens::Refusal) {
        let reason = refused.reason();
        let place = REASONS.iter().position(|known| *known == reason).expect("each reason is among them");
        self.token_refusals[place].inc();
    }

    /// A connection did not prove what it had to before its first operation.
    pub(crate) fn handshake_refused(&self) {
        self.handshake_refusals.inc();
    }

    fn row(&self, operation: Operation) -> &Row {
        &self.rows[operation as usize]
    }

    /// The counter of its bytes.
    pub(crate) fn bytes(&self, operation: Operation) -> &Counter {
        &self.row(operation).bytes
    }

    /// An operation begins.
    pub(crate) fn begin<C: Fn() -> Duration>(&self, operation: Operation, clock: C) -> Counted<'_, C> {
        Counted { row: self.row(operation), began: clock(), clock, end: End::Broken }
    }
}

/// An operation under way. It is counted when this is dropped, as broken unless something else was said.
pub(crate) struct Counted<'a, C: Fn() -> Duration> {
    row: &'a Row,
    began: Duration,
    clock: C,
    end: End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Done,
    Refused,
    Broken,
}

impl<C: Fn() -> Duration> Counted<'_, C> {
    pub(crate) fn done(mut self) {
        self.end = End::Done;
    }

    pub(crate) fn refused(mut self) {
        self.end = End::Refused;
    }

    /// By its answer, passed on.
    pub(crate) fn answered<T, E>(self, answer: Result<T, E>) -> Result<T, E> {
        match &answer {
            Ok(_) => self.done(),
            Err(_) => self.refused(),
        }
        answer
    }
}

impl<C: Fn() -> Duration> Drop for Counted<'_, C> {
    fn drop(&mut self) {
        self.row.times.observe((self.clock)().saturating_sub(self.began));
        match self.end {
            End::Done => {}
            End::Refused => _ = self.row.refused.inc(),
            End::Broken => _ = self.row.broken.inc(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_the_order_of_operations() {
        for (at, (operation, name)) in ALL.into_iter().enumerate() {
            assert_eq!(operation as usize, at, "{name}");
        }
    }

    #[test]
    fn what_is_dropped_broke_off() {
        let operations = Operations::new(&mut Registry::default());
        let begin = || operations.begin(Operation::Read, || Duration::ZERO);
        begin().done();
        begin().refused();
        drop(begin());
        assert_eq!(begin().answered(Err::<(), _>("no")), Err("no"));
        let row = operations.row(Operation::Read);
        assert_eq!((row.times.count(), row.refused.get(), row.broken.get()), (4, 2, 1));
    }
}
