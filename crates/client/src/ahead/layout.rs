//! Which bytes hold which entries of which column: asked of the file itself, once it looks like one that says so.
//!
//! ```text
//!   first reads ──▶ ends in PAR1, begins with root ──▶ Inquiry ── want ──▶ held or coming: at once
//!                                                        ▲                 short: fetched
//!                                                        └── bytes ◀────── long: with the program's own read of it
//! ```
//!
//! What earlier runs have read of the data set is known before any layout is. So a store that knows where columns lie
//! is asked with the opening ([`ask`]), and sends them in the same flight, behind the headers that earlier runs have
//! read: no list of ranges has to come first. Where it does not say, and for columns that no run has read, the file
//! says it itself ([`find`]).
//!
//! The reads go through the cache, so what the parser takes is there when the program asks for it, and no byte travels
//! twice. A header that the program never asks for is not fetched.

use super::origin::Origin;
use super::shell::{Shell, WantedColumns};
use crate::client::Client;
use crate::error::Result;
use crate::layout_memory::LayoutRoom;
use crate::read::{ComingPart, FirstWindow, Opening, RangeRead};
use layout::{Answer, Inquiry, Layout, LayoutError};
use prefetch::profile::ProfileName;
use prefetch::{Index, Profile, Span};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// What the parser wants is fetched for it if no more is missing; longer ones come when the program reads them. A
/// guess.
const FETCHED_LEN_MAX: u64 = 64 << 10;
/// And so many of them at a time: each is a range of a request. A guess: footers of stripes have some hundred bytes.
const COMING_COUNT_MAX: usize = 1024;

