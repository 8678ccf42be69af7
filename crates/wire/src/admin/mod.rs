//! What people ask of a store by `levada admin`, over Hadoop RPC: the messages of [`ADMIN_PROTOCOL`].
//!
//! One file for each thing that is administered. The messages are in `proto/admin.proto`. Who calls must be a
//! superuser.

pub mod backup;
pub mod datanodes;
pub mod examine;
pub mod jobs;
pub mod joining;
pub mod log_level;
pub mod meta;
pub mod placement;
pub mod repair;

/// Client → metad, on metad's RPC port.
pub const ADMIN_PROTOCOL: &str = "org.levada.AdminProtocol";
pub const ADMIN_VERSION: u64 = 1;
