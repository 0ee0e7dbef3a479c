use alloc::string::ToString;
use alloc::vec;

use proptest::prelude::*;

use super::*;

fn canonical(path: &str) -> Result<String, PathError> {
    normalise(path).map(|path| path.canonical.into_owned())
}

fn plain(path: &str) -> Result<String, PathError> {
    normalise(path).map(|path| path.plain.into_owned())
}

#[test]
fn spellings_of_one_path_become_one() {
    let spellings = [
        "/sale",
        "//sale",
        "/./sale",
        "/%73ale",
        "/%73%61le",
        "/x/../sale",
        "/x/%2e%2e/sale",
        "/x/.%2E/sale",
        "/../sale",
        "/x/y/../../sale",
        "/x//../sale",
    ];
    for path in spellings {
        assert_eq!(canonical(path).as_deref(), Ok("/sale"), "{path}");
        assert_eq!(plain(path).as_deref(), Ok("/sale"), "{path}");
    }
    for path in ["/sale/", "/sale//", "/sale/.", "/sale/x/..", "/sale/%2e/", "//sale//"] {
        assert_eq!(canonical(path).as_deref(), Ok("/sale/"), "{path}");
        assert_eq!(plain(path).as_deref(), Ok("/sale"), "{path}");
    }
    for path in ["/", "//", "/.", "/..", "/x/..", "/%2e"] {
        assert_eq!(canonical(path).as_deref(), Ok("/"), "{path}");
        assert_eq!(plain(path).as_deref(), Ok(""), "{path}");
    }
}

#[test]
fn escapes_stay_where_they_are_needed() {
    // RFC 3986, section 6.2.2: case normalisation and percent-encoding normalisation.
    assert_eq!(canonical("/a%7Eb%2d%41/%c3%a4%20%3f").as_deref(), Ok("/a~b-A/%C3%A4%20%3F"));
    assert_eq!(plain("/a%7Eb%2d%41/%c3%a4%20%3f").as_deref(), Ok("/a~b-A/ä ?"));
    // RFC 3986, section 5.2.4: remove_dot_segments.
    assert_eq!(canonical("/a/b/c/./../../g").as_deref(), Ok("/a/g"));
    assert_eq!(canonical("/.hidden/..x/x..").as_deref(), Ok("/.hidden/..x/x.."));
}

#[test]
fn parameters_do_not_make_another_path() {
    for path in ["/sale;x=1", "/sale;", "/sale%3Bx", "/x;a/../sale;b;c"] {
        let path = normalise(path).unwrap();
        assert_eq!(path.plain, "/sale");
        assert!(path.parameters);
    }
    assert_eq!(canonical("/sale;x=1/y").as_deref(), Ok("/sale;x=1/y"));
    assert_eq!(plain("/sale;x=1/y").as_deref(), Ok("/sale/y"));
}

#[test]
fn what_can_be_read_in_two_ways_is_refused() {
    let paths = [
        "/sale%2f",
        "/sale%2F..",
        "/x%2f..%2fsale",
        "/%5csale",
        "/x\\..\\sale",
        "/sale%00",
        "/sale%0a",
        "/sale%0D%0A",
        "/sale%7f",
        "/%",
        "/sale%",
        "/sale%2",
        "/sale%zz",
        "/%u0073ale",
        "/%+1", // no escapes
        "/%2573ale",
        "/%25%37%33ale",
        "/%252e%252e/sale",
        "/%252fsale", // escapes that hide others
        "/%c0%ae%c0%ae/sale",
        "/%c0%afsale",
        "/%c1%b3ale",
        "/%e0%80%af",
        "/%ff",
        "/%ed%a0%80", // not UTF-8
        "/%c2%85",    // a control character beyond ASCII
        "/x/..;/sale",
        "/x/..;a=b/sale",
        "/x/%2e%2e%3b/sale",
        "/.;/sale",
        "/;x/sale",
        "/;/sale",
    ];
    for path in paths {
        assert_eq!(canonical(path), Err(PathError::Ambiguous), "{path}");
    }
    assert_eq!(plain("/100%25").as_deref(), Ok("/100%"));
    assert_eq!(plain("/100%25/ab").as_deref(), Ok("/100%/ab"));
}

#[test]
fn what_is_no_path_is_refused() {
    for path in [
        "",
        "*",
        "sale",
        "http://shop.example/sale",
        "/sa le",
        "/sale#x",
        "/s\u{e4}le",
        "/\0",
        "/a\n",
        "/\u{7f}",
    ] {
        assert_eq!(canonical(path), Err(PathError::Invalid), "{path}");
    }
}

#[test]
fn a_path_that_is_its_own_spelling_is_not_copied() {
    for path in ["/", "/sale", "/sale/", "/a-b_c~d.e/f", "/.well-known/jwks.json", "/x;a=1", "/%C3%A4"] {
        assert!(matches!(normalise(path).unwrap().canonical, Cow::Borrowed(_)), "{path}");
    }
}

#[test]
fn a_query_is_split_off_at_the_first_question_mark() {
    assert_eq!(split_query("/a?b?c"), ("/a", Some("b?c")));
    assert_eq!(split_query("/a?"), ("/a", Some("")));
    assert_eq!(split_query("/a"), ("/a", None));
}

/// Targets made of what matters to normalisation.
pub(crate) fn any_path() -> impl Strategy<Value = String> {
    let atom = prop_oneof![
        Just("/"),
        Just("."),
        Just(".."),
        Just("sale"),
        Just("x"),
        Just("%2e"),
        Just("%2F"),
        Just("%25"),
        Just("%73"),
        Just("%c3%a4"),
        Just(";"),
        Just("%3b"),
        Just("S"),
        Just("%00"),
        Just("\\"),
        Just("%7E"),
        Just("~"),
        Just("%20"),
    ];
    prop::collection::vec(atom, 0..12).prop_map(|atoms| ["/", &atoms.concat()].concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn normalising_twice_changes_nothing(path in any_path()) {
        if let Ok(once) = normalise(&path) {
            let again = normalise(&once.canonical).unwrap();
            prop_assert_eq!(&again.canonical, &once.canonical);
            prop_assert_eq!(&again.plain, &once.plain);
            prop_assert!(matches!(again.canonical, Cow::Borrowed(_)));
        }
    }

    #[test]
    fn a_normal_path_has_no_dot_segment_and_no_empty_one(path in any_path()) {
        if let Ok(path) = normalise(&path) {
            let inner = path.canonical.strip_prefix('/').unwrap();
            let inner = inner.strip_suffix('/').unwrap_or(inner);
            prop_assert!(inner.is_empty() || inner.split('/').all(|segment| !matches!(segment, "" | "." | "..")));
            prop_assert!(path.plain.is_empty() || path.plain.starts_with('/') && !path.plain.ends_with('/'));
        }
    }

    #[test]
    fn an_escaped_plain_path_is_that_path(segments in prop::collection::vec("[a-zA-Z0-9 äß:@?#!|\"-]{1,6}", 1..4)) {
        let text: String = segments.iter().flat_map(|segment| ["/", segment]).collect();
        prop_assert_eq!(normalise(&escaped(&text)).unwrap().plain.to_string(), text);
    }

    #[test]
    fn any_text_is_answered_without_a_panic(path in any::<String>()) {
        drop(normalise(&path));
    }
}
