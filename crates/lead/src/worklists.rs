//! Containers and pipelines that need attention, so that no task searches for them among all.

use std::collections::BTreeSet;
use types::{ContainerId, PipelineId};

/// Lists of what needs looking after.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Worklists {
    /// Pipelines with joining members.
    pub(crate) joining: BTreeSet<PipelineId>,
    /// Pipelines with more or fewer members than they should have.
    pub(crate) uneven: BTreeSet<PipelineId>,
    /// Pipelines of the same members, which should have as many: they can become one.
    pub(crate) twins: BTreeSet<PipelineId>,
    pub(crate) sealed: BTreeSet<ContainerId>,
    /// Containers that take no new blocks, and into which some may still be written.
    pub(crate) sealing: BTreeSet<ContainerId>,
}
