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

/// Which of the nodes are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    All,
    /// For work that can be done later as well: a node that did not answer is skipped for a while. So one that hangs
    /// delays a round of many questions once.
    SkipUnresponsive,
}

/// Asks several nodes at a time. A skipped node counts as one that let the time pass.
pub(crate) async fn ask<Q, A>(
    core: &Core,
    nodes: &[(NodeId, String)],
    method: &'static str,
    request: &Q,
    limit: Duration,
    policy: Policy,
) -> Vec<(NodeId, Answer<A>)>
where
    Q: prost::Message + Clone + 'static,
    A: prost::Message + Default + 'static,
{
    if policy == Policy::All {
        return call(core, nodes, method, request, limit).await;
    }
    let (skipped, asked): (Vec<_>, Vec<_>) = core.with_leader(|leader, _| {
        let now = core.monotonic();
        nodes.iter().cloned().partition(|(id, _)| leader.unresponsive.contains(*id, now))
    });
    let mut answers = call(core, &asked, method, request, limit).await;
    for (id, answer) in &answers {
        match answer {
            Answer::Said(_) => core.leader().unresponsive.remove(*id),
            Answer::Silence => {
                tracing::warn!(node = %id, method, "datanode unresponsive: it does not answer calls");
                core.leader().unresponsive.insert(*id, core.monotonic());
            }
            Answer::Refused { .. } | Answer::Unreached => {}
        }
    }
    answers.extend(skipped.into_iter().map(|(id, _)| (id, Answer::Silence)));
    assert_eq!(answers.len(), nodes.len(), "each node has an answer, or none");
    answers
}

impl<A> Answer<A> {
    /// `None` if no answer came in time, or a refusal, or the node became silent.
    pub(crate) fn said(self) -> Option<A> {
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
    let answers = ask::<_, node::VerifyResponse>(core, nodes, node::VERIFY, &request, read_max(len), Policy::All).await;
    answers.into_iter().map(|(id, answer)| (id, answer.said().map(|answer| fitness(answer.fitness)))).collect()
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

async fn call<Q, A>(
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
    // A thief may have the node: he would get a token with the question, and be believed.
    let is_believed = |id: NodeId| {
        core.is_believed(id).unwrap_or_else(|error| {
            tracing::error!(node = %id, %error, "datanode not asked: what was revoked cannot be read");
            false
        })
    };
    let calls: Vec<_> = nodes
        .iter()
        .map(|(id, addr)| {
            let (id, addr, calls, request) = (*id, addr.clone(), Arc::clone(&core.calls), request.clone());
            // It said goodbye, or an administrator works on it: that it cannot be reached is no news.
            let is_away = core.with_cluster(|cluster, _| cluster.node(id).is_some_and(|member| member.leave.is_some()));
            let call = async move {
                match io::time::timeout(limit, calls.call::<Q, A>((id, &addr), method, &request)).await {
                    Ok(Ok(answer)) => Answer::Said(answer),
                    Ok(Err(error)) => {
                        let reason = rpc::log_text(&error);
                        match is_away {
                            true => tracing::debug!(node = %id, method, reason, "no call to a datanode that is away"),
                            false => tracing::warn!(node = %id, method, reason, "call to datanode failed"),
                        }
                        match error {
                            rpc::CallError::Remote { class, .. } => Answer::Refused { class },
                            _ => Answer::Unreached,
                        }
                    }
                    Err(_) => Answer::Silence,
                }
            };
            (id, is_believed(id).then(|| io::task::spawn_owned("question", call)))
        })
        .collect();
    let mut answers = Vec::with_capacity(calls.len());
    for (id, call) in calls {
        let Some(call) = call else {
            answers.push((id, Answer::Unreached));
            continue;
        };
        let answer = tokio::select! {
            biased;
            answer = call => answer.unwrap_or(Answer::Unreached),
            () = fallen_silent(core, id, asked) => Answer::Unreached, // nothing is known of it when it beats again
        };
        // Its certificates may have been revoked while it was asked.
        answers.push((id, if is_believed(id) { answer } else { Answer::Unreached }));
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
        io::time::sleep(QUIET_LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container_sealing::tests::with_node;
    use crate::principal::RegisteredNode;
    use security::joining::Command;
    use types::Millis;

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

    /// It may be a thief's, who would be believed, and get a token to write with the question.
    #[tokio::test]
    async fn a_node_whose_certificates_were_revoked_is_not_asked() {
        let (_dir, metad, core) = with_node().await;
        let (id, peer) = (NodeId([1; 16]), ([127, 0, 0, 1], 40_000).into());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let nodes = [(id, listener.local_addr().unwrap().to_string())];
        let request = node::VerifyRequest { block: 1, generation: 1 };
        let is_asked = async || {
            let limit = Duration::from_millis(200);
            let ask = ask::<_, node::VerifyResponse>(&core, &nodes, node::VERIFY, &request, limit, Policy::All);
            let (_, called) = tokio::join!(ask, tokio::time::timeout(2 * limit, listener.accept()));
            called.is_ok()
        };
        assert!(is_asked().await);
        assert!(core.raise_level(crate::command::JOINING).await.unwrap());
        core.change_joining(Command::Revoke { node: id, before: Millis(50) }).await.unwrap().unwrap();
        assert!(!is_asked().await);
        // It has registered by a certificate from before, and then by a later one.
        core.connections.opened(peer);
        let process = RegisteredNode { id, incarnation: blocks::Incarnation::default() };
        for (issued_at, is) in [(None, false), (Some(Millis(49)), false), (Some(Millis(50)), true)] {
            core.connections.bind(peer, process, issued_at);
            assert_eq!(is_asked().await, is, "{issued_at:?}");
        }
        drop(core);
        metad.shutdown().await;
    }
}
