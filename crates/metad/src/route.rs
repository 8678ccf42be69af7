//! A route to other servers that the environment supplies: a simulation has one.

use bytes::Bytes;
use rpc::CallError;
use std::future::Future;
use std::pin::Pin;

/// What a call is answered.
pub type RouteAnswer<'a> = Pin<Box<dyn Future<Output = Result<Bytes, CallError>> + Send + 'a>>;

/// A way to the RPC ports of datanodes and of other members that is none of this process's connections.
pub trait Route: Send + Sync {
    /// `addr` is host:port. The request is encoded and undelimited, as is the answer.
    fn call<'a>(&'a self, call: RouteCall<'a>, request: Bytes) -> RouteAnswer<'a>;
}

/// What is called, and where.
#[derive(Clone, Copy, Debug)]
pub struct RouteCall<'a> {
    /// host:port.
    pub addr: &'a str,
    /// The calling user.
    pub user: &'a str,
    pub protocol: &'static str,
    pub method: &'static str,
}
