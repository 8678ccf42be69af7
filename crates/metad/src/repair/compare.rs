//! What members should have against what they say they have, page by page.
//!
//! ```text
//! rows: complete blocks of the container ──digest──▶ each member: same? ──no──▶ the list ──▶ which lack ──▶ Repair
//! ```

use super::{ANSWER_MAX, RepairError, askable};
use crate::core::Core;
use blocks::{Command, Lack};
use namespace::BlockView;
use namespace::read::{self, Page, Place};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use types::{BlockId, ContainerId, Epoch, NodeId};
use wire::node::{self, COMPARE, CompareRequest, CompareResponse, Digest, Fitness, Replica};

/// Blocks of one page.
const PAGE_COUNT: usize = 1000;
/// Containers compared in one round, at most.
const ROUND_COUNT: usize = 200;
/// The longest a round compares before others have their turn.
const ROUND_MAX: Duration = Duration::from_secs(2);
/// Between looks at a container that members join while blocks are open that were begun before.
const OPEN_AGAIN_AFTER: Duration = Duration::from_secs(3);
/// Doubted blocks looked at in one round.
const DOUBT_COUNT: usize = 2000;

pub(super) async fn round(core: &Arc<Core>) -> Result<(), RepairError> {
    doubted(core).await?;
    let begun = core.monotonic();
    let mut whole = Vec::new();
    for _ in 0..ROUND_COUNT {
        let now = core.monotonic();
        if now.saturating_sub(begun) > ROUND_MAX {
            core.repair_wake.notify_one();
            break;
        }
        let next = core.repair().next_check(now);
        let Some(home) = next else { break };
        whole.extend(container(core, home).await?.map(|epoch| (home, epoch)));
    }
    if !whole.is_empty() {
        let _ = core.change_blocks(Command::Whole { containers: whole }).await?;
        core.repair_wake.notify_one();
    }
    Ok(())
}

/// Single blocks that some member may lack.
async fn doubted(core: &Arc<Core>) -> Result<(), RepairError> {
    let blocks = core.repair().take_doubts(DOUBT_COUNT);
    let mut by_home: BTreeMap<ContainerId, Vec<BlockView>> = BTreeMap::new();
    let mut open = Vec::new();
    for block in blocks {
        let found = read::file_of_block(&core.machine.store().view(), block)?;
        match found.map(|(_, view)| view) {
            Some(view) if view.complete => by_home.entry(view.home).or_default().push(view),
            Some(_) => open.push(block),
            None => core.repair().forget_block(block),
        }
    }
    let begun = core.monotonic();
    for (home, views) in by_home {
        if core.monotonic().saturating_sub(begun) > ROUND_MAX {
            open.extend(views.iter().map(|view| view.block)); // others have their turn
            continue;
        }
        for page in views.chunks(PAGE_COUNT) {
            let members = members(core, home);
            if list(core, page, &members).await?.unanswered > 0 {
                open.extend(page.iter().map(|view| view.block));
            }
        }
    }
    let mut repair = core.repair();
    open.into_iter().for_each(|block| repair.doubt(block));
    Ok(())
}

fn members(core: &Core, home: ContainerId) -> Vec<(NodeId, String)> {
    let ids = core.with_cluster(|cluster, _| cluster.member_ids(home).to_vec());
    askable(core, ids)
}

