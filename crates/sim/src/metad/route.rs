//! The way from a metadata server to the RPC ports of datanodes.

use crate::executor::{Boxed, HostId};
use crate::net::CallError;
use crate::world::World;
use bytes::Bytes;
use metad::{Route, RouteAnswer, RouteCall};
use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

/// As a connection of `rpc` waits.
const CALL_MAX: Duration = Duration::from_secs(60);

thread_local! {
    /// Servers are told to be fit for several threads, and find the world, which is not, here.
    static WORLD: RefCell<Weak<World>> = const { RefCell::new(Weak::new()) };
}

/// While this lives, the servers of this thread reach datanodes.
pub(crate) struct Routed(());

impl Routed {
    pub(crate) fn through(world: &Rc<World>) -> Self {
        WORLD.set(Rc::downgrade(world));
        Self(())
    }
}

impl Drop for Routed {
    fn drop(&mut self) {
        WORLD.set(Weak::new());
    }
}

/// Of one member.
struct FromMember(u64);

pub(crate) fn route(id: u64) -> Arc<dyn Route> {
    Arc::new(FromMember(id))
}

impl Route for FromMember {
    fn call<'a>(&'a self, call: RouteCall<'a>, request: Bytes) -> RouteAnswer<'a> {
        let RouteCall { addr, protocol, method, .. } = call;
        let (answer, answered) = tokio::sync::oneshot::channel();
        if let Some(world) = WORLD.with_borrow(Weak::upgrade) {
            let from = World::metad_host(self.0 as usize - 1);
            let to = World::host_of_addr(addr);
            world.sim.clone().spawn(HostId::NOBODY, async move {
                let there = Rc::clone(&world);
                let serve = move || -> Option<Boxed<_>> {
                    if let Some(number) = World::member_on(to) {
                        let metad = there.metad(number)?;
                        return Some(Box::pin(async move { metad.pass_on(protocol, method, request).await }));
                    }
                    let node = there.node_on(to)?;
                    Some(Box::pin(async move { node.answer(method, request).await }))
                };
                let answered = world.net.call(from, to, CALL_MAX, serve).await;
                let _the_caller_may_be_dead = answer.send(answered);
            });
        }
        Box::pin(async move {
            let broken = || rpc::CallError::Broken("the host is gone".to_owned());
            match answered.await {
                Ok(Ok(Ok(bytes))) => Ok(bytes),
                Ok(Ok(Err(class))) => {
                    Err(rpc::CallError::Remote { class: class.to_owned(), message: "refused".to_owned(), detail: None })
                }
                Ok(Err(CallError::Connect)) => {
                    Err(rpc::CallError::Connect(std::io::ErrorKind::ConnectionRefused.into()))
                }
                Ok(Err(CallError::TimedOut)) => Err(rpc::CallError::TimedOut),
                Ok(Err(CallError::Broken)) | Err(_) => Err(broken()),
            }
        })
    }
}
