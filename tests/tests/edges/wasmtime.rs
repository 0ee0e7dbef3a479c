//! The bare module in wasmtime, as the gateway runs it.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use proptest::prelude::*;
use proptest::sample::Index;
use ropeline_edge::{Field, Request, Settings};
use ropeline_edge_module::{Limits, Module, ModuleError};
use ropeline_tests::guests;

use crate::{VECTORS, native, with_request};

static NATIVE: LazyLock<BTreeMap<&str, Settings>> = LazyLock::new(|| native::settings(&VECTORS));

/// The module, once for each of the settings.
static WASM: LazyLock<BTreeMap<&str, Module>> = LazyLock::new(|| {
    let module = abi();
    let configured = |name: &String| {
        let module = Module::from_bytes(&module, Limits::default()).expect("a module");
        module.configure(VECTORS.document(name).as_bytes()).expect("settings");
        module
    };
    VECTORS.settings.keys().map(|name| (name.as_str(), configured(name))).collect()
});

fn abi() -> Vec<u8> {
    let path = guests::guest("ropeline-edge-abi", "wasm32-unknown-unknown", "abi");
    std::fs::read(path).expect("a module")
}

#[test]
fn every_vector_gets_the_same_bytes_as_from_this_build() {
    let total = VECTORS.cases.len();
    for case in &VECTORS.cases {
        with_request(case, |request| {
            let (settings, now) = (case.settings.as_str(), VECTORS.time(case));
            let native = NATIVE[settings].plan(request, now).to_json();
            let wasm =
                WASM[settings].plan(request, now).unwrap_or_else(|error| panic!("{}: {error}", case.name));
            assert_eq!(wasm, native, "{}", case.name);
        });
    }
    eprintln!("conformance: wasmtime: {total} of {total} agree");
}

#[test]
fn a_module_at_rest_has_less_memory_than_a_picture() {
    let module = Module::from_bytes(&abi(), Limits::default()).expect("a module");
    module.configure(VECTORS.document("shop").as_bytes()).expect("settings");
    let cases: Vec<_> = VECTORS.cases.iter().filter(|case| case.settings == "shop").collect();
    for case in &cases {
        with_request(case, |request| module.plan(request, VECTORS.time(case)).expect("a plan"));
    }
    let bytes = module.memory_bytes();
    assert!((1..1 << 20).contains(&bytes), "{bytes} bytes");
    eprintln!("edge: the bare module rests at {bytes} bytes of memory after {} requests", cases.len());
}

#[test]
fn a_module_keeps_what_it_had_when_settings_are_refused() {
    let module = Module::from_bytes(&abi(), Limits::default()).expect("a module");
    let case = &VECTORS.cases[0];
    let plan = || with_request(case, |request| module.plan(request, VECTORS.time(case)));
    assert!(matches!(plan(), Err(ModuleError::Unconfigured)));
    let document = VECTORS.document(&case.settings);
    module.configure(document.as_bytes()).expect("settings");
    let before = plan().expect("a plan");
    let broken = document.replacen("\"version\":1", "\"version\":2", 1);
    match module.configure(broken.as_bytes()) {
        Err(ModuleError::SettingsRefused { code }) => assert_eq!(code, "settings_version_unknown"),
        other => panic!("{other:?}"),
    }
    assert_eq!(plan().expect("a plan"), before);
}

#[test]
fn a_module_is_held_to_its_limits() {
    let bytes = abi();
    let settings = VECTORS.document("shop");
    let hungry = Module::from_bytes(&bytes, Limits { fuel: 10_000, ..Limits::default() }).expect("a module");
    assert!(matches!(hungry.configure(settings.as_bytes()), Err(ModuleError::OutOfFuel)));
    let large =
        Module::from_bytes(&bytes, Limits { memory_bytes: 1 << 20, ..Limits::default() }).expect("a module");
    assert!(matches!(large.configure(&vec![b' '; 2 << 20]), Err(ModuleError::Trapped(_))));
    // One that failed is not asked again, and the next does what it is asked.
    large.configure(settings.as_bytes()).expect("settings");
    assert!(matches!(Module::from_bytes(b"\0asm\x01\0\0\0", Limits::default()), Err(ModuleError::NoEdge(_))));
    assert!(matches!(Module::from_bytes(b"module", Limits::default()), Err(ModuleError::NoEdge(_))));
}

