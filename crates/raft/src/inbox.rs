//! What other members ask of this one.
//!
//! ```text
//! bytes ──▶ inbox ──▶ openraft: entries, votes          a snapshot's chunks ──▶ machine's import ──▶ openraft: install
//! ```
//!
//! Promise: a member takes entries and votes only if whoever asks means this member with this data: the group's
//! membership names the incarnation of its log. One whose data is gone has another, and what it said before may have
//! been counted, so it stays out. A member that has just started gives no vote either, for as long as a leader may
//! still count on an answer that this one gave before and forgot.

use crate::agreement::Agreement;
use crate::driver::Applier;
use crate::founding::{self, Mistaken};
use crate::machine::Machine;
use crate::message::{
    Answer, Ask, Chunk, PlainVote, Request, decode, encode, id_of, is_near, plain_id, plain_vote, vote_of,
};
use crate::position::Position;
use crate::snapshot::{Import, SnapshotData};
use crate::stop::Stop;
use crate::types::{Snapshot, SnapshotMeta, Types, Vote};
use ::io::time::Moment;
use ::types::RowsDigest;
use openraft::async_runtime::WatchReceiver;
use openraft::errors::RaftError;
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, TransferLeaderRequest, VoteRequest, VoteResponse};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use types::mutation::{self, Mutation};

pub(crate) struct Inbox<M: Machine> {
    pub(crate) node_id: u64,
    pub(crate) raft: openraft::Raft<Types, Applier<M>>,
    pub(crate) machine: Arc<M>,
    /// Of this member's log.
    pub(crate) incarnation: u64,
    /// When it was last said that the group means another incarnation.
    pub(crate) complained: Mutex<Option<Moment>>,
    pub(crate) mistaken: Mistaken,
    pub(crate) stop: Stop,
    pub(crate) started: Moment,
    /// No votes for so long after the start.
    pub(crate) silence: Duration,
    pub(crate) arrival: Mutex<Option<Arrival>>,
    /// `None`: this member is alone.
    pub(crate) agreement: Option<Arc<Agreement<M>>>,
}

/// A member that the group does not mean says so again after this time.
const COMPLAIN_EACH: Duration = Duration::from_secs(60);

/// A snapshot that is on its way to us. A new one takes its place.
pub(crate) struct Arrival {
    from: u64,
    snapshot: u64,
    /// The chunk that is expected.
    next: u64,
    stage: Stage,
}

enum Stage {
    Collecting {
        position: Vec<u8>,
        import: Box<dyn Import>,
    },
    /// A chunk is being written, or the state is being put in place.
    Busy,
    Installed(Vote),
    Failed(String),
}

type Refusal = String;

impl<M: Machine> Inbox<M> {
    pub(crate) async fn take(self: &Arc<Self>, bytes: &[u8], proven: Option<u64>) -> Vec<u8> {
        let answer = match decode::<Request>(bytes) {
            Ok(request) if proven.is_some_and(|proven| proven != request.from) => {
                Answer::Refused(format!("a message of member {} came from another one", request.from))
            }
            Ok(request) => match self.is_meant(&request) {
                Ok(()) => self.answer(request).await.unwrap_or_else(Answer::Refused),
                Err(why) => {
                    self.end_beside_others().await;
                    Answer::Refused(why)
                }
            },
            Err(why) => Answer::Refused(format!("a message that cannot be read: {why}")),
        };
        encode(&answer)
    }

    /// As [`Inbox::take`], for a message that may not be answered. `may_end`: nothing would be lost if it is a lie.
    pub(crate) async fn overhear(&self, bytes: &[u8], may_end: bool) {
        let Ok(request) = decode::<Request>(bytes) else { return };
        if may_end {
            if self.is_meant(&request).is_err() {
                self.end_beside_others().await;
            }
        } else if self.is_mistaken(&request) && self.may_complain() {
            tracing::error!(
                member = self.node_id,
                incarnation = self.incarnation,
                expected = request.incarnation,
                "a server at an address that neither the configuration nor the log names knows this member with other \
                 data than is in its directory. This server goes on, as anybody can send that. If it is of this \
                 member's group, the data of that was lost here, and two stores are served: name its address in \
                 members_from, and this server stops"
            );
        }
    }

    /// A group that this member founded alone, and another one that knows it with other data: the latter is older.
    async fn end_beside_others(&self) {
        if !self.mistaken.is_set() || !founding::is_sole(&self.raft) {
            return;
        }
        let id = self.node_id;
        self.stop.until_it_rejoins(format!(
            "other members know member {id} with other data than is in its directory, which holds a store that this \
             server founded alone. Its own data was lost, or is elsewhere: put its directory back (is its disk \
             mounted?), or remove member {id} there, empty the directory, and add the server under a new id. If the \
             others are mistaken, correct the address of member {id} in their lists"
        ));
        let _it_may_have_ended = self.raft.shutdown().await;
    }

