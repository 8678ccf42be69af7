//! Which deliberate fault is found where: the runs that its gate matters in, the first seed that shows it, and by what.
//!
//! `levada-sim --mutations` makes the table of docs/adr/0009 from this; a test holds each line.

use crate::Options;
use crate::run::run_caught;
use std::ops::Range;
use std::sync::Mutex;
use types::Mutation;

/// Seeds within which each fault must be found.
pub const FOUND_WITHIN: u64 = 300;

/// A deliberate fault, and how it shows.
#[derive(Clone, Copy, Debug)]
pub struct Deliberate {
    pub mutation: Mutation,
    pub rolling: bool,
    pub groups: bool,
    /// The first seed that finds it, when it was looked for last.
    pub first: u64,
    /// Some of this is in what the failure says.
    pub by: &'static [&'static str],
}

const fn whole(mutation: Mutation, first: u64, by: &'static [&'static str]) -> Deliberate {
    Deliberate { mutation, rolling: false, groups: false, first, by }
}

const fn rolling(mutation: Mutation, first: u64, by: &'static [&'static str]) -> Deliberate {
    Deliberate { rolling: true, ..whole(mutation, first, by) }
}

const fn groups(mutation: Mutation, first: u64, by: &'static [&'static str]) -> Deliberate {
    Deliberate { groups: true, ..whole(mutation, first, by) }
}

const LOST: &[&str] = &["cannot be read", "but Promise", "gave up the last copy"];
/// A scripted peer of data transfer says so.
const PEERS: &[&str] = &["peers: "];
const LOST_OR_PEERS: &[&str] = &["cannot be read", "but Promise", "gave up the last copy", "peers: "];
const RESTLESS: &[&str] = &["it does not come to rest"];
/// A recovery counts on a replica that it should not count on.
const MISLED: &[&str] = &["a recovery believed", "cannot be read", "but Promise", "gave up the last copy"];
/// A replica of a block that the rows have lost went.
const FOUND: &[&str] = &["lost rows: a found block lost a replica"];
/// Somebody got what no token of theirs is for.
const INTRUDED: &[&str] = &["an intruder read"];
const UNSURE: &[&str] = &["is sure to lead and has entry"];