/// One change of a text.
#[derive(Clone, Debug)]
enum Change {
    Insert(Index, u8),
    Remove(Index),
    Flip(Index, u8),
    Cut(Index),
    Double(Index),
    Exchange(Index, Index),
}

fn change() -> impl Strategy<Value = Change> {
    // Bytes that mean something somewhere, before all others.
    let byte = prop_oneof![prop::sample::select(b"/.%;?=,:\\ \"-_A2fe\0\x7f\xff".to_vec()), any::<u8>()];
    prop_oneof![
        (any::<Index>(), byte).prop_map(|(at, byte)| Change::Insert(at, byte)),
        any::<Index>().prop_map(Change::Remove),
        (any::<Index>(), 0..8_u8).prop_map(|(at, bit)| Change::Flip(at, 1 << bit)),
        any::<Index>().prop_map(Change::Cut),
        any::<Index>().prop_map(Change::Double),
        (any::<Index>(), any::<Index>()).prop_map(|(one, other)| Change::Exchange(one, other)),
    ]
}

impl Change {
    fn apply(&self, text: &mut Vec<u8>) {
        let end = text.len();
        match self {
            Self::Insert(at, byte) => text.insert(at.index(end + 1), *byte),
            Self::Cut(at) => text.truncate(at.index(end + 1)),
            _ if end == 0 => {}
            Self::Remove(at) => drop(text.remove(at.index(end))),
            Self::Flip(at, bit) => text[at.index(end)] ^= bit,
            Self::Double(at) => {
                let tail = text[at.index(end)..].to_vec();
                text.extend(tail);
            }
            Self::Exchange(one, other) => text.swap(one.index(end), other.index(end)),
        }
        // What HTTP splits lines at is never part of one.
        text.retain(|byte| *byte != b'\n');
    }
}

/// Which part of a request, and how it is changed.
type Changes = Vec<(Index, Change)>;

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_024, ..ProptestConfig::default() })]

    /// Requests that are vectors, or were, with fields of another one.
    #[test]
    fn any_request_gets_the_same_bytes_as_from_this_build(
        case: Index,
        other: Index,
        changes in prop::collection::vec((any::<Index>(), change()), 0..6),
        late in -70_i64..70,
    ) {
        let (case, other) = (case.get(&VECTORS.cases), other.get(&VECTORS.cases));
        let mut fields = case.fields();
        fields.extend(other.fields().into_iter().take(changes.len() / 3));
        let mut parts = vec![case.method.clone().into_bytes(), case.host.clone().into_bytes(), case.target.clone().into_bytes()];
        for (name, value) in fields {
            parts.extend([name.into_bytes(), value]);
        }
        let changes: Changes = changes;
        for (part, change) in &changes {
            let part = part.index(parts.len());
            change.apply(&mut parts[part]);
        }
        let text = |part: &[u8]| String::from_utf8_lossy(part).into_owned();
        let (method, host, target) = (text(&parts[0]), text(&parts[1]), text(&parts[2]));
        let fields: Vec<_> = parts[3..].chunks(2).map(|field| (text(&field[0]), field[1].as_slice())).collect();
        let headers: Vec<Field<'_>> = fields.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        let request = Request { method: &method, host: &host, target: &target, headers: &headers };
        let now = VECTORS.time(case).saturating_add_signed(late);
        let settings = case.settings.as_str();
        let native = NATIVE[settings].plan(&request, now).to_json();
        prop_assert_eq!(WASM[settings].plan(&request, now).expect("a plan"), native);
    }
}
