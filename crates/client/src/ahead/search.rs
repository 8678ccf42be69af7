//! What the search for a file's layout watches of the program's reads: pure.

use crate::layout_memory::LayoutRoom;
use layout::{Format, Inquiry, Limits};
use prefetch::Span;
use tokio::sync::oneshot;

/// Reads that touch an end of the file and are looked at: who opens a file reads its ends first. A guess.
const LOOKS_MAX: u32 = 8;
/// The footer of a wide table has about a 500th of the file's bytes; one who asks for an end gets this much of it, so
/// that footers come in one read: a megabyte is what 32 new connections bring in two round trips.
const TAIL_SHARE: u64 = 200;
const TAIL_LEN_MIN: u64 = 64 << 10;
const TAIL_LEN_MAX: u64 = 1 << 20;
/// A read that ends with the file and begins not farther from its end looks for a footer: DuckDB asks for 256 KiB.
const TAIL_ASKED_MAX: u64 = 512 << 10;

/// Of one file. A stranger wrote it: a quarter of what a server would do for it.
const LIMITS: Limits = Limits {
    asked_len_max: 32 << 20,
    question_count_max: 2_500,
    object_len_max: 24 << 20,
    objects_len_max: 64 << 20,
    piece_count_max: 1 << 20,
    column_count_max: 64 << 10,
    names_len_max: 8 << 20,
};

/// How far the search has come.
#[derive(Debug)]
pub(super) struct Search {
    file_len: u64,
    looks_left: u32,
    has_tail: bool,
    /// The parser waits until the program reads some of this.
    pub(super) awaited: Option<(Span, oneshot::Sender<()>)>,
}

impl Search {
    pub(super) fn new(file_len: u64) -> Self {
        Self { file_len, looks_left: LOOKS_MAX, has_tail: false, awaited: None }
    }

    /// Tells the parser if the program reads what that waits for. True: it goes on now.
    pub(super) fn wake(&mut self, spans: &[Span]) -> bool {
        let is_touched =
            |awaited: &Span| spans.iter().any(|span| span.offset < awaited.end() && span.end() > awaited.offset);
        let waiting = self.awaited.take_if(|(awaited, _)| is_touched(awaited));
        // An error says that the search was given up.
        waiting.is_some_and(|(_, waiting)| waiting.send(()).is_ok())
    }

    /// What is fetched beside the program's reads: of a head, the rest of what a parser wants of it; of a footer, what
    /// lies before the part that it asked for.
    pub(super) fn beside(&mut self, spans: &[Span]) -> Vec<Span> {
        let head_len = layout::HEAD_LEN.min(self.file_len);
        let is_head = |span: &&Span| span.offset == 0 && (1..head_len).contains(&span.len);
        if let Some(head) = spans.iter().find(is_head).filter(|_| self.looks_left > 0) {
            return vec![Span::between(head.end(), head_len)];
        }
        let is_tail = |span: &&Span| span.end() == self.file_len && span.len <= TAIL_ASKED_MAX && !span.is_empty();
        let Some(tail) = spans.iter().find(is_tail).filter(|_| !self.has_tail && self.looks_left > 0) else {
            return Vec::new();
        };
        self.has_tail = true;
        let len = (self.file_len / TAIL_SHARE).clamp(TAIL_LEN_MIN, TAIL_LEN_MAX);
        let before = Span::between(self.file_len.saturating_sub(len), tail.offset);
        if before.is_empty() { Vec::new() } else { vec![before] }
    }

    /// Whether an end of the file is that of a format that is known; how it is asked then.
    pub(super) fn look(&mut self, offset: u64, bytes: &[u8], room: &LayoutRoom) -> Option<Inquiry> {
        let end = offset + bytes.len() as u64;
        if self.looks_left == 0 || bytes.is_empty() {
            return None;
        }
        self.looks_left -= 1;
        let is_tail = end == self.file_len;
        let format = match bytes {
            [.., b'P', b'A', b'R', b'1'] if is_tail => Some(Format::Parquet),
            // Behind the magic is how long the postscript is.
            [.., b'O', b'R', b'C', _] if is_tail => Some(Format::Orc),
            _ if offset == 0 => Format::of(bytes),
            _ => None,
        };
        let begun = layout::begin_at_end(format?, self.file_len, LIMITS, Box::new(room.clone()));
        self.looks_left = 0;
        begun.inspect_err(|error| tracing::debug!(%error, "no layout")).ok()
    }
}
