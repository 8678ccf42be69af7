//! Calls of which only a few answers are looked at: whatever else tools and programs ask for.

use super::{Answer, Metad};
use bytes::Bytes;
use hdfs::Exception;
use namespace::RetryKey;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;

impl Metad {
    /// Any method of any protocol.
    pub(crate) async fn visit(
        self: Rc<Self>,
        protocol: &'static str,
        method: &'static str,
        retry: RetryKey,
        body: Bytes,
    ) -> Answer<Bytes> {
        self.pass(([10, 9, 0, 2], 1000).into(), protocol, 1, method, Some(retry), body).await
    }

    /// Any method of HDFS's protocol for clients, by any user. `Err`: it may be otherwise later.
    pub(crate) async fn visit_as(
        self: Rc<Self>,
        user: &'static str,
        method: &'static str,
        retry: RetryKey,
        body: Bytes,
    ) -> Answer<Result<Bytes, Exception>> {
        self.pass_as(user, ([10, 9, 0, 3], 1000).into(), method, retry, body).await
    }

    /// `hdfs fsck`, from its beginning to its end. `None`: too many run.
    pub(crate) async fn fsck(self: Rc<Self>, query: &[(&str, &str)]) -> Option<String> {
        let pairs = query.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let mut pieces = self.server.fsck(pairs, IpAddr::V4(Ipv4Addr::new(10, 9, 0, 2)), None)?;
        let mut report = String::new();
        while let Some(piece) = pieces.recv().await {
            report.push_str(&piece);
        }
        Some(report)
    }
}
