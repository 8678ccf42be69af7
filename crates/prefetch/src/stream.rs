//! One pattern of offsets: reads that follow each other directly, or in equal steps.
//!
//! Promise: what it predicts lies behind (or, for steps back, before) what was read last, and is taken up again where
//! the last prediction ended.

use crate::decision::Why;
use crate::span::Span;

/// A window never begins below this: an initial TCP window brings as much in the first round trip.
const WINDOW_LEN_FIRST: u64 = 16 << 10;
/// Steps may differ by this part of them, as sizes of compressed pieces do, if the pads are not most of what is
/// fetched.
const STEP_TOLERANCE: u64 = 8;
/// A read of one step may be padded to this many times its length.
const PADDED_TIMES_MAX: u64 = 4;
/// Steps that are predicted at once.
pub(crate) const STEPS_AHEAD_MAX: u64 = 4096;
/// A longer step is chance rather than a pattern. A guess: the step of rows in a file of 64 GB with 1,000 row groups.
const STEP_LEN_MAX: u64 = 64 << 20;

/// The columns that a read touches, where the layout says so: the first, and how many further ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tag {
    pub(crate) column: Option<u32>,
    pub(crate) further: u32,
    /// It begins or ends within a piece: readers of columns do so, but not across several.
    pub(crate) is_cut: bool,
}