/// The program's reads. If they show an end of a file that says where its columns are, that is found out.
pub(super) async fn read<O: Origin>(shell: &Arc<Shell<O>>, reads: &mut [RangeRead<'_>]) -> Result<()> {
    shell.read(reads).await?;
    reads.iter().for_each(|read| look(shell, read.offset, read.dest));
    Ok(())
}

fn look<O: Origin>(shell: &Arc<Shell<O>>, offset: u64, bytes: &[u8]) {
    // Most reads touch neither end.
    if offset > 0 && offset + (bytes.len() as u64) < shell.origin.len() {
        return;
    }
    let room = shell.client.store().layout_room();
    let inquiry = shell.lock().search.look(offset, bytes, &room);
    let Some(inquiry) = inquiry.filter(|_| shell.client.store().scope().has_runtime()) else { return };
    // Before the program reads on.
    shell.is_parsing.send_replace(true);
    let parsing = Parsing(Arc::clone(shell));
    shell.keep_task("layout", find(parsing, inquiry, room));
}

/// While it is there, the parser has bytes to work on and readers wait for it.
struct Parsing<O: Origin>(Arc<Shell<O>>);

impl<O: Origin> Drop for Parsing<O> {
    fn drop(&mut self) {
        self.0.is_parsing.send_replace(false);
    }
}

async fn find<O: Origin>(parsing: Parsing<O>, inquiry: Inquiry, room: LayoutRoom) {
    let shell = &parsing.0;
    let Some(layout) = said_by_the_file(shell, inquiry, &room).await else { return };
    // What the store was asked for is on its way when it is known which bytes that are.
    shell.asked().await;
    found(shell, layout, room, Vec::new()).await;
}

/// `room`: what the parser takes.
async fn said_by_the_file<O: Origin>(shell: &Arc<Shell<O>>, mut inquiry: Inquiry, room: &LayoutRoom) -> Option<Layout> {
    loop {
        let want = inquiry.want();
        let bytes = bytes_of(shell, Span::new(want.offset, want.len), &coming(&inquiry), room).await?;
        match io::task::blocking(move || inquiry.give(&bytes)).await {
            Ok(Answer::Ask(more)) => inquiry = more,
            Ok(Answer::Done(layout)) => return Some(layout),
            Err(error) => {
                tracing::debug!(%error, "no layout");
                return None;
            }
        }
    }
}

/// How long the store may take to say where columns lie, once what comes before them is there, beside some round trips:
/// readers wait for it. A guess: what it takes to read the footer of a wide table.
const ASKING_MAX: Duration = Duration::from_millis(500);
/// A connection, the question, and another one because the first was closed.
const ASKING_ROUND_TRIPS: u32 = 4;

/// How long is waited for what the store was asked, as long as the store answers anything.
pub(super) fn asking_max(client: &Client) -> Duration {
    ASKING_MAX + client.store().round_trip() * ASKING_ROUND_TRIPS
}

/// Opens a file, with what its profile knows.
pub(super) fn open<O: Origin>(shell: &Arc<Shell<O>>, profile: Option<&Profile>) {
    if let Some(wanted) = shell.open(profile) {
        shell.is_asking.send_replace(true);
        shell.keep_task("layout", ask(Asking(Arc::clone(shell)), wanted));
    }
}

/// While it is there, readers wait for what the store says.
struct Asking<O: Origin>(Arc<Shell<O>>);

impl<O: Origin> Drop for Asking<O> {
    fn drop(&mut self) {
        self.0.learned_nothing();
        self.0.is_asking.send_replace(false);
    }
}

/// Asks the store for columns that earlier runs have read, and where they lie.
async fn ask<O: Origin>(asking: Asking<O>, wanted: WantedColumns<O>) {
    let WantedColumns { columns, len, opening } = wanted;
    let shell = &asking.0;
    let (landed, landing) = oneshot::channel();
    let opening = opening.map(|flying| {
        let (opening, coming) = Opening::of(flying.spans());
        shell.keep_task("read ahead", async move {
            flying.land_opening(coming).await;
            // Who asks may have given up.
            let _ = landed.send(());
        });
        opening
    });
    let too_long = async {
        // Over a slow link the opening takes its time. An error says that there is none.
        let _landed = landing.await;
        tokio::time::sleep(asking_max(&shell.client)).await;
    };
    let asked = shell.origin.first_window(columns, len, opening.unwrap_or_default());
    let answered = tokio::select! {
        answered = asked => Some(answered),
        () = too_long => None,
    };
    match answered {
        Some(Ok(Some(FirstWindow { layout, room, parts }))) => found(shell, layout, room, parts).await,
        Some(Ok(None)) => tracing::debug!("the store does not say where the columns lie"),
        Some(Err(error)) => tracing::debug!(%error, "the store does not say where the columns lie"),
        None => tracing::debug!("the store takes too long to say where the columns lie"),
    }
}

/// What the parser will want next, as much as is fetched for it.
pub(super) fn coming(inquiry: &Inquiry) -> Vec<Span> {
    let mut left = FETCHED_LEN_MAX.saturating_sub(inquiry.want().len);
    let fits = |span: &Span| match left.checked_sub(span.len) {
        Some(rest) => {
            left = rest;
            true
        }
        None => false,
    };
    let coming = inquiry.coming().take(COMING_COUNT_MAX);
    coming.map(|want| Span::new(want.offset, want.len)).take_while(fits).collect()
}

/// What the parser wants, when it is there; if it is not, `coming` is fetched with it. `None`: there is no room for it,
/// or it cannot be read, which the program will be told if it tries.
async fn bytes_of<O: Origin>(shell: &Arc<Shell<O>>, span: Span, coming: &[Span], room: &LayoutRoom) -> Option<Vec<u8>> {
    // Not while it waits for a program that may never read it.
    let has_room = || Some(()).filter(|()| layout::Room::take(&mut room.clone(), span.len));
    if shell.missing_len(span) == 0 {
        has_room()?;
        return shell.bring(span, &[]).await.ok();
    }
    shell.is_parsing.send_replace(false);
    // It may be among what the store sends in a moment, as a reader's may.
    shell.asked().await;
    // The program may have asked for it before the parser came to want it. If it has not, it wakes the parser.
    let reading = {
        let mut state = shell.lock();
        (state.machine.missing_len(span) > FETCHED_LEN_MAX).then(|| {
            let (waiting, read) = oneshot::channel();
            state.search.awaited = Some((span, waiting));
            read
        })
    };
    if let Some(read) = reading {
        read.await.ok()?;
    }
    let bytes = match has_room() {
        Some(()) => shell.bring(span, coming).await.ok(),
        None => None,
    };
    // Of a long one whoever woke this has said so before.
    shell.is_parsing.send_replace(true);
    bytes
}

/// It is used if there is memory for it. `room`: what was taken to make it.
async fn found<O: Origin>(shell: &Arc<Shell<O>>, layout: Layout, room: LayoutRoom, parts: Vec<ComingPart>) {
    let (file_len, data_set) = (shell.origin.len(), shell.lock().learned.data_set());
    let profiles = shell.client.store().profiles();
    let (index, name, schema, profile) = io::task::blocking(move || {
        let name = data_set.map(|data_set| ProfileName::of(&data_set, Some(&layout)));
        let schema = ProfileName::of("", Some(&layout));
        let profile = name.and_then(|name| profiles.get(name));
        (Arc::new(Index::new(Arc::new(layout), file_len)), name, schema, profile)
    })
    .await;
    if !room.set(index.memory_len()) {
        tracing::debug!(error = %LayoutError::NoRoom, "no layout");
        return;
    }
    let shared = {
        let mut state = shell.lock();
        state.layout_room = Some(room);
        state.learned.with_columns(name, schema);
        state.learned.shared_columns()
    };
    let profile = profile.or(shared);
    shell.learned_layout(index, profile.as_ref(), parts);
}
