//! What a program may set, and what the link is like.

/// Ranges of one fetch: a store of ours takes 65,536, XRootD's clients send up to 16,384.
pub const FETCH_RANGES_MAX: usize = 16_384;

/// Defaults and reasons are in docs/adr/0032.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Memory for what is fetched ahead, in flight and held. 0: nothing is kept and nothing is fetched ahead.
    pub cache_len: u64,
    /// A smaller cache is enlarged to this on a link that brings as much in one round trip. 0: it stays as it is set.
    pub cache_len_least: u64,
    /// Columns are learned until a reader has come this many entries on.
    pub learn_entries: u64,
    /// Or until so many reads brought no further column.
    pub learn_reads: u32,
    /// Bytes that may be fetched in vain for 100 that are read.
    pub waste_percent: u32,
    /// And so many beside them: what a first guess may cost.
    pub waste_floor_len: u64,
    /// Ranges of one fetch.
    pub ranges_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl Settings {
    /// What ships: programs may set the cache, and nothing else.
    pub const DEFAULT: Self = Self {
        // Three times ROOT's, whose ten megabytes are from a time of less memory.
        cache_len: 32 << 20,
        cache_len_least: 4 << 20,
        // ROOT's.
        learn_entries: 100,
        // A guess, for pieces of few entries: columns that come later are added as they come.
        learn_reads: 8,
        // The issue asks for 1.1 times what a query needs.
        waste_percent: 10,
        // At 1 Gbit/s it takes half of a round trip across an ocean, and has room for two columns of a table of some
        // hundred megabytes.
        waste_floor_len: 16 << 20,
        ranges_max: FETCH_RANGES_MAX,
    };

    /// Settings with which a machine only passes reads through.
    pub fn off() -> Self {
        Self { cache_len: 0, ..Self::default() }
    }

    /// What may be in vain when so much has been read, beside the floor.
    pub(crate) fn share_of(&self, used_len: u64) -> u64 {
        (u128::from(used_len) * u128::from(self.waste_percent) / 100).try_into().unwrap_or(u64::MAX)
    }
}

/// As the shell measures it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    pub round_trip_us: u64,
    pub bytes_per_s: u64,
    /// Ranges that one request carries: 1 where the server has no vectored read.
    pub ranges_per_request: u32,
    /// The store knows the layout: pieces of columns are asked for by [`Fetch::runs`](crate::Fetch::runs).
    pub takes_runs: bool,
}

impl Default for Link {
    /// As long as nothing was measured: one that brings nothing in a round trip, so a guess costs as little as it may.
    /// To a store that reads many ranges at once.
    fn default() -> Self {
        Self { round_trip_us: 0, bytes_per_s: 125_000_000, ranges_per_request: 65_536, takes_runs: false }
    }
}

/// What a range of its own costs in its request and before its answer, about.
const RANGE_COST_LEN: u64 = 64;
/// Servers read as one what lies so near (docs/adr/0024).
const GAP_LEN_MAX: u64 = 16 << 10;
/// A wrong guess may cost so much on any link: twice a kernel's longest read-ahead.
const STAKE_LEN_LEAST: u64 = 256 << 10;

impl Link {
    /// What it brings in one round trip.
    pub fn bandwidth_delay_len(&self) -> u64 {
        let product = u128::from(self.round_trip_us) * u128::from(self.bytes_per_s) / 1_000_000;
        product.try_into().unwrap_or(u64::MAX)
    }

    /// A gap between two ranges that is as cheap as asking for them apart: its share of the round trip of a request.
    pub fn gap_len(&self) -> u64 {
        let share = self.bandwidth_delay_len() / u64::from(self.ranges_per_request.max(1));
        share.clamp(RANGE_COST_LEN, GAP_LEN_MAX)
    }

    /// What a guess may cost: no more time than the round trip it saves, and no more than the floor of waste.
    pub(crate) fn stake_len(&self, settings: &Settings) -> u64 {
        self.bandwidth_delay_len().max(STAKE_LEN_LEAST).min(settings.waste_floor_len)
    }

    /// The cache as it is on this link.
    pub(crate) fn cache_len(&self, settings: &Settings) -> u64 {
        match settings.cache_len {
            0 => 0,
            set => set.max(settings.cache_len_least.min(self.bandwidth_delay_len())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(round_trip_us: u64, ranges_per_request: u32) -> Link {
        Link { round_trip_us, bytes_per_s: 125_000_000, ranges_per_request, takes_runs: false }
    }

    #[test]
    fn a_gap_costs_what_a_range_does() {
        assert_eq!(link(240_000, 65_536).gap_len(), 457);
        assert_eq!(link(300, 65_536).gap_len(), RANGE_COST_LEN);
        assert_eq!(link(240_000, 1).gap_len(), GAP_LEN_MAX);
        assert_eq!(link(u64::MAX, 0).gap_len(), GAP_LEN_MAX);
    }

    #[test]
    fn a_small_cache_grows_where_a_round_trip_is_dear() {
        let small = Settings { cache_len: 64 << 10, ..Settings::default() };
        assert_eq!(link(240_000, 1).cache_len(&small), 4 << 20);
        assert_eq!(link(300, 1).cache_len(&small), 64 << 10, "as set: 37,500 bytes are on the way at most");
        assert_eq!(link(240_000, 1).cache_len(&Settings { cache_len_least: 0, ..small }), 64 << 10);
        assert_eq!(link(240_000, 1).cache_len(&Settings::off()), 0);
    }

    #[test]
    fn a_guess_costs_no_more_than_a_round_trip() {
        let settings = Settings { waste_floor_len: 8 << 20, ..Settings::DEFAULT };
        assert_eq!(link(240_000, 1).stake_len(&settings), 8 << 20);
        assert_eq!(link(22_000, 1).stake_len(&settings), 2_750_000);
        assert_eq!(Link::default().stake_len(&settings), STAKE_LEN_LEAST);
    }
}
