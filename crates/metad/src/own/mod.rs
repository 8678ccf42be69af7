//! What our own clients may ask beyond HDFS's calls: `org.levada.ClientProtocol`.

mod add_leased;
mod lease_blocks;
mod put_file;

use crate::caller::Session;
use crate::core::{ChangeError, Core};
use crate::refusal;
use bytes::Bytes;
use hdfs::Exception;
use lead::{Grant, LeaseRefused, LeasedHome, PutFate};
use namespace::{Op, Reply};
use prost::Message;
use rpc::Call;
use std::sync::Arc;
use types::BlockId;
use wire::client::{ADD_LEASED, LEASE_BLOCKS, PUT_FILE};

pub(crate) async fn call(core: &Arc<Core>, session: &Session, call: &Call) -> Result<Bytes, Exception> {
    match call.method.as_str() {
        LEASE_BLOCKS => encode(lease_blocks::lease_blocks(core, session, call.request()?).await),
        PUT_FILE => encode(put_file::put_file(core, session, call.request()?).await),
        ADD_LEASED => encode(add_leased::add_leased(core, session, call.request()?).await),
        _ => Err(call.no_such_method()),
    }
}

/// A block that is being put. It counts as on lease until the log says what became of the put, also where nobody waits
/// for that.
struct Held<'a> {
    core: &'a Core,
    block: BlockId,
    /// Of the put, among all that were begun here.
    number: u64,
    fate: PutFate,
}

impl<'a> Held<'a> {
    fn begin(core: &'a Core, holder: &str, grant: Grant, is_short: bool) -> Result<(Self, LeasedHome), LeaseRefused> {
        let (home, number) = core.with_leader(|leader, _| {
            let home = leader.leased.begin_put(holder, grant, is_short, core.monotonic())?;
            Ok((home, leader.leased.last_put()))
        })?;
        Ok((Self { core, block: grant.block, number, fate: PutFate::NotProposed }, home))
    }

    /// Proposes what puts it.
    async fn change(&mut self, session: &Session, op: impl Into<Op>) -> Result<Reply, Exception> {
        self.fate = PutFate::InDoubt;
        let changed = self.core.change_or_doubt(session, op).await;
        if !matches!(changed, Err(ChangeError::Raft(_))) {
            self.fate = PutFate::Decided;
        }
        changed.map_err(refusal::change)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.core.leader().leased.leave_put(self.block, self.number, self.fate);
    }
}

fn encode<M: Message>(answer: Result<M, Exception>) -> Result<Bytes, Exception> {
    answer.map(|answer| answer.encode_to_vec().into())
}
