//! Several datanodes are asked the same at a time.

use crate::core::Core;
use std::time::Duration;
use types::NodeId;

/// `None` where no answer came in time, or a refusal.
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
    let calls: Vec<_> = nodes
        .iter()
        .map(|(id, addr)| {
            let (id, client, request) = (*id, core.dial(addr), request.clone());
            let call = async move {
                match tokio::time::timeout(limit, client.call::<Q, A>(method, &request)).await {
                    Ok(Ok(answer)) => Some(answer),
                    Ok(Err(error)) => {
                        tracing::warn!(node = %id, method, %error, "a datanode did not answer as it should");
                        None
                    }
                    Err(_) => None,
                }
            };
            (id, io::task::spawn_owned("question", call))
        })
        .collect();
    let mut answers = Vec::with_capacity(calls.len());
    for (id, call) in calls {
        answers.push((id, call.await.ok().flatten()));
    }
    answers
}
