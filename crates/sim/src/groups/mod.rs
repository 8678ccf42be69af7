//! Groups of members of the crate `raft`, from seeds: openraft itself, the log as it is on disk, snapshots, members
//! that come and go; and the namespace as what they agree on.
//!
//! ```text
//!   clients ──calls──▶ member: raft ▸ openraft ▸ log ▸ LogPlatter         administrator ── adds, removes members
//!                        │  ▲                     └ loses power, fails, is full, slow
//!                        ▼  │ messages: late, lost, one way only
//!                      member ── namespace::apply ── rows
//! ```
//!
//! Promise: a run is a function of its seed, to the last step and its time. What must hold: what clients saw has an
//! order; what was acknowledged is on every member in the end; members that stand at one place of the log hold the
//! same, which the namespace calls sound; and a while after the last fault there is a leader again.

mod client;
mod faults;
mod hand_over;
mod member;
mod names;
mod rows;
mod run;
mod seat;

pub use run::run_group;
