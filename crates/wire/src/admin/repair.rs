//! Repair: whether it goes on, and what it has to do.

pub use crate::proto::{HoldRepairRequest, HoldRepairResponse, RepairStatusRequest, RepairStatusResponse};

pub const HOLD_REPAIR: &str = "holdRepair";
pub const REPAIR_STATUS: &str = "repairStatus";
