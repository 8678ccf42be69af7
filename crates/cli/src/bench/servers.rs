//! `levada bench servers`: what each server has used since it began.

use crate::shell::{Failure, Session, Stop, Target};
use client::Role;
use serde::Serialize;

/// A line of `--json`.
#[derive(Debug, Serialize)]
struct Line<'a> {
    role: &'static str,
    addr: &'a str,
    pid: u32,
    cpu_user_s: f64,
    cpu_system_s: f64,
    fsyncs: u64,
}

pub(super) async fn run(session: &Session, place: &Target) -> Result<(), Stop> {
    let meters = place.client.meters().await.map_err(|error| place.failure(&error))?;
    let Some(meters) = meters else {
        let failure = Failure::new(place.client.url(), "its servers do not tell what they use");
        return Err(failure.advise("only those of Levada do").into());
    };
    if !session.output.is_json() {
        session.output.line("ROLE       ADDRESS                     PID   USER S  SYSTEM S     FSYNCS")?;
    }
    for meter in &meters {
        let role = match meter.role {
            Role::Metadata => "metadata",
            Role::Datanode => "datanode",
            Role::Unknown => "unknown",
        };
        let (user, system) = (meter.user.as_secs_f64(), meter.system.as_secs_f64());
        let (addr, pid, fsyncs) = (meter.addr.as_str(), meter.pid, meter.sync_count);
        if session.output.is_json() {
            session.output.json(&Line { role, addr, pid, cpu_user_s: user, cpu_system_s: system, fsyncs })?;
        } else {
            let line = format!("{role:<10} {addr:<21} {pid:>9} {user:>8.2} {system:>9.2} {fsyncs:>10}");
            session.output.line(&line)?;
        }
    }
    Ok(())
}
