//! Deliberate faults, one at a time, each of which a simulation must find: a check that finds none of them would be no
//! check. What ships has none: without the feature `mutations` none can be set, and each question is a constant.

#[cfg(feature = "mutations")]
use std::cell::Cell;

macro_rules! mutations {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal,)*) => {
        /// What is done wrong.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Mutation {
            $($(#[doc = $doc])+ $name,)*
        }

        impl Mutation {
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// By which it is asked for.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }

            pub const fn meaning(self) -> &'static str {
                match self {
                    $(Self::$name => concat!($($doc),+),)*
                }
            }
        }
    };
}

mutations! {
    // ── metadata server: who leads, what is acknowledged ──
    /// Reads are answered without asking whether this server still leads.
    StaleReads = "stale-reads",
    /// A metadata server answers before its log is on disk.
    LogWithoutSync = "log-without-sync",
    /// A call that is repeated is carried out again.
    ForgetRetries = "forget-retries",

    // ── metadata server: who may write ──
    /// Any client completes and goes on with a file that another one writes.
    AnyWriter = "any-writer",
    /// A block goes on under a generation that is no younger than the recorded one.
    StaleUpdate = "stale-update",
    /// A block goes on with less than is recorded.
    ShrinkingUpdate = "shrinking-update",
    /// Indexes of blocks that an earlier leader gave out are given out again.
    LeaseIndexesAgain = "lease-indexes-again",
    /// Writers are believed whatever length they say that a block has.
    BelieveLengths = "believe-lengths",

    // ── metadata server: recovery of blocks ──
    /// A recovery believes what a replica shows, and has nobody read it.
    BelieveUnread = "believe-unread",
    /// Members go while blocks are open that only they have, and a recovery asks those alone who are members now.
    ForgetChains = "forget-chains",
    /// A recovery waits for nobody who does not answer.
    RecoverWithoutWaiting = "recover-without-waiting",
    /// A recovery ends though no node says that it finished its replica.
    FinishUnanswered = "finish-unanswered",

    // ── metadata server: deletions ──
    /// Datanodes are ordered to delete in safe mode, too.
    DeleteInSafeMode = "delete-in-safe-mode",
    /// Nobody remembers that safe mode was entered.
    ForgetSafeMode = "forget-safe-mode",
    /// A replica of a block that a client holds on lease, to put a file with it, has no owner and goes.
    DeleteLeased = "delete-leased",
    /// A replica that others should have goes though none of them says that it has the block.
    DeleteSurplusUnasked = "delete-surplus-unasked",
    /// What is known of damage on other nodes counts for nothing when a surplus replica goes.
    TrustDamagedOthers = "trust-damaged-others",
    /// A surplus replica goes by what was known when others were asked, whatever has happened since.
    SkipSecondLook = "skip-second-look",
    /// Replicas may stay on nodes that are no members of their home.
    KeepElsewhere = "keep-elsewhere",
    /// A datanode may keep what it has of containers that are gone.
    KeepRemoved = "keep-removed",
    /// A container is removed though blocks are in it.
    RemoveUnemptied = "remove-unemptied",
    /// A replica whose block restored rows do not know is nobody's, and goes.
    DeleteFound = "delete-found",
    /// Found blocks are released though datanodes have not said which ones they have.
    ReleaseUnlisted = "release-unlisted",
    /// A found block is recovered by the datanodes that answer, whatever the others may have.
    RecoverFoundAlone = "recover-found-alone",

    // ── metadata server: copies ──
    /// Small files that a majority acknowledged are not looked after.
    ForgetShortPuts = "forget-short-puts",
    /// A replica that is known to be damaged counts as a good one.
    ForgetDamage = "forget-damage",
    /// A container is called whole though members did not answer.
    WholeUnanswered = "whole-unanswered",
    /// Containers with a block that nobody has are never called whole.
    WaitForMissing = "wait-for-missing",
    /// Who joins a pipeline counts as whole before it has copied.
    JoinUncopied = "join-uncopied",
    /// Another member comes into a pipeline only where a node has room for all of it.
    WholePipelinesOnly = "whole-pipelines-only",
    /// A node counts as empty as soon as it is in no pipeline.
    HastyDrain = "hasty-drain",

    // ── metadata server: the rest ──
    /// A rename moves a tree, and the directories above go on counting as if it had not moved.
    UncountedRenames = "uncounted-renames",
    /// Whoever names a datanode's id is taken for it.
    BelieveCopies = "believe-copies",

    // ── Raft, in groups ──
    /// Whoever is told that the lead is given away takes it for himself.
    HandToAll = "hand-to-all",
    /// A leader that has given the lead away still believes what a majority said before.
    LeaseAfterHandOver = "lease-after-hand-over",
    /// A leader that an earlier change is about to remove changes members all the same.
    OutsiderLeads = "outsider-leads",
    /// A member that lost its disk is taken for the one that it was.
    ForgetIncarnations = "forget-incarnations",
    /// The clocks by which leaders believe a majority stand still while the machine sleeps.
    ClocksSleep = "clocks-sleep",

    // ── datanodes ──
    /// A datanode acknowledges some packets and forgets to write them.
    AckBeforeStore = "ack-before-store",
    /// A datanode puts without bringing the bytes to disk.
    PutWithoutSync = "put-without-sync",
    /// A datanode goes on with a disk whose sync has failed because it was full.
    TrustFullDisk = "trust-full-disk",
    /// A writer may go on with a replica that a recovery has begun with.
    UnfencedWriters = "unfenced-writers",
    /// A datanode forgets to delete.
    ForgetDeletions = "forget-deletions",
    /// A datanode carries out orders of a server that another one has followed as the leader.
    ObeyFormerLeaders = "obey-former-leaders",
    /// A datanode deletes what the former leader had ordered away and was not begun with.
    KeepFormerOrders = "keep-former-orders",
    /// What a heartbeat told that was not heard is not told again.
    ForgetUnheard = "forget-unheard",
    /// A session ends, and what its last heartbeat told is not told again.
    ForgetEndedSessions = "forget-ended-sessions",
    /// What a heartbeat told that was not heard is told again though newer changes were told since.
    TellOldNews = "tell-old-news",
    /// A datanode copies without looking at the checksums.
    CopyUnverified = "copy-unverified",
    /// A copy makes room for itself before its source is read.
    CopyInPlace = "copy-in-place",
    /// A datanode does whatever it is asked to, with or without a token.
    TokensUnchecked = "tokens-unchecked",
    /// A datanode takes tokens for good after they have expired.
    ExpiryUnchecked = "expiry-unchecked",
    /// A datanode does not ask whether a token is for the file that the replica is of.
    FileUncompared = "file-uncompared",
    /// A datanode knows the keys that sign and will sign, and none of those before.
    ForgetFormerKeys = "forget-former-keys",

    // ── clients ──
    /// A writer forgets the packet for which it waited when the call was given up, and takes a recovery that was given
    /// up for the end.
    ForgetGivenUp = "forget-given-up",

    // ── streams of writes ──
    /// A node sends no keepalives.
    NoKeepalives = "no-keepalives",
    /// A node below may be silent for a minute though it sends keepalives.
    NeverStalled = "never-stalled",
    /// A node below that refuses to join counts as one that has joined.
    JoinRefused = "join-refused",
    /// A node acknowledges packets that its disk did not take.
    AckUnstored = "ack-unstored",
    /// A node stores packets without looking at their checksums.
    ForwardUnverified = "forward-unverified",
    /// A packet that asks for the disk is acknowledged from memory.
    ForgetSync = "forget-sync",
    /// A node acknowledges packets before those below have.
    AckBeforeBelow = "ack-before-below",
    /// Readers see bytes as soon as they come.
    ShowUnacked = "show-unacked",
    /// A block is put though a node below is lost.
    PutBroken = "put-broken",
    /// A node below that is lost counts as one that has the packet.
    LostIsWell = "lost-is-well",
    /// The node that sent bad bytes on blames the one below that found them bad.
    BlameFinder = "blame-finder",
    /// A node that loses the one below blames itself.
    BlameSelf = "blame-self",
    /// Of packets that came together only the first is stored, and all are acknowledged.
    StoreFirst = "store-first",

    // ── writers: the stream of a block and its recovery ──
    /// A writer takes an ack for good whatever the nodes say in it.
    TakeBadReplies = "take-bad-replies",
    /// A writer blames the node above the one that failed.
    BlameNodeAbove = "blame-node-above",
    /// After a fault a writer takes for acknowledged what was only written.
    TrustWritten = "trust-written",
    /// A writer that gave up inside of a packet begins that packet once more on the same connection.
    ForgetPartWrites = "forget-part-writes",
    /// A writer waits for nodes that owe an answer, however long they are silent.
    WaitForever = "wait-forever",
    /// After a recovery a writer does not send again what was not acknowledged.
    ForgetUnacked = "forget-unacked",
    /// A writer whose chain breaks has the block closed, whatever data is missing.
    CloseTooSoon = "close-too-soon",

    // ── data transfer: reads and copies by reading ──
    /// A client does not hold what it reads against the checksums.
    ReadUnverified = "read-unverified",
    /// A reader takes a packet wherever in the block it says that it belongs.
    MisplacedPackets = "misplaced-packets",
    /// A read that ends before all came that was asked for counts as whole.
    EndShort = "end-short",
    /// A reader leaves the last packet on the connection.
    LeaveEnd = "leave-end",
    /// A datanode serves a replica of an older generation than was asked for.
    ServeStale = "serve-stale",
    /// A datanode serves what it has, though more was asked for.
    ServeShort = "serve-short",
    /// A datanode ends a read within a chunk, whose checksum covers more.
    UnroundedEnds = "unrounded-ends",
    /// A copy to another node counts as done before that node has said so.
    CopyUnanswered = "copy-unanswered",

    // ── small writes ──
    /// An answer counts for the oldest request of its connection.
    AnswerToAnother = "answer-to-another",
    /// An answer names nodes that have not said yet that they put the block.
    NameLate = "name-late",
    /// A node that refuses a small block counts as one that put it.
    CountRefused = "count-refused",
    /// One node fewer than a majority is enough for an answer.
    EarlyMajority = "early-majority",
    /// A small block is put whatever its checksums say.
    PutUnverified = "put-unverified",
    /// A writer gives a block to a file though too few nodes have put it.
    BelieveRefused = "believe-refused",
    /// Small blocks that are put in one step are synced if the first of them is to be.
    SyncForFirst = "sync-for-first",
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
