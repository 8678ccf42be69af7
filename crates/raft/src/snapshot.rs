//! The state of a machine on its way to another member.
//!
//! A machine keeps itself, so to openraft "making a snapshot" is nothing but a flush, and what is sent is read out of
//! the store while it is in use: see [`crate::Machine::export`].

use crate::machine_error::MachineError;

/// The whole state as it was at one moment, read bit by bit.
pub trait Export: Send {
    /// What [`crate::Machine::apply`] was given last at that moment.
    fn position(&self) -> Result<Vec<u8>, MachineError>;

    /// The next piece, of about `len_max` bytes; `None` when there is no more. May wait for a disk.
    fn chunk(&mut self, len_max: usize) -> Result<Option<Vec<u8>>, MachineError>;
}

/// Another member's state, collected piece by piece. Dropped, it is forgotten.
pub trait Import: Send {
    /// The next piece, as the other member's [`Export::chunk`] gave it.
    fn take(&mut self, chunk: &[u8]) -> Result<(), MachineError>;

    /// Puts what came in the place of all that the machine had, with `position` as of the last entry in it. Durable
    /// when it returns; a crash leaves the old or the new.
    fn install(self: Box<Self>, position: &[u8]) -> Result<(), MachineError>;
}

/// What openraft hands from one end of our code to the other.
pub(crate) enum SnapshotData {
    /// Ours, to be sent.
    Out(Box<dyn Export>),
    /// Another's, all here.
    In(Box<dyn Import>),
    /// The word that the machine was flushed; there is nothing to be sent.
    Nothing,
}
