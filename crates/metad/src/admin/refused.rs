//! Reasons why a job was not begun.

use crate::refusal;
use crate::repair::RepairError;
use hdfs::Exception;

pub(super) fn refused(error: RepairError) -> Exception {
    match error {
        RepairError::Raft(error) => refusal::raft(error),
        error => refusal::illegal(error.to_string()),
    }
}
