//! What an operation works with.

use crate::caller::Caller;
use crate::effects::Effects;
use types::Millis;
use types::rows::RowsMut;

/// What an operation works with.
pub(crate) struct Context<'a> {
    pub(crate) rows: &'a mut dyn RowsMut,
    pub(crate) now: Millis,
    pub(crate) caller: &'a Caller,
    /// What the leader has to look after, noted where it comes about.
    pub(crate) effects: Effects,
}
