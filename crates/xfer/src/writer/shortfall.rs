//! Whether a block ends early because its chain has too few nodes: the next block gets a chain of its own.
//!
//! ```text
//!             on_chain: too few             on_asked             on_answer: more nodes
//!   Enough ───────────────────▶ Waiting ─────────────▶ Asking ─────────────────────────▶ Over
//!      ▲                          ▲                      │                                │
//!      │                          ╰── on_answer: none ───┤                                │
//!      │                          ╰── on_ended ──────────┴────────────────────────────────╯
//!      ╰── on_chain: all of them, from anywhere
//! ```
//!
//! Without it a slow writer goes on for hours with the nodes that are left of its chain, and loses its block with the
//! last of them.
//!
//! Promise: nobody is asked more often than once in a pause, which doubles with each question up to [`PAUSE_MAX`]. So
//! nodes that come and go cut a file into at most so many blocks. Where no node is to be had the block goes on as it
//! is.

use std::time::Duration;

/// From the loss of a node to the first question: a writer in a hurry has ended its block by then, and a node that
/// starts anew may be back. A guess.
const PAUSE_FIRST: Duration = Duration::from_secs(1);
/// Between two questions. A guess: one call a minute of each open file costs a metadata server nothing.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// What is known of the chains of one file.
#[derive(Debug)]
pub struct Shortfall {
    /// Nodes that a chain should have.
    wanted: usize,
    state: State,
    /// Before the next question.
    pause: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Enough {
        since: Duration,
    },
    /// The chain is short. Whether there are more nodes is to be asked then.
    Waiting {
        until: Duration,
    },
    Asking,
    /// A longer chain can be had.
    Over,
}

impl Shortfall {
    /// `wanted` nodes a chain should have.
    pub fn new(now: Duration, wanted: usize) -> Self {
        Self { wanted, state: State::Enough { since: now }, pause: PAUSE_FIRST }
    }

    /// The chain of the present block has `len` nodes.
    pub fn on_chain(&mut self, now: Duration, len: usize) {
        match self.state {
            State::Enough { .. } if len >= self.wanted => {}
            _ if len >= self.wanted => self.state = State::Enough { since: now },
            State::Enough { since } => {
                // It held for a while: what happened before is over.
                if now.saturating_sub(since) >= self.pause {
                    self.pause = PAUSE_FIRST;
                }
                self.wait(now);
            }
            State::Waiting { .. } | State::Asking | State::Over => {}
        }
    }

    /// How many nodes a chain of `len` lacks.
    pub fn missing_count(&self, len: usize) -> usize {
        self.wanted.saturating_sub(len)
    }

    /// When the metadata server is to be asked whether there are more nodes: [`Shortfall::on_asked`].
    pub fn poll_timeout(&self) -> Option<Duration> {
        match self.state {
            State::Waiting { until } => Some(until),
            State::Enough { .. } | State::Asking | State::Over => None,
        }
    }

    /// The question is under way: [`Shortfall::on_answer`].
    pub fn on_asked(&mut self) {
        assert!(matches!(self.state, State::Waiting { .. }), "asked for more nodes in {:?}", self.state);
        self.state = State::Asking;
    }

    /// So many nodes can join those of the chain; none if the question failed. An answer that comes when the chain has
    /// all its nodes again counts for nothing.
    pub fn on_answer(&mut self, now: Duration, more_count: usize) {
        match self.state {
            State::Asking if more_count > 0 => self.state = State::Over,
            State::Asking => self.wait(now),
            State::Enough { .. } | State::Waiting { .. } | State::Over => {}
        }
    }

    /// The block is to end behind the last packet.
    pub fn is_over(&self) -> bool {
        self.state == State::Over
    }

    /// The block is being ended, for this or another reason. The next one may be as short: its nodes can have gone
    /// since the answer. A question that is under way was about this block, and counts for nothing.
    pub fn on_ended(&mut self, now: Duration) {
        match self.state {
            State::Over => self.wait(now),
            State::Asking => self.state = State::Waiting { until: now + self.pause },
            State::Enough { .. } | State::Waiting { .. } => {}
        }
    }

    /// A question is under way, and its answer is waited for.
    pub fn is_asking(&self) -> bool {
        self.state == State::Asking
    }

