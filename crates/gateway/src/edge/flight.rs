//! What is on its way, as those who wait for it see it.

use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;

/// How long somebody else's fetch is waited for at a time: it may wait for room, or for a node that says nothing. A
/// guess.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// Pieces with their offsets, in order.
pub(super) type Pieces = Arc<[(u64, Bytes)]>;

/// Clones are the same flight.
#[derive(Clone, Debug)]
pub(super) struct Flight(watch::Receiver<Option<Pieces>>);

/// For who fetches. Dropped before it landed, it does not come.
#[derive(Debug)]
pub(super) struct Pilot(watch::Sender<Option<Pieces>>);

pub(super) fn flight() -> (Pilot, Flight) {
    let (sender, receiver) = watch::channel(None);
    (Pilot(sender), Flight(receiver))
}

impl Pilot {
    pub(super) fn land(self, pieces: Pieces) {
        self.0.send_replace(Some(pieces));
    }
}

impl Flight {
    /// Fills `dest`, which lies in one piece. False: it does not come, or not soon.
    pub(super) async fn fill(mut self, offset: u64, dest: &mut [u8]) -> bool {
        // An error says that nobody fetches it any more.
        let landed = timeout(WAIT_MAX, self.0.wait_for(Option::is_some)).await;
        let Ok(Ok(landed)) = landed else { return false };
        let Some(pieces) = landed.as_ref() else { return false };
        let at = pieces.partition_point(|(begin, _)| *begin <= offset);
        let Some((begin, bytes)) = at.checked_sub(1).and_then(|at| pieces.get(at)) else { return false };
        let from = (offset - begin) as usize;
        let Some(part) = bytes.get(from..from + dest.len()) else { return false };
        dest.copy_from_slice(part);
        true
    }
}
