//! How members reach each other. There is one member today, so nobody is asked; several will talk Hadoop RPC here.

use crate::types::{Snapshot, SnapshotData, Types, Vote};
use openraft::errors::{RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::RPCOption;
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, VoteRequest, VoteResponse};
use openraft::{BasicNode, OptionalSend, RaftNetworkFactory, RaftNetworkV2};
use std::future::Future;

#[derive(Clone, Debug)]
pub(crate) struct Nobody;

#[derive(Debug, thiserror::Error)]
#[error("this store has a single metadata server")]
struct SingleMember;

fn unreachable() -> Unreachable<Types> {
    Unreachable::new(&SingleMember)
}

impl RaftNetworkFactory<Types> for Nobody {
    type Network = Self;

    async fn new_client(&mut self, _target: u64, _node: &BasicNode) -> Self {
        Self
    }
}

impl RaftNetworkV2<Types> for Nobody {
    type SnapshotData = SnapshotData;

    async fn append_entries(
        &mut self,
        _request: AppendEntriesRequest<Types>,
        _option: RPCOption,
    ) -> Result<AppendEntriesResponse<Types>, RPCError<Types>> {
        Err(unreachable().into())
    }

    async fn vote(
        &mut self,
        _request: VoteRequest<Types>,
        _option: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        Err(unreachable().into())
    }

    async fn full_snapshot(
        &mut self,
        _vote: Vote,
        _snapshot: Snapshot,
        _cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<Types>, StreamingError<Types>> {
        Err(unreachable().into())
    }
}
