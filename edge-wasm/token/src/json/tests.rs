use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::ToString;
use alloc::vec;

use proptest::prelude::*;

use super::*;

/// What serde_json makes of the same value; numbers that are no plain integers are compared as text elsewhere.
fn to_serde(value: &Value<'_>) -> serde_json::Value {
    match value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(value) => (*value).into(),
        Value::Integer(value) => (*value).into(),
        Value::OtherNumber(text) => serde_json::from_str(text).unwrap_or_default(),
        Value::Text(text) => text.as_ref().into(),
        Value::Array(elements) => elements.iter().map(to_serde).collect(),
        Value::Object(object) => serde_json::Value::Object(
            object.iter().map(|(name, value)| (name.to_owned(), to_serde(value))).collect(),
        ),
    }
}

#[test]
fn values_are_read_as_written() {
    let text = r#" { "a" : [ 0 , 18446744073709551615 , -1, 1.0, 1e2, true, false, null ] , "b\n\u00e4\ud83d\ude00\/" : "" } "#;
    let value = parse(text.as_bytes()).unwrap();
    let object = value.as_object().unwrap();
    let numbers = [Value::OtherNumber("-1"), Value::OtherNumber("1.0"), Value::OtherNumber("1e2")];
    let elements = object.get("a").unwrap().as_array().unwrap();
    assert_eq!(elements[0].as_u64(), Some(0));
    assert_eq!(elements[1].as_u64(), Some(u64::MAX));
    assert_eq!(elements[2..5], numbers);
    assert_eq!(elements[5..], [Value::Bool(true), Value::Bool(false), Value::Null]);
    assert_eq!(object.get("b\n\u{e4}\u{1f600}/").unwrap().as_str(), Some(""));
}

#[test]
fn text_without_escapes_is_borrowed() {
    assert!(matches!(parse(br#""plain""#), Ok(Value::Text(Cow::Borrowed("plain")))));
}

#[test]
fn a_repeated_member_is_refused_at_any_depth() {
    for text in
        [r#"{"a":1,"a":1}"#, r#"{"a":1,"\u0061":2}"#, r#"[{"x":{"a":1,"b":2,"a":3}}]"#, r#"{"":1,"":2}"#]
    {
        assert!(matches!(parse(text.as_bytes()), Err(JsonError::Repeated { .. })), "{text}");
    }
}

#[test]
fn what_breaks_the_grammar_is_refused() {
    for text in [
        "",
        " ",
        "nul",
        "nulll",
        "truefalse",
        "01",
        "+1",
        "1.",
        ".5",
        "1e",
        "1e+",
        "-",
        "--1",
        "0x1",
        "NaN",
        "Infinity",
        "\"",
        "\"\\",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\ud800\"",
        "\"\\ud800\\u0041\"",
        "\"\\udc00\"",
        "\"\\u+123\"",
        "\"\n\"",
        "\"\t\"",
        "[",
        "[1",
        "[1,",
        "[1,]",
        "[,1]",
        "[1 2]",
        "{",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":1",
        "{\"a\":1,}",
        "{a:1}",
        "{1:1}",
        "{\"a\" 1}",
        "{,}",
        "1 2",
        "[]x",
        "'a'",
        "/**/1",
        "\u{feff}1",
        "\u{a0}1",
    ] {
        assert!(matches!(parse(text.as_bytes()), Err(JsonError::Syntax { .. })), "{text:?}");
    }
    assert_eq!(parse(b"\"\xff\""), Err(JsonError::NotUtf8 { at: 1 }));
    assert_eq!(parse(b"[1,\x00]"), Err(JsonError::Syntax { at: 3 }));
}

#[test]
fn depth_and_members_are_bounded() {
    let nested = |depth: usize| ["[".repeat(depth), "]".repeat(depth)].concat();
    assert!(parse(nested(MAX_DEPTH).as_bytes()).is_ok());
    assert!(matches!(parse(nested(MAX_DEPTH + 1).as_bytes()), Err(JsonError::TooDeep { .. })));
    assert!(matches!(parse("[".repeat(100_000).as_bytes()), Err(JsonError::TooDeep { .. })));
    let object = |members: usize| {
        let members: Vec<String> = (0..members).map(|index| format!("\"{index}\":0")).collect();
        format!("{{{}}}", members.join(","))
    };
    assert!(parse(object(MAX_MEMBERS).as_bytes()).is_ok());
    assert!(matches!(parse(object(MAX_MEMBERS + 1).as_bytes()), Err(JsonError::TooManyMembers { .. })));
}

#[test]
fn the_writer_separates_and_escapes() {
    let mut writer = Writer::new();
    writer.begin_object();
    writer.name("a\"\\\u{1}");
    writer.begin_array();
    writer.integer(0);
    writer.integer(u64::MAX);
    writer.begin_object();
    writer.end_object();
    writer.boolean(true);
    writer.null();
    writer.end_array();
    writer.name("b");
    writer.text("\u{e4}\n/");
    writer.end_object();
    let text = "{\"a\\\"\\\\\\u0001\":[0,18446744073709551615,{},true,null],\"b\":\"\u{e4}\\u000a/\"}";
    assert_eq!(writer.finish(), text);
}

fn any_value() -> BoxedStrategy<serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<u64>().prop_map(Into::into),
        any::<String>().prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Into::into),
            prop::collection::btree_map(any::<String>(), inner, 0..6)
                .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
        ]
    })
    .boxed()
}

