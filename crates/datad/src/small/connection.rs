//! One connection of small writes: its machine says which requests are whole, each is served beside the others.

use super::request;
use super::small_writes::SmallWrites;
use crate::budget::Reservation;
use crate::connection::Connection;
use crate::data_service::DataService;
use crate::fronts::Front;
use crate::operations::Operation;
use crate::read_buffer::ReadError;
use io::{ConnectionPermit, Driven};
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use wire::OpHeader;
use wire::small::{HEADER_LEN_MAX, SmallAnswer, SmallWrite};
use xfer::answer::Refusal;
use xfer::memory::{Held, Memory};
use xfer::small::{Checked, Fanout, Node, Request, Server, ServerError, ServerLimits};

/// Serves requests until the peer hangs up. The first one's header has been read.
pub(crate) async fn serve(
    writes: &Arc<SmallWrites>,
    connection: Connection,
    first: &OpHeader,
    permit: &Arc<ConnectionPermit>,
) -> Result<(), ReadError> {
    let (connection, behind) = connection.into_parts();
    let mut socket = connection.pumped(None)?;
    let came = [&first.encode()[..], &behind].concat();
    let limits = ServerLimits::new(Duration::from_millis(writes.service.limits.op_ms));
    let gives_way = Arc::new(Notify::new());
    let gate = Gate { service: Arc::clone(&writes.service), gives_way: Arc::clone(&gives_way) };
    let driven = Arc::new(Driven::new(|now| Server::new(now, gate, limits, &came)));
    tokio::select! {
        () = driven.run(&mut socket, |request| begin(writes, request, permit, &driven)) => {}
        () = gives_way.notified() => return Err(ReadError::GaveWay),
    }
    match driven.with(|server, _| server.error().cloned()) {
        None => Ok(()),
        Some(ServerError::Torn) => Err(ReadError::Torn),
        Some(ServerError::Wire(error)) => Err(error.into()),
        Some(ServerError::Memory) => Err(ReadError::Memory(HEADER_LEN_MAX)),
        Some(ServerError::Untaken) => Err(ReadError::Io(ErrorKind::TimedOut.into())),
        Some(ServerError::Lost(why)) => Err(ReadError::Io(std::io::Error::other(why))),
    }
}

/// The node, as one connection sees it.
#[derive(Debug)]
struct Gate {
    service: Arc<DataService>,
    /// A header of which no end came makes way for another.
    gives_way: Arc<Notify>,
}

impl Node for Gate {
    type Held = Reservation;
    type Front = Front;

    fn admit(&self, header: &SmallWrite) -> Result<Checked, Refusal> {
        self.service.admission.small(&self.service.outside.inwards(header)).inspect_err(|_| {
            self.service.operations.begin(Operation::SmallPut, || self.service.now()).refused();
        })
    }

    fn take(&self, len: u64) -> Option<Reservation> {
        self.service.budget.take(len)
    }

    fn take_for_front(&self, len: u64) -> Option<Front> {
        let mut front = self.service.fronts.front(&self.gives_way);
        front.grow_to(len).then_some(front)
    }
}

fn begin(
    writes: &Arc<SmallWrites>,
    request: Request<Reservation>,
    permit: &Arc<ConnectionPermit>,
    driven: &Arc<Driven<Server<Gate>>>,
) {
    let open = Open { number: request.number(), driven: Arc::clone(driven), answer: None };
    let Some(transfer) = writes.service.admission.transfer() else {
        let refusal = Refusal::error("this node has as many transfers as it can take; try another one");
        return open.answer(Fanout::refused(request.number(), refusal));
    };
    let (writes, guard) = (Arc::clone(writes), permit.begin_request());
    io::task::spawn("small write", async move {
        open.answer(request::serve(&writes, &request).await);
        drop((request, transfer, guard));
    });
}

/// A request without an answer yet. It gets one, whatever becomes of the task that serves it.
struct Open {
    number: u64,
    driven: Arc<Driven<Server<Gate>>>,
    answer: Option<SmallAnswer>,
}

impl Open {
    fn answer(mut self, answer: SmallAnswer) {
        self.answer = Some(answer);
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let given_up = || Fanout::refused(self.number, Refusal::error("this node gave the request up"));
        let answer = self.answer.take().unwrap_or_else(given_up);
        self.driven.with(|server, now| server.answer(now, &answer));
    }
}
