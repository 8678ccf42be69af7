//! Reading a block (op 81): header and checksums from a small buffer, data by sendfile.
//!
//! ```text
//! answer │ head · sums │ data (sendfile) │ head · sums │ data … │ head (last, empty)
//! └──── one send ──────┘                 └─ MSG_MORE ──┘
//! ```
//!
//! The checksums are those that were stored; the reader verifies. No data byte enters this process, unless it has to be
//! sealed.

mod sender;

pub(crate) use sender::{Source, receive_word, send_packets, stored, sums};

use crate::admission::{Named, Transfer};
use crate::connection::Connection;
use crate::data_service::DataService;
use crate::operations::Operation;
use container::Reader;
use hdfs::proto;
use security::block_token::Mode;
use std::sync::Arc;
use std::time::Duration;
use xfer::answer::Refusal;
use xfer::read::{Limits, Next, Outcome, Plan, Sender, Unserved, Wanted};

/// Serves one read. `Ok(true)`: the reader took it all and said so, and the connection may carry another operation.
pub(crate) async fn serve(
    service: &DataService,
    connection: &mut Connection,
    op: proto::OpReadBlockProto,
    place: &Transfer,
) -> std::io::Result<Result<bool, Refusal>> {
    let counted = service.operations.begin(Operation::Read, || service.now());
    let (reader, plan, first_sums) = match open(service, &op).await {
        Ok(opened) => opened,
        Err(refusal) => {
            counted.refused();
            return Ok(Err(refusal));
        }
    };
    let take = || service.budget.take_for_read(plan.memory_len());
    let Some(_memory) = service.room_for_read(take).await else {
        counted.refused();
        return Ok(Err(Refusal::error("no memory left for another read; try another node")));
    };
    let block = reader.identity().block;
    tracing::debug!(%block, client = rpc::log_text(&op.header.client_name), "a read begins");
    let limits = &service.limits;
    let limits =
        Limits { packet: Duration::from_millis(limits.reader_stalled_ms), word: Duration::from_millis(limits.op_ms) };
    let mut sender = Sender::to_reader(plan, first_sums, limits);
    let bytes = service.operations.bytes(Operation::Read);
    let quota = service.replicas.disks.quota_of(block);
    let source = Source { reader: &reader, quota, bytes, place, now: &|| service.now() };
    send_packets(connection, &mut sender, &source).await?;
    counted.done();
    // A reader that verified nothing, or went away, is as good as one that did; only the connection's fate differs.
    let heard = receive_word(connection, &mut sender, &source).await;
    let Next::Done(Outcome::Verdict(status)) = sender.next(service.now()) else { return Ok(Ok(false)) };
    if status == proto::Status::ErrorChecksum as i32
        && let Some(passed_over) = service.log_limits.found_unsound.due()
    {
        tracing::warn!(%block, passed_over, "a reader found bytes that do not match");
    }
    Ok(Ok(heard.is_ok()))
}

/// The replica, what of it is to be sent, and the checksums of the beginning.
async fn open(service: &DataService, op: &proto::OpReadBlockProto) -> Result<(Reader, Plan, Vec<u8>), Refusal> {
    let named = service.admission.block(&op.header.base_header, Mode::Read, false)?;
    let (block, generation) = (named.block(), named.generation());
    let (offset, len, with_sums) = (op.offset, op.len, op.send_checksums.unwrap_or(true));
    let wanted = Wanted { generation, offset, len, with_sums };
    let opened = once_it_serves(service, named, move |reader| {
        Ok(match Plan::new(stored(&reader), wanted) {
            Ok(plan) => Ok({
                let sums = sums(&reader, plan.sums_window(plan.start))?;
                (reader, plan, sums)
            }),
            Err(unserved) => Err(unserved),
        })
    });
    opened.await?.map_err(|unserved| match unserved {
        Unserved::Short { len: have, .. } => {
            Refusal::error(format!("Offset {offset} and length {len} don't match {block} of {have} bytes"))
        }
        Unserved::Stale { .. } => Refusal::error(format!("{block}: {unserved}")),
    })
}

/// Opens a replica and does what may wait for its disk. If it is not what is asked for and is being written, it is
/// looked at again for a while.
pub(crate) async fn once_it_serves<T: Send + 'static>(
    service: &DataService,
    named: Named,
    serve: impl Fn(Reader) -> Result<Result<T, Unserved>, Refusal> + Clone + Send + 'static,
) -> Result<Result<T, Unserved>, Refusal> {
    let began = service.now();
    loop {
        let unserved = match if_it_serves(service, named, serve.clone()).await? {
            Ok(served) => return Ok(Ok(served)),
            Err(unserved) => unserved,
        };
        let now = service.now();
        match unserved.look_again(began, now) {
            Some(at) => tokio::time::sleep(at.saturating_sub(now)).await,
            None => return Ok(Err(unserved)),
        }
    }
}

/// The same, without a second look.
pub(crate) async fn if_it_serves<T: Send + 'static>(
    service: &DataService,
    named: Named,
    serve: impl FnOnce(Reader) -> Result<Result<T, Unserved>, Refusal> + Send + 'static,
) -> Result<Result<T, Unserved>, Refusal> {
    let (block, generation, admission) = (named.block(), named.generation(), Arc::clone(&service.admission));
    let served = service.replicas.disks.for_block(block, move |disks| -> Result<_, Refusal> {
        let reader = disks.read(block, generation)?;
        admission.must_cover(&named, reader.identity().file)?;
        serve(reader)
    });
    served.await?
}