    fn wait(&mut self, now: Duration) {
        self.state = State::Waiting { until: now + self.pause };
        self.pause = (self.pause * 2).min(PAUSE_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Asks when it is due, and takes this answer at once. Says when that was.
    fn ask(shortfall: &mut Shortfall, more_count: usize) -> Duration {
        let due = shortfall.poll_timeout().expect("a chain that is short");
        shortfall.on_asked();
        assert_eq!(shortfall.poll_timeout(), None, "one question at a time");
        shortfall.on_answer(due, more_count);
        due
    }

    #[test]
    fn a_block_ends_when_its_chain_lost_a_node_and_there_is_another() {
        let mut shortfall = Shortfall::new(at(0), 3);
        shortfall.on_chain(at(10), 3);
        assert_eq!(shortfall.poll_timeout(), None);
        shortfall.on_chain(at(20), 2);
        assert_eq!((shortfall.poll_timeout(), shortfall.missing_count(2)), (Some(at(20) + PAUSE_FIRST), 1));
        ask(&mut shortfall, 1);
        assert!(shortfall.is_over());
        shortfall.on_ended(at(30));
        shortfall.on_chain(at(30), 3);
        assert!(!shortfall.is_over() && shortfall.poll_timeout().is_none(), "the next one has all");
    }

    #[test]
    fn a_block_goes_on_while_no_node_is_to_be_had() {
        let mut shortfall = Shortfall::new(at(0), 3);
        shortfall.on_chain(at(0), 2);
        let asked: Vec<Duration> = (0..9).map(|_| ask(&mut shortfall, 0)).collect();
        assert_eq!(asked, [1, 3, 7, 15, 31, 63, 123, 183, 243].map(at));
        shortfall.on_chain(at(250), 1);
        assert_eq!(shortfall.poll_timeout(), Some(at(303)), "the loss of one more does not change the pace");
        ask(&mut shortfall, 2);
        assert!(shortfall.is_over());
    }

    /// The metadata server names a node that takes no block: each attempt costs a block, so the next one comes later.
    #[test]
    fn blocks_that_stay_short_end_at_longer_and_longer_intervals() {
        let mut shortfall = Shortfall::new(at(0), 3);
        let mut ended = Vec::new();
        for _ in 0..8 {
            let now = ended.last().copied().unwrap_or(at(0));
            shortfall.on_chain(now, 2);
            ended.push(ask(&mut shortfall, 1));
            shortfall.on_ended(*ended.last().unwrap());
        }
        assert_eq!(ended, [1, 3, 7, 15, 31, 63, 123, 183].map(at));
    }

    /// So do blocks whose chains have all nodes, and lose one soon.
    #[test]
    fn a_chain_that_held_for_a_while_is_looked_after_at_once() {
        let mut shortfall = Shortfall::new(at(0), 3);
        let lose = |shortfall: &mut Shortfall, now| {
            shortfall.on_chain(now, 2);
            let due = ask(shortfall, 1);
            shortfall.on_ended(due);
            shortfall.on_chain(due, 3);
            due - now
        };
        assert_eq!(lose(&mut shortfall, at(100)), PAUSE_FIRST);
        assert_eq!(lose(&mut shortfall, at(102)), at(4));
        assert_eq!(lose(&mut shortfall, at(110)), at(16));
        assert_eq!(lose(&mut shortfall, at(1000)), PAUSE_FIRST);
    }

    /// The block was full, and the next one has all nodes, before an answer came.
    #[test]
    fn an_answer_about_a_block_before_does_not_end_this_one() {
        let mut shortfall = Shortfall::new(at(0), 3);
        shortfall.on_chain(at(0), 2);
        shortfall.on_asked();
        shortfall.on_ended(at(2));
        shortfall.on_chain(at(2), 3);
        shortfall.on_answer(at(3), 1);
        assert!(!shortfall.is_over());
        shortfall.on_chain(at(4), 2);
        assert!(!shortfall.is_over() && shortfall.poll_timeout().is_some());
    }

    /// It is asked anew for the next one, which is as short, and no earlier than if the answer had come.
    #[test]
    fn a_question_about_a_block_before_is_asked_anew() {
        let mut shortfall = Shortfall::new(at(0), 3);
        shortfall.on_chain(at(0), 2);
        shortfall.on_asked();
        shortfall.on_ended(at(2));
        assert!(!shortfall.is_asking());
        shortfall.on_chain(at(2), 2);
        assert_eq!(ask(&mut shortfall, 1), at(4));
        assert!(shortfall.is_over());
    }
}
