//! Prometheus' text form of a status: `{"nodes": {"live": 3}}` becomes `levada_nodes_live 3`.

use serde_json::Value;
use std::fmt::Write;

pub(crate) fn render(status: &Value) -> String {
    let mut text = String::new();
    gauges("levada", status, &mut text);
    text
}

/// Texts and lists are left out: a scraper wants numbers, `/status` has the rest.
fn gauges(name: &str, value: &Value, text: &mut String) {
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                gauges(&format!("{name}_{key}"), member, text);
            }
        }
        Value::Number(number) => {
            let _ = writeln!(text, "# TYPE {name} gauge\n{name} {number}");
        }
        Value::Bool(flag) => {
            let _ = writeln!(text, "# TYPE {name} gauge\n{name} {}", u8::from(*flag));
        }
        Value::Null | Value::String(_) | Value::Array(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_become_gauges_and_texts_do_not() {
        let text = render(&json!({"nodes": {"live": 3, "list": [1]}, "version": "0.1", "ready": true}));
        assert_eq!(
            text,
            "# TYPE levada_nodes_live gauge\nlevada_nodes_live 3\n# TYPE levada_ready gauge\nlevada_ready 1\n"
        );
    }
}
