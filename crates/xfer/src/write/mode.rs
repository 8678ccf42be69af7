//! Who writes, and what becomes of the replica.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A client, through a chain: acks go back, and the last packet puts the block.
    Chain,
    /// Another node copies its open replica, so that this node can join a chain: no acks, and the replica stays open.
    CopyOpen,
    /// Another node copies a whole replica: no acks, the last packet puts it.
    CopyWhole,
}