pub const DELIBERATE: &[Deliberate] = &[
    // ── metadata server: who leads, what is acknowledged ──
    whole(Mutation::StaleReads, 4, &["no order explains"]),
    whole(
        Mutation::LogWithoutSync,
        0,
        &["is damaged", "does not belong to this store", "no order explains", "is gone, and nobody deleted it"],
    ),
    whole(Mutation::ForgetRetries, 1, &["no order explains"]),
    // ── who may write ──
    whole(Mutation::AnyWriter, 1, &["which another client writes", "is not the lease owner"]),
    whole(Mutation::StaleUpdate, 1, &["was believed that"]),
    whole(Mutation::ShrinkingUpdate, 1, &["was believed that"]),
    whole(Mutation::LeaseIndexesAgain, 0, &["was given out twice"]),
    whole(Mutation::BelieveLengths, 0, &["was believed that"]),
    // ── recovery of blocks ──
    whole(Mutation::BelieveUnread, 1, &["a recovery believed"]),
    rolling(Mutation::ForgetChains, 1, LOST),
    whole(Mutation::RecoverWithoutWaiting, 1, MISLED),
    whole(Mutation::FinishUnanswered, 4, LOST),
    // ── deletions ──
    whole(Mutation::DeleteInSafeMode, 0, &["in safe mode"]),
    whole(Mutation::ForgetSafeMode, 0, &["in safe mode"]),
    whole(Mutation::DeleteLeased, 4, LOST),
    whole(Mutation::DeleteSurplusUnasked, 16, LOST),
    whole(Mutation::TrustDamagedOthers, 9, &["the only sound copy"]),
    rolling(Mutation::SkipSecondLook, 2, &["which it should have"]),
    whole(Mutation::KeepElsewhere, 0, RESTLESS),
    whole(Mutation::KeepRemoved, 83, RESTLESS),
    whole(Mutation::RemoveUnemptied, 1, RESTLESS),
    whole(Mutation::DeleteFound, 0, FOUND),
    whole(Mutation::ReleaseUnlisted, 0, &["lost rows: found blocks were released unseen"]),
    whole(Mutation::RecoverFoundAlone, 0, &["lost rows: a found block was recovered without"]),
    // ── copies ──
    whole(Mutation::ForgetShortPuts, 15, RESTLESS),
    whole(Mutation::ForgetDamage, 4, &["it does not come to rest", "the only sound copy"]),
    whole(Mutation::WholeUnanswered, 4, RESTLESS),
    whole(Mutation::WaitForMissing, 20, RESTLESS),
    rolling(Mutation::JoinUncopied, 45, LOST),
    whole(Mutation::WholePipelinesOnly, 2, &["has room for it", "no lack of room is told"]),
    whole(Mutation::HastyDrain, 35, LOST),
    // ── the rest of the metadata server ──
    whole(Mutation::UncountedRenames, 1, &["has counted", "levels below it"]),
    whole(Mutation::BelieveCopies, 7, &["two processes are node"]),
    // ── Raft ──
    groups(Mutation::HandToAll, 3, &["was to lead in term"]),
    groups(Mutation::LeaseAfterHandOver, 26, UNSURE),
    Deliberate { rolling: true, ..groups(Mutation::OutsiderLeads, 204, &["a panic"]) },
    groups(Mutation::ForgetIncarnations, 2, &["was let in again", "a panic"]),
    groups(Mutation::ClocksSleep, 3, UNSURE),
    // ── datanodes ──
    whole(Mutation::AckBeforeStore, 0, &["peers: ", "cannot be read", "but Promise", "it does not come to rest"]),
    whole(Mutation::PutWithoutSync, 0, LOST_OR_PEERS),
    whole(Mutation::TrustFullDisk, 78, &["durable after a sync of it has failed"]),
    whole(Mutation::UnfencedWriters, 14, &["in its recovery"]),
    whole(Mutation::ForgetDeletions, 0, RESTLESS),
    whole(Mutation::ObeyFormerLeaders, 4, &["orders of a former leader"]),
    whole(Mutation::KeepFormerOrders, 233, &["by an order of the term"]),
    whole(Mutation::ForgetUnheard, 135, &["is told to nobody"]),
    whole(Mutation::ForgetEndedSessions, 12, &["is told to nobody"]),
    whole(Mutation::TellOldNews, 6, &["is told after what came later"]),
    whole(Mutation::CopyUnverified, 2, &["peers: ", "contradict each other", "read a wrong byte", "has a wrong byte"]),
    whole(Mutation::CopyInPlace, 14, &["to a copy that failed"]),
    whole(Mutation::TokensUnchecked, 0, INTRUDED),
    whole(Mutation::ExpiryUnchecked, 0, INTRUDED),
    whole(Mutation::FileUncompared, 0, INTRUDED),
    whole(Mutation::ForgetFormerKeys, 0, &["refuses a good token"]),
    // ── streams of writes ──
    whole(Mutation::NoKeepalives, 12, PEERS),
    whole(Mutation::NeverStalled, 37, PEERS),
    whole(Mutation::JoinRefused, 10, PEERS),
    whole(
        Mutation::AckUnstored,
        15,
        &["cannot be read", "but Promise", "gave up the last copy", "it does not come to rest"],
    ),
    whole(
        Mutation::ForwardUnverified,
        5,
        &["peers: ", "contradict each other", "read a wrong byte", "has a wrong byte"],
    ),
    whole(Mutation::ForgetSync, 7, LOST),
    whole(Mutation::AckBeforeBelow, 0, LOST_OR_PEERS),
    whole(Mutation::ShowUnacked, 8, PEERS),
    whole(Mutation::PutBroken, 57, PEERS),
    whole(Mutation::LostIsWell, 1, LOST_OR_PEERS),
    whole(Mutation::BlameFinder, 2, PEERS),
    whole(Mutation::BlameSelf, 1, PEERS),
    whole(Mutation::StoreFirst, 0, LOST_OR_PEERS),
    // ── writers: the stream of a block and its recovery ──
    whole(Mutation::ForgetGivenUp, 2, PEERS),
    whole(Mutation::TakeBadReplies, 21, LOST_OR_PEERS),
    whole(Mutation::BlameNodeAbove, 21, PEERS),
    whole(Mutation::TrustWritten, 1, LOST_OR_PEERS),
    whole(Mutation::ForgetPartWrites, 9, PEERS),
    whole(Mutation::WaitForever, 8, PEERS),
    whole(Mutation::ForgetUnacked, 1, &["peers: ", "a panic", "but Promise"]),
    whole(Mutation::CloseTooSoon, 2, LOST_OR_PEERS),
    // ── reads, and copies by reading ──
    whole(Mutation::ReadUnverified, 6, &["peers: ", "read a wrong byte"]),
    whole(Mutation::MisplacedPackets, 23, PEERS),
    whole(Mutation::EndShort, 0, PEERS),
    whole(Mutation::LeaveEnd, 7, PEERS),
    whole(Mutation::ServeStale, 0, PEERS),
    whole(Mutation::ServeShort, 4, PEERS),
    whole(Mutation::UnroundedEnds, 2, PEERS),
    whole(Mutation::CopyUnanswered, 0, PEERS),
    // ── small writes ──
    whole(Mutation::AnswerToAnother, 2, PEERS),
    whole(Mutation::NameLate, 2, LOST_OR_PEERS),
    whole(Mutation::CountRefused, 3, LOST_OR_PEERS),
    whole(Mutation::EarlyMajority, 0, PEERS),
    whole(Mutation::PutUnverified, 1, &["peers: ", "contradict each other"]),
    whole(Mutation::BelieveRefused, 2, PEERS),
    whole(Mutation::SyncForFirst, 0, PEERS),
];

impl Deliberate {
    pub fn options(&self) -> Options {
        let Self { mutation, rolling, groups, .. } = *self;
        Options { mutation: Some(mutation), rolling, groups, trace: false }
    }

    /// The first of these seeds that fails, and what it says. `jobs` run at a time.
    pub fn find(&self, seeds: Range<u64>, jobs: u64) -> Option<(u64, String)> {
        let mut from = seeds.start;
        while from < seeds.end {
            let to = seeds.end.min(from + jobs.max(1));
            let failed = Mutex::new(Vec::new());
            std::thread::scope(|scope| {
                for seed in from..to {
                    let (failed, options) = (&failed, self.options());
                    scope.spawn(move || {
                        let outcome = run_caught(seed, options);
                        let first = outcome.failures.into_iter().next();
                        failed.lock().expect("nobody panics with it").extend(first.map(|said| (seed, said)));
                    });
                }
            });
            let found = failed.into_inner().expect("all have ended").into_iter().min();
            if found.is_some() {
                return found;
            }
            from = to;
        }
        None
    }

    /// Whether the failure is the one that the fault should cause.
    pub fn is_shown_by(&self, said: &str) -> bool {
        self.by.iter().any(|by| said.contains(by))
    }
}
