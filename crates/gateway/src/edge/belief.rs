//! Whether the store believes names that nobody has proven, as the edge goes by them.
//!
//! Promise: once the store refused somebody who proves nothing, no name is gone by before it was asked whether it
//! believes names still. It is asked in any case as often as [`LOOK_EACH`] says, while names are gone by.

use client::{Error, ErrorKind, Result, Store};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// So long what the store said counts without another question. A guess: a connection and a call, in a minute.
pub(super) const LOOK_EACH: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Belief {
    store: Store,
    /// In whose name it is asked, without a proof.
    user: String,
    state: Mutex<State>,
    /// Held by who asks, for all who wait.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// What the store said, and when it was asked.
    said: Option<(bool, Duration)>,
    /// Times that somebody who proves nothing was refused, which may be for that; and how many of them the store was
    /// asked after.
    doubt_count: u64,
    settled_count: u64,
}

/// A moment: what was doubted before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asking {
    at: Duration,
    doubt_count: u64,
}

impl State {
    fn is_doubted(&self) -> bool {
        self.doubt_count > self.settled_count
    }
}

impl Belief {
    pub(super) fn new(store: Store, user: &str) -> Self {
        let (state, turn) = (Mutex::default(), tokio::sync::Mutex::default());
        Self { store, user: user.to_owned(), state, turn }
    }

    /// Whether the store believes names, as far as that is known and needs no question.
    pub(super) fn known(&self, now: Duration) -> Option<bool> {
        let state = *self.state();
        let (believes, at) = state.said?;
        (!state.is_doubted() && now.saturating_sub(at) < LOOK_EACH).then_some(believes)
    }

    /// While it cannot be asked. `None`: it has not said so, or refused somebody since.
    pub(super) fn last(&self) -> Option<bool> {
        let state = *self.state();
        let (believes, _) = state.said?;
        (!believes || !state.is_doubted()).then_some(believes)
    }

    /// Names are gone by, or would be if nobody had been refused.
    pub(super) fn is_held(&self) -> bool {
        self.state().said.is_some_and(|(believes, _)| believes)
    }

    pub(super) fn doubt(&self) {
        self.state().doubt_count += 1;
    }

    #[cfg(test)]
    pub(super) fn doubts(&self) -> u64 {
        self.state().doubt_count
    }

    /// Who holds this asks, and says what he heard.
    pub(super) async fn turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// What was answered to a question that was asked after this, and after all that was doubted by then.
    pub(super) fn answered_since(&self, came: Asking) -> Option<bool> {
        let state = *self.state();
        let (believes, at) = state.said?;
        (at >= came.at && state.settled_count >= came.doubt_count).then_some(believes)
    }

    /// Before it is asked, or when somebody comes who has to know.
    pub(super) fn asking(&self, at: Duration) -> Asking {
        Asking { at, doubt_count: self.state().doubt_count }
    }

    /// What it said, unless an answer to a later question is known. True: it believes names no more.
    pub(super) fn learn(&self, asking: Asking, believes: bool) -> bool {
        let mut state = self.state();
        if state.said.is_some_and(|(_, at)| asking.at < at) {
            return false;
        }
        let before = state.said.replace((believes, asking.at));
        state.settled_count = state.settled_count.max(asking.doubt_count);
        !believes && before.is_none_or(|(believed, _)| believed)
    }

    /// Asks by a new connection: one that there was is not asked for a proof any more.
    pub(super) async fn ask(&self) -> Result<bool> {
        match self.store.client_without_proof(&self.user).existing("/").await {
            Ok(_) | Err(Error::NotFound) => Ok(true),
            // Anybody may see that the root is there.
            Err(error) if error.kind() == ErrorKind::Denied => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use client::{Options, Url};

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[tokio::test]
    async fn a_refusal_takes_the_belief_in_names_back_until_the_store_was_asked() {
        let store = Store::new(&Url::parse("hdfs://127.0.0.1:1").unwrap(), Options::default());
        let belief = Belief::new(store.clone(), "me");
        assert_eq!((belief.known(at(0)), belief.last()), (None, None));
        belief.learn(belief.asking(at(100)), true);
        assert_eq!((belief.known(at(159)), belief.known(at(160)), belief.last()), (Some(true), None, Some(true)));
        // Asked before the refusal, it says nothing of that.
        let late = belief.asking(at(101));
        belief.doubt();
        belief.learn(late, true);
        assert_eq!((belief.known(at(101)), belief.last(), belief.is_held()), (None, None, true));
        belief.learn(belief.asking(at(102)), true);
        assert_eq!((belief.known(at(102)), belief.last()), (Some(true), Some(true)));
        belief.learn(belief.asking(at(103)), false);
        assert_eq!((belief.known(at(103)), belief.last()), (Some(false), Some(false)));
        belief.doubt();
        assert_eq!(belief.last(), Some(false));
        // An answer that comes late, to a question of before, says nothing either.
        let (early, later) = (belief.asking(at(104)), belief.asking(at(105)));
        assert!(!belief.learn(later, false));
        assert!(!belief.learn(early, true));
        assert_eq!((belief.known(at(105)), belief.is_held()), (Some(false), false));
        assert!(!belief.learn(belief.asking(at(106)), true));
        assert!(belief.learn(belief.asking(at(107)), false), "they are believed no more");
        assert!(belief.ask().await.is_err(), "who is not reached says nothing");
        store.close().await;
    }
}
