//! A small replicated log: terms, votes, a majority, and nothing else. One member decides alone.
//!
//! Promise: an entry is given out as committed only when a majority has it on disk; what was given out stays, in its place,
//! under every later leader. Pure: messages and time come in, messages go out, and [`Raft::unsaved`] says what must be on disk
//! before they may leave.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use types::Random;
use types::random::Seeded;

pub(crate) const HEARTBEAT_EACH: Duration = Duration::from_millis(200);
const ELECTION_MIN_MS: u64 = 1000;
const ELECTION_SPREAD_MS: usize = 500;
/// Entries of one message.
const BATCH_COUNT: usize = 64;

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) term: u64,
    /// `None`: the blank entry with which a leader begins.
    pub(crate) command: Option<Rc<Vec<u8>>>,
}

#[derive(Clone, Debug)]
pub(crate) enum Message {
    Vote {
        last: (u64, u64),
    },
    VoteAnswer {
        granted: bool,
    },
    Append {
        previous: (u64, u64),
        entries: Vec<Entry>,
        commit: u64,
        round: u64,
    },
    /// `matched`: how far the logs agree; without `well` only a hint where to try.
    AppendAnswer {
        well: bool,
        matched: u64,
        round: u64,
    },
}

/// What must survive a crash.
#[derive(Clone, Debug, Default)]
pub(crate) struct Saved {
    pub(crate) term: u64,
    pub(crate) voted: Option<usize>,
    pub(crate) log: Vec<Entry>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Follower,
    Candidate,
    Leader,
}

pub(crate) struct Raft {
    me: usize,
    count: usize,
    saved: Saved,
    /// Something of `saved` is not on disk yet; from which entry on.
    dirty_from: Option<usize>,
    /// Entries of ours that are on disk.
    on_disk: u64,
    commit: u64,
    role: Role,
    votes: BTreeMap<usize, bool>,
    matched: Vec<u64>,
    next: Vec<u64>,
    /// Rounds of heartbeats, and which each member answered last: who answers confirms that we lead.
    round: u64,
    answered: Vec<u64>,
    deadline: Duration,
    random: Seeded,
    out: Vec<(usize, u64, Message)>,
}

impl Raft {
    pub(crate) fn new(me: usize, count: usize, saved: Saved, now: Duration, random: Seeded) -> Self {
        let on_disk = saved.log.len() as u64;
        let mut raft = Self {
            me,
            count,
            saved,
            dirty_from: None,
            on_disk,
            commit: 0,
            role: Role::Follower,
            votes: BTreeMap::new(),
            matched: vec![0; count],
            next: vec![0; count],
            round: 0,
            answered: vec![0; count],
            deadline: now,
            random,
            out: Vec::new(),
        };
        if count > 1 {
            raft.restart_clock(now);
        }
        raft
    }

    fn restart_clock(&mut self, now: Duration) {
        let wait = ELECTION_MIN_MS + self.random.below(ELECTION_SPREAD_MS) as u64;
        self.deadline = now + Duration::from_millis(wait);
    }

    pub(crate) fn term(&self) -> u64 {
        self.saved.term
    }

    pub(crate) fn is_leader(&self) -> bool {
        self.role == Role::Leader
    }

    pub(crate) fn commit(&self) -> u64 {
        self.commit
    }

    pub(crate) fn entry(&self, index: u64) -> Option<&Entry> {
        self.saved.log.get(index.checked_sub(1)? as usize)
    }

    /// When [`Raft::tick`] wants to be called.
    pub(crate) fn deadline(&self) -> Duration {
        self.deadline
    }

    /// What must be written before anything is sent: term, vote, and the log from an entry on.
    pub(crate) fn unsaved(&mut self) -> Option<(u64, Option<usize>, usize, Vec<Entry>)> {
        let from = self.dirty_from.take()?;
        Some((self.saved.term, self.saved.voted, from, self.saved.log[from.min(self.saved.log.len())..].to_vec()))
    }

    /// What was unsaved is on disk, up to entry `up_to`.
    pub(crate) fn on_saved(&mut self, up_to: u64) {
        self.on_disk = up_to.min(self.saved.log.len() as u64);
        self.advance();
    }

    pub(crate) fn log_len(&self) -> u64 {
        self.saved.log.len() as u64
    }

    /// Messages with the term they were made in, to be sent when all that was unsaved when they were taken is on disk.
    pub(crate) fn take_out(&mut self) -> Vec<(usize, u64, Message)> {
        std::mem::take(&mut self.out)
    }

    pub(crate) fn tick(&mut self, now: Duration) {
        if now < self.deadline {
            return;
        }
        if self.role == Role::Leader {
            self.deadline = now + HEARTBEAT_EACH;
            return self.beat();
        }
        self.saved.term += 1;
        self.saved.voted = Some(self.me);
        self.mark_dirty(self.saved.log.len());
        self.role = Role::Candidate;
        self.votes = BTreeMap::from([(self.me, true)]);
        self.restart_clock(now);
        let last = self.last();
        for to in (0..self.count).filter(|to| *to != self.me) {
            self.out.push((to, self.saved.term, Message::Vote { last }));
        }
        self.count_votes(now);
    }

    fn last(&self) -> (u64, u64) {
        (self.saved.log.last().map_or(0, |entry| entry.term), self.saved.log.len() as u64)
    }

    fn mark_dirty(&mut self, from: usize) {
        self.dirty_from = Some(self.dirty_from.map_or(from, |dirty| dirty.min(from)));
        self.on_disk = self.on_disk.min(from as u64);
    }

