//! The state that commands are applied to.
//!
//! A machine keeps itself, so a snapshot is nothing but "the machine is durable up to here". See `driver`.

use crate::machine_error::MachineError;
use crate::snapshot::{Export, Import};
use ::types::RowsDigest;
use ::types::encoding::Encoded;
use std::fmt::Debug;

/// The level of the forms that every member knows.
pub const LEVEL_FIRST: u8 = 1;

/// State that is a function of the commands applied to it, and that keeps itself.
pub trait Machine: Send + Sync + 'static {
    type Command: Encoded + Clone + Debug + Send + Sync + 'static;
    type Reply: Debug + Send + Sync + 'static;

    /// What the last [`Machine::apply`] that survived was given as `position`; `None` for a new machine.
    fn position(&self) -> Option<Vec<u8>>;

    /// Applies one entry; `None` is one that only moves the position, and nobody waits for its reply. `position` is
    /// kept with the change: after a restart the machine has both, or neither. An error or a panic stops Raft on this
    /// node, and the entry is tried again at the next start: what strangers ask for must be refused by a reply, never
    /// by an error. It may wait for a disk (see [`Machine::may_wait`]); one call at a time.
    fn apply(&self, position: &[u8], command: Option<Self::Command>) -> Result<Self::Reply, MachineError>;

    /// Whether the next [`Machine::apply`] may have to wait for a disk. Then it is called on a thread of its own, else
    /// on one of the runtime's, as two changes of threads cost more than most entries.
    fn may_wait(&self) -> bool {
        true
    }

    /// The digest of all changes up to the position, which goes along wherever the state is copied to. `None`: members
    /// are not compared.
    fn digest(&self) -> Option<RowsDigest> {
        None
    }

    /// The highest level of forms that this program knows: it applies no command of a higher one, and takes no state of
    /// one. See docs/adr/0014.
    fn level_max(&self) -> u8 {
        LEVEL_FIRST
    }

    /// The level of the state. Commands of a higher one are not proposed. A command raises it, when all members know
    /// the next one ([`Raft::common_level`](crate::Raft::common_level)).
    fn level(&self) -> u8 {
        LEVEL_FIRST
    }

    /// The level to which the form of this command belongs.
    fn level_of(_command: &Self::Command) -> u8 {
        LEVEL_FIRST
    }

    /// Makes all that was applied so far durable. May take its time; entries are applied meanwhile.
    fn flush(&self) -> Result<(), MachineError>;

    /// True if the next flush should not wait for its usual time. Asked after every few entries.
    fn is_large(&self) -> bool {
        false
    }

    /// The whole state as of the last flush, or a later one, for another member. Changes go on while it is read.
    fn export(&self) -> Result<Box<dyn Export>, MachineError> {
        Err(MachineError::new("this machine cannot be copied"))
    }

    /// Begins to take over the state of another member.
    fn import(&self) -> Result<Box<dyn Import>, MachineError> {
        Err(MachineError::new("this machine cannot be copied"))
    }
}
