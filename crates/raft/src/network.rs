//! How openraft's requests leave this member: as our messages, over the [`Transport`].

use crate::doubt::Doubt;
use crate::message::{
    Answer, Ask, Blob, Chunk, PlainVote, Request, decode, encode, id_of, is_near, plain_id, plain_vote, vote_of,
};
use crate::position::Position;
use crate::snapshot::{Export, SnapshotData};
use crate::transport::{Lane, Peer, Transport};
use crate::types::{Node, Snapshot, Types, Vote};
use ::io::time;
use openraft::errors::{ErrorSource, NetworkError, RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::RPCOption;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, TransferLeaderRequest, TransferLeaderResponse,
    VoteRequest, VoteResponse,
};
use openraft::{OptionalSend, RaftNetworkFactory, RaftNetworkV2};
use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// For an answer to entries, which the other member syncs first. Longer than a disk's hiccup; openraft's own limit, a
/// heartbeat, is shorter than one.
const APPEND_WAIT: Duration = Duration::from_secs(5);
/// For an answer to a chunk, which is only written.
const CHUNK_WAIT: Duration = Duration::from_secs(10);
/// Bytes of a snapshot sent at once. A guess: a hundredth of a second of a disk's and a network's work.
const CHUNK_LEN: usize = 1 << 20;
const _: () = assert!(CHUNK_LEN <= crate::limits::MESSAGE_LEN, "see MESSAGE_LEN_MAX");
/// While the other member puts a snapshot in place, it is asked so often whether it is done.
const INSTALL_POLL: Duration = Duration::from_millis(100);

/// Makes the ends towards other members.
#[derive(Clone)]
pub(crate) struct Network {
    /// `None`: this store has a single member, and reaches nobody.
    transport: Option<Arc<dyn Transport>>,
    pub(crate) from: u64,
    /// Snapshots on their way, and the index of the last entry in each.
    sending: Arc<Mutex<BTreeMap<u64, u64>>>,
    /// Snapshots that were begun; tells one from the next.
    sent: Arc<AtomicU64>,
    /// The last term in which this member, leading, told another to take over; none has the number 0.
    handed_over: Arc<AtomicU64>,
    doubt: Doubt,
}

/// The end towards one member, in one lane.
pub(crate) struct Way {
    network: Network,
    to: Peer,
    /// See [`Request::incarnation`].
    incarnation: u64,
    lane: Lane,
}

impl Network {
    pub(crate) fn new(transport: Option<Arc<dyn Transport>>, from: u64, doubt: Doubt) -> Self {
        Self { transport, from, sending: Arc::default(), sent: Arc::default(), handed_over: Arc::default(), doubt }
    }

    /// The first entry's index behind which the receiver of a snapshot will go on, less one.
    pub(crate) fn sending(&self) -> Option<u64> {
        lock(&self.sending).values().min().copied()
    }

    /// Whether another member was told to take over while this one led in `term`. From the first such message on the
    /// others vote without regard to what they answered to this leader, and openraft lets it lead in that term no
    /// more.
    pub(crate) fn has_handed_over(&self, term: u64) -> bool {
        self.handed_over.load(Ordering::SeqCst) >= term
    }

    fn way(&self, target: u64, node: &Node, lane: Lane) -> Way {
        let to = Peer { id: target, addr: node.addr.clone() };
        Way { network: self.clone(), to, incarnation: node.incarnation, lane }
    }

    /// Whether another member is new, and its incarnation.
    pub(crate) async fn greet(&self, to: &Peer, wait_max: Duration) -> io::Result<(bool, u64)> {
        match self.ask(to, 0, Lane::Beat, Ask::AreYouNew, wait_max).await? {
            Answer::New { incarnation } => Ok((true, incarnation)),
            Answer::Old { incarnation } => Ok((false, incarnation)),
            other => Err(io::Error::new(io::ErrorKind::InvalidData, format!("it answered something else: {other:?}"))),
        }
    }

    /// Asks another member something.
    pub(crate) async fn ask(
        &self,
        to: &Peer,
        incarnation: u64,
        lane: Lane,
        ask: Ask,
        wait_max: Duration,
    ) -> io::Result<Answer> {
        let Some(transport) = &self.transport else {
            return Err(io::Error::new(io::ErrorKind::NotConnected, "this store has a single metadata server"));
        };
        let request = encode(&Request { to: to.id, incarnation, from: self.from, ask });
        let bytes = transport.send(to, lane, request, wait_max).await?;
        let answer = decode(&bytes).map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why))?;
        match answer {
            Answer::Refused(why) => Err(io::Error::other(why)),
            answer => Ok(answer),
        }
    }
}

