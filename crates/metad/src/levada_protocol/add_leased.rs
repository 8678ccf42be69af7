//! `addLeased`: a block that its writer had on lease becomes the next block of its file.

use super::held::{Claim, Held};
use crate::client::plan_block;
use crate::core::{Core, must_find};
use crate::refusal;
use crate::session::Session;
use hdfs::Exception;
use lead::{Grant, LeasedFor, LeasedHome};
use namespace::{AddBlock, AddLeased, Allocated, BlockRef};
use types::{BlockId, Generation, InodeId};
use wire::client::{AddLeasedRequest, AddLeasedResponse};

pub(crate) async fn add_leased(
    core: &Core,
    session: &Session,
    request: AddLeasedRequest,
) -> Result<AddLeasedResponse, Exception> {
    let path = must_find("addLeased", &request.path)?;
    core.must_be_changeable(|| format!("Cannot add block to {path}"))?;
    let (block, file, client) = (BlockId(request.block), InodeId(request.file), session.lease_holder(&request.holder));
    let previous = request.previous.map(|previous| BlockRef {
        block: BlockId(previous.block),
        generation: Generation(previous.generation),
        len: previous.len,
    });
    let plan = plan_block(core, session, &path, Some(file), &client, previous).await?;
    if plan.existing.is_some_and(|view| view.block == block) {
        return Ok(AddLeasedResponse {}); // the call before this one was well, its answer got lost
    }
    let grant = Grant { block, file };
    let (identifier, password) = (&request.token, &request.password);
    let claim = Claim { grant, leased_for: LeasedFor::OpenFile, identifier, password };
    let held = Held::begin(core, session, &client, claim, false);
    let refused = || refusal::not_leased(block, &request.holder);
    let (mut held, LeasedHome { container: home, set }) = held.map_err(|_| refused())?;
    let generation = Generation(request.generation);
    if set.is_none() && !held.is_begun(home, generation).await {
        return Err(refused());
    }
    let add = AddBlock { path, client, file: Some(file), previous, allocated: Allocated { block, home } };
    held.change(session, AddLeased { add, generation }).await?;
    Ok(AddLeasedResponse {})
}
