//! Bytes of a file's blocks that are not here: of the nodes that the metadata server names.

use super::apart::Apart;
use crate::data_service::DataService;
use crate::fetch::{CopyError, Fetcher};
use crate::metad::Leader;
use std::collections::HashMap;
use std::sync::Arc;
use types::{FileId, InodeId};
use wire::layouts::ReadLayout;
use wire::node::{BlockToken, CopyOrder};
use wire::ranges::Asked;
use xfer::read::Range;

/// Nodes that are asked for a block.
const SOURCE_COUNT_MAX: usize = 3;
/// Reads of other nodes for one file. A footer and what it points to take a few; each may take some round trips.
const READ_COUNT_MAX: usize = 64;

/// Of whose file a block is, that was read without a token on another node.
pub(super) const NOT_SAID: FileId = InodeId(0);

/// What was learned of other nodes while one file is asked.
#[derive(Debug)]
pub(super) struct Elsewhere<'a> {
    /// Who says which they are. `None`: nobody does yet.
    leader: Option<&'a Arc<Leader>>,
    /// Of blocks, by their places, who has them.
    sources: HashMap<usize, Vec<String>>,
    read_count: usize,
}

impl<'a> Elsewhere<'a> {
    pub(super) fn by(leader: Option<&'a Arc<Leader>>) -> Self {
        Self { leader, sources: HashMap::new(), read_count: 0 }
    }

    /// Verified bytes of the block at this place of the request, by the asker's token, which the other node checks;
    /// and whose the block is.
    pub(super) async fn read(
        &mut self,
        service: &DataService,
        request: &ReadLayout,
        (place, asked): (usize, Asked),
        apart: &Apart,
    ) -> Option<(Vec<u8>, FileId)> {
        let named = service.admission.layout(request, place).ok()?;
        let of = request.blocks.get(place)?;
        let addrs = self.sources(place, of.block).await?;
        let token = request.tokens.get(of.token as usize)?;
        let order = CopyOrder {
            block: of.block,
            generation: of.generation,
            len: of.len,
            token: Some(BlockToken { identifier: token.identifier.clone(), password: token.password.clone() }),
            ..CopyOrder::default()
        };
        let range = Range { from: asked.from, end: asked.end() };
        for addr in addrs {
            self.begin_read()?;
            // As many connections lead to other nodes as may.
            let onward = service.admission.onward().ok()?;
            let fetcher = Fetcher::new(&service.limits, Some(Arc::clone(&service.outward)));
            let (order, pool) = (order.clone(), request.pool.clone());
            let read = apart.run(move || {
                let _onward = onward;
                fetcher.bytes(&addr, &pool, &order, range)
            });
            match read.await? {
                Ok(bytes) => return Some((bytes, named.file().unwrap_or(NOT_SAID))),
                Err(CopyError::Source { reason, .. } | CopyError::Own(reason)) => {
                    tracing::debug!(reason, "another node does not bring a block for a layout");
                }
            }
        }
        None
    }

    /// The nodes that have a block, as they were named when they were asked for first.
    async fn sources(&mut self, place: usize, block: u64) -> Option<Vec<String>> {
        if let Some(known) = self.sources.get(&place) {
            return Some(known.clone());
        }
        match self.leader?.asker()?.sources(block).await {
            Ok(mut addrs) => {
                addrs.truncate(SOURCE_COUNT_MAX);
                self.sources.insert(place, addrs.clone());
                Some(addrs)
            }
            Err(error) => {
                tracing::debug!(error = rpc::log_text(&error), "nobody says who has a block for a layout");
                None
            }
        }
    }

    /// `None`: there were as many as may be.
    fn begin_read(&mut self) -> Option<()> {
        self.read_count += 1;
        (self.read_count <= READ_COUNT_MAX).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_file_is_not_read_of_other_nodes_for_ever() {
        let mut elsewhere = Elsewhere::by(None);
        let begun = (0..1000).filter(|_| elsewhere.begin_read().is_some()).count();
        assert_eq!(begun, READ_COUNT_MAX);
    }
}