    fn count_votes(&mut self, now: Duration) {
        let granted = self.votes.values().filter(|granted| **granted).count();
        if self.role == Role::Candidate && granted > self.count / 2 {
            self.role = Role::Leader;
            self.matched = vec![0; self.count];
            self.next = vec![self.saved.log.len() as u64; self.count];
            self.answered = vec![0; self.count];
            self.deadline = now + HEARTBEAT_EACH;
            self.append(None);
        }
    }

    fn append(&mut self, command: Option<Rc<Vec<u8>>>) -> u64 {
        let place = self.saved.log.len();
        self.saved.log.push(Entry { term: self.saved.term, command });
        self.mark_dirty(place);
        self.beat();
        place as u64 + 1
    }

    /// The place of the command in the log, if this member leads.
    pub(crate) fn propose(&mut self, command: Vec<u8>) -> Option<u64> {
        self.is_leader().then(|| self.append(Some(Rc::new(command))))
    }

    /// Begins a round of heartbeats: once it is confirmed, this member led when it began.
    pub(crate) fn begin_round(&mut self) -> u64 {
        // Whoever fell since it was asked must not speak as a leader of the new term.
        if self.is_leader() {
            self.beat();
        }
        self.round
    }

    pub(crate) fn is_confirmed(&self, round: u64) -> bool {
        let others = (0..self.count).filter(|member| *member != self.me && self.answered[*member] >= round).count();
        self.is_leader() && others + 1 > self.count / 2
    }

    fn beat(&mut self) {
        self.round += 1;
        for to in 0..self.count {
            if to != self.me {
                self.send_entries(to);
            }
        }
    }

    fn send_entries(&mut self, to: usize) {
        let from = (self.next[to] as usize).min(self.saved.log.len());
        let previous = (if from == 0 { 0 } else { self.saved.log[from - 1].term }, from as u64);
        let entries: Vec<Entry> = self.saved.log[from..].iter().take(BATCH_COUNT).cloned().collect();
        let message = Message::Append { previous, entries, commit: self.commit, round: self.round };
        self.out.push((to, self.saved.term, message));
    }

    pub(crate) fn on_message(&mut self, from: usize, term: u64, message: Message, now: Duration) {
        if term > self.saved.term {
            self.saved.term = term;
            self.saved.voted = None;
            self.mark_dirty(self.saved.log.len());
            self.role = Role::Follower;
            self.deadline = self.deadline.max(now + Duration::from_millis(ELECTION_MIN_MS / 4));
        }
        let current = term == self.saved.term;
        match message {
            Message::Vote { last } => {
                let free = self.saved.voted.is_none_or(|voted| voted == from);
                let granted = current && free && self.role == Role::Follower && last >= self.last();
                if granted {
                    self.saved.voted = Some(from);
                    self.mark_dirty(self.saved.log.len());
                    self.restart_clock(now);
                }
                self.out.push((from, self.saved.term, Message::VoteAnswer { granted }));
            }
            Message::VoteAnswer { granted } if current => {
                self.votes.insert(from, granted);
                self.count_votes(now);
            }
            Message::Append { previous, entries, commit, round } => {
                let answer = if current {
                    self.role = Role::Follower;
                    self.restart_clock(now);
                    self.take_entries(previous, entries, commit)
                } else {
                    (false, 0)
                };
                let (well, matched) = answer;
                self.out.push((from, self.saved.term, Message::AppendAnswer { well, matched, round }));
            }
            Message::AppendAnswer { well, matched, round } if current && self.is_leader() => {
                self.answered[from] = self.answered[from].max(round);
                if well {
                    self.matched[from] = self.matched[from].max(matched);
                    let more = self.next[from] < matched;
                    self.next[from] = self.next[from].max(matched);
                    self.advance();
                    if more && self.next[from] < self.log_len() {
                        self.send_entries(from);
                    }
                } else {
                    self.next[from] = matched.min(self.next[from].saturating_sub(1)).max(self.matched[from]);
                    self.send_entries(from);
                }
            }
            Message::VoteAnswer { .. } | Message::AppendAnswer { .. } => {}
        }
    }

    fn take_entries(&mut self, (term, index): (u64, u64), entries: Vec<Entry>, commit: u64) -> (bool, u64) {
        let have = self.saved.log.len() as u64;
        if index > have {
            return (false, have);
        }
        if index > 0 && self.saved.log[index as usize - 1].term != term {
            return (false, index - 1);
        }
        let mut place = index as usize;
        for entry in entries {
            if self.saved.log.get(place).is_none_or(|known| known.term != entry.term) {
                assert!(
                    place as u64 >= self.commit,
                    "member {} in term {}: the committed entry {} of term {:?} is replaced by one of term {}",
                    self.me,
                    self.saved.term,
                    place + 1,
                    self.saved.log.get(place).map(|known| known.term),
                    entry.term
                );
                self.saved.log.truncate(place);
                self.saved.log.push(entry);
                self.mark_dirty(place);
            }
            place += 1;
        }
        self.commit = self.commit.max(commit.min(place as u64));
        (true, place as u64)
    }

    fn advance(&mut self) {
        if !self.is_leader() {
            return;
        }
        self.matched[self.me] = self.on_disk;
        let mut matched = self.matched.clone();
        matched.sort_unstable();
        let majority = matched[(self.count - 1) / 2];
        // Only an entry of this term tells that no other log can win; those before it come along.
        if majority > self.commit && self.saved.log[majority as usize - 1].term == self.saved.term {
            self.commit = majority;
        }
    }
}
