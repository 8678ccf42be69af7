//! What each method of an RPC server has cost, and how often it failed.

use crate::family::Family;
use crate::histogram::Histogram;
use crate::registry::Registry;
use prometheus_client::metrics::counter::Counter;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The methods of one server, each by its place in the server's table.
#[derive(Debug)]
pub struct RpcCalls {
    methods: Vec<Method>,
    errors: Family<Counter>,
}

#[derive(Debug)]
struct Method {
    protocol: &'static str,
    name: &'static str,
    times: Histogram,
    /// By their class. There are as many classes as the program names; a call meets a few of them.
    errors: Mutex<Vec<(&'static str, Counter)>>,
}

impl RpcCalls {
    /// `methods`: protocol and name of each, in the order of the server's table.
    pub fn new(registry: &mut Registry, methods: impl Iterator<Item = (&'static str, &'static str)>) -> Self {
        let times = registry.latencies(
            "levada_rpc_call_duration_seconds",
            "Time from a call's arrival at the door to its answer, the refused ones included",
            &["protocol", "method"],
        );
        let errors = registry.counters(
            "levada_rpc_call_errors_total",
            "Calls answered with an exception, by its class",
            &["protocol", "method", "error"],
        );
        let methods = methods.map(|(protocol, name)| {
            let protocol = class_name(protocol);
            Method { protocol, name, times: times.with(&[protocol, name]), errors: Mutex::default() }
        });
        Self { methods: methods.collect(), errors }
    }

    /// A call was answered; `error` is the class of the exception.
    pub fn ended(&self, place: usize, time: Duration, error: Option<&'static str>) {
        let Some(method) = self.methods.get(place) else { return };
        method.times.observe(time);
        let Some(class) = error else { return };
        let mut errors = method.errors.lock().unwrap_or_else(PoisonError::into_inner);
        match errors.iter().find(|(known, _)| *known == class) {
            Some((_, counter)) => _ = counter.inc(),
            None => {
                let counter = self.errors.with(&[method.protocol, method.name, class_name(class)]);
                counter.inc();
                errors.push((class, counter));
            }
        }
    }
}

/// Without the package.
pub fn class_name(name: &'static str) -> &'static str {
    name.rsplit(['.', '$']).next().unwrap_or(name)
}
