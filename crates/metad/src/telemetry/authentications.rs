//! How callers proved who they are.

use metrics::{Counter, Registry};
use security::method::Method;

#[derive(Debug)]
pub(crate) struct Authentications {
    simple: Counter,
    token: Counter,
    kerberos: Counter,
    certificate: Counter,
    failures: Counter,
    over_http: Counter,
    failures_over_http: Counter,
}

impl Authentications {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let by_method = registry.counters(
            "levada_rpc_authentications_total",
            "Connections whose caller was authenticated; SIMPLE: the caller gave a name and proved nothing",
            &["method"],
        );
        let over_http = registry.counters(
            "levada_http_authentications_total",
            "Requests over HTTP that came with a Kerberos ticket, as /fsck asks for one; refused: it does not count",
            &["result"],
        );
        let of = |method: Method| by_method.with(&[method.name()]);
        Self {
            simple: of(Method::Simple),
            token: of(Method::Token),
            kerberos: of(Method::Kerberos),
            certificate: of(Method::Certificate),
            failures: registry.counter(
                "levada_rpc_authentication_failures_total",
                "Connections that were refused because their caller did not prove who it is",
            ),
            over_http: over_http.with(&["accepted"]),
            failures_over_http: over_http.with(&["refused"]),
        }
    }

    pub(crate) fn succeeded(&self, method: Method) {
        match method {
            Method::Simple => &self.simple,
            Method::Token => &self.token,
            Method::Kerberos => &self.kerberos,
            Method::Certificate => &self.certificate,
        }
        .inc();
    }

    pub(crate) fn failed(&self) {
        self.failures.inc();
    }

    pub(crate) fn over_http(&self, is_accepted: bool) {
        if is_accepted { &self.over_http } else { &self.failures_over_http }.inc();
    }
}