/// Compares a whole container. The epoch of which it is whole, if that is news.
async fn container(core: &Arc<Core>, home: ContainerId) -> Result<Option<Epoch>, RepairError> {
    let state = core.with_cluster(|cluster, _| {
        let pipeline = cluster.pipeline(cluster.container(home)?.pipeline)?;
        Some((pipeline.row.epoch, !pipeline.row.joining.is_empty(), cluster.container(home)?.epoch))
    });
    let Some((epoch, joining, known)) = state else { return Ok(None) };
    let members = members(core, home);
    core.repair().begin(home);
    let mut sum = Outcome::default();
    let mut open = BTreeSet::new();
    let mut place = Some(Place::start(home));
    while let Some(from) = place {
        let reader = Arc::clone(core);
        let page =
            io::task::blocking(move || read::container_page(&reader.machine.store().view(), home, from, PAGE_COUNT));
        let page = page.await?;
        place = page.next;
        if joining {
            // Whoever joined meanwhile is not in their chains.
            let mut repair = core.repair();
            page.open.iter().for_each(|block| repair.doubt(*block));
            open.extend(page.open.iter().copied());
        }
        if !page.blocks.is_empty() {
            sum.add(&compare_page(core, home, from, &page, &members).await?);
        }
        if core.repair().is_full() {
            sum.unanswered += 1; // The rest comes later.
            break;
        }
    }
    let now = core.monotonic();
    let all_asked = core.with_cluster(|cluster, _| {
        // Members that are lost say nothing; those who are here must have said all.
        let rules = super::rules(core);
        cluster
            .members(home)
            .iter()
            .all(|member| rules.is_lost(Some(member)) || members.iter().any(|(id, _)| *id == member.node.id))
    });
    let mut repair = core.repair();
    if sum.missing > 0 || sum.unanswered > 0 || !all_asked {
        if sum.missing > 0 {
            tracing::error!(%home, count = sum.missing, "blocks of which no node that is here has a copy");
        }
        repair.retry(home, now);
        return Ok(None);
    }
    if joining && !repair.are_younger(home, epoch, &open) {
        // Nobody who is in their chains may go before they are complete, and copied.
        repair.suspect(home, now + OPEN_AGAIN_AFTER);
        return Ok(None);
    }
    if sum.lacks > 0 || repair.is_open(home) {
        return Ok(None);
    }
    repair.forget_begun(home);
    repair.on_whole(home);
    Ok((known < epoch && !members.is_empty()).then_some(epoch))
}

/// What came of a question.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Outcome {
    pub(super) lacks: usize,
    pub(super) missing: usize,
    /// Members that did not answer.
    pub(super) unanswered: usize,
}

impl Outcome {
    fn add(&mut self, other: &Self) {
        self.lacks += other.lacks;
        self.missing += other.missing;
        self.unanswered += other.unanswered;
    }
}

async fn compare_page(
    core: &Arc<Core>,
    home: ContainerId,
    from: Place,
    page: &Page,
    members: &[(NodeId, String)],
) -> Result<Outcome, RepairError> {
    if let (Place::Native(first), Some(end)) = (from, page.native_end) {
        let mut digest = Digest::default();
        page.blocks.iter().for_each(|view| digest.add(view.block, view.generation, view.len));
        let request = CompareRequest {
            home: home.0,
            from: first.0,
            through: end.0 - 1,
            digest: Some(digest),
            replicas: Vec::new(),
        };
        let answers = ask(core, members, &request).await;
        let same = |(_, answer): &(NodeId, Option<CompareResponse>)| answer.as_ref().is_some_and(|answer| answer.same);
        let bad = {
            let (repair, surplus) = (core.repair(), core.surplus());
            let is_bad = |view: &BlockView, id: NodeId| {
                repair.is_bad(view.block, id) || surplus.is_leaving(view.block, id, view.generation)
            };
            members.iter().any(|(id, _)| page.blocks.iter().any(|view| is_bad(view, *id)))
        };
        if !members.is_empty() && answers.iter().all(same) && !bad {
            return Ok(Outcome::default());
        }
    }
    list(core, &page.blocks, members).await
}

