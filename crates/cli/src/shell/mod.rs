//! What the file commands share: where a path leads, what is printed, how many files move at a time, what is undone.

pub(crate) mod advice;
pub(crate) mod browse;
pub(crate) mod copy;
pub(crate) mod failure;
pub(crate) mod glob;
pub(crate) mod mode;
pub(crate) mod output;
pub(crate) mod progress;
pub(crate) mod session;
pub(crate) mod size;
pub(crate) mod span;
pub(crate) mod target;
pub(crate) mod temps;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod time;
pub(crate) mod transfer;
pub(crate) mod trash;
pub(crate) mod tree;

pub(crate) use failure::{Failure, Stop, shown};
pub(crate) use session::{Common, LongHelp, PORT_BASE_VARIABLE, Session};
pub(crate) use target::Target;
