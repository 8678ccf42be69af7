//! Where blocks are: pipelines, containers, and what has fewer copies than it should have.

pub use crate::proto::{
    Compared, Container, ContainerState, ListContainersResponse, ListPipelinesResponse, PageRequest, Pipeline,
    ShortBlock, Trouble, UnderReplicatedRequest, UnderReplicatedResponse,
};

pub const LIST_PIPELINES: &str = "listPipelines";
pub const LIST_CONTAINERS: &str = "listContainers";
pub const UNDER_REPLICATED: &str = "underReplicated";

/// Lines of one answer.
pub const PAGE_COUNT_MAX: usize = 1000;
