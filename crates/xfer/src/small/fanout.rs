//! One request at the node that was asked: to whom it goes on, and when it is answered with what.

use crate::answer::Refusal;
use std::time::Duration;
use types::mutation::{Mutation, is};
use wire::Status;
use wire::small::{SmallAnswer, SmallWrite, majority};

/// Once a majority has put a block, the others are waited for so long: as long as a disk under load may take for a
/// sync. A guess.
pub const LATE_MAX: Duration = Duration::from_millis(300);

/// Who has put a block, and who may still. The node itself is place 0; the targets follow.
#[derive(Debug)]
pub struct Fanout {
    number: u64,
    late_max: Duration,
    puts: Vec<Put>,
    /// Why nodes have not put it.
    faults: Vec<String>,
    /// Some did not take its token: with another one they may put it.
    is_token_refused: bool,
    /// Since when a majority has it.
    most: Option<Duration>,
    late: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Put {
    Awaited,
    Has,
    Failed,
}

impl Fanout {
    pub fn new(header: &SmallWrite, late_max: Duration) -> Self {
        let puts = vec![Put::Awaited; 1 + header.targets.len()];
        Self {
            number: header.number,
            late_max,
            puts,
            faults: Vec::new(),
            is_token_refused: false,
            most: None,
            late: false,
        }
    }

    /// What goes on to each of the targets: they send it on to nobody.
    pub fn onward(header: &SmallWrite) -> SmallWrite {
        SmallWrite { targets: Vec::new(), ..header.clone() }
    }

    /// A request that is refused before anybody puts it.
    pub fn refused(number: u64, Refusal { status, message, .. }: Refusal) -> SmallAnswer {
        SmallAnswer { number, refusal: message, have: Vec::new(), status: status.0.into() }
    }

    /// What a target says, which was asked for its own replica alone. `Err`: it has not put it.
    pub fn outcome(answer: &SmallAnswer) -> Result<(), Refusal> {
        match answer.refusal.is_empty() && answer.have == [0] {
            true => Ok(()),
            false if is(Mutation::CountRefused) => Ok(()),
            false if answer.refusal.is_empty() => {
                Err(Refusal::error(format!("an answer that names {:?}", answer.have)))
            }
            false => {
                let status =
                    u8::try_from(answer.status).ok().filter(|status| *status != 0).map_or(Status::ERROR, Status);
                Err(Refusal { status, ..Refusal::error(answer.refusal.clone()) })
            }
        }
    }

    /// One of them has ended with it.
    pub fn on_put(&mut self, now: Duration, place: usize, outcome: Result<(), Refusal>) {
        assert!(self.puts[place] == Put::Awaited, "a node that ends twice with one block");
        self.puts[place] = if outcome.is_ok() { Put::Has } else { Put::Failed };
        if let Err(Refusal { status, message, .. }) = outcome {
            self.is_token_refused |= status == Status::ERROR_ACCESS_TOKEN;
            self.faults.push(message);
        }
        if self.has_majority() && self.most.is_none() {
            self.most = Some(now);
        }
    }

    fn count(&self, put: Put) -> usize {
        self.puts.iter().filter(|known| **known == put).count()
    }

    fn has_majority(&self) -> bool {
        // As if half were enough.
        let most = majority(self.puts.len()) - usize::from(is(Mutation::EarlyMajority) && self.puts.len() > 1);
        self.count(Put::Has) >= most
    }

    pub fn poll_timeout(&self) -> Option<Duration> {
        let due = self.most? + self.late_max;
        (!self.late).then_some(due)
    }

    pub fn handle_timeout(&mut self, now: Duration) {
        self.late |= self.poll_timeout().is_some_and(|due| due <= now);
    }

    /// The answer, once it is due: all have ended, or a majority has put it and the rest is late. Too few are waited
    /// for to the end, so that all who have it are named.
    pub fn answer(&self) -> Option<SmallAnswer> {
        if self.count(Put::Awaited) > 0 && !self.late {
            return None;
        }
        let named = |put: Put| put == Put::Has || is(Mutation::NameLate) && put == Put::Awaited;
        let have = (0u32..).zip(&self.puts).filter(|(_, put)| named(**put)).map(|(place, _)| place).collect();
        let (refusal, status) = match self.has_majority() {
            true => (String::new(), 0),
            false if self.is_token_refused => (self.refusal(), Status::ERROR_ACCESS_TOKEN.0),
            false => (self.refusal(), Status::ERROR.0),
        };
        Some(SmallAnswer { number: self.number, refusal, have, status: status.into() })
    }

    fn refusal(&self) -> String {
        let (have, count) = (self.count(Put::Has), self.puts.len());
        // Texts of others: all of it must fit into an answer.
        let mut faults = self.faults.join("; ");
        faults.truncate(faults.floor_char_boundary(REFUSAL_LEN_MAX));
        format!("{have} of {count} nodes put the block: {faults}")
    }

    /// Why some have not put it, for the log.
    pub fn faults(&self) -> &[String] {
        &self.faults
    }
}

/// A part of [`wire::small::ANSWER_LEN_MAX`]: names of all nodes fit beside it.
const REFUSAL_LEN_MAX: usize = 8 << 10;
