//! Something that is asked of a datanode: over a connection that is idle, or else over a new one.

use crate::client::Client;
use crate::datanode::Connection;
use crate::located::{Located, Node};
use std::time::Duration;
use xfer::fault::Fault;

impl Client {
    /// Does `work` over a connection to a node that has `block`. One that was idle may have been closed by the other
    /// side just now; that is no fault of the node, and the work is done over a new one then. `limit`: to connect.
    pub(crate) async fn on_connection<T, F>(
        &self,
        block: &Located,
        node: &Node,
        limit: Duration,
        work: impl Fn(Connection) -> F,
    ) -> Result<T, Fault>
    where
        F: Future<Output = Result<T, Fault>>,
    {
        if let Some(connection) = self.store().take_idle(node) {
            match work(connection).await {
                Err(Fault::Broken(_)) => {}
                done => return done,
            }
        }
        let dialling = self.dial(node, block.secret());
        let connecting = tokio::time::timeout(limit, Connection::connect(node, self.options(), dialling)).await;
        work(connecting.map_err(|_elapsed| Fault::Silent)??).await
    }
}