    fn is_meant(&self, request: &Request) -> Result<(), Refusal> {
        let Self { node_id, incarnation, .. } = self;
        if request.to != *node_id {
            return Err(format!("this is member {node_id}, not {}", request.to));
        }
        if !self.is_mistaken(request) {
            return Ok(());
        }
        self.mistaken.set();
        if self.may_complain() {
            tracing::error!(
                member = node_id,
                incarnation,
                expected = request.incarnation,
                "the group knows this member with other data than is in its directory: that was lost, or is elsewhere. \
                 Unless it can be put back, remove this member and add it under a new id"
            );
        }
        Err(format!("member {node_id} has other data than the group counts on; remove it, and add it under a new id"))
    }

    /// Whether it is for this member, and for another incarnation of it.
    fn is_mistaken(&self, request: &Request) -> bool {
        let is_greeting = matches!(request.ask, Ask::AreYouNew);
        let is_same = request.incarnation == self.incarnation || mutation::is(Mutation::ForgetIncarnations);
        request.to == self.node_id && !is_greeting && !is_same
    }

    fn may_complain(&self) -> bool {
        let mut complained = self.complained.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = complained.is_none_or(|at| at.elapsed() >= COMPLAIN_EACH);
        if is_due {
            *complained = Some(Moment::now());
        }
        is_due
    }

    async fn answer(self: &Arc<Self>, Request { from, ask, .. }: Request) -> Result<Answer, Refusal> {
        match ask {
            Ask::Append { vote, before, committed, entries } => {
                self.must_be_near(vote)?;
                let terms = entries
                    .iter()
                    .map(|entry| entry.term())
                    .chain(before.map(|id| id.0))
                    .chain(committed.map(|id| id.0));
                if terms.max() > Some(vote.0) {
                    return Err("entries of a later term than their leader's".into());
                }
                let entries = entries.into_iter().map(|entry| entry.entry()).collect::<Option<Vec<_>>>();
                let request = AppendEntriesRequest {
                    vote: vote_of(vote),
                    prev_log_id: before.map(id_of),
                    leader_commit: committed.map(id_of),
                    entries: entries.ok_or("members that no group can have")?,
                };
                Ok(match self.raft.append_entries(request).await.map_err(|error| refusal(&error))? {
                    AppendEntriesResponse::Success => Answer::Appended,
                    AppendEntriesResponse::Conflict => Answer::Conflict,
                    AppendEntriesResponse::HigherVote(vote) => Answer::HigherVote(plain_vote(vote)),
                    AppendEntriesResponse::PartialSuccess(_) => return Err("not all entries were taken".into()),
                })
            }
            Ask::Vote { vote, last, transfer } => {
                self.must_be_near(vote)?;
                self.may_vote()?;
                let mut request = VoteRequest::new(vote_of(vote), last.map(id_of));
                request.leadership_transfer = transfer;
                Ok(voted(self.raft.vote(request).await.map_err(|error| refusal(&error))?))
            }
            Ask::PreVote { vote, last } => {
                self.must_be_near(vote)?;
                self.may_vote()?;
                let request = VoteRequest::new(vote_of(vote), last.map(id_of));
                Ok(voted(self.raft.pre_vote(request).await.map_err(|error| refusal(&error))?))
            }
            Ask::Transfer { vote, to, last } => {
                self.must_be_near(vote)?;
                let to = if mutation::is(Mutation::HandToAll) { self.node_id } else { to };
                let request = TransferLeaderRequest::new(vote_of(vote), to, last.map(id_of));
                let accepted = self.raft.handle_transfer_leader(request).await.map_err(|error| error.to_string())?;
                accepted.map(|()| Answer::TransferAccepted).map_err(|error| error.to_string())
            }
            Ask::Chunk(chunk) => self.chunk(from, chunk).await,
            Ask::Digest { index, doubt } => {
                if let (Some(agreement), Some(doubt)) = (&self.agreement, doubt) {
                    agreement.set_doubt(index, doubt).await;
                }
                let digest = self.agreement.as_ref().and_then(|agreement| agreement.digest(index));
                let level = self.agreement.as_ref().map(|agreement| agreement.driver.level_max());
                Ok(Answer::Digest { digest: digest.map(|digest| digest.0), level })
            }
            Ask::Differs { index, digest } => {
                if let Some(agreement) = &self.agreement {
                    agreement.on_differs(index, RowsDigest(digest)).await;
                }
                Ok(Answer::Noted)
            }
            Ask::AreYouNew => {
                let is_old = self.raft.is_initialized().await.map_err(|error| error.to_string())?;
                let incarnation = self.incarnation;
                Ok(if is_old { Answer::Old { incarnation } } else { Answer::New { incarnation } })
            }
        }
    }