/// Texts near JSON: valid ones with a few bytes changed, and heaps of tokens.
fn near_json() -> BoxedStrategy<Vec<u8>> {
    let changed = (any_value(), any::<prop::sample::Index>(), any::<u8>()).prop_map(|(value, at, byte)| {
        let mut text = value.to_string().into_bytes();
        let at = at.index(text.len());
        text[at] = byte;
        text
    });
    let tokens = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"a\"",
        "\"b\"",
        "1",
        "0",
        "-",
        ".",
        "e",
        "+",
        "true",
        "null",
        " ",
        "\\u00e4",
        "\"",
        "\\ud83d\\ude00",
        "\\",
    ]);
    let heap = prop::collection::vec(tokens, 0..12).prop_map(|tokens| tokens.concat().into_bytes());
    prop_oneof![changed, heap, any::<Vec<u8>>()].boxed()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn what_serde_json_writes_is_read_as_the_same(value in any_value()) {
        for text in [value.to_string(), serde_json::to_string_pretty(&value).unwrap()] {
            prop_assert_eq!(to_serde(&parse(text.as_bytes()).unwrap()), value.clone());
        }
    }

    /// Whatever is read, serde_json reads too, as the same; the reverse holds but for what is refused on purpose.
    #[test]
    fn both_readers_agree(text in near_json()) {
        let theirs: Result<Box<serde_json::value::RawValue>, _> = serde_json::from_slice(&text);
        match parse(&text) {
            Ok(ours) => {
                prop_assert!(theirs.is_ok());
                if let Ok(theirs) = serde_json::from_slice::<serde_json::Value>(&text) {
                    prop_assert_eq!(to_serde(&ours), theirs);
                }
            }
            Err(JsonError::Repeated { .. } | JsonError::TooDeep { .. } | JsonError::TooManyMembers { .. }) => {}
            Err(_) => prop_assert!(serde_json::from_slice::<serde_json::Value>(&text).is_err()),
        }
    }

    #[test]
    fn written_text_is_read_by_serde_json(text in any::<String>()) {
        let mut writer = Writer::new();
        writer.text(&text);
        let written = writer.finish();
        prop_assert_eq!(serde_json::from_str::<String>(&written).unwrap(), text.clone());
        prop_assert_eq!(parse(written.as_bytes()).unwrap(), Value::Text(text.into()));
    }
}
