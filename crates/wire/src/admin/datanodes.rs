//! The datanodes: who they are, what they hold, which of them are to be emptied, and which are in maintenance.

pub use crate::proto::{
    Datanode, DrainRequest, DrainResponse, LeaveKind, ListDatanodesRequest, ListDatanodesResponse, MaintenanceRequest,
    MaintenanceResponse,
};

pub const LIST_DATANODES: &str = "listDatanodes";
pub const DRAIN: &str = "drainDatanode";
pub const MAINTENANCE: &str = "maintenance";

/// Longest maintenance, and longest hold on repair. A guess: who needs more has forgotten it.
pub const LEAVE_MS_MAX: u64 = 30 * 24 * 3600 * 1000;
