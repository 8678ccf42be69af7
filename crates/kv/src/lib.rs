//! Rows on disk: LMDB below, and an overlay of changes that are not synced yet above it.
//!
//! ```text
//!   change ──commit──▶ active ──flush──▶ frozen ──one transaction, fsync──▶ LMDB
//!                        └───────────────┴────────── a view reads all three ──┘
//! ```
//!
//! Memory is layers of rows whose copies share what they have in common (`tree`): a view has a copy of its moment and
//! no lock, so it waits for no commit, flush or page that another view needs, and none of these wait for it.
//!
//! Promise: a committed [`Change`] is seen by every later [`View`], all of it or nothing; after a crash the store is
//! what it was at the end of some flush, never between two. Nothing is durable before a flush: whoever needs that keeps
//! a log, and a row that says how far the store contains it (docs/adr/0003). LMDB is always synced, and each value on
//! disk carries a CRC-32C of key and value, since LMDB has no checksums of its own. A store up to some size is read
//! whole when it is opened, so that a row which damage hides is not taken for an absent one.

mod change;
mod change_guard;
mod chunk;
#[doc(hidden)]
pub mod cold;
mod disk;
mod error;
mod export;
#[doc(hidden)]
pub mod fuzz;
mod import;
mod layer;
mod merge;
mod pages;
mod row;
mod store;
mod sum;
mod tree;
mod view;

pub use change::{Change, KEY_LEN_MAX};
pub use error::KvError;
pub use export::Export;
pub use import::{Import, PieceCheck};
pub use store::{Options, Store};
pub use view::View;