impl Way {
    async fn ask(&self, ask: Ask, wait_max: Duration) -> Result<Answer, RPCError<Types>> {
        let asked = self.network.ask(&self.to, self.incarnation, self.lane, ask, wait_max).await;
        asked.map_err(|error| match is_far(&error) {
            true => RPCError::Unreachable(Unreachable::new(&error)),
            false => RPCError::Network(NetworkError::new(&error)),
        })
    }
}

/// True if trying again at once is of no use.
fn is_far(error: &io::Error) -> bool {
    use io::ErrorKind::{
        AddrNotAvailable, ConnectionRefused, HostUnreachable, NetworkUnreachable, NotConnected, Other,
    };
    let kind = error.kind();
    matches!(kind, ConnectionRefused | HostUnreachable | NetworkUnreachable | NotConnected | AddrNotAvailable | Other)
}

/// The vote that a member answers with, if one of this group can have it.
fn near(vote: PlainVote, own: Vote) -> Result<Vote, Unreachable<Types>> {
    if is_near(vote, own.leader_id.term) {
        return Ok(vote_of(vote));
    }
    let (term, known) = (vote.0, own.leader_id.term);
    Err(Unreachable::from_string(format!(
        "a member answered with term {term}, which is none of this group, that is in term {known}; remove that \
         member, empty its directory, and add it under a new id"
    )))
}

fn strange(answer: &Answer) -> RPCError<Types> {
    RPCError::Unreachable(Unreachable::from_string(format!("a member answered something else: {answer:?}")))
}

impl RaftNetworkFactory<Types> for Network {
    type Network = Way;

    async fn new_client(&mut self, target: u64, node: &Node) -> Way {
        self.way(target, node, Lane::Log)
    }

    async fn new_heartbeat_client(&mut self, target: u64, node: &Node) -> Way {
        self.way(target, node, Lane::Beat)
    }

    async fn new_snapshot_client(&mut self, target: u64, node: &Node) -> Way {
        self.way(target, node, Lane::Snapshot)
    }
}

impl RaftNetworkV2<Types> for Way {
    type SnapshotData = SnapshotData;

    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<Types>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<Types>, RPCError<Types>> {
        let own = request.vote;
        let wait_max = if request.entries.is_empty() { option.hard_ttl() } else { APPEND_WAIT };
        let ask = Ask::Append {
            vote: plain_vote(request.vote),
            before: request.prev_log_id.map(plain_id),
            committed: request.leader_commit.map(plain_id),
            entries: request.entries.iter().map(Into::into).collect(),
        };
        match self.ask(ask, wait_max.max(option.hard_ttl())).await? {
            Answer::Appended => Ok(AppendEntriesResponse::Success),
            Answer::Conflict => Ok(AppendEntriesResponse::Conflict),
            Answer::HigherVote(vote) => Ok(AppendEntriesResponse::HigherVote(near(vote, own)?)),
            other => Err(strange(&other)),
        }
    }

    async fn vote(
        &mut self,
        request: VoteRequest<Types>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        let (vote, last) = (plain_vote(request.vote), request.last_log_id.map(plain_id));
        let ask = Ask::Vote { vote, last, transfer: request.leadership_transfer };
        voted(self.ask(ask, option.hard_ttl()).await?, request.vote)
    }

    async fn pre_vote(
        &mut self,
        request: VoteRequest<Types>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        let (vote, last) = (plain_vote(request.vote), request.last_log_id.map(plain_id));
        voted(self.ask(Ask::PreVote { vote, last }, option.hard_ttl()).await?, request.vote)
    }

