//! `putFile`: a small file in one log entry. Its block is on the nodes already.

use super::held::{Claim, Held};
use crate::client::{silent_holder, wait_for};
use crate::core::{Core, make_path};
use crate::session::Session;
use crate::{refusal, to_hdfs};
use hdfs::Exception;
use lead::{Grant, LeasedFor, LeasedHome};
use namespace::error::held::Opening;
use namespace::{Create, PutBlock, PutFile, Reply, read};
use std::sync::Arc;
use types::limits::REPLICATION_MAX;
use types::{BlockId, FileId, Generation, InodeId};
use wire::client::{PUT_FILE, PutFileRequest, PutFileResponse};

pub(crate) async fn put_file(
    core: &Arc<Core>,
    session: &Session,
    request: PutFileRequest,
) -> Result<PutFileResponse, Exception> {
    let path = make_path("putFile", &request.path)?;
    let create = Create {
        // A client that replaces a file does not ask its current writer.
        takeover: if request.overwrite { None } else { silent_holder(core, &path).await? },
        client: session.lease_holder(&request.holder),
        client_host: session.host(),
        mode: to_hdfs::mode(request.mode),
        unmasked: request.unmasked.map(to_hdfs::mode),
        create: true,
        overwrite: request.overwrite,
        create_parent: request.create_parent,
        replication: u16::try_from(request.replication).unwrap_or(REPLICATION_MAX + 1),
        block_len: request.block_len,
        block_len_min: core.config.block_len_min,
        path,
    };
    let recovering = || refusal::recovering(Opening::Create, &request.path, &request.holder, &session.host());
    let Some(block) = request.block else {
        return was_put(core, core.change(session, PutFile { create, block: None }).await?, recovering);
    };
    let grant = Grant { block: BlockId(block.block), file: InodeId(block.file) };
    let claim = Claim { grant, leased_for: LeasedFor::NewFile, identifier: &block.token, password: &block.password };
    let held = Held::begin(core, session, &create.client, claim, request.short);
    let Ok((mut held, LeasedHome { container: home, set })) = held else {
        if let Some(file) = repeated(core, session).await? {
            return Ok(PutFileResponse { file: file.0 });
        }
        return Err(refusal::not_leased(grant.block, &request.holder));
    };
    let generation = Generation(block.generation);
    if set.is_none() && !held.is_written(home, generation, block.len).await {
        return Err(refusal::not_leased(grant.block, &request.holder));
    }
    let put_block = PutBlock { file: grant.file, block: grant.block, generation, len: block.len, home };
    was_put(core, held.change(session, PutFile { create, block: Some(put_block) }).await?, recovering)
}

/// The file that an earlier attempt at this call has put: its lease ended with that, but its answer got lost.
async fn repeated(core: &Core, session: &Session) -> Result<Option<FileId>, Exception> {
    let Some(key) = session.retry else { return Ok(None) };
    let now = core.now();
    let outcome = core.rows(move |rows| read::outcome(rows, key, PUT_FILE, now)).await?;
    Ok(match outcome {
        Some(Reply::Status(status)) => Some(status.id),
        _ => None,
    })
}

fn was_put(
    core: &Arc<Core>,
    reply: Reply,
    recovering: impl FnOnce() -> Exception,
) -> Result<PutFileResponse, Exception> {
    match reply {
        Reply::Status(status) => Ok(PutFileResponse { file: status.id.0 }),
        Reply::Recovery(recovery) => Err(wait_for(core, recovery, recovering())),
        reply => {
            tracing::error!(?reply, "unexpected reply to a put");
            Err(Exception::io("internal error: unexpected reply; see the metadata server's log"))
        }
    }
}
