//! The XRootD protocol (`root://`), as a server sees it that is only read from. Pure.
//!
//! ```text
//! bytes of a client ──▶ Session ──┬─▶ Event::Answer   what the session itself knows: greeting, login, ping, close …
//!                                 └─▶ Event::Request  what only the store knows: status, open, read, list …
//! a result ──▶ answer, pages, vector, listing ──▶ bytes to the client
//! ```
//!
//! Promise: no bytes of a client panic, and every length in them is held against a limit before memory is taken for it.
//! Nobody gets a request through before a login. What is refused is refused by an error code that stock clients know,
//! and the connection goes on; it ends only where it is not known any more where the next request begins.
//!
//! A session has no socket and no clock: [`Session::feed`] takes what came, [`Session::next_event`] says what is to be
//! done. Start reading there. docs/root.md has every request and its answer.

pub mod answer;
mod codes;
mod config;
mod frame;
pub mod fuzz;
mod handles;
pub mod limits;
mod listing;
mod open;
mod pages;
mod path;
mod refusal;
mod request;
mod session;
mod stat;
mod vector;

pub use codes::{ErrorCode, RequestCode, ResponseStatus};
pub use config::Config;
pub use frame::{RequestHeader, ResponseHeader, StreamId};
pub use handles::Handle;
pub use listing::{ListedPart, ListingText};
pub use open::Open;
pub use pages::PagesFrame;
pub use refusal::Refusal;
pub use request::{Request, Target};
pub use session::{Event, Session, SessionError};
pub use stat::{Info, Space, TYPE_OF_NOTHING};
pub use types::FsPath;
pub use vector::{Element, ElementRead, VectorPart};