    async fn transfer_leader(
        &mut self,
        request: TransferLeaderRequest<Types>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<Types>, RPCError<Types>> {
        let (vote, last) = (plain_vote(*request.from_leader()), request.last_log_id().copied().map(plain_id));
        self.network.handed_over.fetch_max(request.from_leader().leader_id.term, Ordering::SeqCst);
        match self.ask(Ask::Transfer { vote, to: *request.to_node_id(), last }, option.hard_ttl()).await? {
            Answer::TransferAccepted => Ok(Ok(())),
            other => Err(strange(&other)),
        }
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<Types>, StreamingError<Types>> {
        let SnapshotData::Out(export) = snapshot.snapshot else {
            return Err(Unreachable::from_string("the state cannot be read").into());
        };
        tokio::select! {
            biased;
            closed = cancel => Err(closed.into()),
            sent = self.send_snapshot(vote, export) => sent,
        }
    }
}

impl Way {
    /// Sends the state, chunk by chunk, and waits until it is in place there.
    async fn send_snapshot(
        &self,
        vote: Vote,
        mut export: Box<dyn Export>,
    ) -> Result<SnapshotResponse<Types>, StreamingError<Types>> {
        let local = |error: crate::machine_error::MachineError| {
            StreamingError::StorageError(openraft::StorageError::read_snapshot(
                None,
                openraft::alias::ErrorSourceOf::<Types>::from_error(&error),
            ))
        };
        let mut bytes = export.position().map_err(local)?;
        let snapshot = 1 + self.network.sent.fetch_add(1, Ordering::Relaxed);
        let applied = Position::decode(&bytes).ok().and_then(|position| position.applied);
        let _held = Held::new(&self.network.sending, snapshot, applied.map_or(0, |id| id.index));
        for number in 0.. {
            if self.network.doubt.is_set() {
                // Rows that may be wrong would end the member that can tell.
                return Err(Unreachable::from_string("members have different rows, so no copy is sent").into());
            }
            let is_last = number > 0 && bytes.is_empty();
            let chunk = Chunk { vote: plain_vote(vote), snapshot, number, is_last, bytes: Blob(bytes.into()) };
            let answer = loop {
                let asked = self.ask(Ask::Chunk(chunk.clone()), CHUNK_WAIT).await;
                match asked.map_err(|error| match error {
                    RPCError::Network(error) => StreamingError::Network(error),
                    error => StreamingError::Unreachable(Unreachable::new(&error)),
                })? {
                    Answer::Installing => time::sleep(INSTALL_POLL).await,
                    answer => break answer,
                }
            };
            match answer {
                Answer::Taken => {}
                Answer::Installed { vote: answered } | Answer::HigherVote(answered) => {
                    return Ok(SnapshotResponse::new(near(answered, vote)?));
                }
                other => return Err(StreamingError::Unreachable(Unreachable::from_string(format!("{other:?}")))),
            }
            let reading = ::io::task::blocking(move || export.chunk(CHUNK_LEN).map(|chunk| (chunk, export)));
            let (next, back) = reading.await.map_err(local)?;
            bytes = next.unwrap_or_default();
            export = back;
        }
        Err(ReplicationClosed::new("a snapshot without an end").into())
    }
}

/// Holds the log's entries behind a snapshot as long as that is on its way.
struct Held<'a> {
    sending: &'a Mutex<BTreeMap<u64, u64>>,
    snapshot: u64,
}

impl<'a> Held<'a> {
    fn new(sending: &'a Mutex<BTreeMap<u64, u64>>, snapshot: u64, index: u64) -> Self {
        lock(sending).insert(snapshot, index);
        Self { sending, snapshot }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        lock(self.sending).remove(&self.snapshot);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn voted(answer: Answer, own: Vote) -> Result<VoteResponse<Types>, RPCError<Types>> {
    match answer {
        Answer::Voted { vote, last, granted } => Ok(VoteResponse::new(near(vote, own)?, last.map(id_of), granted)),
        other => Err(strange(&other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::Answer as Sent;
    use crate::types::vote;

    /// Another member that answers every message so.
    struct Parrot(Answer);

    impl Transport for Parrot {
        fn send<'a>(&'a self, _: &'a Peer, _: Lane, _: Vec<u8>, _: Duration) -> Sent<'a> {
            let bytes = encode(&self.0);
            Box::pin(async move { Ok(bytes) })
        }
    }

    /// What comes of a heartbeat, and of asking for a vote, in term 7, if it is answered with a vote of `term`.
    async fn check(term: u64, is_believed: bool) {
        let option = || RPCOption::new(Duration::from_secs(1));
        let dir = tempfile::tempdir().unwrap();
        let doubt = Doubt::open(Arc::new(crate::disk::Directory::new(dir.path()))).unwrap();
        let way = |answer| {
            Network::new(Some(Arc::new(Parrot(answer))), 1, doubt.clone()).way(2, &Node::default(), Lane::Beat)
        };
        let request = AppendEntriesRequest {
            vote: vote(7, 1, true),
            prev_log_id: None,
            leader_commit: None,
            entries: Vec::new(),
        };
        let appended = way(Answer::HigherVote((term, 2, false))).append_entries(request, option()).await;
        assert_eq!(appended.is_ok(), is_believed, "{appended:?}");
        let answer = Answer::Voted { vote: (term, 2, false), last: None, granted: false };
        let voted = way(answer).vote(VoteRequest::new(vote(7, 1, false), None), option()).await;
        assert_eq!(voted.is_ok(), is_believed, "{voted:?}");
    }

    #[tokio::test]
    async fn a_term_far_beyond_is_not_believed() {
        check(8, true).await;
        check(1 << 32, true).await;
        check(u64::MAX - 1, false).await;
        check(u64::MAX, false).await;
    }
}
