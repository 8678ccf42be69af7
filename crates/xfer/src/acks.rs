//! The acks of a chain, out of the bytes in which they come.

use wire::{PipelineAck, WireError};

/// What may stay of an ack that has not come as a whole, with the varint of its length.
const PART_LEN_MAX: usize = PipelineAck::LEN_MAX + 5;

/// Promise: it holds a part of one ack, [`PART_LEN_MAX`] at most; bytes of acks that came whole are not copied.
#[derive(Debug, Default)]
pub(crate) struct AckReader {
    part: Vec<u8>,
}

impl AckReader {
    /// Hands over the acks that came, in their order, for as long as `on_ack` wants more. Keepalives are left out:
    /// they say nothing of a packet, and that anything came the caller has noted itself.
    pub(crate) fn read(&mut self, bytes: &[u8], mut on_ack: impl FnMut(PipelineAck) -> bool) -> Result<(), WireError> {
        let mut part = std::mem::take(&mut self.part);
        let is_part = !part.is_empty();
        if is_part {
            part.extend_from_slice(bytes);
        }
        let all = if is_part { &part[..] } else { bytes };
        let mut at = 0;
        while let Some((ack, len)) = PipelineAck::split(&all[at..])? {
            at += len;
            if !ack.is_keepalive() && !on_ack(ack) {
                return Ok(());
            }
        }
        let rest_len = all.len() - at;
        assert!(rest_len <= PART_LEN_MAX, "{rest_len} bytes are no part of an ack");
        if is_part {
            part.drain(..at);
        } else {
            part.extend_from_slice(&bytes[at..]);
        }
        self.part = part;
        Ok(())
    }

    pub(crate) fn check(&self) {
        assert!(self.part.len() <= PART_LEN_MAX, "{} bytes of one ack", self.part.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Status;

    #[test]
    fn acks_are_found_however_they_are_cut_and_keepalives_left_out() {
        let mut bytes = Vec::new();
        let acks = [1, 2, 3].map(|seqno| PipelineAck { seqno, replies: vec![Status::SUCCESS; 3] });
        for ack in &acks {
            ack.put(&mut bytes);
            PipelineAck::KEEPALIVE.put(&mut bytes);
        }
        for piece_len in 1..=bytes.len() {
            let (mut reader, mut found) = (AckReader::default(), Vec::new());
            for piece in bytes.chunks(piece_len) {
                reader
                    .read(piece, |ack| {
                        found.push(ack);
                        true
                    })
                    .unwrap();
                reader.check();
            }
            assert_eq!((&found[..], reader.part.len()), (&acks[..], 0), "in pieces of {piece_len}");
        }
    }

    #[test]
    fn nothing_is_handed_over_that_is_not_wanted() {
        let mut bytes = Vec::new();
        (0..3).for_each(|seqno| PipelineAck { seqno, replies: Vec::new() }.put(&mut bytes));
        let mut found = Vec::new();
        let mut reader = AckReader::default();
        reader
            .read(&bytes, |ack| {
                found.push(ack.seqno);
                ack.seqno < 1
            })
            .unwrap();
        assert_eq!(found, [0, 1]);
    }
}
