//! Joining the nodes below: connects to each, sends the operation on and waits for all their answers, as
//! [`xfer::write::Join`] says.

use crate::block::link_text;
use crate::data_service::DataService;
use crate::outward::secret_of;
use crate::socket::Socket;
use hdfs::proto;
use io::poll::{Ready, Watch, poll};
use std::io::ErrorKind;
use std::ops::Range;
use std::os::fd::AsFd;
use std::time::Duration;
use wire::Routing;
use xfer::answer::Refusal;
use xfer::write::{Join, Joined, Limits, op_for_below};

/// Joins those of `op`'s targets that this node sends to, and through them the others. `Err` names a node that failed.
pub(super) fn join(
    service: &DataService,
    op: &proto::OpWriteBlockProto,
    routing: &Routing,
) -> Result<(Vec<Socket>, Vec<Joined>), Refusal> {
    let limits = service.limits.of_writes();
    let mut join = Join::new(limits);
    let mut sockets = Vec::new();
    let joined = routing.children().iter().try_for_each(|child| {
        sockets.push(ask(service, &limits, op, routing, child)?);
        join.on_asked(link_text(&op.targets[child.start]), child.len() - 1, service.now());
        Ok(())
    });
    joined.and_then(|()| wait(service, &mut join, &sockets)).inspect_err(|refusal| {
        if let Some(passed_over) = service.log_limits.not_joined.due() {
            let (link, why) = (rpc::log_text(&refusal.first_bad_link), rpc::log_text(&refusal.message));
            tracing::info!(
                block = op.header.base_header.block.block_id,
                link,
                why,
                passed_over,
                "a node below does not join"
            );
        }
    })?;
    Ok((sockets, join.into_joined()))
}

fn ask(
    service: &DataService,
    limits: &Limits,
    op: &proto::OpWriteBlockProto,
    routing: &Routing,
    child: &Range<usize>,
) -> Result<Socket, Refusal> {
    let link = link_text(&op.targets[child.start]);
    let fail = |error: std::io::Error| Refusal::blame(&link, &error.to_string());
    let addr = service.outside.addr(&op.targets[child.start]).map_err(|why| Refusal::blame(&link, &why))?;
    let place = service.patiently(|| service.admission.onward(), |_| true)?;
    let connect = || Socket::connect(addr, limits.connect);
    let socket = service.patiently(connect, io::limit::is_reached).map_err(fail)?;
    service.set_options(&socket);
    let secret = secret_of(op.header.base_header.token.as_ref());
    let setup = limits.setup_with(child.len() - 1);
    let socket = socket.protected(&service.outward, secret, setup).map_err(fail)?;
    socket.begin(&op_for_below(op, routing, child), setup).map_err(fail)?;
    Ok(socket.holding(place))
}

/// Waits until all have answered well, or one did not. What was said to them has left: [`Socket::begin`] waited for
/// that.
fn wait(service: &DataService, join: &mut Join, sockets: &[Socket]) -> Result<(), Refusal> {
    let mut piece = [0; 4096];
    while let Some(until) = join.poll_timeout() {
        let open: Vec<usize> = (0..sockets.len()).filter(|place| join.awaits(*place)).collect();
        let stop = Watch { fd: service.stop.as_fd(), read: true, write: false };
        let reads = open.iter().map(|place| Watch { fd: sockets[*place].as_fd(), read: true, write: false });
        let watches: Vec<_> = [stop].into_iter().chain(reads).collect();
        let has_opened = |place: &usize| sockets[*place].has_opened();
        let limit = if open.iter().any(has_opened) { Duration::ZERO } else { until.saturating_sub(service.now()) };
        let ready = poll(&watches, Some(limit))?;
        if ready[0] != Ready::default() {
            return Err(Refusal::error("this node is stopping"));
        }
        let is_ready = |(place, ready): &(&usize, &Ready)| **ready != Ready::default() || has_opened(place);
        for (place, _) in open.iter().zip(&ready[1..]).filter(is_ready) {
            match sockets[*place].receive(&mut piece) {
                Ok(0) => return Err(join.on_closed(*place, None)),
                Ok(len) => join.on_received(*place, service.now(), &piece[..len])?,
                Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
                Err(error) => return Err(join.on_closed(*place, Some(&error.to_string()))),
            }
        }
        join.handle_timeout(service.now())?;
    }
    Ok(())
}
