//! The same question to several datanodes at a time.
//!
//! A node that stopped sending heartbeats will not answer either, so it is not waited for until the limit.

use crate::core::Core;
use std::sync::Arc;
use std::time::Duration;
use types::{BlockId, Fitness, Generation, NodeId};
use wire::node;

/// What a node is granted that may be silent by chance.
const QUIET_WAIT: Duration = Duration::from_secs(1);
const QUIET_LOOK: Duration = Duration::from_millis(100);
/// For a node to begin to read a replica from end to end: others may have its disk.
const READ_MAX: Duration = Duration::from_secs(120);
/// Bytes that it is granted a second for behind that: what a disk does that is busy with others. A guess.
const READ_LEN_PER_S: u64 = 4 << 20;

/// What came of a question.
pub(crate) enum Answer<A> {
    Said(A),
    /// The node is there, and answers with an error of this class.
    Refused {
        class: String,
    },
    /// It could not be reached, or answers what nobody understands.
    Unreached,
    /// It let the time pass.
    Silence,
}

/// `None` where no answer came in time, or a refusal, or the node has fallen silent.
pub(crate) async fn all<Q, A>(
    core: &Core,
    nodes: &[(NodeId, String)],
    method: &'static str,
    request: &Q,
    limit: Duration,
) -> Vec<(NodeId, Option<A>)>
where
    Q: prost::Message + Clone + 'static,
    A: prost::Message + Default + 'static,
{
    let answers = each(core, nodes, method, request, limit).await.into_iter();
    answers.map(|(id, answer)| (id, answer.said())).collect()
}

/// As [`all`], for work that can be done later as well: who let a question pass is not asked for a while, so one node
/// that hangs holds up a round of many questions once.
pub(crate) async fn call_responsive<Q, A>(
    core: &Core,
    nodes: &[(NodeId, String)],
    method: &'static str,
    request: &Q,
    limit: Duration,
) -> Vec<(NodeId, Option<A>)>
where
    Q: prost::Message + Clone + 'static,
    A: prost::Message + Default + 'static,
{
    let (mute, asked): (Vec<_>, Vec<_>) = core.with_leader(|leader, _| {
        let now = core.monotonic();
        nodes.iter().cloned().partition(|(id, _)| leader.unresponsive.contains(*id, now))
    });
    let mut answers: Vec<(NodeId, Option<A>)> = Vec::with_capacity(nodes.len());
    for (id, answer) in each(core, &asked, method, request, limit).await {
        match &answer {
            Answer::Said(_) => core.leader().unresponsive.remove(id),
            Answer::Silence => {
                tracing::warn!(node = %id, method, "datanode unresponsive: it sends heartbeats and does not answer calls");
                core.leader().unresponsive.insert(id, core.monotonic());
            }
            Answer::Refused { .. } | Answer::Unreached => {}
        }
        answers.push((id, answer.said()));
    }
    answers.extend(mute.into_iter().map(|(id, _)| (id, None)));
    assert_eq!(answers.len(), nodes.len(), "each node answers, or does not");
    answers
}

impl<A> Answer<A> {
    fn said(self) -> Option<A> {
        match self {
            Self::Said(answer) => Some(answer),
            Self::Refused { .. } | Self::Unreached | Self::Silence => None,
        }
    }
}

/// Has nodes read their replicas of a block from end to end. `None` where no answer came.
pub(crate) async fn verify(
    core: &Core,
    nodes: &[(NodeId, String)],
    block: BlockId,
    generation: Generation,
    len: u64,
) -> Vec<(NodeId, Option<Fitness>)> {
    let request = node::VerifyRequest { block: block.0, generation: generation.0 };
    let answers: Vec<(NodeId, Option<node::VerifyResponse>)> =
        all(core, nodes, node::VERIFY, &request, read_max(len)).await;
    answers.into_iter().map(|(id, answer)| (id, answer.map(|answer| fitness(answer.fitness)))).collect()
}

/// What a newer program says that this one does not know is nothing to rely on, and nothing to touch.
pub(crate) fn fitness(number: i32) -> Fitness {
    Fitness::try_from(number).unwrap_or(Fitness::Busy)
}

/// How long a node may take to read so many bytes. Each question reads all of them anew: with less time than that
/// takes, a long block would never be known to be sound.
fn read_max(len: u64) -> Duration {
    READ_MAX + Duration::from_secs(len / READ_LEN_PER_S)
}

/// As [`all`], and why there is no answer.
pub(crate) async fn each<Q, A>(
    core: &Core,
    nodes: &[(NodeId, String)],
    method: &'static str,
    request: &Q,
    limit: Duration,
) -> Vec<(NodeId, Answer<A>)>
where
    Q: prost::Message + Clone + 'static,
    A: prost::Message + Default + 'static,
{
    let asked = core.monotonic();
    let calls: Vec<_> = nodes
        .iter()
        .map(|(id, addr)| {
            let (id, addr, calls, request) = (*id, addr.clone(), Arc::clone(&core.calls), request.clone());
            let call = async move {
                match io::stage::timeout(limit, calls.call::<Q, A>(&addr, method, &request)).await {
                    Ok(Ok(answer)) => Answer::Said(answer),
                    Ok(Err(error)) => {
                        let reason = rpc::log_text(&error);
                        tracing::warn!(node = %id, method, reason, "a datanode did not answer as it should");
                        match error {
                            rpc::CallError::Remote { class, .. } => Answer::Refused { class },
                            _ => Answer::Unreached,
                        }
                    }
                    Err(_) => Answer::Silence,
                }
            };
            (id, io::task::spawn_owned("question", call))
        })
        .collect();
    let mut answers = Vec::with_capacity(calls.len());
    for (id, call) in calls {
        let answer = tokio::select! {
            biased;
            answer = call => answer.unwrap_or(Answer::Unreached),
            () = fallen_silent(core, id, asked) => Answer::Unreached, // nothing is known of it when it beats again
        };
        answers.push((id, answer));
    }
    answers
}

/// Returns when no heartbeat comes from the node any more.
async fn fallen_silent(core: &Core, id: NodeId, asked: Duration) {
    loop {
        let now = core.monotonic();
        let quiet = core.with_cluster(|cluster, _| cluster.node(id).is_none_or(|member| member.is_quiet(now)));
        if quiet && now >= asked + QUIET_WAIT {
            return;
        }
        io::stage::sleep(QUIET_LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A newer program answers with a word that this one does not have: that is not the first of those it has.
    #[test]
    fn an_answer_that_is_not_known_is_no_good_replica() {
        assert_eq!([0, 1, 99, -1].map(fitness), [Fitness::Fit, Fitness::Absent, Fitness::Busy, Fitness::Busy]);
    }

    /// A block of 100 GB on a disk that others keep busy.
    #[test]
    fn a_long_block_may_be_read_to_its_end() {
        assert_eq!(read_max(0), Duration::from_secs(120));
        assert!(read_max(100 << 30) > Duration::from_secs((100 << 30) / (10 << 20)));
        assert!(read_max(u64::MAX) > READ_MAX, "whatever length a node has told");
    }
}
