//! Memory for requests on their way in. Those of the urgent protocol have a lane of their own, so that clients'
//! requests cannot delay them; both lanes have the same rules.
//!
//! ```text
//! short ──▶ a quarter ─────┐
//!                          ├──▶ room to be decoded, within a time limit ──▶ the call
//! long ──▶ the other part ─┘    (only what grows)
//! ```
//!
//! Promise: however many long requests wait, short ones are let in: heartbeats of datanodes are among them. What a
//! short one grows to counts as if it had come, without a wait, so that the next ones are not read when many are held.

use crate::budget::{Budget, Charge, Usage};
use crate::coming::Coming;
use crate::inward::{Inward, PieceRoom};
use crate::options::ServerOptions;
use crate::pace::{Pace, Patience};
use bytes::{Bytes, BytesMut};
use hdfs::fields::{self, FIELD_LEN};
use hdfs::frame::{self, FrameError};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncRead;
use tokio::time::timeout;

/// Requests of stock clients are shorter. Longer ones, once they are here, are counted as what they can grow to when
/// they are decoded, so that only a few at a time are: two bytes can be an empty message, which takes some 400 in
/// memory. Shorter ones with long lists are counted as these. A list that would take more than there is for all is
/// refused; one that lies deeper waits until nothing else is held, as it may be no list but a text.
pub(crate) const USUAL_LEN_MAX: usize = 64 << 10;
/// Per byte: [`FIELD_LEN`] for each two.
const EXPANSION: usize = 400 / 2;
/// A key and an empty value.
const FIELD_LEN_MIN: usize = 2;
const _: () = assert!(EXPANSION * FIELD_LEN_MIN >= FIELD_LEN, "no message grows by more");
/// Messages within messages that are looked into for such lists. No request nests so deep.
const DEPTH_MAX: usize = 8;
/// The part of a lane's memory that requests of usual length have to themselves. A guess: it holds some thousands of
/// them.
const SHORT_PART: usize = 4;

#[derive(Debug)]
pub(crate) struct Lane {
    short: Part,
    long: Part,
    /// For what long requests grow to when they are decoded. It is theirs alone: a connection that only promises a long
    /// one, and sends no more than its length, must not keep the short ones of all others waiting.
    decoded: Arc<Budget>,
    decoded_wait_max: Duration,
}

/// For requests of some length as they came.
#[derive(Debug)]
struct Part {
    requests: Arc<Budget>,
    patience: Patience,
}

impl Part {
    fn new(options: &ServerOptions, len_max: usize) -> Self {
        let requests = Budget::new(len_max);
        Self { patience: Patience::new(options.frame_time_max, options, &requests), requests }
    }

    /// Whether what is held could take more than the part has when it is decoded.
    fn may_outgrow(&self) -> bool {
        self.requests.held_len() > self.requests.held_len_max() / EXPANSION
    }
}

/// What a request holds until it is answered.
#[derive(Debug)]
pub(crate) struct Held {
    _came: Charge,
    _decoded: Option<Charge>,
}

impl Lane {
    pub(crate) fn new(options: &ServerOptions, requests_len_max: usize, decoded_len_max: usize) -> Self {
        let short_len = requests_len_max / SHORT_PART;
        Self {
            short: Part::new(options, short_len),
            long: Part::new(options, requests_len_max - short_len),
            decoded: Budget::new(decoded_len_max),
            decoded_wait_max: options.decoded_wait_max,
        }
    }

