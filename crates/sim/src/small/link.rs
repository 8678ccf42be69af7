//! Connections for small writes over the simulated network: they carry the bytes of the endpoints that ship.

use crate::executor::{Either, HostId, Notify, OnceSender, Sim, oneshot, race};
use crate::net::{Rx, Tx};
use crate::world::World;
use bytes::Bytes;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use types::endpoint::{Asking, Endpoint, Loss};
use wire::small::SmallAnswer;
use xfer::small::{Caller, CallerLimits, Question};

/// As the client and the datanode are set up.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// One of so many pieces arrives in several.
const CUT_EACH: usize = 3;

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
    pub(super) async fn run(&self, outward: Tx<Bytes>, mut inward: Rx<Bytes>, mut on_event: impl FnMut(E::Event)) {
        // What came and is not read yet; `None`: the peer sends no more.
        let mut rest = Some(Bytes::new());
        loop {
            self.send(&outward);
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
                    None => Either::First(self.came.notified().await),
                }
            };
            let came = async {
                match &rest {
                    Some(bytes) if bytes.is_empty() => inward.recv().await,
                    _ => std::future::pending().await,
                }
            };
            let happened = race(woken, came).await;
            match happened {
                Either::First(Either::First(())) => {}
                Either::First(Either::Second(())) => self.endpoint.borrow_mut().handle_timeout(self.sim.now()),
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

    fn send(&self, outward: &Tx<Bytes>) {
        let now = self.sim.now();
        let mut endpoint = self.endpoint.borrow_mut();
        while let Some(piece) = endpoint.transmit(now) {
            let len = piece.len();
            if !self.cut(piece).into_iter().all(|part| outward.send(part)) {
                return endpoint.on_lost(now, "the peer is gone");
            }
            endpoint.on_sent(now, len);
        }
    }

    /// A network keeps the order of bytes and not where one piece ends.
    fn cut(&self, mut piece: Bytes) -> Vec<Bytes> {
        let mut parts = Vec::new();
        while piece.len() > 1 && self.sim.one_in(CUT_EACH) {
            parts.push(piece.split_to(1 + self.sim.below(piece.len() - 1)));
        }
        parts.extend((!piece.is_empty()).then_some(piece));
        parts
    }
}

/// The connections of one process to all datanodes.
#[derive(Default)]
pub(crate) struct Links {
    places: RefCell<BTreeMap<usize, Rc<Driven<Caller<Waiter>>>>>,
}

impl Links {
    /// Asks a datanode; as `io::asking` does it.
    pub(super) async fn ask(
        &self,
        world: &Rc<World>,
        (from, number): (HostId, usize),
        question: Question,
    ) -> Result<SmallAnswer, Loss> {
        // Bits flip on each way.
        let question = || Question { body: world.carry_bytes(&question.body), ..question.clone() };
        let kept = { self.places.borrow().get(&number).filter(|link| !link.is_ended()).cloned() };
        if let Some(link) = kept {
            match ask(&link, question()).await {
                Err(loss) if loss.is_of_connection() => {}
                answer => return answer,
            }
        }
        let link = self.connect(world, from, number).await?;
        ask(&link, question()).await
    }

    async fn connect(
        &self,
        world: &Rc<World>,
        from: HostId,
        number: usize,
    ) -> Result<Rc<Driven<Caller<Waiter>>>, Loss> {
        let (net, to) = (world.net.clone(), World::node_host(number));
        let accept = world.call_node(from, number, CONNECT_MAX, move |node| {
            let (asks, asked) = net.pipe(from, to);
            let (answers, answered) = net.pipe(to, from);
            node.serve_small(asked, answers);
            Box::pin(std::future::ready((asks, answered)))
        });
        let (asks, answered) = accept.await.map_err(|error| Loss::Unsent(format!("{error:?}")))?;
        // Somebody else may have connected meanwhile: their connection ends when it is idle.
        let link = Driven::new(&world.sim, |now| Caller::new(now, &CallerLimits::default()));
        self.places.borrow_mut().insert(number, Rc::clone(&link));
        let driven = Rc::clone(&link);
        world.sim.spawn(from, async move {
            driven.run(asks, answered, |(waiter, outcome): (Waiter, _)| waiter.send(outcome)).await;
        });
        Ok(link)
    }
}

async fn ask(link: &Driven<Caller<Waiter>>, question: Question) -> Result<SmallAnswer, Loss> {
    let (sender, receiver) = oneshot();
    let asked = link.with(|caller, now| caller.ask(now, question, sender));
    if asked.is_err() {
        return Err(Loss::Unsent("it was closed".to_owned()));
    }
    receiver.await.unwrap_or_else(|| Err(Loss::Broken("it was closed".to_owned())))
}
