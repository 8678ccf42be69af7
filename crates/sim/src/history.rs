//! What clients did to a few names, and whether it could have happened one after the other (Wing and Gong 1993, with
//! Lowe's memory of what was tried).

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

/// A name, out of a few.
pub(crate) type Name = u8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// Makes the file anew, with a tag that nobody else uses.
    Write(Name, u16),
    Read(Name),
    Delete(Name),
    /// Refused if there is no source, or if there is a target.
    Rename(Name, Name),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    Found(Option<u16>),
    Deleted(bool),
    Refused,
    /// Refused in safe mode: it never happened.
    Frozen,
    /// Nobody knows: it happened at any later time, or never.
    Unknown,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) client: usize,
    pub(crate) op: Op,
    pub(crate) began: Duration,
    /// `Duration::MAX` if it never did.
    pub(crate) ended: Duration,
    pub(crate) outcome: Outcome,
}

/// States looked at before the search is given up. Histories that have an order show it within some thousands; those
/// that have none can take for ever.
const TRIED_COUNT_MAX: usize = 200_000;

type State = BTreeMap<Name, u16>;

fn step(state: &State, op: Op) -> (State, Outcome) {
    let mut next = state.clone();
    let outcome = match op {
        Op::Write(name, tag) => {
            next.insert(name, tag);
            Outcome::Done
        }
        Op::Read(name) => Outcome::Found(state.get(&name).copied()),
        Op::Delete(name) => Outcome::Deleted(next.remove(&name).is_some()),
        Op::Rename(from, to) => match (state.get(&from), state.contains_key(&to)) {
            (Some(tag), false) => {
                next.remove(&from);
                next.insert(to, *tag);
                Outcome::Done
            }
            _ => Outcome::Refused,
        },
    };
    (next, outcome)
}

/// `Err` tells how far it could be explained.
pub(crate) fn check(history: &[Event]) -> Result<(), String> {
    assert!(history.len() <= 128, "a bit for each event");
    let mut tried: HashSet<(u128, Vec<(Name, u16)>)> = HashSet::new();
    let mut best = 0;
    let mut stack = vec![(0u128, State::new())];
    while let Some((done, state)) = stack.pop() {
        let open = |place: usize| done & (1 << place) == 0;
        let known_left = |(place, event): &(usize, &Event)| open(*place) && event.outcome != Outcome::Unknown;
        if !history.iter().enumerate().any(|event| known_left(&event)) {
            return Ok(());
        }
        best = best.max(done.count_ones());
        if tried.len() > TRIED_COUNT_MAX {
            break;
        }
        // Whatever began after another had ended comes after it.
        let first_end =
            history.iter().enumerate().filter(|(place, _)| open(*place)).map(|(_, event)| event.ended).min();
        for (place, event) in history.iter().enumerate() {
            if !open(place) || Some(event.began) > first_end {
                continue;
            }
            let is_frozen = event.outcome == Outcome::Frozen;
            let (next, outcome) = if is_frozen { (state.clone(), Outcome::Frozen) } else { step(&state, event.op) };
            if event.outcome != Outcome::Unknown && outcome != event.outcome {
                continue;
            }
            let done = done | 1 << place;
            if tried.insert((done, next.iter().map(|(name, tag)| (*name, *tag)).collect())) {
                stack.push((done, next));
            }
        }
    }
    Err(format!("only {best} of {} operations can be put in an order, of {} tried", history.len(), tried.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(client: usize, began: u64, ended: u64, op: Op, outcome: Outcome) -> Event {
        let end = if outcome == Outcome::Unknown { Duration::MAX } else { Duration::from_secs(ended) };
        Event { client, op, began: Duration::from_secs(began), ended: end, outcome }
    }

    #[test]
    fn what_overlaps_may_happen_in_any_order() {
        let write = event(1, 0, 10, Op::Write(0, 7), Outcome::Done);
        let early = event(2, 1, 2, Op::Read(0), Outcome::Found(Some(7)));
        let late = event(2, 3, 4, Op::Read(0), Outcome::Found(None));
        assert!(check(&[write, early]).is_ok());
        assert!(check(&[write, late]).is_ok());
        assert!(check(&[write, early, late]).is_err(), "it was seen, and then it was not");
    }

    #[test]
    fn what_nobody_knows_of_may_have_happened_or_not() {
        let write = event(1, 0, 0, Op::Write(0, 7), Outcome::Unknown);
        let read = |began, found| event(2, began, began + 1, Op::Read(0), Outcome::Found(found));
        assert!(check(&[write, read(5, None)]).is_ok());
        assert!(check(&[write, read(5, None), read(7, Some(7))]).is_ok());
        assert!(check(&[write, read(5, Some(7)), read(7, None)]).is_err());
        assert!(check(&[read(5, Some(7))]).is_err(), "from nowhere");
    }

    #[test]
    fn what_safe_mode_refused_never_happened() {
        let write = event(1, 0, 1, Op::Write(0, 7), Outcome::Frozen);
        let read = |found| event(2, 5, 6, Op::Read(0), Outcome::Found(found));
        assert!(check(&[write, read(None)]).is_ok());
        assert!(check(&[write, read(Some(7))]).is_err());
    }

    #[test]
    fn a_rename_moves_what_was_there_once() {
        let write = event(1, 0, 1, Op::Write(0, 7), Outcome::Done);
        let rename = event(1, 2, 3, Op::Rename(0, 1), Outcome::Done);
        let again = event(1, 4, 5, Op::Rename(0, 1), Outcome::Refused);
        let read = |name, found| event(2, 6, 7, Op::Read(name), Outcome::Found(found));
        assert!(check(&[write, rename, again, read(1, Some(7)), read(0, None)]).is_ok());
        assert!(check(&[write, rename, again, read(0, Some(7))]).is_err());
        let twice = event(1, 4, 5, Op::Rename(0, 1), Outcome::Done);
        assert!(check(&[write, rename, twice]).is_err(), "it happened twice");
    }
}
