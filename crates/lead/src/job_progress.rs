//! Progress of a job that an administrator began, by its kind.

use crate::balance_job::Balance;
use crate::disk_balance::{DiskBalance, DiskBalanceTerms};
use crate::scrub::{Scrub, ScrubTerms};
use blocks::{JobKind, JobRow, JobTask};
use types::NodeId;

/// A datanode that is drained.
#[derive(Clone, Copy, Debug)]
pub struct Drain {
    pub(crate) node: NodeId,
    pub(crate) stopping: bool,
}

impl Drain {
    pub(crate) fn new(node: NodeId) -> Self {
        Self { node, stopping: false }
    }
}

/// A new leader begins it anew from the row of the job: nodes report all that they have done of it.
#[derive(Clone, Debug)]
pub enum Running {
    Drain(Drain),
    Balance(Balance),
    Scrub(Scrub),
    DiskBalance(DiskBalance),
}

impl Running {
    /// `None`: of this job nothing is carried out.
    pub(crate) fn begin(row: &JobRow) -> Option<Self> {
        Some(match &row.task {
            JobTask::Known if row.kind == JobKind::Drain => Self::Drain(Drain::new(NodeId::parse(&row.subject)?)),
            JobTask::Known => return None,
            JobTask::Balance { within, len_per_s } => Self::Balance(Balance::new(*within, len_per_s.unwrap_or(0))),
            JobTask::Scrub { number, len_per_s, nodes } => {
                Self::Scrub(Scrub::new(*number, ScrubTerms { len_per_s: *len_per_s }, nodes.iter().copied()))
            }
            JobTask::BalanceDisks { number, len_per_s, within, nodes } => {
                let terms = DiskBalanceTerms { len_per_s: *len_per_s, within: *within };
                Self::DiskBalance(DiskBalance::new(*number, terms, nodes.iter().copied()))
            }
        })
    }

    pub(crate) fn as_balance(&mut self) -> Option<&mut Balance> {
        if let Self::Balance(balance) = self { Some(balance) } else { None }
    }

    pub(crate) fn as_scrub(&mut self) -> Option<&mut Scrub> {
        if let Self::Scrub(scrub) = self { Some(scrub) } else { None }
    }

    pub(crate) fn as_disk_balance(&mut self) -> Option<&mut DiskBalance> {
        if let Self::DiskBalance(balance) = self { Some(balance) } else { None }
    }

    /// It ends when what is under way has ended.
    pub(crate) fn stop(&mut self) {
        match self {
            Self::Drain(drain) => drain.stopping = true,
            Self::Balance(balance) => balance.stopping = true,
            Self::Scrub(scrub) => scrub.stopping = true,
            Self::DiskBalance(balance) => balance.stopping = true,
        }
    }

    pub(crate) fn check(&self) {
        match self {
            Self::Drain(_) => {}
            Self::Balance(balance) => balance.check(),
            Self::Scrub(scrub) => scrub.check(),
            Self::DiskBalance(balance) => balance.check(),
        }
    }
}
