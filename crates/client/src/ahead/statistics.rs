//! How well it goes: for programs, notebooks and tests.

/// Of one file, since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AheadStatistics {
    pub read_count: u64,
    pub read_len: u64,
    /// Reads of which all was in memory.
    pub hit_count: u64,
    /// Bytes that were asked for and arrived, or are on their way.
    pub asked_len: u64,
    /// Of these, what the program read, and what the layout took.
    pub used_len: u64,
    /// In vain, if the program ended now: dropped unread, or not read so far.
    pub wasted_len: u64,
    /// Times at which requests left: those that leave together are one.
    pub turn_around_count: u64,
    /// Vectored reads, and their ranges.
    pub fetch_count: u64,
    pub range_count: u64,
    /// Of the fetches, those that failed; an opening too of which not all came before its window.
    pub failure_count: u64,
    /// In use for what is held and on its way; and what it is bounded by.
    pub memory_len: u64,
    pub memory_len_max: u64,
    /// Which bytes hold which entries of which column is known.
    pub has_layout: bool,
    /// An earlier run has told what is read.
    pub has_profile: bool,
}

impl AheadStatistics {
    /// Reads that waited for the store.
    pub fn wait_count(&self) -> u64 {
        self.read_count.saturating_sub(self.hit_count)
    }

    /// Of several files.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            read_count: self.read_count.saturating_add(other.read_count),
            read_len: self.read_len.saturating_add(other.read_len),
            hit_count: self.hit_count.saturating_add(other.hit_count),
            asked_len: self.asked_len.saturating_add(other.asked_len),
            used_len: self.used_len.saturating_add(other.used_len),
            wasted_len: self.wasted_len.saturating_add(other.wasted_len),
            turn_around_count: self.turn_around_count.saturating_add(other.turn_around_count),
            fetch_count: self.fetch_count.saturating_add(other.fetch_count),
            range_count: self.range_count.saturating_add(other.range_count),
            failure_count: self.failure_count.saturating_add(other.failure_count),
            memory_len: self.memory_len.saturating_add(other.memory_len),
            memory_len_max: self.memory_len_max.saturating_add(other.memory_len_max),
            has_layout: self.has_layout || other.has_layout,
            has_profile: self.has_profile || other.has_profile,
        }
    }
}