/// Asks `members` for each of the blocks, and notes what they lack.
async fn list(core: &Arc<Core>, blocks: &[BlockView], members: &[(NodeId, String)]) -> Result<Outcome, RepairError> {
    let fitness = fitness(core, blocks, members).await;
    let mut outcome = Outcome { unanswered: members.len() - fitness.len(), ..Outcome::default() };
    let now = core.monotonic();
    for (place, view) in blocks.iter().enumerate() {
        let of = |node: &NodeId| fitness.get(node).and_then(|list| list.get(place).copied());
        let mut sources: Vec<NodeId> =
            members.iter().map(|(id, _)| *id).filter(|id| of(id) == Some(Fitness::Fit)).collect();
        if sources.len() == members.len() && !members.is_empty() {
            continue;
        }
        let strays = core.surplus().sources(view.block, view.generation, view.len);
        sources.extend(core.with_cluster(|cluster, _| {
            let live = |id: &NodeId| cluster.node(*id).is_some_and(|member| member.is_live(now));
            strays.into_iter().filter(live).collect::<Vec<_>>()
        }));
        let mut repair = core.repair();
        sources.retain(|id| !repair.is_bad(view.block, *id));
        if members.iter().any(|(id, _)| of(id) == Some(Fitness::Busy)) {
            outcome.unanswered += 1;
            repair.doubt(view.block);
        } else if sources.is_empty() {
            // If somebody did not answer, that one may have it.
            outcome.missing += usize::from(outcome.unanswered == 0);
        }
        for (node, _) in members {
            let Some(fit) = of(node).filter(|fit| !matches!(fit, Fitness::Fit | Fitness::Busy)) else { continue };
            outcome.lacks += 1;
            repair.on_lack(lack(view, view.home, *node, sources.clone(), fit == Fitness::Unfit));
        }
        if members.is_empty() && sources.is_empty() {
            repair.on_lack(lack(view, view.home, NodeId([0; 16]), Vec::new(), false));
        }
    }
    Ok(outcome)
}

pub(super) fn lack(view: &BlockView, home: ContainerId, node: NodeId, sources: Vec<NodeId>, unfit: bool) -> Lack {
    let BlockView { file, block, generation, len, .. } = *view;
    Lack { block, generation, len, file, home, node, sources, unfit }
}

/// For each node that answered, whether it can serve each of the blocks. A replica known to be damaged does not.
pub(super) async fn fitness(
    core: &Arc<Core>,
    blocks: &[BlockView],
    nodes: &[(NodeId, String)],
) -> BTreeMap<NodeId, Vec<Fitness>> {
    let replica = |view: &BlockView| Replica {
        block: view.block.0,
        generation: view.generation.0,
        len: view.len,
        ..Replica::default()
    };
    let request = CompareRequest { replicas: blocks.iter().map(replica).collect(), ..CompareRequest::default() };
    let answers = ask(core, nodes, &request).await;
    let (repair, surplus) = (core.repair(), core.surplus());
    let answered = answers.into_iter().filter_map(|(id, answer)| {
        let answer = answer.filter(|answer| answer.fitness.len() == blocks.len())?;
        let list = blocks.iter().zip(answer.fitness()).map(|(view, fitness)| match fitness {
            Fitness::Fit if repair.is_bad(view.block, id) => Fitness::Unfit,
            Fitness::Fit if surplus.is_leaving(view.block, id, view.generation) => Fitness::Absent,
            fitness => fitness,
        });
        Some((id, list.collect()))
    });
    answered.collect()
}

async fn ask(
    core: &Arc<Core>,
    nodes: &[(NodeId, String)],
    request: &CompareRequest,
) -> Vec<(NodeId, Option<CompareResponse>)> {
    crate::ask::all(core, nodes, COMPARE, request, ANSWER_MAX).await
}

/// A damaged replica was told of: its node is asked to read it, and believed.
pub(super) async fn verify(core: &Arc<Core>, block: BlockId, node: NodeId) -> Result<(), RepairError> {
    let found = core.rows(|rows| read::file_of_block(rows, block));
    let Ok(Some((_, view))) = found else { return Ok(()) };
    let request = node::VerifyRequest { block: block.0, generation: view.generation.0 };
    let nodes = askable(core, [node]);
    let answers: Vec<(NodeId, Option<node::VerifyResponse>)> =
        crate::ask::all(core, &nodes, node::VERIFY, &request, super::surplus::VERIFY_MAX).await;
    let Some((_, Some(answer))) = answers.first() else { return Ok(()) };
    match answer.fitness() {
        Fitness::Fit => tracing::info!(%block, %node, "a replica that was called bad reads well"),
        Fitness::Busy => {}
        Fitness::Absent => core.doubt(block),
        Fitness::Unfit => {
            core.repair().on_bad(block, node);
            core.repair_wake.notify_one();
        }
    }
    Ok(())
}
