//! The query of an address, taken apart: `a=1&b=x+y%2Fz`.

/// Names and values, in order. What is not well-formed stays as it is.
pub(crate) fn pairs(query: &str) -> Vec<(String, String)> {
    let parts = query.split('&').filter(|part| !part.is_empty());
    parts
        .map(|part| part.split_once('=').unwrap_or((part, "")))
        .map(|(name, value)| (text(name), text(value)))
        .collect()
}

fn text(encoded: &str) -> String {
    let bytes = encoded.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let pair = encoded.get(at + 1..at + 3).filter(|_| *byte == b'%');
        match pair.and_then(|pair| u8::from_str_radix(pair, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(if *byte == b'+' { b' ' } else { *byte });
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_comes_apart() {
        let found = pairs("ugi=root&files=1&path=%2Fa+b%2f%C3%BC&flag&=x&&broken=%2&half=%zz");
        let found: Vec<_> = found.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let wanted = [
            ("ugi", "root"),
            ("files", "1"),
            ("path", "/a b/ü"),
            ("flag", ""),
            ("", "x"),
            ("broken", "%2"),
            ("half", "%zz"),
        ];
        assert_eq!(found, wanted);
    }
}
