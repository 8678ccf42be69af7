//! Comparison of containers, page by page: the blocks that members should have against those they report.
//! `lead::Comparison` decides.
//!
//! ```text
//! rows: complete blocks of the container ──digest──▶ each member: same? ──no──▶ the list ──▶ which lack ──▶ Repair
//! ```

use super::error::RepairError;
use super::rules::ANSWER_MAX;
use crate::core::Core;
use crate::node_questions::{self, Policy};
use blocks::Command;
use lead::{Answers, Comparison, Leader, RepairContext};
use namespace::BlockView;
use namespace::read::{self, Page, Place};
use std::sync::Arc;
use std::time::Duration;
use types::mutation::{self, Mutation};
use types::{BlockId, ContainerId, Epoch, NodeId, PipelineId};
use wire::node::{COMPARE, CompareRequest, CompareResponse, Digest, Replica};

/// Blocks of one page.
const PAGE_COUNT: usize = 1000;
/// Containers compared in one round, at most.
const ROUND_COUNT: usize = 200;
/// The longest a round compares before others have their turn.
const ROUND_MAX: Duration = Duration::from_secs(2);
/// Doubted blocks looked at in one round.
const DOUBT_COUNT: usize = 2000;

pub(super) async fn round(core: &Arc<Core>) -> Result<(), RepairError> {
    doubted(core).await?;
    let begun = core.monotonic();
    let (mut whole, mut failed) = (Vec::new(), None);
    for _ in 0..ROUND_COUNT {
        let now = core.monotonic();
        if now.saturating_sub(begun) > ROUND_MAX {
            core.repair_wake.notify_one();
            break;
        }
        let next = core.leader().repair.next_check(now);
        let Some(home) = next else { break };
        match container(core, home).await {
            Ok(found) => whole.extend(found.map(|(pipeline, epoch)| (home, pipeline, epoch))),
            Err(error) => {
                core.leader().repair.retry(home, now);
                failed = Some(error);
                break;
            }
        }
    }
    if !whole.is_empty() {
        let _ = core.change_blocks(Command::Whole { containers: whole }).await?;
        core.repair_wake.notify_one();
    }
    failed.map_or(Ok(()), Err)
}

/// Single blocks that some member may lack.
async fn doubted(core: &Arc<Core>) -> Result<(), RepairError> {
    let blocks = core.leader().repair.take_doubts(DOUBT_COUNT);
    let found = look_up(core, blocks.iter().copied()).await.inspect_err(|_| {
        let repair = &mut core.leader().repair;
        blocks.iter().for_each(|block| repair.doubt(*block));
    })?;
    let by_home = core.with_repair_context(|context| context.sort_doubts(found));
    let begun = core.monotonic();
    for (home, blocks) in by_home {
        for page in blocks.chunks(PAGE_COUNT) {
            if core.monotonic().saturating_sub(begun) > ROUND_MAX {
                let repair = &mut core.leader().repair;
                page.iter().for_each(|wanted| repair.doubt(wanted.block)); // others have their turn
                continue;
            }
            let members = core.with_repair_context(|context| context.members_to_ask(home));
            let answers = answers(core, page, &members).await;
            core.with_repair_context(|context| context.on_doubted(page, &members, &answers));
        }
    }
    Ok(())
}

/// What the namespace has of each; `None`: no file owns it.
pub(super) async fn look_up(
    core: &Core,
    blocks: impl IntoIterator<Item = BlockId>,
) -> Result<Vec<(BlockId, Option<BlockView>)>, RepairError> {
    let blocks: Vec<BlockId> = blocks.into_iter().collect();
    let found = core.chore_rows(move |rows| {
        let find = |block| Ok((block, read::file_of_block(rows, block)?.map(|(_, view)| view)));
        blocks.into_iter().map(find).collect()
    });
    Ok(found.await?)
}

