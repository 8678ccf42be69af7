//! The learned cache: what a reader of a file will want next, from what it read so far. ROOT's TTreeCache for every
//! file.
//!
//! ```text
//!              read(span)                          parts: held │ coming │ missing
//!   program ──────────────▶  shell  ──▶ Prefetcher ─────────▶ shell copies what is held
//!                              ▲            │
//!              arrived(id)     │            ├─ Fetch { ranges }   one vectored read: what is missing, and the window
//!              failed(id) ─────┘            ├─ Drop(span)         may leave the memory
//!                                           └─ Decided(why)       for `levada explain read`
//! ```
//!
//! Promise: no clock, no chance, no I/O, no threads. What is in flight and held is never longer than the cache. What is
//! fetched in vain is never longer than the floor and the share of the settings, whatever the program does. Start
//! reading at [`Prefetcher::read`]; the rules are explained in docs/adr/0032.

mod action;
mod columns;
mod counts;
mod decision;
mod fetcher;
pub mod fuzz;
mod holdings;
mod id;
mod index;
mod lane;
mod mark;
mod opening;
mod prefetcher;
pub mod profile;
mod reach;
pub mod replay;
mod settings;
mod span;
mod stream;
mod streams;
mod table;
mod window;

pub use action::{Action, Fetch};
pub use counts::Counts;
pub use decision::{Decision, Why};
pub use holdings::{Accounts, Part, Source};
pub use id::FetchId;
pub use index::{ColumnId, Index};
pub use prefetcher::Prefetcher;
pub use profile::Profile;
pub use settings::{FETCH_RANGES_MAX, Link, Settings};
pub use span::Span;
pub use window::Run;
