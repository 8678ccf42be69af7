//! The library as it is called from C: all `unsafe` code is in here, and nothing of it leaves. A handle is released by
//! whoever drops it; a text or a token is copied; a status is read in the thread that got it, as the library keeps its
//! text there.

mod calling;
mod context;
mod credential;
mod functions;
#[cfg(test)]
mod header;
mod library;
mod name;
mod output;
mod status;
mod types;

pub(crate) use context::Context;
pub(crate) use credential::{Credential, Usage};
pub use functions::LoadError;
pub(crate) use library::Library;
pub(crate) use name::{Name, NameKind};
pub use status::Status;
