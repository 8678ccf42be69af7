//! One small file on its way.

use super::lease;
use super::wish::Wish;
use crate::client::Client;
use crate::error::{Error, Result};
use crate::stock::{Lease, Stock};
use ::io::request_connections::RequestError;
use wire::client::{CLIENT_PROTOCOL, PUT_FILE, PutBlock, PutFileRequest, PutFileResponse};
use wire::small::SmallWrite;
use xfer::small::{ATTEMPT_COUNT_MAX, OutgoingRequest, Verdict};
use xfer::writer::Whole;

/// A block that is given back unless the server has said that the file is put. It may have refused before it looked at
/// the block, and a caller may drop the put half-way: either would hold one lease more each time. A server that has put
/// the file meanwhile, or may still, takes nothing back.
struct Held<'a> {
    stock: &'a Stock,
    block: Option<u64>,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.block.iter().for_each(|block| self.stock.give_back(*block));
    }
}

impl Client {
    /// Puts a whole small file. Answers its id. `None`: it has to be streamed.
    pub(crate) async fn put_small(&self, wish: Wish<'_>, whole: &Whole) -> Result<Option<u64>> {
        if whole.data_len == 0 {
            return self.put_file(wish, None, false).await;
        }
        for _ in 0..ATTEMPT_COUNT_MAX {
            let Some(lease) = lease::take(self, wish).await else { return Ok(None) };
            let mut held = Held { stock: &self.session.stock, block: Some(lease.block) };
            let Some(have_count) = self.write_small(&lease, whole).await else { continue };
            let short = have_count < lease.batch.nodes.len();
            let len = u64::from(whole.data_len);
            let Lease { block, file, token, password, .. } = lease;
            let block = PutBlock { block, file, generation: lease.batch.generation, len, token, password };
            let put = self.put_file(wish, Some(block), short).await;
            if matches!(put, Ok(Some(_))) {
                held.block = None;
            }
            match put {
                // We were silent for too long, or the server forgot: what else we hold is worth no more.
                Err(Error::LeaseLost(why)) => {
                    tracing::info!(path = wish.path, why, "a lease of blocks has ended; taking another");
                    self.session.stock.forget_all();
                }
                put => return put,
            }
        }
        Ok(None)
    }

    /// `None`: the server does not know the call.
    async fn put_file(&self, wish: Wish<'_>, block: Option<PutBlock>, short: bool) -> Result<Option<u64>> {
        let request = PutFileRequest {
            path: wish.path.to_owned(),
            holder: self.session.holder.clone(),
            mode: wish.create.mode.into(),
            overwrite: wish.create.overwrite,
            create_parent: wish.create.parents,
            replication: wish.replication.into(),
            block_len: wish.block_len,
            block,
            unmasked: wish.create.unmasked().map(u32::from),
            short,
        };
        let answer: Result<PutFileResponse> = self.call_in(CLIENT_PROTOCOL, PUT_FILE, &request).await;
        match answer {
            Err(error) if lease::is_unknown(&error) => Ok(None),
            answer => answer.map(|answer| Some(answer.file)),
        }
    }

    /// How many nodes have put the block, if those are enough. Nodes that have not are avoided from now on.
    async fn write_small(&self, lease: &Lease, whole: &Whole) -> Option<usize> {
        let nodes = &lease.batch.nodes;
        let (first, others) = nodes.split_first()?;
        let header = SmallWrite {
            number: 0,
            block: lease.block,
            generation: lease.batch.generation,
            data_len: whole.data_len,
            checksum_kind: whole.spec.kind as u32,
            chunk_len: whole.spec.chunk_len,
            pool: lease.batch.pool.clone(),
            token: lease.token.clone(),
            password: lease.password.clone(),
            targets: others.iter().map(|node| node.addr.clone()).collect(),
            synced: self.options().sync_blocks,
        };
        let stock = &self.session.stock;
        let outgoing = OutgoingRequest { header, body: whole.body.clone() };
        let answer = self.session.store.small_connections().call(&first.addr, outgoing).await;
        let why = match &answer {
            Ok(answer) => answer.refusal.clone(),
            Err(error) => error.to_string(),
        };
        let mut verdict = Verdict::new(answer.as_ref().ok(), nodes.len());
        if let Err(RequestError::Connect(error)) = &answer
            && sasl::is_of_secret(error)
        {
            (verdict.needs_token, verdict.blamed) = (true, Vec::new());
        }
        for node in verdict.blamed.iter().map(|place| &nodes[*place]) {
            tracing::info!(node = node.addr, why, "a node did not put a small block");
            stock.exclude(&node.id);
        }
        if verdict.needs_token {
            tracing::info!(node = first.addr, why, "the token of a leased block is not valid any more; taking others");
            stock.forget_all();
        }
        verdict.enough.then_some(verdict.have.len())
    }
}
