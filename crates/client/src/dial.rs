//! Connections to datanodes, ready for their first operation.

use crate::client::Client;
use crate::located::Node;
use crate::socket::Socket;
use sasl::Secret;

impl Client {
    /// A connection to a datanode, for a block with this token.
    pub(crate) async fn dial(&self, node: &Node, secret: Secret<'_>) -> std::io::Result<Socket> {
        // Where tokens have no passwords nothing can be proven.
        if secret.password.is_empty() {
            return Box::pin(self.store().socket(node)).await;
        }
        self.defaults().await.map_err(std::io::Error::other)?;
        match self.dial_as(node, secret).await {
            // The server has rolled its keys, or was started anew: it gives out another one.
            Err(error) if sasl::is_of_secret(&error) && self.store().protection().needs_key() => {
                self.dial_as(node, secret).await
            }
            dialled => dialled,
        }
    }

    async fn dial_as(&self, node: &Node, secret: Secret<'_>) -> std::io::Result<Socket> {
        // Boxed, as callers hold this within futures that are long enough.
        let socket = Box::pin(self.store().socket(node)).await?;
        let protection = self.store().protection().clone();
        let key = match protection.needs_key() {
            true => self.encryption_key().await.map_err(std::io::Error::other)?,
            false => None,
        };
        let (protecting, used) = (protection.clone(), key.clone());
        let shaken = socket
            .behind(async move |stream| protecting.protect(stream, node.xfer_port, secret, used.as_deref()).await)
            .await;
        if let (Err(error), Some(key)) = (&shaken, &key)
            && sasl::is_of_secret(error)
        {
            protection.forget(key);
        }
        shaken
    }
}
