//! What a datanode decides between its metadata servers and its volumes: what it reports, and what becomes of orders.
//!
//! ```text
//! volume: put, deleted, left open, damaged ──▶ Changes, Damage ──▶ heartbeat ──▶ metadata server that leads
//! threads: copy, delete ◀── Copies, Deletions ◀────────────────── orders ◀──────────────┘
//! ```
//!
//! Promise: nothing here reads a clock, a socket or a disk, starts a thread or waits; time is an argument. `datad`
//! drives it with threads, locks and files, the simulation with its own. What must agree lies in one [`Datanode`]:
//! start reading there.

pub mod catalogue;
mod changes;
pub mod compare;
pub mod copies;
mod damage;
mod deletions;
mod held;
pub mod job;
mod known;
mod node;
mod servers;
pub mod session;
pub mod tokens;
mod told;

pub use copies::Copies;
pub use damage::Damage;
pub use deletions::Deletions;
pub use held::Held;
pub use job::Job;
pub use known::Known;
pub use node::{Begin, Datanode, Due, Rest};
pub use servers::Servers;
pub use session::{Attempts, Session, Standing, Step};
pub use tokens::Tokens;
pub use told::Told;
