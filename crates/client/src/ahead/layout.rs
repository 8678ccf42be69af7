//! Which bytes hold which entries of which column: asked of the file itself, once it looks like one that says so.
//!
//! ```text
//!   first reads ──▶ ends in PAR1, begins with root ──▶ Inquiry ── want ──▶ held or coming: at once
//!                                                        ▲                 short: fetched
//!                                                        └── bytes ◀────── long: with the program's own read of it
//! ```
//!
//! The reads go through the cache, so what the parser takes is there when the program asks for it, and no byte travels
//! twice. A header that the program never asks for is not fetched. Where a store knows the layout, it is to be asked in
//! place of the file ([`find`] is the one place).

use super::origin::Origin;
use super::shell::Shell;
use layout::{Answer, Inquiry, Layout, Limits};
use prefetch::{Index, Span};
use std::sync::Arc;
use tokio::sync::oneshot;

/// Reads that touch an end of the file and are looked at: who opens a file reads its ends first. A guess.
const LOOKS_MAX: u32 = 8;
/// The parser's wants up to this length are fetched for it; longer ones come when the program reads them. A guess.
const FETCHED_LEN_MAX: u64 = 64 << 10;
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
    awaited: Option<(Span, oneshot::Sender<()>)>,
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

    /// What is fetched beside the program's reads: of a footer, what lies before the part that it asked for.
    pub(super) fn beside(&mut self, spans: &[Span]) -> Vec<Span> {
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
    fn look(&mut self, offset: u64, bytes: &[u8]) -> Option<Inquiry> {
        let end = offset + bytes.len() as u64;
        if self.looks_left == 0 || bytes.is_empty() {
            return None;
        }
        self.looks_left -= 1;
        let begun = match bytes {
            [.., b'P', b'A', b'R', b'1'] if end == self.file_len => layout::begin_at_end(self.file_len, LIMITS),
            [b'P', b'A', b'R', b'1', ..] if offset == 0 => layout::begin_at_end(self.file_len, LIMITS),
            [b'r', b'o', b'o', b't', ..] | [b'A', b'R', b'R', b'O', b'W', b'1', ..] if offset == 0 => {
                layout::begin_within(self.file_len, LIMITS)
            }
            _ => return None,
        };
        self.looks_left = 0;
        begun.inspect_err(|error| tracing::debug!(%error, "no layout")).ok()
    }
}

/// The program has read these bytes. If they are the end of a file that says where its columns are, that is found out.
pub(super) fn look<O: Origin>(shell: &Arc<Shell<O>>, offset: u64, bytes: &[u8]) {
    // Most reads touch neither end.
    if offset > 0 && offset + (bytes.len() as u64) < shell.origin.len() {
        return;
    }
    let inquiry = shell.lock().search.look(offset, bytes);
    let Some(inquiry) = inquiry.filter(|_| shell.client.store().scope().has_runtime()) else { return };
    // Before the program reads on.
    shell.is_parsing.send_replace(true);
    let parsing = Parsing(Arc::clone(shell));
    shell.keep_task("layout", find(parsing, inquiry));
}

/// While it is there, the parser has bytes to work on and readers wait for it.
struct Parsing<O: Origin>(Arc<Shell<O>>);

impl<O: Origin> Drop for Parsing<O> {
    fn drop(&mut self) {
        self.0.is_parsing.send_replace(false);
    }
}

async fn find<O: Origin>(parsing: Parsing<O>, mut inquiry: Inquiry) {
    let shell = &parsing.0;
    let layout = loop {
        let want = inquiry.want();
        let Some(bytes) = bytes_of(shell, Span::new(want.offset, want.len)).await else { return };
        match io::task::blocking(move || inquiry.give(&bytes)).await {
            Ok(Answer::Ask(more)) => inquiry = more,
            Ok(Answer::Done(layout)) => break layout,
            Err(error) => {
                tracing::debug!(%error, "no layout");
                return;
            }
        }
    };
    found(shell, layout).await;
}

/// What the parser wants, when it is there. `None`: it cannot be read, which the program will be told if it tries.
async fn bytes_of<O: Origin>(shell: &Arc<Shell<O>>, span: Span) -> Option<Vec<u8>> {
    if shell.has_all(span) {
        return shell.bring(span).await.ok();
    }
    shell.is_parsing.send_replace(false);
    if span.len > FETCHED_LEN_MAX {
        let (waiting, read) = oneshot::channel();
        shell.lock().search.awaited = Some((span, waiting));
        read.await.ok()?;
    }
    let bytes = shell.bring(span).await.ok();
    // Of a long one whoever woke this has said so before.
    shell.is_parsing.send_replace(true);
    bytes
}

async fn found<O: Origin>(shell: &Arc<Shell<O>>, layout: Layout) {
    let (file_len, data_set) = (shell.origin.len(), shell.lock().learned.data_set());
    let profiles = shell.client.store().profiles();
    let (index, name, profile) = io::task::blocking(move || {
        let name = data_set.map(|data_set| prefetch::profile::ProfileName::of(&data_set, Some(&layout)));
        let profile = name.and_then(|name| profiles.get(name));
        (Arc::new(Index::new(Arc::new(layout), file_len)), name, profile)
    })
    .await;
    shell.lock().learned.with_columns(name);
    shell.learned_layout(index, profile.as_ref());
}