    /// Short requests, long ones, and what these are decoded to.
    pub(crate) fn usage(&self, [short, long, decoded]: [&'static str; 3]) -> [Usage; 3] {
        [self.short.requests.usage(short), self.long.requests.usage(long), self.decoded.usage(decoded)]
    }

    fn part(&self, len: usize) -> &Part {
        if len > USUAL_LEN_MAX { &self.long } else { &self.short }
    }

    /// Counts a request that is here, or so short that it is not worth a wait.
    pub(crate) fn count(&self, len: usize) -> Charge {
        self.part(len).requests.count(len)
    }

    /// For sealed pieces of a connection: each is as short as a short request.
    pub(crate) fn piece_room(&self) -> PieceRoom {
        PieceRoom { charge: self.short.requests.count(0), patience: self.short.patience.clone() }
    }

    /// Reads until `buffer` holds `whole` bytes: a frame of which the length has come.
    pub(crate) async fn read(
        &self,
        socket: &mut Inward<impl AsyncRead + Unpin>,
        buffer: &mut BytesMut,
        whole: usize,
    ) -> io::Result<Charge> {
        let Part { requests, patience } = self.part(whole);
        if buffer.len() >= whole {
            return Ok(requests.admit(whole).await);
        }
        let mut coming = Coming::begin(requests);
        let mut pace = patience.begin(whole);
        while buffer.len() < whole {
            let piece = pace.pause(coming.room(buffer.len(), whole)).await;
            read_some(socket, buffer, piece, &mut pace).await?;
        }
        Ok(coming.whole(whole))
    }

    /// As [`Lane::read`], of a frame that was counted before it came.
    pub(crate) async fn read_counted(
        &self,
        socket: &mut Inward<impl AsyncRead + Unpin>,
        buffer: &mut BytesMut,
        whole: usize,
    ) -> io::Result<()> {
        let mut pace = self.part(whole).patience.begin(whole);
        while buffer.len() < whole {
            let rest = whole - buffer.len();
            read_some(socket, buffer, rest, &mut pace).await?;
        }
        Ok(())
    }

    /// What a frame that is here may take when it is decoded, or why it never will be. Of a short one that is counted
    /// in `came` at once: it is admitted without a wait.
    pub(crate) fn growth(&self, frame: &Bytes, came: &mut Charge) -> Result<usize, FrameError> {
        // Whatever it is made of, it grows to no more: most are so short.
        if frame.len() * EXPANSION <= USUAL_LEN_MAX {
            // As long as all that are held could grow so far and still fit, none is looked into.
            if self.short.may_outgrow() {
                came.grow(field_count(frame, DEPTH_MAX) * FIELD_LEN);
            }
            return Ok(0);
        }
        let (count, max) = (field_count(frame, 0), self.decoded.held_len_max() / FIELD_LEN);
        if count > max {
            return Err(FrameError::Fields { count, max });
        }
        let is_long = frame.len() > USUAL_LEN_MAX;
        if is_long {
            return Ok(frame.len() * EXPANSION);
        }
        let grown = field_count(frame, DEPTH_MAX) * FIELD_LEN;
        if grown <= USUAL_LEN_MAX {
            came.grow(grown);
            return Ok(0);
        }
        Ok(grown)
    }

    /// Lets a frame be decoded that grows so far beyond what was counted of it. Whoever waits here holds what it sent,
    /// so everything else that it waits for comes first, and this has a limit: `None` if it took longer.
    pub(crate) async fn admit(&self, grown: usize, came: Charge) -> Option<Held> {
        let decoded = match grown {
            0 => None,
            _ => Some(timeout(self.decoded_wait_max, self.decoded.admit_at_most(grown)).await.ok()?),
        };
        Some(Held { _came: came, _decoded: decoded })
    }
}

/// Reads `len_max` bytes at most: what follows a long request is not counted with it.
async fn read_some(
    socket: &mut Inward<impl AsyncRead + Unpin>,
    buffer: &mut BytesMut,
    len_max: usize,
    pace: &mut Pace<'_>,
) -> io::Result<()> {
    match pace.step(socket.read(buffer, len_max)).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _read => Ok(()),
    }
}

/// How many fields the messages of a frame have, as [`fields::count`] counts them.
fn field_count(frame: &Bytes, depth: usize) -> usize {
    let (mut rest, mut count) = (frame.clone(), 0);
    while let Ok(message) = frame::take(&mut rest, "message") {
        count += fields::count(&message, depth);
    }
    count
}
