//! Deliberate faults of the program, one at a time, each of which a simulation must find. What ships has none: without
//! the feature `mutations` none can be set, and each question is a constant.

#[cfg(feature = "mutations")]
use std::cell::Cell;

/// What is done wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// Reads are answered without asking whether this server still leads.
    StaleReads,
    /// Small files that a majority acknowledged are not looked after.
    ForgetShortPuts,
    /// Members go while blocks are open that only they have, and a recovery asks those alone who are members now.
    ForgetChains,
    /// A node counts as empty as soon as it is in no pipeline.
    HastyDrain,
    /// A recovery believes what a replica shows, and has nobody read it.
    BelieveUnread,
    /// A datanode may keep what it has of containers that are gone.
    KeepRemoved,
    /// A rename moves a tree, and the directories above go on counting as if it had not moved.
    UncountedRenames,
    /// Writers are believed whatever length they say that a block has.
    BelieveLengths,
    /// Containers with a block that nobody has are never called whole.
    WaitForMissing,
    /// Nobody remembers that safe mode was entered.
    ForgetSafeMode,
    /// Datanodes are ordered to delete in safe mode, too.
    DeleteInSafeMode,
    /// Whoever names a datanode's id is taken for it.
    BelieveCopies,
    /// Another member comes into a pipeline only where a node has room for all of it.
    WholePipelinesOnly,
}

#[cfg(feature = "mutations")]
thread_local! {
    static DONE: Cell<Option<Mutation>> = const { Cell::new(None) };
}

/// What runs on this thread from now on does this wrong.
#[cfg(feature = "mutations")]
pub fn set(mutation: Option<Mutation>) {
    DONE.set(mutation);
}

/// Whether this is done wrong here.
#[cfg(feature = "mutations")]
pub fn is(mutation: Mutation) -> bool {
    DONE.get() == Some(mutation)
}

/// Whether this is done wrong here: never.
#[cfg(not(feature = "mutations"))]
#[inline(always)]
pub const fn is(_mutation: Mutation) -> bool {
    false
}
