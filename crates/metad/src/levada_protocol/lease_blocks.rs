//! `leaseBlocks`: ids ahead of time, for blocks of one container and for the files that may own them.

use crate::block_tokens;
use crate::core::{Core, make_path};
use crate::session::Session;
use crate::{refusal, to_hdfs};
use bytes::Bytes;
use hdfs::Exception;
use lead::{Ask, Batch, Grant, HELD_COUNT_MAX, LeaseRefused, LeasedHome};
use namespace::{HOLDER_LEN_MAX, Reply, Reserve, read};
use security::block_token::Mode;
use types::limits::REPLICATION_MAX;
use types::rows::Rows;
use types::{BlockId, FileId, FsPath, InodeId, NodeId};
use wire::client::{BlockNode, LEASE_COUNT_MAX, LeaseBlocksRequest, LeaseBlocksResponse, LeasedBlock};

/// Ids of files reserved at a time. What is left is lost with this process.
const RESERVE_COUNT: u32 = 4096;
const _: () = assert!(RESERVE_COUNT >= LEASE_COUNT_MAX && RESERVE_COUNT <= namespace::RESERVED_COUNT_MAX);
/// Others may take what was just reserved.
const RESERVE_ATTEMPTS: usize = 8;

pub(crate) async fn lease_blocks(
    core: &Core,
    session: &Session,
    request: LeaseBlocksRequest,
) -> Result<LeaseBlocksResponse, Exception> {
    let replication = u16::try_from(request.replication).ok().filter(|wanted| (1..=REPLICATION_MAX).contains(wanted));
    let replication = replication.ok_or_else(|| {
        refusal::illegal(format!("a replication of {}; ask for 1 to {REPLICATION_MAX}", request.replication))
    })?;
    if request.holder.is_empty() || request.holder.len() > HOLDER_LEN_MAX {
        return Err(refusal::illegal(format!("a holder's name has 1 to {HOLDER_LEN_MAX} bytes")));
    }
    to_hdfs::bounded("excluded", &request.excluded)?;
    if request.returned.len() > HELD_COUNT_MAX {
        return Err(refusal::illegal(format!(
            "{} blocks are returned; a client holds at most {HELD_COUNT_MAX}",
            request.returned.len()
        )));
    }
    core.must_be_changeable(|| "Cannot lease blocks".to_owned())?;
    let holder = session.lease_holder(&request.holder);
    core.leader().block_leases.give_back(&holder, request.returned.iter().map(|block| BlockId(*block)));
    let open = (request.file > 0).then_some(InodeId(request.file));
    must_need(core, session, &request, &holder, open).await?;
    // A client that holds all it may gets no set of nodes made either.
    if !core.leader().block_leases.has_room(&holder, core.monotonic()) {
        return Err(refused(&request.holder, &LeaseRefused::TooMany));
    }
    let ask = Ask {
        replication,
        block_len: request.block_len,
        client_host: Some(session.host()),
        excluded: request.excluded.iter().filter_map(|id| NodeId::parse(id)).collect(),
        favored: Vec::new(),
    };
    let count = request.count.clamp(1, LEASE_COUNT_MAX);
    let Batch { blocks, home, nodes } = core.allocate_batch(&FsPath::root(), &ask, session.address(), count).await?;
    assert!((1..=count as usize).contains(&blocks.len()), "{} blocks, and {count} were asked for", blocks.len());
    assert!(blocks.iter().all(|block| block.born_in() == home), "blocks of {home}: {blocks:?}");
    let set = core.with_cluster(|cluster, _| cluster.set_of(home, &nodes));
    let place = LeasedHome { container: home, set };
    let (grants, generation) = {
        let mut attempts = 0..RESERVE_ATTEMPTS;
        loop {
            let now = core.monotonic();
            let granted = core.leader().block_leases.grant(&holder, place, &blocks, open, now);
            match granted {
                Ok(granted) => break granted,
                Err(LeaseRefused::NoIds) if attempts.next().is_some() => {}
                Err(why) => return Err(refused(&request.holder, &why)),
            }
            reserve(core, if open.is_some() { 1 } else { blocks.len() }).await?;
        }
    };
    let is_inside = core.inside.has(session.address());
    let nodes = core.with_cluster(|cluster, _| {
        let members = nodes.iter().filter_map(|id| cluster.node(*id));
        let named = members.map(|member| BlockNode {
            id: member.node.id.to_string(),
            addr: member.node.place(is_inside).xfer_addr(),
            rack: member.node.rack.clone(),
        });
        named.collect()
    });
    let named = grants.iter().map(|Grant { block, file }| (*block, *file));
    let mode = if open.is_some() { Mode::Write } else { Mode::Put };
    let tokens = block_tokens::to_write_each(core, session, named, home, &[mode]).await?;
    let leased = |(Grant { block, file }, (token, password)): (Grant, (Bytes, Bytes))| LeasedBlock {
        block: block.0,
        file: file.0,
        token,
        password,
    };
    Ok(LeaseBlocksResponse {
        pool: core.pool.clone(),
        generation: generation.0,
        blocks: grants.into_iter().zip(tokens).map(leased).collect(),
        nodes,
        limit_ms: lease_ms(core),
    })
}

