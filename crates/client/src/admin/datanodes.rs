//! The datanodes, where blocks are, and the work on both. Messages come as the server sends them.

use super::connection::Admin;
use crate::error::Result;
use wire::admin::datanodes::{
    DRAIN, DrainRequest, DrainResponse, LIST_DATANODES, ListDatanodesRequest, MAINTENANCE, MaintenanceRequest,
    MaintenanceResponse,
};
use wire::admin::jobs::{
    BEGIN_BALANCE, BEGIN_DISK_BALANCE, BEGIN_SCRUB, BeginBalanceRequest, BeginDiskBalanceRequest, BeginScrubRequest,
    BegunResponse, LIST_JOBS, ListJobsRequest, STOP_JOB, StopJobRequest, StopJobResponse,
};
use wire::admin::joining::{
    INVITE, InviteRequest, LIST_INVITATIONS, ListInvitationsRequest, ListInvitationsResponse, REVOKE, RevokeRequest,
    RevokeResponse, WITHDRAW, WithdrawRequest, WithdrawResponse,
};
use wire::admin::placement::{LIST_CONTAINERS, LIST_PIPELINES, PageRequest, UNDER_REPLICATED, UnderReplicatedRequest};
use wire::admin::repair::{HOLD_REPAIR, HoldRepairRequest, HoldRepairResponse, REPAIR_STATUS, RepairStatusRequest};

pub use wire::admin::datanodes::{Datanode, LeaveKind, ListDatanodesResponse};
pub use wire::admin::jobs::{Job, JobKind, JobState, ListJobsResponse};
pub use wire::admin::joining::{Invitation, InviteResponse};
pub use wire::admin::placement::{
    Compared, Container, ContainerState, ListContainersResponse, ListPipelinesResponse, Pipeline, ShortBlock, Trouble,
    UnderReplicatedResponse,
};
pub use wire::admin::repair::RepairStatusResponse;
pub use wire::node::Disk;

impl Admin {
    pub async fn datanodes(&self) -> Result<Vec<Datanode>> {
        let answer: ListDatanodesResponse = self.call(LIST_DATANODES, &ListDatanodesRequest {}).await?;
        Ok(answer.datanodes)
    }

    /// Begins to empty the datanode of this id or address. Answers its id, and the job.
    pub async fn drain(&self, datanode: &str) -> Result<(String, u64)> {
        let request = DrainRequest { datanode: datanode.to_owned(), drain: true };
        let answer: DrainResponse = self.call(DRAIN, &request).await?;
        Ok((answer.id, answer.job))
    }

    /// Takes a datanode back into service. Answers its id.
    pub async fn resume(&self, datanode: &str) -> Result<String> {
        let request = DrainRequest { datanode: datanode.to_owned(), drain: false };
        let answer: DrainResponse = self.call(DRAIN, &request).await?;
        Ok(answer.id)
    }

    /// From now on, and for so long, the datanode of this id or address may be away, and others do not copy what it
    /// has; 0 ends that. Answers its id.
    pub async fn maintenance(&self, datanode: &str, for_ms: u64) -> Result<String> {
        let request = MaintenanceRequest { datanode: datanode.to_owned(), for_ms };
        let answer: MaintenanceResponse = self.call(MAINTENANCE, &request).await?;
        Ok(answer.id)
    }

    /// Repair waits for so long; with 0 it goes on.
    pub async fn hold_repair(&self, for_ms: u64) -> Result<()> {
        let _: HoldRepairResponse = self.call(HOLD_REPAIR, &HoldRepairRequest { for_ms }).await?;
        Ok(())
    }

    pub async fn repair_status(&self) -> Result<RepairStatusResponse> {
        self.call(REPAIR_STATUS, &RepairStatusRequest {}).await
    }

    /// Makes a token by which a datanode joins: a new one, or the one of this id or address. It counts for so many
    /// milliseconds.
    pub async fn invite(&self, datanode: &str, lifetime_ms: u64) -> Result<InviteResponse> {
        self.call(INVITE, &InviteRequest { datanode: datanode.to_owned(), lifetime_ms }).await
    }

    /// Invitations that have not expired.
    pub async fn invitations(&self) -> Result<Vec<Invitation>> {
        let answer: ListInvitationsResponse = self.call(LIST_INVITATIONS, &ListInvitationsRequest {}).await?;
        Ok(answer.invitations)
    }

    pub async fn uninvite(&self, number: u32) -> Result<()> {
        let _: WithdrawResponse = self.call(WITHDRAW, &WithdrawRequest { number }).await?;
        Ok(())
    }

    /// Certificates that the datanode of this id or address has do not count any more. Answers its id.
    pub async fn revoke(&self, datanode: &str) -> Result<String> {
        let answer: RevokeResponse = self.call(REVOKE, &RevokeRequest { datanode: datanode.to_owned() }).await?;
        Ok(answer.id)
    }

    pub async fn pipelines(&self) -> Result<Vec<Pipeline>> {
        let mut all = Vec::new();
        loop {
            let after = all.last().map_or(0, |last: &Pipeline| last.id);
            let page: ListPipelinesResponse = self.call(LIST_PIPELINES, &PageRequest { after }).await?;
            let more = page.more && !page.pipelines.is_empty();
            all.extend(page.pipelines);
            if !more {
                return Ok(all);
            }
        }
    }

    /// A page of the containers: those with numbers above `after`, and whether there are more.
    pub async fn containers(&self, after: u64) -> Result<(Vec<Container>, bool)> {
        let page: ListContainersResponse = self.call(LIST_CONTAINERS, &PageRequest { after }).await?;
        let more = page.more && !page.containers.is_empty();
        Ok((page.containers, more))
    }

    pub async fn under_replicated(&self) -> Result<UnderReplicatedResponse> {
        self.call(UNDER_REPLICATED, &UnderReplicatedRequest {}).await
    }

    pub async fn jobs(&self) -> Result<Vec<Job>> {
        let answer: ListJobsResponse = self.call(LIST_JOBS, &ListJobsRequest {}).await?;
        Ok(answer.jobs)
    }

    /// Moves containers until no datanode's fullness is further from the mean than this, in parts of 10⁹; at so many
    /// bytes a second in the long run, 0 for no limit. Answers the job.
    pub async fn balance(&self, within: u64, len_per_s: u64) -> Result<u64> {
        let answer: BegunResponse = self.call(BEGIN_BALANCE, &BeginBalanceRequest { within, len_per_s }).await?;
        Ok(answer.job)
    }

    /// Moves replicas between the disks of these datanodes, or of all, until no disk's fullness is further than
    /// `within` (in parts of 10⁹) from that of its datanode. Answers the job.
    pub async fn balance_disks(&self, datanodes: Vec<String>, len_per_s: u64, within: u64) -> Result<u64> {
        let request = BeginDiskBalanceRequest { datanodes, len_per_s, within };
        let answer: BegunResponse = self.call(BEGIN_DISK_BALANCE, &request).await?;
        Ok(answer.job)
    }

    /// Has every replica read against its checksums, on these datanodes or on all. Answers the job.
    pub async fn scrub(&self, datanodes: Vec<String>, len_per_s: u64) -> Result<u64> {
        let answer: BegunResponse = self.call(BEGIN_SCRUB, &BeginScrubRequest { datanodes, len_per_s }).await?;
        Ok(answer.job)
    }

    pub async fn stop_job(&self, id: u64) -> Result<()> {
        let _: StopJobResponse = self.call(STOP_JOB, &StopJobRequest { id }).await?;
        Ok(())
    }
}
