//! A replica of this node as its volume has it, and what is said of it.

use types::{BlockId, ContainerId, Generation, InodeId, ReplicaState};
use wire::node::{CopyOrder, Replica};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    pub block: BlockId,
    pub generation: Generation,
    pub len: u64,
    /// Zero: it is not known.
    pub file: InodeId,
    /// Zero: it is not known.
    pub home: ContainerId,
    pub state: ReplicaState,
    /// Somebody holds it open for writing.
    pub has_writer: bool,
}

impl Held {
    /// As the metadata server is told of it.
    pub fn report(&self) -> Replica {
        Replica {
            block: self.block.0,
            generation: self.generation.0,
            len: self.len,
            file: self.file.0,
            home: self.home.0,
            state: self.state.into(),
        }
    }

    /// A broken chain left it, and nobody took it up since. `is_writing`: a stream is at the block.
    pub fn is_left_open(&self, is_writing: bool) -> bool {
        self.state == ReplicaState::Open && !self.has_writer && !is_writing
    }

    /// It is what the order asks for: the order was given again, or a chain was faster.
    pub fn serves(&self, order: &CopyOrder) -> bool {
        self.state == ReplicaState::Finalized
            && self.generation >= Generation(order.generation)
            && self.len >= order.len
            && !order.replaces
    }

    /// It makes room before a copy of it is there, and may be better than what is offered, or all there is left: the
    /// source is to be read from end to end before.
    pub fn must_outlast_a_read(&self) -> bool {
        !matches!(self.state, ReplicaState::Finalized | ReplicaState::Copying)
    }
}

#[cfg(test)]
impl Held {
    pub(crate) const EXAMPLE: Self = Self {
        block: BlockId(7),
        generation: Generation(1002),
        len: 100,
        file: InodeId(0),
        home: ContainerId(0),
        state: ReplicaState::Finalized,
        has_writer: false,
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELD: Held = Held::EXAMPLE;

    #[test]
    fn a_damaged_replica_serves_no_order() {
        let order = CopyOrder { block: 7, generation: 1001, len: 100, ..CopyOrder::default() };
        assert!(HELD.serves(&order));
        assert!(!HELD.serves(&CopyOrder { replaces: true, ..order.clone() }));
        assert!(!HELD.serves(&CopyOrder { len: 101, ..order.clone() }));
        assert!(!HELD.serves(&CopyOrder { generation: 1003, ..order.clone() }));
        assert!(!Held { state: ReplicaState::Open, ..HELD }.serves(&order));
    }

    #[test]
    fn what_a_stream_writes_is_not_left() {
        let open = Held { state: ReplicaState::Open, ..HELD };
        assert!(open.is_left_open(false) && !open.is_left_open(true));
        assert!(!Held { has_writer: true, ..open }.is_left_open(false) && !HELD.is_left_open(false));
    }
}
