//! What a superuser asks of a store beside its files. One file for each thing that is administered.

pub mod backup;
mod connection;
pub mod datanodes;
pub mod examine;
mod log_level;
mod meta;
mod safe_mode;

pub use connection::Admin;
pub use meta::{Group, Member};