/// That the caller has a use for blocks: he writes the `open` file, or may make one. What is signed here is for its
/// file, and a token for one that is another's would open all that this has.
async fn must_need(
    core: &Core,
    session: &Session,
    request: &LeaseBlocksRequest,
    holder: &str,
    open: Option<FileId>,
) -> Result<(), Exception> {
    let (caller, holder) = (session.caller.clone(), holder.to_owned());
    if open.is_some() {
        let writing = move |rows: &dyn Rows| read::writing(rows, &caller, &FsPath::root(), open, &holder);
        return core.read(writing).await.map(drop);
    }
    let path = make_path("leaseBlocks", &request.path)?;
    core.read(move |rows| read::check_may_make(rows, &caller, &path)).await
}

/// So long a block is sure to be the holder's: its token counts for as long.
fn lease_ms(core: &Core) -> u64 {
    let token_ms = core.config.block_token_lifetimes().map(|times| times.token_lifetime().as_millis() as u64);
    core.config.lease_soft_ms.min(token_ms.unwrap_or(u64::MAX))
}

fn refused(holder: &str, why: &LeaseRefused) -> Exception {
    tracing::debug!(holder, ?why, "no block leases available");
    Exception::io("no blocks can be given on lease now; stream the file")
}

/// Ensures that there are ids for `count` files; of many callers who lack them, one proposes.
async fn reserve(core: &Core, count: usize) -> Result<(), Exception> {
    let _planning = core.plan().await;
    if core.leader().block_leases.has_files(count) {
        return Ok(());
    }
    match core.change_unasked(Reserve { count: RESERVE_COUNT }).await {
        Ok(Reply::Reserved { first, generation }) => {
            core.leader().block_leases.reserved(first, RESERVE_COUNT, generation);
            Ok(())
        }
        answer => {
            tracing::error!(?answer, "file ids not reserved");
            Err(Exception::io("no ids of files could be reserved; see the server's log"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container_sealing::tests::with_node;
    use types::StorageUsage;

    /// Each entry is gone through while all others wait.
    #[tokio::test]
    async fn lists_are_bounded() {
        let (_dir, metad, core) = with_node().await;
        let session = Session::example("alice", true);
        let lease = async |excluded, returned| {
            let request = LeaseBlocksRequest {
                holder: "a".into(),
                path: "/f".into(),
                count: 1,
                replication: 1,
                excluded: vec![NodeId([9; 16]).to_string(); excluded],
                returned: vec![1; returned],
                ..LeaseBlocksRequest::default()
            };
            lease_blocks(&core, &session, request).await.map_err(|error| error.class)
        };
        let illegal = hdfs::exception::ILLEGAL_ARGUMENT;
        assert_eq!(lease(1025, 0).await.unwrap_err(), illegal);
        assert_eq!(lease(0, HELD_COUNT_MAX + 1).await.unwrap_err(), illegal);
        assert_eq!(lease(1024, HELD_COUNT_MAX).await.unwrap().blocks.len(), 1);
        drop(core);
        metad.shutdown().await;
    }

    /// Ten nodes have 252 sets of five, and each is a row for ever.
    #[tokio::test]
    async fn a_client_that_excludes_nodes_has_its_share_of_new_sets() {
        let (_dir, metad, core) = with_node().await;
        let session = Session::example("alice", true);
        for number in 2..=10 {
            let command = blocks::Command::Register(blocks::Node::example(number, "/r"));
            core.change_blocks(command).await.unwrap().unwrap();
        }
        let usage = lead::NodeUsage {
            storage: StorageUsage { capacity_len: 1 << 50, free_len: 1 << 50, ..StorageUsage::default() },
            transfer_count: 0,
        };
        let beat = || {
            let now = core.monotonic();
            core.with_cluster(|cluster, _| {
                (1..=10).for_each(|number| cluster.on_registered(now, NodeId([number; 16]), usage));
            });
        };
        let set_count = || core.with_cluster(|cluster, _| cluster.pipelines().count());
        let before = set_count();
        let mut refused_count = 0;
        for subset in (0_u32..1 << 10).filter(|subset| subset.count_ones() == 5) {
            let excluded = (0..10).filter(|bit| subset & (1 << bit) != 0).map(|bit| NodeId([bit + 1; 16]).to_string());
            let request = LeaseBlocksRequest {
                holder: "a".into(),
                path: "/f".into(),
                count: 1,
                replication: 5,
                excluded: excluded.collect(),
                ..LeaseBlocksRequest::default()
            };
            beat();
            refused_count += usize::from(lease_blocks(&core, &session, request).await.is_err());
        }
        let made = set_count() - before;
        // Those that are planned are made beside this.
        assert!((100..150).contains(&made) && refused_count > 100, "{made} sets, {refused_count} refused");
        drop(core);
        metad.shutdown().await;
    }
}
