use super::*;

#[test]
fn a_repeated_member_is_refused_at_any_depth() {
    assert!(matches!(parse(br#"{"a":1,"a":1}"#), Err(JsonError::Repeated { .. })));
    assert!(matches!(parse(br#"{"a":1,"\u0061":2}"#), Err(JsonError::Repeated { .. })));
    assert!(matches!(parse(br#"[{"x":{"a":1,"b":2,"a":3}}]"#), Err(JsonError::Repeated { .. })));
}
