//! Connections for small writes over the simulated network: they carry the bytes of the endpoints that ship.

use crate::datanode::Datanode;
use crate::executor::{Either, HostId, Notify, OnceSender, Sim, oneshot, race};
use crate::socket::Socket;
use crate::world::World;
use bytes::{Buf, Bytes};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use types::endpoint::{Endpoint, Loss, RequestEndpoint};
use wire::small::SmallAnswer;
use xfer::small::{Caller, CallerLimits, OutgoingRequest};

/// As the client is set up.
const CLIENT_CONNECT_MAX: Duration = Duration::from_secs(10);

type Waiter = OnceSender<Result<SmallAnswer, Loss>>;

/// An endpoint that many use while [`Driven::run`] carries its bytes.
pub(super) struct Driven<E> {
    endpoint: RefCell<E>,
    came: Notify,
    sim: Sim,
}

impl<E: Endpoint> Driven<E> {
    pub(super) fn new(sim: &Sim, begin: impl FnOnce(Duration) -> E) -> Rc<Self> {
        let endpoint = RefCell::new(begin(sim.now()));
        Rc::new(Self { endpoint, came: Notify::default(), sim: sim.clone() })
    }

    pub(super) fn with<R>(&self, act: impl FnOnce(&mut E, Duration) -> R) -> R {
        let result = act(&mut self.endpoint.borrow_mut(), self.sim.now());
        self.came.notify();
        result
    }

    fn is_ended(&self) -> bool {
        self.endpoint.borrow().is_ended()
    }

    /// Carries bytes until the endpoint has ended.
    pub(super) async fn run(&self, socket: &Socket, mut on_event: impl FnMut(E::Event)) {
        // What came and is not read yet; `None`: the peer sends no more.
        let mut rest = Some(Bytes::new());
        let mut unsent = Bytes::new();
        loop {
            let is_full = self.send(socket, &mut unsent);
            while let Some(event) = { self.endpoint.borrow_mut().poll_event() } {
                on_event(event);
            }
            if self.is_ended() {
                return;
            }
            if rest.as_ref().is_none_or(|rest| !rest.is_empty()) && self.read(&mut rest) {
                continue;
            }
            let due = { self.endpoint.borrow().poll_timeout() };
            let woken = async {
                match due {
                    Some(due) => race(self.came.notified(), self.sim.sleep_until(due)).await,
                    None => {
                        self.came.notified().await;
                        Either::First(())
                    }
                }
            };
            let came = async {
                match &rest {
                    Some(bytes) if bytes.is_empty() => {
                        let mut bytes = Vec::new();
                        socket.receive(&mut bytes).await.map(|()| Bytes::from(bytes))
                    }
                    _ => std::future::pending().await,
                }
            };
            let writable =
                async { if is_full { _ = socket.ready(false, true).await } else { std::future::pending().await } };
            let happened = race(race(woken, writable), came).await;
            match happened {
                Either::First(Either::First(Either::First(())) | Either::Second(())) => {}
                Either::First(Either::First(Either::Second(()))) => {
                    self.endpoint.borrow_mut().handle_timeout(self.sim.now());
                }
                Either::Second(bytes) => rest = bytes,
            }
        }
    }

    /// Gives the endpoint what fits into its buffer; says whether it took something.
    fn read(&self, rest: &mut Option<Bytes>) -> bool {
        let mut endpoint = self.endpoint.borrow_mut();
        let Some(mut buffer) = endpoint.take_buffer() else { return false };
        let room = buffer.capacity() - buffer.len();
        let part = rest.as_mut().map(|rest| rest.split_to(room.min(rest.len()))).unwrap_or_default();
        buffer.extend_from_slice(&part);
        endpoint.on_read(self.sim.now(), buffer, part.len());
        true
    }

    /// Sends what the socket takes, of `unsent` first; true if that was not all.
    fn send(&self, socket: &Socket, unsent: &mut Bytes) -> bool {
        let now = self.sim.now();
        let mut endpoint = self.endpoint.borrow_mut();
        loop {
            if unsent.is_empty() {
                match endpoint.transmit(now) {
                    Some(piece) => *unsent = piece,
                    None => return false,
                }
                continue;
            }
            match socket.send(unsent) {
                Ok(0) => return true,
                Ok(len) => {
                    unsent.advance(len);
                    endpoint.on_sent(now, len);
                }
                Err(_) => {
                    endpoint.on_lost(now, "the peer is gone");
                    return false;
                }
            }
        }
    }
}

/// The connections of one process to all datanodes.
pub(crate) struct RequestConnections {
    connect_max: Duration,
    limits: CallerLimits,
    places: RefCell<BTreeMap<usize, Rc<Driven<Caller<Waiter>>>>>,
}

impl RequestConnections {
    /// Those of a datanode to the others.
    pub(super) fn of_targets() -> Self {
        let connect_max = xfer::write::Limits::DEFAULT.connect;
        Self { connect_max, limits: CallerLimits::of_targets(), places: RefCell::default() }
    }

    pub(crate) fn of_client() -> Self {
        Self { connect_max: CLIENT_CONNECT_MAX, limits: CallerLimits::default(), places: RefCell::default() }
    }

    /// Sends a request to a datanode, as `io::request_connections` does it.
    pub(crate) async fn call(
        &self,
        world: &Rc<World>,
        (from, number): (HostId, usize),
        outgoing: OutgoingRequest,
    ) -> Result<SmallAnswer, Loss> {
        // Bits flip on each way.
        let outgoing = || OutgoingRequest { body: world.carry_bytes(&outgoing.body), ..outgoing.clone() };
        let kept = { self.places.borrow().get(&number).filter(|link| !link.is_ended()).cloned() };
        if let Some(link) = kept {
            match call(&link, outgoing()).await {
                Err(loss) if loss.is_of_connection() => {}
                answer => return answer,
            }
        }
        let link = self.connect(world, from, number).await?;
        call(&link, outgoing()).await
    }

    async fn connect(
        &self,
        world: &Rc<World>,
        from: HostId,
        number: usize,
    ) -> Result<Rc<Driven<Caller<Waiter>>>, Loss> {
        let dialed = world.dial(from, number, self.connect_max, Datanode::serve_small).await;
        let socket = dialed.map_err(|error| Loss::Unsent(format!("{error:?}")))?;
        // Somebody else may have connected meanwhile: their connection ends when it is idle.
        let link = Driven::new(&world.sim, |now| Caller::new(now, &self.limits));
        self.places.borrow_mut().insert(number, Rc::clone(&link));
        let driven = Rc::clone(&link);
        world.sim.spawn(from, async move {
            driven.run(&socket, |(waiter, outcome): (Waiter, _)| waiter.send(outcome)).await;
        });
        Ok(link)
    }
}

async fn call(link: &Driven<Caller<Waiter>>, outgoing: OutgoingRequest) -> Result<SmallAnswer, Loss> {
    let (sender, receiver) = oneshot();
    let sent = link.with(|caller, now| caller.send_request(now, outgoing, sender));
    if sent.is_err() {
        return Err(Loss::Unsent("it was closed".to_owned()));
    }
    receiver.await.unwrap_or_else(|| Err(Loss::Broken("it was closed".to_owned())))
}