    fn must_be_near(&self, vote: PlainVote) -> Result<(), Refusal> {
        let known = self.raft.metrics().borrow_watched().vote.leader_id.term;
        if is_near(vote, known) {
            return Ok(());
        }
        Err(format!("term {} is no term of this group, which member {} knows in term {known}", vote.0, self.node_id))
    }

    fn may_vote(&self) -> Result<(), Refusal> {
        if self.started.elapsed() < self.silence {
            return Err("just started; no vote yet".into());
        }
        Ok(())
    }

    fn arrival(&self) -> MutexGuard<'_, Option<Arrival>> {
        self.arrival.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn chunk(self: &Arc<Self>, from: u64, chunk: Chunk) -> Result<Answer, Refusal> {
        let Chunk { vote, snapshot, number, is_last, bytes } = chunk;
        self.must_be_near(vote)?;
        let own = self.raft.metrics().borrow_watched().vote;
        if vote_of(vote) < own {
            return Ok(Answer::HigherVote(plain_vote(own)));
        }
        if number == 0 {
            let position = Position::decode(&bytes.0).map_err(|error| error.to_string())?;
            if position.applied.is_some_and(|id| id.leader_id.term > vote.0) {
                return Err("a state of a later term than its leader's".into());
            }
            let machine = Arc::clone(&self.machine);
            // The one before, if any, lets go of its file first.
            *self.arrival() = None;
            let import = ::io::task::blocking(move || machine.import()).await.map_err(|error| error.to_string())?;
            let stage = Stage::Collecting { position: bytes.0.to_vec(), import };
            *self.arrival() = Some(Arrival { from, snapshot, next: 1, stage });
            return Ok(Answer::Taken);
        }
        let (position, import) = {
            let mut place = self.arrival();
            let Some(arrival) = place.as_mut().filter(|it| (it.from, it.snapshot) == (from, snapshot)) else {
                return Ok(Answer::Restart);
            };
            match &arrival.stage {
                Stage::Collecting { .. } if number == arrival.next => {}
                // Sent again, because our answer was lost.
                Stage::Collecting { .. } if number + 1 == arrival.next => return Ok(Answer::Taken),
                Stage::Busy => return Ok(Answer::Installing),
                Stage::Installed(vote) => return Ok(Answer::Installed { vote: plain_vote(*vote) }),
                Stage::Failed(why) => return Err(why.clone()),
                Stage::Collecting { .. } => return Ok(Answer::Restart),
            }
            match std::mem::replace(&mut arrival.stage, Stage::Busy) {
                Stage::Collecting { position, import } => (position, import),
                _ => return Ok(Answer::Restart),
            }
        };
        if is_last {
            let inbox = Arc::clone(self);
            ::io::task::spawn("raft install", async move {
                let stage = match inbox.install(vote_of(vote), &position, import).await {
                    Ok(vote) => Stage::Installed(vote),
                    Err(why) => Stage::Failed(why),
                };
                inbox.put_back(from, snapshot, stage, 0);
            });
            return Ok(Answer::Installing);
        }
        let taking = ::io::task::blocking(move || {
            let mut import = import;
            import.take(&bytes.0).map(|()| import)
        });
        match taking.await {
            Ok(import) => {
                self.put_back(from, snapshot, Stage::Collecting { position, import }, 1);
                Ok(Answer::Taken)
            }
            Err(error) => {
                self.put_back(from, snapshot, Stage::Failed(error.to_string()), 0);
                Err(error.to_string())
            }
        }
    }

    /// Unless another snapshot has begun meanwhile.
    fn put_back(&self, from: u64, snapshot: u64, stage: Stage, step: u64) {
        if let Some(arrival) = self.arrival().as_mut().filter(|it| (it.from, it.snapshot) == (from, snapshot)) {
            arrival.stage = stage;
            arrival.next += step;
        }
    }

    async fn install(&self, vote: Vote, position: &[u8], import: Box<dyn Import>) -> Result<Vote, Refusal> {
        let Position { applied, members, .. } = Position::decode(position).map_err(|error| error.to_string())?;
        tracing::info!(entry = applied.map(|id| id.index), "another member's state takes the place of this one's");
        let meta = SnapshotMeta { last_log_id: applied, last_membership: members.membership.clone() };
        let snapshot = Snapshot { meta, snapshot: SnapshotData::In(import) };
        let response = self.raft.install_full_snapshot(vote, snapshot).await.map_err(|error| error.to_string())?;
        Ok(response.vote)
    }
}

fn voted(response: VoteResponse<Types>) -> Answer {
    let VoteResponse { vote, vote_granted, last_log_id } = response;
    Answer::Voted { vote: plain_vote(vote), last: last_log_id.map(plain_id), granted: vote_granted }
}

fn refusal(error: &RaftError<Types>) -> Refusal {
    error.to_string()
}
