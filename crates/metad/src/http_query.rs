//! Queries over HTTP that are answered by a report. They pass the door, as calls do.

use crate::door;
use crate::fsck::{self, Ask, Claim};
use crate::leadership::Leadership;
use crate::report::Report;
use bytes::Bytes;
use hdfs::Exception;
use hdfs::exception::STANDBY;
use prost::Message;
use rpc::{Call, Untaken};
use std::net::IpAddr;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Begins a check for the user whom the query names, or for `proven`, if the door permits it. The report ends when the
/// channel does. `None`: too many checks run already.
pub(crate) fn fsck(
    leadership: &Arc<Leadership>,
    pairs: Vec<(String, String)>,
    peer: IpAddr,
    proven: Option<String>,
) -> Option<mpsc::Receiver<String>> {
    let (out, pieces) = leadership.checks.begin(Arc::clone(&leadership.clock))?;
    let leadership = Arc::clone(leadership);
    io::task::spawn("fsck", async move {
        let (claim, ask) = Ask::of(pairs);
        let begun = leadership.clock.monotonic();
        if let Err(error) = pass(&leadership, claim, proven, &ask, peer, out.clone()).await {
            // A refused check ends with this line in HDFS, too. A server that stands by has begun nothing.
            let end = if error.class == STANDBY { String::new() } else { fsck::end_line(&leadership, begun) };
            // HDFS's client takes the last line for the outcome.
            let last = format!("{end}{}\n\n\nFsck on path '{}' FAILED", error.message, ask.path);
            let _gone_already = out.send(last).await;
        }
    });
    Some(pieces)
}

async fn pass(
    leadership: &Arc<Leadership>,
    claim: Claim,
    proven: Option<String>,
    ask: &Ask,
    peer: IpAddr,
    out: Report,
) -> Result<(), Exception> {
    let call = Call {
        protocol: door::table::HTTP.to_owned(),
        method: fsck::METHOD.to_owned(),
        version: 1,
        body: ask.encode_to_vec().into(),
        user: Arc::new(claim.identity(proven)?),
        client_id: Bytes::new(),
        call_id: -1,
        retry_count: 0,
        peer: (peer, 0).into(),
        is_private: false,
        untaken: Untaken::default(),
    };
    door::pass_for_report(leadership, call, out).await
}
