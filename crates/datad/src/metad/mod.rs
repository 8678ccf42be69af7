//! The metadata servers, as this node sees them: a session with each ([`session`]), who they are ([`servers`]), and
//! which of them leads ([`leader`]).

mod asker;
mod broken;
mod catalogue;
mod heartbeat;
mod leader;
mod registration;
mod servers;
mod session;
mod unproven;
mod unreachable;

pub(crate) use leader::Leader;
pub(crate) use registration::Registration;
pub(crate) use servers::run;
pub(crate) use session::{Session, call_options};