/// Compares a whole container. The pipeline and epoch of which it is whole, if that is news.
async fn container(core: &Arc<Core>, home: ContainerId) -> Result<Option<(PipelineId, Epoch)>, RepairError> {
    let begun = core.with_repair_context(|context| Comparison::begin(home, context));
    let Some(mut comparison) = begun else { return Ok(None) };
    let mut place = Some(Place::start(home));
    while let Some(from) = place {
        let page = core.chore_rows(move |rows| read::container_page(rows, home, from, PAGE_COUNT)).await?;
        place = page.next;
        if !mutation::is(Mutation::ForgetChains) {
            comparison.on_open(&page.open, &mut core.leader().repair);
        }
        compare_page(core, home, from, &page, &mut comparison).await;
        let goes_on = comparison.goes_on(&core.leader().repair);
        if !goes_on {
            break;
        }
    }
    let compared = core.with_repair_context(|context| comparison.end(context));
    if compared.missing > 0 {
        tracing::error!(%home, count = compared.missing, "missing blocks: no copy on a live datanode");
    }
    let waits = mutation::is(Mutation::WaitForMissing) && compared.missing > 0;
    Ok(compared.whole.filter(|_| !waits))
}

async fn compare_page(core: &Core, home: ContainerId, from: Place, page: &Page, comparison: &mut Comparison) {
    if page.blocks.is_empty() {
        return;
    }
    let blocks = &page.blocks;
    if let (Place::Native(first), Some(end)) = (from, page.native_end) {
        assert!(first < end, "a page of {home} ends at {end}, and begins at {first}");
        assert!(blocks.iter().all(|view| (first..end).contains(&view.block)), "{home} has other blocks in {from:?}");
        let mut digest = Digest::default();
        blocks.iter().for_each(|wanted| digest.add(wanted.block, wanted.generation, wanted.len));
        let request = CompareRequest {
            home: home.0,
            from: first.0,
            through: end.0 - 1,
            digest: Some(digest),
            replicas: Vec::new(),
        };
        let said = ask(core, comparison.members(), &request).await.into_iter();
        let same = said.filter(|(_, answer)| answer.as_ref().is_some_and(|answer| answer.same));
        let same: Vec<NodeId> = same.map(|(id, _)| id).collect();
        let are_alike =
            core.with_leader(|Leader { repair, surplus, .. }, _| comparison.are_alike(blocks, &same, repair, surplus));
        if are_alike {
            return;
        }
    }
    let answers = answers(core, blocks, comparison.members()).await;
    core.with_repair_context(|context: &mut RepairContext<'_>| comparison.on_list(blocks, &answers, context));
}

/// True if a member of the block's home has a whole replica, of the given length or more.
pub(crate) async fn has_whole(core: &Core, wanted: &BlockView) -> bool {
    let members = core.with_cluster(|cluster, _| cluster.member_ids(wanted.home).to_vec());
    answers(core, &[*wanted], &members).await.is_any_fit(0)
}

/// The answer of each node about each block.
pub(super) async fn answers(core: &Core, blocks: &[BlockView], nodes: &[NodeId]) -> Answers {
    let replica = |wanted: &BlockView| Replica {
        block: wanted.block.0,
        generation: wanted.generation.0,
        len: wanted.len,
        ..Replica::default()
    };
    let request = CompareRequest { replicas: blocks.iter().map(replica).collect(), ..CompareRequest::default() };
    let said = ask(core, nodes, &request).await.into_iter();
    let fitness = |answer: CompareResponse| answer.fitness.into_iter().map(node_questions::fitness).collect();
    Answers::new(blocks.len(), said.map(|(id, answer)| (id, answer.map(fitness))))
}

async fn ask(core: &Core, nodes: &[NodeId], request: &CompareRequest) -> Vec<(NodeId, Option<CompareResponse>)> {
    let nodes = super::rules::askable(core, nodes.iter().copied());
    let answers = node_questions::ask(core, &nodes, COMPARE, request, ANSWER_MAX, Policy::SkipUnresponsive).await;
    answers.into_iter().map(|(id, answer)| (id, answer.said())).collect()
}
