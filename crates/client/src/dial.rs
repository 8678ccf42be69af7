//! Connections to datanodes, ready for their first operation.

use crate::client::Client;
use crate::located::Node;
use crate::socket::Socket;
use sasl::Secret;

impl Client {
    /// A connection to a datanode, for a block with this token.
    pub(crate) async fn dial(&self, node: &Node, secret: Secret<'_>) -> std::io::Result<Socket> {
        let socket = Socket::connect(node, self.store().dialer()).await?;
        // Where tokens have no passwords nothing can be proven.
        if secret.password.is_empty() {
            return Ok(socket);
        }
        self.defaults().await.map_err(std::io::Error::other)?;
        let protection = self.store().protection().clone();
        socket.behind(async move |stream| protection.protect(stream, secret).await).await
    }
}
