//! Sequential model of a directory: the specification that histories are checked against.

use std::collections::BTreeSet;
use todc_utils::specifications::Specification;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    /// A name that must not be there.
    Create(char),
    Delete(char),
    /// To a name that must not be there.
    Rename(char, char),
    Exists(char),
    List,
}

impl Op {
    pub(super) fn is_read(self) -> bool {
        matches!(self, Self::Exists(_) | Self::List)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ret {
    Done,
    /// The name is there already.
    Taken,
    /// It is not there.
    Missing,
    Found(bool),
    Names(BTreeSet<char>),
    /// No answer came: it may have happened at any time, or be about to, or never.
    Unknown,
}

/// A call, and its answer when it has one.
pub(super) type Step = (Op, Option<Ret>);

#[derive(Debug)]
pub(super) struct Directory;

impl Specification for Directory {
    type State = BTreeSet<char>;
    type Operation = Step;

    fn init() -> Self::State {
        BTreeSet::new()
    }

    fn apply((op, returned): &Step, names: &Self::State) -> (bool, Self::State) {
        let mut after = names.clone();
        let ret = invoke(*op, &mut after);
        (returned.as_ref().is_some_and(|returned| *returned == Ret::Unknown || *returned == ret), after)
    }
}

fn invoke(op: Op, names: &mut BTreeSet<char>) -> Ret {
    match op {
        Op::Create(name) if names.insert(name) => Ret::Done,
        Op::Create(_) => Ret::Taken,
        Op::Delete(name) if names.remove(&name) => Ret::Done,
        Op::Delete(_) => Ret::Missing,
        Op::Rename(from, _) if !names.contains(&from) => Ret::Missing,
        Op::Rename(_, to) if names.contains(&to) => Ret::Taken,
        Op::Rename(from, to) => {
            names.remove(&from);
            names.insert(to);
            Ret::Done
        }
        Op::Exists(name) => Ret::Found(names.contains(&name)),
        Op::List => Ret::Names(names.clone()),
    }
}
