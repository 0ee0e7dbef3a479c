//! Everything with everything: random requests whose parts are all known.

use super::Generator;
use super::faults::{Fault, faults};
use super::settings::{BUSY, DROP, EARLY, EXACT, GATEWAY, SECURE, SHOP, Sale, Setting, VIP};

/// How many.
const COUNT: usize = 240;

pub(super) fn add(generator: &mut Generator) {
    let sales: [(&Sale, &str); 5] = [
        (&DROP, "/sale"),
        (&VIP, "/sale/vip"),
        (&EARLY, "/early"),
        (&BUSY, "/also/busy"),
        (&EXACT, "/Exact"),
    ];
    let settings: [&'static Setting; 3] = [&SHOP, &GATEWAY, &SECURE];
    for number in 0..COUNT {
        let (sale, path) = sales[generator.random.usize(..sales.len())];
        let settings = settings[generator.random.usize(..settings.len())];
        let (target, canonical) = spelled(generator, path);
        let method = ["GET", "GET", "HEAD", "POST", "DELETE"][generator.random.usize(..5)];
        let mut draft = generator.get(settings, format!("woven: {number}"), &target).method(method);
        if generator.random.bool() {
            draft = draft.page();
        }
        for name in ["Ropeline-Visitor", "ropeline_sale", "x-other"] {
            if generator.random.u8(..4) == 0 {
                draft = draft.field(name, "shopper's own");
            }
        }
        if generator.random.u8(..4) == 0 {
            let prefix = if settings.secure { "__Host-" } else { "" };
            draft =
                draft.field("cookie", format!("{prefix}ropeline-ticket-{}=t", sale.name)).holding_ticket();
        }
        let refused = (generator.random.u8(..3) != 0).then(|| {
            let faults = faults(generator, sale);
            faults[generator.random.usize(..faults.len())].clone()
        });
        // A cookie cannot hold every byte that a field can.
        let in_cookie = generator.random.bool();
        let case = match refused {
            Some(fault) => {
                let text =
                    std::str::from_utf8(&fault.token).ok().filter(|text| in_cookie && !text.contains(';'));
                let draft = match text {
                    Some(text) => draft.cookie(sale, text),
                    None => draft.token(fault.token.clone()),
                };
                Fault::on(&fault, draft, sale).waits(sale, fault.code)
            }
            None => {
                let token = generator.token(sale);
                let draft = if in_cookie { draft.cookie(sale, &token) } else { draft.token(token.clone()) };
                draft.jose(sale, true).admitted(sale, &canonical, &token)
            }
        };
        generator.add(case);
    }
}

/// A random spelling of a path below `path`, and the one that it is forwarded in.
fn spelled(generator: &mut Generator, path: &str) -> (String, String) {
    let random = &mut generator.random;
    let mut segments: Vec<String> = path.split('/').skip(1).map(str::to_owned).collect();
    segments.extend((0..random.usize(..3)).map(|_| random.u16(..).to_string()));
    let canonical = format!("/{}", segments.join("/"));
    let mut target = String::new();
    for segment in segments {
        target.push_str(["/", "//", "/./", "/x/../", "/%2e/", "/y/%2E./"][random.usize(..6)]);
        for letter in segment.chars() {
            if random.u8(..6) == 0 && letter.is_ascii_alphanumeric() {
                target.push_str(&format!("%{:02x}", u32::from(letter)));
            } else {
                target.push(letter);
            }
        }
    }
    let query = ["", "?", "?a=b&c=%2F.."][random.usize(..3)];
    (format!("{target}{query}"), format!("{canonical}{query}"))
}
