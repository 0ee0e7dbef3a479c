use super::is_navigation;

const BROWSER: (&str, &[u8]) =
    ("accept", b"text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8");

fn fetch(mode: &str, destination: &str, accept: &str) -> bool {
    is_navigation(&[
        ("Sec-Fetch-Mode", mode.as_bytes()),
        ("Sec-Fetch-Dest", destination.as_bytes()),
        ("Accept", accept.as_bytes()),
    ])
}

#[test]
fn a_browser_that_navigates_gets_a_page() {
    assert!(fetch("navigate", "document", "text/html,*/*;q=0.8"));
    assert!(fetch("navigate", "iframe", "text/html,*/*;q=0.8"));
    assert!(is_navigation(&[("sec-fetch-mode", b"navigate"), BROWSER]));
    assert!(is_navigation(&[BROWSER]));
}

#[test]
fn images_fonts_scripts_and_fetches_get_no_page() {
    for (mode, destination, accept) in [
        ("no-cors", "image", "image/avif,image/webp,*/*;q=0.8"),
        ("cors", "font", "*/*"),
        ("no-cors", "script", "*/*"),
        ("no-cors", "style", "text/css,*/*;q=0.1"),
        ("cors", "empty", "*/*"),
        ("cors", "empty", "text/html"),
        ("same-origin", "empty", "text/html"),
        ("navigate", "object", "text/html"),
        ("navigate", "embed", "text/html"),
        ("navigate", "document", "application/json"),
        ("websocket", "websocket", "*/*"),
    ] {
        assert!(!fetch(mode, destination, accept), "{mode} {destination} {accept}");
    }
}

#[test]
fn without_fetch_metadata_html_must_be_asked_for_by_name() {
    for accept in
        ["*/*", "image/avif,image/webp,*/*;q=0.8", "application/json, text/plain, */*", "text/css,*/*;q=0.1"]
    {
        assert!(!is_navigation(&[("accept", accept.as_bytes())]), "{accept}");
    }
    assert!(!is_navigation(&[]));
    assert!(!is_navigation(&[BROWSER, ("x-requested-with", b"XMLHttpRequest")]));
}

#[test]
fn a_prefetch_is_never_a_page() {
    let prefetches: [(&str, &[u8]); 6] = [
        ("Sec-Purpose", b"prefetch"),
        ("sec-purpose", b"prefetch;prerender"),
        ("sec-purpose", b"prefetch;anonymous-client-ip"),
        ("Purpose", b"prefetch"),
        ("X-Moz", b"prefetch"),
        ("X-Purpose", b"preview"),
    ];
    for prefetch in prefetches {
        assert!(!is_navigation(&[BROWSER, prefetch]), "{prefetch:?}");
        let metadata: [(&str, &[u8]); 2] = [("sec-fetch-mode", b"navigate"), ("sec-fetch-dest", b"document")];
        assert!(!is_navigation(&[BROWSER, metadata[0], metadata[1], prefetch]), "{prefetch:?}");
    }
}
