//! One small write at the node that was asked: its own replica, and those of the others.

use super::committer::Job;
use crate::budget::Reservation;
use crate::node::{Node, Transfer};
use crate::telemetry::Operation;
use bytes::Bytes;
use container::Identity;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use io::Work;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use types::{BlockId, Generation};
use wire::BlockScope;
use wire::small::{SmallAnswer, SmallFrame, SmallWrite, majority};

/// A request that came whole.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) frame: SmallFrame,
    pub(super) bytes: Bytes,
    pub(super) _memory: Reservation,
    pub(super) _transfer: Transfer,
    pub(super) _work: Work,
}

type Outcome = Result<(), String>;
type Put = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// Carries a request to its end, whatever that is.
pub(super) async fn serve(node: Arc<Node>, request: Request) -> SmallAnswer {
    let number = request.frame.header.number;
    let counted = node.telemetry.operations.begin(Operation::SmallPut, || node.now());
    match counted.answered(put(&node, &request).await) {
        Ok(have) => SmallAnswer { number, refusal: String::new(), have },
        Err((refusal, have)) => SmallAnswer { number, refusal, have },
    }
}

/// Who has put the block; `Err`: too few.
async fn put(node: &Arc<Node>, request: &Request) -> Result<Vec<u32>, (String, Vec<u32>)> {
    let header = &request.frame.header;
    let identity = identity(node, &request.frame).map_err(|why| (why, Vec::new()))?;
    let (data, sums) = (&request.bytes[request.frame.data.clone()], &request.bytes[request.frame.sums.clone()]);
    if request.frame.spec.verify(data, sums).is_err() {
        return Err(("the bytes do not match their checksums".to_owned(), Vec::new()));
    }
    node.telemetry.operations.bytes(Operation::SmallPut).inc_by(data.len() as u64);
    let mut puts = vec![own(node, request, identity)];
    let body = request.bytes.slice(request.frame.sums.start..request.frame.data.end);
    puts.extend(header.targets.iter().map(|target| at_other(node, header, target.clone(), body.clone())));
    gather(puts, Duration::from_millis(node.config.limits.small_late_ms)).await
}

fn identity(node: &Node, frame: &SmallFrame) -> Result<Identity, String> {
    let header = &frame.header;
    if header.block >> 63 != 0 {
        return Err("erasure-coded blocks are not served".to_owned());
    }
    if node.pool().is_some_and(|pool| pool != header.pool) {
        return Err(format!("block pool {:?} is not here", header.pool));
    }
    let scope = BlockScope::decode(&header.token).map_err(|error| error.to_string())?;
    let scope = scope.ok_or("the token does not tell whose the block is")?;
    Ok(Identity {
        block: BlockId(header.block),
        generation: Generation(header.generation),
        file: scope.file,
        home: scope.home,
        checksum: frame.spec,
    })
}

fn own(node: &Arc<Node>, request: &Request, identity: Identity) -> Put {
    let node = Arc::clone(node);
    let SmallFrame { sums, data, header, .. } = &request.frame;
    let job =
        Job { identity, bytes: request.bytes.clone(), sums: sums.clone(), data: data.clone(), synced: header.synced };
    Box::pin(async move { node.committer.put(job).await })
}

fn at_other(node: &Arc<Node>, header: &SmallWrite, target: String, body: Bytes) -> Put {
    let node = Arc::clone(node);
    let header = SmallWrite { targets: Vec::new(), ..header.clone() };
    Box::pin(async move {
        let answer = node.small_links.put(&target, header, body).await;
        let answer = answer.map_err(|error| format!("{target}: {error}"))?;
        if answer.have.is_empty() { Err(format!("{target}: {}", answer.refusal)) } else { Ok(()) }
    })
}

/// Who has put the block so far, and why others have not.
#[derive(Default)]
struct Gathered {
    have: Vec<u32>,
    faults: Vec<String>,
}

impl Gathered {
    fn add(&mut self, (place, outcome): (u32, Outcome)) {
        match outcome {
            Ok(()) => self.have.push(place),
            Err(why) => self.faults.push(why),
        }
    }
}

/// Waits for all, or for a majority and `late_max` more.
async fn gather(puts: Vec<Put>, late_max: Duration) -> Result<Vec<u32>, (String, Vec<u32>)> {
    let count = puts.len();
    let numbered = (0..).zip(puts).map(|(place, put)| put.map(move |outcome| (place, outcome)));
    let mut puts: FuturesUnordered<_> = numbered.collect();
    let mut gathered = Gathered::default();
    while gathered.have.len() < majority(count)
        && let Some(put) = puts.next().await
    {
        gathered.add(put);
    }
    let others = async {
        while let Some(put) = puts.next().await {
            gathered.add(put);
        }
    };
    let _late = tokio::time::timeout(late_max, others).await;
    let Gathered { mut have, faults } = gathered;
    have.sort_unstable();
    if have.len() >= majority(count) {
        if !faults.is_empty() {
            tracing::info!(?faults, "a small block is not on all its nodes");
        }
        return Ok(have);
    }
    Err((format!("{} of {count} nodes put the block: {}", have.len(), faults.join("; ")), have))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(outcome: Option<u64>) -> Put {
        Box::pin(async move {
            match outcome {
                Some(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
                None => return Err("down".to_owned()),
            }
            Ok(())
        })
    }

    /// Milliseconds until each node has put it (`None`: it fails at once), and who is named.
    async fn check(nodes: &[Option<u64>], wanted: Result<&[u32], &[u32]>) {
        let puts = nodes.iter().map(|outcome| at(*outcome)).collect();
        let answer = gather(puts, Duration::from_millis(300)).await;
        let told = answer.as_ref().map(|have| &have[..]).map_err(|(_, have)| &have[..]);
        assert_eq!(told, wanted, "{nodes:?}");
    }

    #[tokio::test]
    async fn all_have_it_or_a_majority_and_a_while_has_passed() {
        check(&[Some(1), Some(5), Some(3)], Ok(&[0, 1, 2])).await;
        check(&[Some(60_000), Some(1), Some(1)], Ok(&[1, 2])).await;
        check(&[Some(1), None, Some(100)], Ok(&[0, 2])).await;
        check(&[Some(1), None, None], Err(&[0])).await;
        check(&[Some(1), None], Err(&[0])).await;
        check(&[Some(1)], Ok(&[0])).await;
        check(&[None], Err(&[])).await;
    }
}
