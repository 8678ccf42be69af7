//! Memory for answers of servers that may be strangers: any number of clients share it.
//!
//! Promise: what all of them hold of answers that come, and of those that are being decoded, is bounded, by the rules
//! of a server's requests: bytes are counted as they come, who sends too slowly while memory is short is cut off, and a
//! list that would take more than there is for all is refused.

use crate::budget::Charge;
use crate::lane::{Held, Lane};
use crate::options::ServerOptions;
use bytes::Bytes;
use hdfs::frame::FrameError;
use std::sync::Arc;

/// Answers on their way in, of all who share this. A guess: several of the longest pages.
const CAME_LEN_MAX: usize = 32 << 20;
/// What they may take together while they are decoded. A page of a node's blocks takes some 20 MB: a guess, three of
/// them.
const DECODED_LEN_MAX: usize = 64 << 20;

/// Room for answers. Clones are the same room.
#[derive(Clone, Debug)]
pub struct AnswerRoom {
    pub(crate) lane: Arc<Lane>,
}

impl Default for AnswerRoom {
    fn default() -> Self {
        Self { lane: Arc::new(Lane::new(&ServerOptions::default(), CAME_LEN_MAX, DECODED_LEN_MAX)) }
    }
}

/// What an answer that is here holds, until it is decoded.
#[derive(Debug)]
pub(crate) struct Place {
    came: Charge,
    grown: usize,
}

impl AnswerRoom {
    /// Says why an answer is not to be decoded, if so.
    pub(crate) fn place(&self, frame: &Bytes, mut came: Charge) -> Result<Place, FrameError> {
        let grown = self.lane.growth(frame, &mut came)?;
        Ok(Place { came, grown })
    }

    /// Waits until it may be decoded. `None`: that took too long.
    pub(crate) async fn admit(&self, Place { came, grown }: Place) -> Option<Held> {
        self.lane.admit(grown, came).await
    }
}
