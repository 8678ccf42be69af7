//! What earlier runs have read of an opening, which comes before a window, over the same connections: op 201 and,
//! without waiting, op 202.
//!
//! ```text
//!   connection 0: header, 1st share ─▶ record ─▶ window, part 0
//!   connection n: header, n-th share ─▶           window, part n
//! ```
//!
//! All connections grow as one, whatever they carry. So what is needed first goes first over each of them: a header
//! apart, over some of them, is there a round trip later, and its columns no sooner.

use super::layout::{Pieces, Ranges, receive_window};
use crate::datanode::Connection;
use std::sync::{Mutex, PoisonError};
use tokio::sync::mpsc;
use wire::layouts::ReadLayout;
use xfer::fault::Fault;

/// Bytes of the file that are asked for with a window, if any.
#[derive(Debug, Default)]
pub(crate) struct Opening {
    /// Offset and length, in the order of the file.
    spans: Vec<(u64, u64)>,
    came: Option<mpsc::UnboundedSender<Pieces>>,
}

/// The other end of an opening.
#[derive(Debug)]
pub(crate) struct ComingOpening(mpsc::UnboundedReceiver<Pieces>);

impl Opening {
    /// `spans`: in the order of the file.
    pub(crate) fn of(spans: Vec<(u64, u64)>) -> (Self, ComingOpening) {
        let (came, coming) = mpsc::unbounded_channel();
        (Self { spans, came: Some(came) }, ComingOpening(coming))
    }

    #[cfg(test)]
    pub(crate) fn spans(&self) -> &[(u64, u64)] {
        &self.spans
    }

    /// As if it came by one share.
    #[cfg(test)]
    pub(crate) fn give(&self, pieces: Pieces) {
        let _ = self.came.as_ref().map(|came| came.send(pieces));
    }

    pub(super) fn len(&self) -> u64 {
        self.spans.iter().map(|(_, len)| len).sum()
    }

    /// What comes over the connection of that part. Of blocks that the request does not name nothing comes.
    pub(super) fn share(&self, request: &ReadLayout) -> OpeningShare {
        let spans = self.spans.iter().filter_map(|(offset, len)| Some((*offset, u32::try_from(*len).ok()?)));
        let ranges = request.part_of(request.in_blocks(spans));
        let came = self.came.clone().filter(|_| !ranges.is_empty());
        OpeningShare { ranges, came: Mutex::new(came) }
    }
}

impl ComingOpening {
    /// What comes of it, in the order of the file, once all of its shares have come or are lost. `None`: nobody was
    /// asked for it.
    pub(crate) async fn all(mut self) -> Option<Pieces> {
        let mut all = self.0.recv().await?;
        while let Some(mut pieces) = self.0.recv().await {
            all.append(&mut pieces);
        }
        all.sort_unstable_by_key(|(offset, _)| *offset);
        Some(all)
    }
}

/// Of one connection; may be empty. Dropped before it came, it is lost.
#[derive(Debug)]
pub(super) struct OpeningShare {
    ranges: Ranges,
    /// Until it came: a connection that broke behind it is replaced, and is not to bring it twice.
    came: Mutex<Option<mpsc::UnboundedSender<Pieces>>>,
}

impl OpeningShare {
    /// Its request, which is sent in front of that for the window. Empty: nothing is to come.
    pub(super) fn op(&self, request: &ReadLayout) -> Vec<u8> {
        match self.is_expected() {
            true => request.clone().into_ranges(&self.ranges).encode_op(),
            false => Vec::new(),
        }
    }

    pub(super) fn is_expected(&self) -> bool {
        self.came.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Takes it off the connection, on which nothing else comes before. What a node does not have of it is missing.
    pub(super) async fn take(&self, connection: &mut Connection, request: &ReadLayout) -> Result<(), Fault> {
        if !self.is_expected() {
            return Ok(());
        }
        let mut pieces = Pieces::new();
        receive_window(connection, request, &self.ranges, &mut pieces).await?;
        self.tell(pieces);
        Ok(())
    }

    /// Once.
    fn tell(&self, pieces: Pieces) {
        let came = self.came.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Who hears nothing of it any more does not read the file.
        let _ = came.map(|came| came.send(pieces));
    }
}

impl Drop for OpeningShare {
    fn drop(&mut self) {
        self.tell(Pieces::new());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::layouts::LayoutBlock;
    use wire::ranges::Asked;

    /// Of both ends of a file in two blocks each part has as many bytes.
    #[test]
    fn each_connection_has_its_share() {
        let block = |block, offset| LayoutBlock { offset, block, generation: 1001, len: 100, token: 0 };
        let blocks = vec![block(1, 0), block(2, 100)];
        let request = ReadLayout { file_len: 200, blocks, part_count: 3, ..ReadLayout::default() };
        let (opening, _) = Opening::of(vec![(0, 10), (150, 50)]);
        let share = |part| opening.share(&ReadLayout { part, ..request.clone() });
        let asked = |from, len| Asked { from, len };
        assert_eq!(share(0).ranges, [(0, asked(0, 10)), (1, asked(50, 10))]);
        assert_eq!(share(2).ranges, [(1, asked(80, 20))]);
        assert!(!share(2).op(&request).is_empty());
        let nothing = Opening::default().share(&request);
        assert!(nothing.op(&request).is_empty() && !nothing.is_expected());
        let (one_byte, _) = Opening::of(vec![(0, 1)]);
        assert!(!one_byte.share(&request).is_expected(), "of one byte two parts of three have nothing");
    }

    #[tokio::test]
    async fn what_came_is_known_once_no_share_is_left() {
        let block = LayoutBlock { offset: 0, block: 1, generation: 1001, len: 15, token: 0 };
        let request = ReadLayout { file_len: 15, blocks: vec![block], part_count: 3, ..ReadLayout::default() };
        let (opening, coming) = Opening::of(vec![(0, 15)]);
        let shares: Vec<_> = (0..3).map(|part| opening.share(&ReadLayout { part, ..request.clone() })).collect();
        drop(opening);
        [1, 0].into_iter().for_each(|part| shares[part].tell(vec![(5 * part as u64, vec![1; 5])]));
        // One that is asked for again, by another connection, counts no more; the third one is lost.
        shares[0].tell(vec![(0, vec![1; 5])]);
        drop(shares);
        let offsets = coming.all().await.map(|all| all.iter().map(|(offset, _)| *offset).collect::<Vec<_>>());
        assert_eq!(offsets, Some(vec![0, 5]));
        let (opening, coming) = Opening::of(vec![(0, 15)]);
        drop(opening);
        assert_eq!(coming.all().await, None, "a store that does not know where columns lie is not asked");
    }
}
