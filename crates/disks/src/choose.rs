//! Which disk of a node takes the next replica, and which replica should move from one disk to another. Decided from
//! numbers alone.
//!
//! A new replica goes where the room per stream is greatest: (free part of the disk) / (streams there + 1). That one
//! number serves both ends: among equally full disks the one with the fewest streams takes it, so that writers do not
//! wait for each other; and an emptier disk takes more streams than a full one, in the proportion of what is free, so
//! that disks of all sizes become full together. Parts and not bytes are compared, as in balancing: a large disk would
//! otherwise take everything until no more than the small one's size is free on it. A disk that could be full before
//! its streams have ended comes last.

/// Fullness is counted in parts of this.
pub(crate) const FULL_PARTS: u64 = 1_000_000_000;
/// What a stream may still write: HDFS's usual block. Nobody says beforehand how long a block will be.
const EXPECTED_LEN: u64 = 128 << 20;

/// A disk, as far as a decision needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DiskState {
    /// By replicas.
    pub(crate) used: u64,
    pub(crate) free: u64,
    /// Replicas that are being written.
    pub(crate) stream_count: u64,
    /// It is sound, and answers.
    pub(crate) takes: bool,
}

impl DiskState {
    fn whole(&self) -> u64 {
        self.used.saturating_add(self.free)
    }

    fn full(&self) -> u64 {
        parts(self.used, self.whole())
    }

    /// Its bytes when it is as full as `mean`.
    fn even_len(&self, mean: u64) -> u64 {
        (u128::from(self.whole()) * u128::from(mean) / u128::from(FULL_PARTS)) as u64
    }

    fn over(&self, mean: u64) -> u64 {
        self.used.saturating_sub(self.even_len(mean))
    }

    fn under(&self, mean: u64) -> u64 {
        self.even_len(mean).saturating_sub(self.used)
    }

    /// Room for one more stream, and the share of the disk that each would have.
    fn rank(&self) -> (bool, u64) {
        let streams = self.stream_count.saturating_add(1);
        let roomy = self.free >= streams.saturating_mul(EXPECTED_LEN);
        (roomy, parts(self.free, self.whole()) / streams)
    }
}

fn parts(of: u64, whole: u64) -> u64 {
    (u128::from(of) * u128::from(FULL_PARTS) / u128::from(whole.max(1))) as u64
}

/// The disks that may take a replica, the best first. Equal ones take turns.
pub(crate) fn order(disks: &[DiskState], turn: usize) -> Vec<usize> {
    let count = disks.len();
    let mut order: Vec<usize> = (0..count).map(|at| (at + turn) % count).filter(|at| disks[*at].takes).collect();
    order.sort_by_key(|at| std::cmp::Reverse(disks[*at].rank()));
    order
}

/// From which disk to which a replica should go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shift {
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// A longer one would bring the two less than half way towards each other, or fill the other more than this one
    /// was.
    pub(crate) len_max: u64,
    /// Bytes until one of them is as full as all disks are together.
    pub(crate) len: u64,
}

/// The shift from the fullest to the emptiest disk, if one of the two is further than `within` from the mean.
pub(crate) fn next_shift(disks: &[DiskState], within: u64) -> Option<Shift> {
    let of = |at: &usize| disks[*at].full();
    let taking: Vec<usize> = (0..disks.len()).filter(|at| disks[*at].takes && disks[*at].whole() > 0).collect();
    let (from, to) = (taking.iter().copied().max_by_key(of)?, taking.iter().copied().min_by_key(of)?);
    let mean = mean(disks, &taking);
    if from == to || !(of(&from) > mean.saturating_add(within) || of(&to).saturating_add(within) < mean) {
        return None;
    }
    let (source, target) = (&disks[from], &disks[to]);
    let gap = (of(&from) - of(&to)) as f64 / FULL_PARTS as f64;
    let (source_whole, target_whole) = (source.whole() as f64, target.whole() as f64);
    let half_way = 1.5 * gap * source_whole * target_whole / (source_whole + target_whole);
    let len_max = (half_way.min(gap * target_whole) as u64).min(target.free);
    let len = source.over(mean).min(target.under(mean));
    (len_max > 0).then_some(Shift { from, to, len_max, len })
}

/// Bytes that have to move until all disks are as full as they are together.
pub(crate) fn uneven_len(disks: &[DiskState]) -> u64 {
    let taking: Vec<usize> = (0..disks.len()).filter(|at| disks[*at].takes).collect();
    let mean = mean(disks, &taking);
    taking.iter().map(|at| disks[*at].over(mean)).sum()
}

