//! Memory for requests on their way in. Those of the urgent protocol have a lane of their own, so that clients' requests cannot delay them;
//! both lanes have the same rules.

use crate::budget::{Budget, Charge};
use crate::coming::Coming;
use crate::pace::{Pace, Patience};
use crate::server::ServerOptions;
use bytes::{Bytes, BytesMut};
use hdfs::frame::FrameError;
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt};
use wire::delimited::{self, FIELD_LEN};

/// Requests of stock clients are shorter. Longer ones, once they are here, are counted as what they can grow to when they are
/// decoded, so that only a few at a time are: two bytes can be an empty message, which takes some 400 in memory. Shorter ones with long
/// lists are counted as these. A list that would take more than there is for all is refused; one that lies deeper waits until nothing
/// else is held, as it may be no list but a text.
const USUAL_LEN_MAX: usize = 64 << 10;
const EXPANSION: usize = 200;
/// Messages within messages that are looked into for such lists. No request nests so deep.
const DEPTH_MAX: usize = 8;

#[derive(Debug)]
pub(crate) struct Lane {
    /// For requests as they came.
    requests: Arc<Budget>,
    /// For what long requests grow to when they are decoded. It is theirs alone: a connection that only promises a long one, and
    /// sends no more than its length, must not keep the short ones of all others waiting.
    decoded: Arc<Budget>,
    patience: Patience,
}

/// What a request holds until it is answered.
#[derive(Debug)]
pub(crate) struct Held {
    _came: Charge,
    _decoded: Option<Charge>,
}

impl Lane {
    pub(crate) fn new(options: &ServerOptions, requests_len_max: usize, decoded_len_max: usize) -> Self {
        let requests = Budget::new(requests_len_max);
        let patience = Patience::new(options.frame_time_max, options, &requests);
        Self { requests, decoded: Budget::new(decoded_len_max), patience }
    }

    /// Counts a request that is here, or so short that it is not worth a wait.
    pub(crate) fn count(&self, len: usize) -> Charge {
        self.requests.count(len)
    }

    /// Reads until `buffer` holds `whole` bytes: a frame of which the length has come.
    pub(crate) async fn read(
        &self,
        socket: &mut (impl AsyncRead + Unpin),
        buffer: &mut BytesMut,
        whole: usize,
    ) -> io::Result<Charge> {
        if buffer.len() >= whole {
            return Ok(self.requests.admit(whole).await);
        }
        let mut coming = Coming::begin(&self.requests);
        let mut pace = self.patience.begin(whole);
        while buffer.len() < whole {
            let piece = pace.pause(coming.room(buffer.len(), whole)).await;
            buffer.reserve(piece);
            read_some(socket, buffer, &mut pace).await?;
        }
        Ok(coming.whole(whole))
    }

    /// As [`Lane::read`], of a frame that was counted before it came.
    pub(crate) async fn read_counted(
        &self,
        socket: &mut (impl AsyncRead + Unpin),
        buffer: &mut BytesMut,
        whole: usize,
    ) -> io::Result<()> {
        let mut pace = self.patience.begin(whole);
        while buffer.len() < whole {
            buffer.reserve(whole - buffer.len());
            read_some(socket, buffer, &mut pace).await?;
        }
        Ok(())
    }

    /// Lets a frame that is here be decoded, or says why it never will be.
    pub(crate) async fn admit(&self, frame: &Bytes, came: Charge) -> Result<Held, FrameError> {
        let (count, max) = (field_count(frame, 0), self.decoded.held_len_max() / FIELD_LEN);
        if count > max {
            return Err(FrameError::Fields { count, max });
        }
        let is_long = frame.len() > USUAL_LEN_MAX;
        let grown = if is_long { frame.len() * EXPANSION } else { field_count(frame, DEPTH_MAX) * FIELD_LEN };
        let decoded = if grown <= USUAL_LEN_MAX { None } else { Some(self.decoded.admit_at_most(grown).await) };
        Ok(Held { _came: came, _decoded: decoded })
    }
}

async fn read_some(
    socket: &mut (impl AsyncRead + Unpin),
    buffer: &mut BytesMut,
    pace: &mut Pace<'_>,
) -> io::Result<()> {
    match pace.step(socket.read_buf(buffer)).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _read => Ok(()),
    }
}

/// How many fields the messages of a frame have, as [`delimited::field_count`] counts them.
fn field_count(frame: &[u8], depth: usize) -> usize {
    let (mut rest, mut count) = (frame, 0);
    while let Ok(Some((message, len))) = delimited::split(rest, "message", frame.len()) {
        count += delimited::field_count(message, depth);
        rest = &rest[len..];
    }
    count
}
