//! What leads a window: headers that are wanted before its columns, over the same connections (op 201 before op 202).
//!
//! ```text
//!   connection 0: header, 1st share ─▶ record ─▶ window, part 0
//!   connection n: header, n-th share ─▶           window, part n
//! ```
//!
//! All connections grow as one, whatever they carry. So what is needed first goes first over each of them: a header
//! apart, over some of them, is there a round trip later, and its columns no sooner.

use super::first_window::{Pieces, Ranges};
use super::layout::receive_window;
use crate::datanode::Connection;
use tokio::sync::mpsc;
use wire::layouts::ReadLayout;
use xfer::fault::Fault;

/// Bytes of the file that are asked for with a window, if any.
#[derive(Debug, Default)]
pub(crate) struct Lead {
    /// Offset and length, in the order of the file.
    spans: Vec<(u64, u64)>,
    came: Option<Sender>,
}

/// Of one share: its bytes, or that not all of them come.
type Sender = mpsc::UnboundedSender<Option<Pieces>>;

/// The other end of a lead.
#[derive(Debug)]
pub(crate) struct ComingLead {
    /// Bytes that have not come.
    left: u64,
    coming: mpsc::UnboundedReceiver<Option<Pieces>>,
}

impl Lead {
    /// `spans`: in the order of the file.
    pub(crate) fn of(spans: Vec<(u64, u64)>) -> (Self, ComingLead) {
        let (came, coming) = mpsc::unbounded_channel();
        let left = spans.iter().map(|(_, len)| len).sum();
        (Self { spans, came: Some(came) }, ComingLead { left, coming })
    }

    #[cfg(test)]
    pub(crate) fn spans(&self) -> &[(u64, u64)] {
        &self.spans
    }

    /// As if it came by one share.
    #[cfg(test)]
    pub(crate) fn give(&self, pieces: Option<Pieces>) {
        let _ = self.came.as_ref().map(|came| came.send(pieces));
    }

    pub(super) fn len(&self) -> u64 {
        self.spans.iter().map(|(_, len)| len).sum()
    }

    /// What comes over the connection of that part. Of blocks that the request does not name nothing comes.
    pub(super) fn share(&self, request: &ReadLayout) -> LeadShare {
        let spans = self.spans.iter().filter_map(|(offset, len)| Some((*offset, u32::try_from(*len).ok()?)));
        let ranges = request.part_of(request.in_blocks(spans));
        let op = (!ranges.is_empty()).then(|| request.clone().into_ranges(&ranges).encode_op());
        LeadShare { op: op.unwrap_or_default(), ranges, came: self.came.clone() }
    }
}

impl ComingLead {
    /// All bytes of the lead, in the order of the file; `None`: some of them do not come.
    pub(crate) async fn all(mut self) -> Option<Pieces> {
        let mut all = Pieces::new();
        while self.left > 0 {
            let mut pieces = self.coming.recv().await??;
            let len = pieces.iter().map(|(_, bytes)| bytes.len() as u64).sum();
            self.left = self.left.saturating_sub(len);
            all.append(&mut pieces);
        }
        all.sort_unstable_by_key(|(offset, _)| *offset);
        Some(all)
    }
}

/// Of one connection; may be empty.
#[derive(Clone, Debug)]
pub(super) struct LeadShare {
    /// Its request, which is sent in front of that for the window.
    pub(super) op: Vec<u8>,
    ranges: Ranges,
    came: Option<Sender>,
}

impl LeadShare {
    /// Takes it off the connection, on which nothing else comes before.
    pub(super) async fn take(&self, connection: &mut Connection, request: &ReadLayout) -> Result<(), Fault> {
        if self.ranges.is_empty() {
            return Ok(());
        }
        let mut pieces = Pieces::new();
        receive_window(connection, request, &self.ranges, &mut pieces).await?;
        if pieces.len() < self.ranges.len() {
            return Err(Fault::Protocol("not all came that leads a window".to_owned()));
        }
        self.put(Some(pieces));
        Ok(())
    }

    /// Who waits for it is not to wait for the window, too.
    pub(super) fn fail(&self) {
        self.put(None);
    }

    fn put(&self, pieces: Option<Pieces>) {
        // Who hears nothing of it any more does not read the file.
        let _ = self.came.as_ref().map(|came| came.send(pieces));
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
        let (lead, _) = Lead::of(vec![(0, 10), (150, 50)]);
        let share = |part| lead.share(&ReadLayout { part, ..request.clone() });
        let asked = |from, len| Asked { from, len };
        assert_eq!(share(0).ranges, [(0, asked(0, 10)), (1, asked(50, 10))]);
        assert_eq!(share(2).ranges, [(1, asked(80, 20))]);
        assert!(!share(2).op.is_empty());
        let nothing = Lead::default().share(&request);
        assert!(nothing.op.is_empty() && nothing.ranges.is_empty());
    }

    #[tokio::test]
    async fn a_lead_is_there_when_all_of_its_shares_are() {
        let piece = |offset| Some(vec![(offset, vec![1; 5])]);
        let (lead, coming) = Lead::of(vec![(0, 10)]);
        [piece(5), piece(0)].into_iter().for_each(|piece| lead.give(piece));
        let offsets = coming.all().await.map(|all| all.iter().map(|(offset, _)| *offset).collect::<Vec<_>>());
        assert_eq!(offsets, Some(vec![0, 5]));
        let (lead, coming) = Lead::of(vec![(0, 10)]);
        [piece(5), None].into_iter().for_each(|piece| lead.give(piece));
        assert_eq!(coming.all().await, None);
        let (lead, coming) = Lead::of(vec![(0, 10)]);
        drop(lead);
        assert_eq!(coming.all().await, None);
    }
}