/// How full all of them are together.
fn mean(disks: &[DiskState], taking: &[usize]) -> u64 {
    let sum = |of: fn(&DiskState) -> u64| taking.iter().map(|at| of(&disks[*at])).fold(0, u64::saturating_add);
    parts(sum(|disk| disk.used), sum(DiskState::whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GB: u64 = 1 << 30;

    fn disk(used: u64, free: u64, stream_count: u64) -> DiskState {
        DiskState { used: used * GB, free: free * GB, stream_count, takes: true }
    }

    fn check(disks: &[DiskState], wanted: &[usize]) {
        assert_eq!(order(disks, 0), wanted, "{disks:?}");
    }

    #[test]
    fn room_and_streams_decide() {
        check(&[disk(5, 5, 0), disk(2, 8, 0)], &[1, 0]);
        check(&[disk(5, 5, 1), disk(5, 5, 0)], &[1, 0]);
        // Four fifths are free there, and two streams share them.
        check(&[disk(5, 5, 0), disk(2, 8, 1)], &[0, 1]);
        // A large disk is not emptier than a small one because of its bytes.
        check(&[disk(30, 10, 0), disk(1, 9, 0)], &[1, 0]);
        // No room for what is being written there already and one more.
        let full = DiskState { used: 0, free: 200 << 20, stream_count: 1, takes: true };
        check(&[full, disk(9, 1, 0)], &[1, 0]);
        check(&[DiskState { takes: false, ..disk(0, 9, 0) }, disk(9, 1, 0)], &[1]);
        check(&[], &[]);
    }

    #[test]
    fn equal_disks_take_turns() {
        let disks = [disk(1, 9, 0); 3];
        let first: Vec<usize> = (0..4).map(|turn| order(&disks, turn)[0]).collect();
        assert_eq!(first, [0, 1, 2, 0]);
    }

    /// Whatever the disks are at first, many writers fill them together.
    #[test]
    fn disks_of_all_sizes_become_full_together() {
        let mut disks = [disk(0, 100, 0), disk(0, 30, 0), disk(8, 2, 0), disk(50, 50, 0)];
        for step in 0..1000 {
            let at = order(&disks, step)[0];
            disks[at].used += EXPECTED_LEN;
            disks[at].free -= EXPECTED_LEN;
        }
        let fullness: Vec<u64> = disks.iter().map(|disk| disk.full() / (FULL_PARTS / 100)).collect();
        assert!(fullness[2] == 80, "the fullest took nothing: {fullness:?}");
        assert!(fullness[0].abs_diff(fullness[1]) <= 2 && fullness[0] > 70, "{fullness:?}");
        assert!(fullness[3].abs_diff(fullness[0]) <= 2, "{fullness:?}");
    }

    #[test]
    fn a_shift_never_swaps_the_disks() {
        let within = FULL_PARTS / 10;
        assert_eq!(next_shift(&[disk(5, 5, 0), disk(5, 5, 0)], within), None);
        assert_eq!(next_shift(&[disk(5, 5, 0), disk(4, 6, 0)], within), None, "near enough");
        let mut disks = [disk(9, 1, 0), disk(1, 9, 0), disk(2, 8, 0)];
        let shift = next_shift(&disks, within).unwrap();
        assert_eq!((shift.from, shift.to), (0, 1));
        assert!(shift.len_max < 8 * GB && shift.len <= 5 * GB / 2 + GB && shift.len > 2 * GB, "{shift:?}");
        let mut count = 0;
        while let Some(Shift { from, to, len_max, .. }) = next_shift(&disks, 1000) {
            let len = (64 << 20).min(len_max);
            let before = disks.iter().map(DiskState::full).max();
            (disks[from].used, disks[from].free) = (disks[from].used - len, disks[from].free + len);
            (disks[to].used, disks[to].free) = (disks[to].used + len, disks[to].free - len);
            assert!(disks.iter().map(DiskState::full).max() <= before);
            count += 1;
            assert!(count < 10_000, "it ends");
        }
        assert!(uneven_len(&disks) < 64 << 20, "{disks:?}");
        assert_eq!(next_shift(&[DiskState { takes: false, ..disk(9, 1, 0) }, disk(1, 9, 0)], 0), None);
    }
}
