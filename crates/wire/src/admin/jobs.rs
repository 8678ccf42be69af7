//! Work that takes a while: repair, draining, balancing, scrubbing.

pub use crate::proto::{
    BeginBalanceRequest, BeginDiskBalanceRequest, BeginScrubRequest, BegunResponse, Job, JobKind, JobState,
    ListJobsRequest, ListJobsResponse, StopJobRequest, StopJobResponse,
};

pub const LIST_JOBS: &str = "listJobs";
pub const STOP_JOB: &str = "stopJob";
pub const BEGIN_BALANCE: &str = "beginBalance";
pub const BEGIN_SCRUB: &str = "beginScrub";
pub const BEGIN_DISK_BALANCE: &str = "beginDiskBalance";
