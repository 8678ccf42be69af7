//! Holds types, numbers and prototypes to the header of Debian's libkrb5-dev: C compiles what is written here.

use super::functions::PROTOTYPES;
use super::types::{BufferDesc, KeyValueDesc, KeyValueSetDesc, NUMBERS, OidDesc, OidSetDesc};
use crate::trouble::code;
use std::mem::{align_of, offset_of, size_of};
use std::process::Command;

/// C's name for a type of the table. A pointer to a number that is only written is one to it.
fn c_type(rust: &str) -> String {
    if let Some(to) = rust.strip_prefix("*mut ") {
        return format!("{} *", c_type(to));
    }
    let name = match rust {
        "u32" => "OM_uint32",
        "c_int" => "int",
        "RawName" => "gss_name_t",
        "RawCredential" => "gss_cred_id_t",
        "RawContext" => "gss_ctx_id_t",
        "RawBindings" => "gss_channel_bindings_t",
        "RawOid" => "gss_OID",
        "RawOidSet" => "gss_OID_set",
        "RawBuffer" => "gss_buffer_t",
        "RawStore" => "gss_const_key_value_set_t",
        other => panic!("no type of C for {other}"),
    };
    name.to_owned()
}

macro_rules! layouts {
    ($($rust:ident is $c:literal { $($field:ident),* })*) => {
        vec![$(
            (format!("sizeof({})", $c), size_of::<$rust>()),
            (format!("_Alignof({})", $c), align_of::<$rust>()),
            $((format!("offsetof({}, {})", $c, stringify!($field)), offset_of!($rust, $field)),)*
        )*]
    };
}

#[test]
fn c_has_the_same_types() {
    let layouts = layouts! {
        OidDesc is "gss_OID_desc" { length, elements }
        OidSetDesc is "gss_OID_set_desc" { count, elements }
        BufferDesc is "gss_buffer_desc" { length, value }
        KeyValueDesc is "gss_key_value_element_desc" { key, value }
        KeyValueSetDesc is "gss_key_value_set_desc" { count, elements }
    };
    let mut lines = vec!["#include <stddef.h>\n#include <gssapi/gssapi_ext.h>\n#include <krb5.h>".to_owned()];
    lines.extend(layouts.iter().map(|(what, value)| format!("_Static_assert({what} == {value}, \"{what}\");")));
    let numbers = NUMBERS.iter().chain(code::ALL);
    lines.extend(numbers.map(|(name, value)| format!("_Static_assert({name} == {value}, \"{name}\");")));
    lines.extend(PROTOTYPES.iter().map(|(name, types)| {
        let types: Vec<String> = types.iter().map(|rust| c_type(rust)).collect();
        let types = types.join(", ");
        format!("_Static_assert(__builtin_types_compatible_p(__typeof__({name}), OM_uint32({types})), \"{name}\");")
    }));
    assert!(lines.len() > 80, "{} lines", lines.len());
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("header.c");
    std::fs::write(&file, lines.join("\n")).expect("a file");
    let cc = Command::new("cc").args(["-std=gnu11", "-fsyntax-only"]).arg(&file).output();
    let cc = cc.expect("a C compiler is needed, and Debian's libkrb5-dev");
    assert!(cc.status.success(), "Debian's libkrb5-dev is needed, and:\n{}", String::from_utf8_lossy(&cc.stderr));
}
