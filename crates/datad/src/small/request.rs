//! One small write at the node that was asked: its own replica, and those of the others.

use super::committer::Job;
use super::small_writes::SmallWrites;
use crate::budget::Reservation;
use crate::log_limits::LogLimits;
use crate::operations::Operation;
use container::Identity;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use types::{BlockId, Generation};
use wire::small::SmallAnswer;
use xfer::answer::Refusal;
use xfer::small::{Checked, Fanout, OutgoingRequest, Request};

type Outcome = Result<(), Refusal>;
type Put = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// Carries a request to its end, whatever that is.
pub(super) async fn serve(writes: &Arc<SmallWrites>, request: &Request<Reservation>) -> SmallAnswer {
    let service = &writes.service;
    let counted = service.operations.begin(Operation::SmallPut, || service.now());
    let answer = put(writes, request).await;
    let _refused = counted.answered(if answer.refusal.is_empty() { Ok(()) } else { Err(()) });
    answer
}

async fn put(writes: &Arc<SmallWrites>, request: &Request<Reservation>) -> SmallAnswer {
    let service = &writes.service;
    let header = &request.frame.header;
    if let Err(refusal) = request.verify() {
        return Fanout::refused(header.number, refusal);
    }
    let Checked { scope, targets } = &request.checked;
    let identity = Identity {
        block: BlockId(header.block),
        generation: Generation(header.generation),
        file: scope.file,
        home: scope.home,
        checksum: request.frame.spec,
    };
    service.operations.bytes(Operation::SmallPut).inc_by(request.frame.data.len() as u64);
    let mut puts = vec![own(writes, request, identity)];
    puts.extend(targets.iter().map(|target| {
        let outgoing = OutgoingRequest { header: Fanout::onward(header), body: request.body() };
        at_other(writes, target.to_string(), outgoing)
    }));
    let late_max = Duration::from_millis(service.limits.small_late_ms);
    gather(Fanout::new(header, late_max), puts, &service.log_limits, || service.now()).await
}

fn own(writes: &Arc<SmallWrites>, request: &Request<Reservation>, identity: Identity) -> Put {
    let writes = Arc::clone(writes);
    let (sums, data) = (request.frame.sums.clone(), request.frame.data.clone());
    let job = Job { identity, bytes: request.bytes.clone(), sums, data, synced: request.frame.header.synced };
    Box::pin(async move { writes.committer.put(job).await.map_err(Refusal::error) })
}

fn at_other(writes: &Arc<SmallWrites>, target: String, outgoing: OutgoingRequest) -> Put {
    let writes = Arc::clone(writes);
    Box::pin(async move {
        let answer = writes.connections.call(&target, outgoing).await.map_err(Refusal::from);
        let named = |refusal: Refusal| Refusal { message: format!("{target}: {}", refusal.message), ..refusal };
        answer.and_then(|answer| Fanout::outcome(&answer)).map_err(named)
    })
}

/// Waits until the answer is due.
async fn gather(mut fanout: Fanout, puts: Vec<Put>, limits: &LogLimits, now: impl Fn() -> Duration) -> SmallAnswer {
    let numbered = puts.into_iter().enumerate().map(|(place, put)| put.map(move |outcome| (place, outcome)));
    let mut puts: FuturesUnordered<_> = numbered.collect();
    loop {
        if let Some(answer) = fanout.answer() {
            if answer.refusal.is_empty()
                && !fanout.faults().is_empty()
                && let Some(passed_over) = limits.not_on_all.due()
            {
                let faults = rpc::log_text(&fanout.faults().join("; "));
                tracing::info!(faults, passed_over, "a small block is not on all its nodes");
            }
            return answer;
        }
        let rest = fanout.poll_timeout().map_or(Duration::MAX, |due| due.saturating_sub(now()));
        match tokio::time::timeout(rest, puts.next()).await {
            Ok(put) => {
                let (place, outcome) = put.expect("an answer is due when all have ended");
                fanout.on_put(now(), place, outcome);
            }
            Err(_elapsed) => fanout.handle_timeout(now()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::small::SmallWrite;

    fn at(outcome: Option<u64>) -> Put {
        Box::pin(async move {
            match outcome {
                Some(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
                None => return Err(Refusal::error("down")),
            }
            Ok(())
        })
    }

    /// Milliseconds until each node has put it (`None`: it fails at once), and who is named.
    async fn check(nodes: &[Option<u64>], wanted: Result<&[u32], &[u32]>) {
        let puts = nodes.iter().map(|outcome| at(*outcome)).collect();
        let targets = vec![String::new(); nodes.len() - 1];
        let fanout = Fanout::new(&SmallWrite { targets, ..SmallWrite::default() }, Duration::from_millis(300));
        let clock = io::SystemClock::new();
        let answer = gather(fanout, puts, &LogLimits::default(), || io::Clock::monotonic(&clock)).await;
        let outcome = if answer.refusal.is_empty() { Ok(&answer.have[..]) } else { Err(&answer.have[..]) };
        assert_eq!(outcome, wanted, "{nodes:?}");
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
