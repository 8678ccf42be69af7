//! Looks after the chains of a file: the driver of `xfer::writer::Shortfall`, as the crate `client` has it.

use super::Client;
use super::block::Block;
use namespace::BlockRef;
use std::cell::RefCell;
use std::rc::Rc;
use types::{FileId, FsPath, NodeId};
use xfer::writer::Shortfall;

pub(super) struct ChainWatch {
    shortfall: Shortfall,
    /// A question that is under way, and its answer: nodes that could join the chain.
    asking: Option<Rc<RefCell<Option<Vec<NodeId>>>>>,
    found: Vec<NodeId>,
}

impl ChainWatch {
    /// `replication`: nodes that a chain should have.
    pub(super) fn new(client: &Client, replication: u16) -> Self {
        let shortfall = Shortfall::new(client.sim.now(), replication.into());
        Self { shortfall, asking: None, found: Vec::new() }
    }

    /// To be called behind each packet. The question goes on beside the stream.
    pub(super) fn look(&mut self, client: &Rc<Client>, (path, file): (&FsPath, FileId), block: &Block) {
        if let Some(found) = self.asking.as_ref().and_then(|asking| asking.borrow_mut().take()) {
            self.shortfall.on_answer(client.sim.now(), found.len());
            (self.asking, self.found) = (None, found);
        }
        let nodes = block.nodes();
        self.shortfall.on_chain(client.sim.now(), nodes.len());
        if !self.shortfall.is_asking() {
            self.asking = None; // it has all its nodes again
        }
        let Some(until) = self.shortfall.poll_timeout() else { return };
        self.shortfall.on_asked();
        let answer = Rc::new(RefCell::new(None));
        self.asking = Some(Rc::clone(&answer));
        let (client, path, block) = (Rc::clone(client), path.clone(), block.view);
        let missing_count = self.shortfall.missing_count(nodes.len());
        client.sim.clone().spawn(client.host, async move {
            client.sim.sleep(until.saturating_sub(client.sim.now())).await;
            let block = BlockRef { block: block.block, generation: block.generation, len: block.len };
            let name = client.name.clone();
            let asked = client.call(move |metad, _| {
                Box::pin(metad.additional_nodes(name.clone(), path.clone(), file, block, nodes.clone(), missing_count))
            });
            *answer.borrow_mut() = Some(asked.await.unwrap_or_default());
        });
    }

    /// The block is to end here; the next one may go to these nodes, even if some failed a while ago: they are back.
    pub(super) fn over(&self) -> Option<&[NodeId]> {
        self.shortfall.is_over().then_some(&self.found)
    }

    /// The block is being ended.
    pub(super) fn on_ended(&mut self, client: &Client) {
        self.asking = None;
        self.shortfall.on_ended(client.sim.now());
    }
}