impl Tag {
    /// Columns that it goes on to as no reader of columns would.
    fn crossed(&self) -> u32 {
        if self.is_cut { self.further } else { 0 }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Stream {
    /// Where its first read began.
    pub(crate) origin: u64,
    pub(crate) last: Span,
    /// From the beginning of a read to that of the next, on average; for direct succession, 0.
    pub(crate) step: i64,
    /// Successions of this kind so far.
    pub(crate) steps: u32,
    /// How far a step differed at most.
    deviation: u64,
    /// Bytes of a window; 0 as long as nothing was fetched.
    window: u64,
    /// What was predicted: up to which offset, or how many steps from `last` on.
    ahead_end: u64,
    ahead_steps: u64,
    /// A profile knows `last` as its first read, which is still to come.
    is_awaited: bool,
    /// How long it was in an earlier run.
    known_len: u64,
    pub(crate) used_at: u64,
    pub(crate) column_changes: u32,
    pub(crate) columns_crossed: u32,
    pub(crate) tag: Tag,
}

/// Whether `next` goes on where `last` ended. Overlapping it is a succession too if it brings something new: readers of
/// lines do so.
pub(crate) fn succeeds(last: Span, next: Span) -> bool {
    next.offset <= last.end() && next.offset >= last.offset && next.end() > last.end()
}

/// How far `next` lies from one step behind `last`. `None`: too far for a step.
fn step_error(last: Span, step: i64, next: Span) -> Option<u64> {
    let error = next.offset.abs_diff(last.offset.checked_add_signed(step)?);
    let pads_max = last.len.saturating_mul(PADDED_TIMES_MAX - 1) / 2;
    let fits = error <= pads_max.min(step.unsigned_abs() / STEP_TOLERANCE) && next.len <= last.len.saturating_mul(2);
    (fits && step != 0).then_some(error)
}

/// The step of three reads at equal distances, and by how much the second differs from the first.
pub(crate) fn step_of(first: Span, second: Span, third: Span) -> Option<(i64, u64)> {
    let distance = second.offset.abs_diff(first.offset);
    if distance > STEP_LEN_MAX {
        return None;
    }
    let step = if second.offset > first.offset { distance as i64 } else { -(distance as i64) };
    Some((step, step_error(second, step, third)?))
}

impl Stream {
    /// Reads from `origin` to `last`, with this step between them; 0: one behind the other.
    pub(crate) fn new(origin: u64, last: Span, step: i64, deviation: u64, tag: Tag, used_at: u64) -> Self {
        let (ahead_end, steps) = (last.end(), if step == 0 { 1 } else { 2 });
        Self {
            origin,
            last,
            step,
            steps,
            deviation,
            window: 0,
            ahead_end,
            ahead_steps: 0,
            is_awaited: false,
            known_len: 0,
            used_at,
            column_changes: tag.further,
            columns_crossed: tag.crossed(),
            tag,
        }
    }

    /// One that a profile knows: `first` is its first read, and so many steps were made.
    pub(crate) fn known(first: Span, step: i64, steps: u32) -> Self {
        let last = if step == 0 { Span::new(first.offset, 0) } else { first };
        let known_len = first.len.saturating_mul(u64::from(steps).saturating_add(1));
        let stream = Self::new(first.offset, last, step, 0, Tag::default(), 0);
        Self { steps: 0, is_awaited: step != 0, known_len, ..stream }
    }

    /// Only equal steps are worth a line in a profile: errors of an average add up.
    pub(crate) fn is_exact(&self) -> bool {
        self.deviation == 0
    }

    pub(crate) fn why(&self) -> Why {
        if self.step == 0 { Why::Sequential } else { Why::Strided }
    }

    /// How well a read fits: the smaller, the better.
    pub(crate) fn fit(&self, span: Span) -> Option<u64> {
        match self.step {
            0 => succeeds(self.last, span).then_some(0),
            _ if self.is_awaited => (span.offset == self.last.offset).then_some(0),
            step => step_error(self.last, step, span),
        }
    }

    /// The read `span`, which fits.
    pub(crate) fn take(&mut self, span: Span, tag: Tag, used_at: u64) {
        let is_other = self.tag.column != tag.column;
        self.column_changes = self.column_changes.saturating_add(tag.further).saturating_add(is_other.into());
        self.columns_crossed = self.columns_crossed.saturating_add(tag.crossed());
        if self.step == 0 {
            self.ahead_end = self.ahead_end.max(span.end());
        } else if std::mem::take(&mut self.is_awaited) {
            self.ahead_steps = self.ahead_steps.saturating_sub(1);
            (self.last, self.tag, self.used_at) = (span, tag, used_at);
            return;
        } else {
            self.deviation = self.deviation.max(step_error(self.last, self.step, span).unwrap_or(0));
            self.ahead_steps = self.ahead_steps.saturating_sub(1);
        }
        self.steps = self.steps.saturating_add(1);
        (self.last, self.tag, self.used_at) = (span, tag, used_at);
        if self.step != 0 && self.deviation > 0 {
            let average = i64::try_from(self.travelled() / i128::from(self.steps)).unwrap_or(0);
            // A stream that does not move on is none in steps.
            self.step = if average == 0 { self.step } else { average };
        }
    }

    /// What was predicted is not there: its fetch failed, or it was dropped.
    pub(crate) fn predict_again(&mut self) {
        (self.ahead_end, self.ahead_steps) = (self.last.end(), 0);
    }

    /// Nothing was fetched by it.
    pub(crate) fn is_fresh(&self) -> bool {
        self.window == 0
    }

    /// Bytes predicted and not yet come to.
    pub(crate) fn backlog(&self) -> u64 {
        match self.step {
            0 => self.ahead_end.saturating_sub(self.last.end()),
            _ => self.ahead_steps.saturating_mul(self.padded_len()),
        }
    }

    fn padded_len(&self) -> u64 {
        self.last.len.saturating_add(self.pad().saturating_mul(2))
    }

    /// On each side: what a step differed, once for the read that is predicted, once for what the average is wrong.
    fn pad(&self) -> u64 {
        self.deviation.saturating_mul(2)
    }

    /// Steps that differ are predicted no further than they were seen, since errors of the average add up.
    fn steps_ahead_max(&self) -> u64 {
        if self.deviation == 0 { STEPS_AHEAD_MAX } else { STEPS_AHEAD_MAX.min(self.steps.into()) }
    }

    /// Whether it is time for more: when half of the last window was read, so that a round trip is hidden behind the
    /// other half.
    pub(crate) fn is_due(&self, missed: bool) -> bool {
        missed || self.backlog() <= self.window / 2
    }

    /// The next window, which grows as a kernel's does: by four, then by two, up to `window_max`.
    pub(crate) fn grow(&mut self, window_max: u64) -> u64 {
        let window_max = match self.step {
            0 => window_max,
            _ => window_max.min(self.steps_ahead_max().saturating_mul(self.padded_len())),
        };
        // Three reads at equal distances may be chance, so only a few steps at first.
        let least = if self.step == 0 { WINDOW_LEN_FIRST } else { 1 };
        let first = self.padded_len().saturating_mul(4).max(least).max(self.known_len);
        self.window = match self.window {
            0 => first,
            small if small < window_max / 16 => small.saturating_mul(4),
            other => other.saturating_mul(2),
        }
        .min(window_max);
        self.window
    }

    /// Up to `amount` bytes that come next, in a file of this length.
    pub(crate) fn predict(&mut self, amount: u64, file_len: u64, found: &mut Vec<Span>) {
        if self.step == 0 {
            let span = Span::new(self.ahead_end, amount).before(file_len);
            self.ahead_end = self.ahead_end.max(span.end());
            found.push(span);
            return;
        }
        let each = self.padded_len();
        if each > self.last.len.saturating_mul(PADDED_TIMES_MAX) {
            return;
        }
        let mut left = amount;
        while left >= each && self.ahead_steps < self.steps_ahead_max() {
            let Some(span) = self.step_at(self.ahead_steps + 1).filter(|span| span.offset < file_len) else { return };
            found.push(span.before(file_len));
            self.ahead_steps += 1;
            left -= each;
        }
    }

    fn step_at(&self, number: u64) -> Option<Span> {
        let number = i128::from(number) - i128::from(self.is_awaited);
        let distance = match self.deviation {
            0 => i128::from(self.step) * number,
            _ => self.travelled() * number / i128::from(self.steps.max(1)),
        };
        let offset = u64::try_from(i128::from(self.last.offset) + distance).ok()?;
        let start = offset.saturating_sub(self.pad());
        Some(Span::new(start, self.last.len.saturating_add(self.pad()).saturating_add(offset - start)))
    }

    fn travelled(&self) -> i128 {
        i128::from(self.last.offset) - i128::from(self.origin)
    }

    /// What was predicted last and not come to.
    pub(crate) fn unread(&self, found: &mut Vec<Span>) {
        match self.step {
            0 => found.push(Span::between(self.last.end(), self.ahead_end)),
            _ => found.extend((1..=self.ahead_steps).map_while(|number| self.step_at(number))),
        }
    }
}
