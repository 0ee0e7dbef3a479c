//! `[[sale]]`: sales that exist from the start.

use std::collections::HashMap;

use ropeline_queue::beacon::Beacon;
use ropeline_queue::{
    DrawBeacon, DrawDefinition, FieldError, LaneDefinition, Pace, Protect, RawDefinition, SaleDefinition,
    SaleId, StoreAway, UnixMillis,
};

use super::protect::{Guarded, ROUTES_APART, check_protect, routes_of_others};
use super::read::{Item, Section};
use super::report::Fault;
use super::units::{millis, rfc3339};

/// What else in the file has to do with sales.
#[derive(Clone, Copy)]
pub(super) struct Beside<'a> {
    /// Where shoppers reach the queue.
    pub(super) api_prefix: &'a str,
    /// Whoever signs invitations is known.
    pub(super) invites: bool,
    /// Every host names the same pages.
    pub(super) one_host: bool,
}

/// What the sales read so far have taken for themselves.
#[derive(Default)]
struct Taken {
    /// Ids, each with the key of its sale.
    ids: HashMap<SaleId, String>,
    routes: Vec<Guarded>,
}

pub(super) fn read(sections: Vec<Section<'_>>, beside: Beside<'_>) -> Option<Vec<SaleDefinition>> {
    let mut taken = Taken::default();
    let sale = |section| sale(section, beside, &mut taken);
    let read: Vec<_> = sections.into_iter().map(sale).collect();
    read.into_iter().collect()
}

fn sale(section: Section<'_>, beside: Beside<'_>, taken: &mut Taken) -> Option<SaleDefinition> {
    let id: Option<SaleId> =
        section.need("id", "give the sale a short name, for example id = \"sneaker\"", |item| {
            item.parsed("a sale id", "1 to 40 characters of a-z, 0-9 and -")
        });
    let max_active = section.need(
        "max_active",
        "say how many shoppers the shop serves at once, for example 500",
        |item| item.number(1, u32::MAX),
    );
    let mut id_is_new = id.is_some();
    if let Some(id) = &id
        && let Some(first) = taken.ids.insert(id.clone(), section.path().to_owned())
    {
        section.fault(
            "id",
            Fault::new(format!("\"{id}\" is the id of {first} too"), "give each sale an id of its own"),
        );
        id_is_new = false;
    }
    // Whatever is wrong, every other key is looked at too: stand-ins for what is missing never get out.
    let whole = id.is_some() && max_active.is_some();
    let id = id.or_else(|| "stand-in".parse().ok())?;
    let raw = members(&section, RawDefinition::new(id, max_active.unwrap_or(1)));
    if id_is_new {
        for what in routes_of_others(&raw.id, &raw.protect, beside.one_host, &taken.routes) {
            section.fault("routes", Fault::new(what, ROUTES_APART));
        }
        let place = format!("{} (line {})", section.path(), section.line("routes"));
        taken.routes.push(Guarded { sale: raw.id.clone(), protect: raw.protect.clone(), place });
    }
    if let Some(closes_at) = raw.closes_at.filter(|closes_at| *closes_at <= section.around.now) {
        let what = format!("{} has passed: the sale is over", rfc3339(closes_at.0));
        section
            .warn("closes_at", Fault::new(what, "give it a time to come, or take the sale out of the file"));
    }
    let faults = check_protect(&raw.protect, beside.api_prefix);
    if !beside.invites && raw.lanes.iter().any(|lane| lane.invitation) {
        section.fault(
            "lanes",
            Fault::new(
                "takes invitations, and no key of those who sign them is known",
                "add invitation = [\"keys/invitation.public.jwk\"] under [keys] (`ropeline keygen invitation` makes it)",
            ),
        );
    }
    for FieldError { field, message } in &faults {
        section.fault(key_of(field), Fault::new("is not accepted", message));
    }
    let checked = raw.check();
    if let Err(errors) = &checked {
        for FieldError { field, message } in &errors.0 {
            let message = message.replace("draw.closes_at", "draw_closes_at");
            let fault = |lead: &str| Fault::new("is not accepted", format!("{lead}must be: {message}"));
            match (field.strip_prefix("pace."), field.strip_prefix("lanes.")) {
                (Some(member), _) => section.table("pace").fault(member.trim_end_matches("_ms"), fault("")),
                (_, Some(member)) => section.fault("lanes", fault(&format!("`{member}` "))),
                _ => section.fault(key_of(field), fault("")),
            }
        }
    }
    section.finish();
    checked.ok().filter(|_| whole && faults.is_empty())
}

fn members(section: &Section<'_>, defaults: RawDefinition) -> RawDefinition {
    let time = |key| section.get(key, |item: &Item<'_>| item.time().map(UnixMillis));
    let span = |key, default| section.or(key, default, |item: &Item<'_>| item.duration().map(millis));
    let texts = |key| section.list(key, |item: &Item<'_>| item.text().map(str::to_owned)).unwrap_or_default();
    RawDefinition {
        title: section.or("title", defaults.title, |item| item.text().map(str::to_owned)),
        joins_open_at: time("joins_open_at"),
        opens_at: time("opens_at"),
        closes_at: time("closes_at"),
        draw: draw(section),
        pace: pace(section, defaults.pace),
        claim_window_ms: span("claim_window", defaults.claim_window_ms),
        recall_grace_ms: span("recall_grace", defaults.recall_grace_ms),
        lease_ms: span("lease", defaults.lease_ms),
        overcommit_percent: section.or("overcommit", defaults.overcommit_percent, percent),
        compensate_no_shows: section
            .or("compensate_no_shows", defaults.compensate_no_shows, |item| item.bool()),
        on_demand: section.or("on_demand", defaults.on_demand, |item| item.bool()),
        store_away: section.or("store_away", defaults.store_away, store_away),
        entry_url: section.get("entry_url", |item| item.text().map(str::to_owned)),
        protect: Protect {
            routes: routes(section),
            bypass: texts("bypass"),
            hosts: texts("hosts"),
            page_status: section
                .or("page_status", defaults.protect.page_status, |item| item.number(0, u16::MAX)),
            other_status: section
                .or("other_status", defaults.protect.other_status, |item| item.number(0, u16::MAX)),
        },
        lanes: lanes(section),
        ..defaults
    }
}

fn routes(section: &Section<'_>) -> Vec<String> {
    let routes = section.list("routes", |item| item.text().map(str::to_owned));
    if routes.as_deref().is_some_and(<[_]>::is_empty) {
        let mend = "name what it guards, for example routes = [\"/sale\"]; where the shop asks for tokens by itself, \
                    leave the key out";
        section.fault("routes", Fault::new("names no path: the sale would guard nothing", mend));
    }
    routes.unwrap_or_default()
}

/// The lanes, each a table.
fn lanes(section: &Section<'_>) -> Vec<LaneDefinition> {
    const MEND: &str = "write lanes = [{ name = \"members\", share = 60, invitation = true }, \
                        { name = \"everybody\", share = 40 }]";
    if !section.has("lanes") {
        return Vec::new();
    }
    let lane = |entry: Section<'_>| {
        let name = entry.need("name", MEND, |item| {
            item.parsed::<SaleId>("a lane's name", "1 to 40 characters of a-z, 0-9 and -")
        });
        let share = entry.need("share", MEND, |item| item.number(1, 100));
        let title = entry.or("title", String::new(), |item| item.text().map(str::to_owned));
        let invitation = entry.or("invitation", false, |item| item.bool());
        entry.finish();
        Some(LaneDefinition { name: name?, title, share: share?, invitation })
    };
    section.tables("lanes").unwrap_or_default().into_iter().filter_map(lane).collect()
}

/// The draw's keys, which all mean nothing without its closing.
fn draw(section: &Section<'_>) -> Option<DrawDefinition> {
    let closes_at = section.try_get("draw_closes_at", |item: &Item<'_>| item.time().map(UnixMillis));
    let name = section.try_get("draw_beacon", |item: &Item<'_>| {
        item.parsed::<Beacon>("a beacon", "\"drand-quicknet\", the only one there is")
    });
    let round = section.get("draw_round", |item| item.number(1, u64::MAX));
    let fallback = section.get("draw_fallback", |item| item.bool());
    let alone = |key, needed: &str, mend: &str| {
        section.fault(key, Fault::new(format!("has no meaning without {needed}"), mend));
    };
    if let (Ok(None), Ok(Some(_))) = (&closes_at, &name) {
        alone(
            "draw_beacon",
            "draw_closes_at",
            "say when the draw takes those who have joined, or remove this",
        );
    }
    if name == Ok(None) {
        for (key, given) in [("draw_round", round.is_some()), ("draw_fallback", fallback.is_some())] {
            if given {
                alone(key, "draw_beacon", "add draw_beacon = \"drand-quicknet\", or remove this");
            }
        }
    }
    let beacon =
        name.ok().flatten().map(|name| DrawBeacon { name, round, fallback: fallback.unwrap_or(false) });
    Some(DrawDefinition { closes_at: closes_at.ok().flatten()?, beacon })
}

/// `"closed"`, or `{ open_for = "2m" }`.
fn store_away(item: &Item<'_>) -> Result<StoreAway, Fault> {
    const MEND: &str = "write \"closed\", or { open_for = \"2m\" }";
    if let Ok(text) = item.text() {
        return if text == "closed" {
            Ok(StoreAway::Closed)
        } else {
            Err(Fault::new(format!("{text:?} is unknown"), MEND))
        };
    }
    let open_for = item.member("open_for").ok_or_else(|| Fault::new("is neither", MEND))?;
    open_for.duration().map(|open_for| StoreAway::OpenForMs(millis(open_for)))
}

/// `120` and `"120%"` both mean 120 percent.
fn percent(item: &Item<'_>) -> Result<u32, Fault> {
    let Ok(text) = item.text() else { return item.number(0, u32::MAX) };
    let number = text.strip_suffix('%').and_then(|number| number.parse().ok());
    number.ok_or_else(|| Fault::new(format!("{text:?} is not a percentage"), "write for example \"110%\""))
}

fn pace(section: &Section<'_>, default: Pace) -> Pace {
    const MEND: &str = "write { admit = 500, every = \"5s\" } for batches, \
                        or { admit = 100, per = \"1s\", burst = 100 } for a smooth rate";
    let pace = section.table("pace");
    if !pace.present() {
        return default;
    }
    let span = |key| pace.get(key, |item: &Item<'_>| item.duration().map(millis));
    let admit = pace.need("admit", MEND, |item| item.number(0, u32::MAX));
    let (every, per) = (pace.has("every"), pace.has("per"));
    let (every_ms, per_ms) = (span("every"), span("per"));
    let burst = pace.get("burst", |item| item.number(0, u32::MAX));
    if every && per {
        pace.fault("per", Fault::new("both `every` and `per` are given", MEND));
    } else if every && burst.is_some() {
        pace.fault("burst", Fault::new("has no meaning for batches", MEND));
    } else if !every && !per {
        pace.missing("every", MEND);
    }
    let read = match (admit, every_ms, per_ms) {
        (Some(admit), Some(every_ms), None) => Some(Pace::Batch { admit, every_ms }),
        // Without a burst of its own, a smooth rate may catch up by what one period gives.
        (Some(admit), None, Some(per_ms)) => {
            Some(Pace::Smooth { admit, per_ms, burst: burst.unwrap_or(admit) })
        }
        _ => None,
    };
    pace.finish();
    read.unwrap_or(default)
}

/// The key of the file that holds a member of the definition.
fn key_of(field: &'static str) -> &'static str {
    match field {
        "draw.closes_at" => "draw_closes_at",
        "draw.beacon.round" => "draw_round",
        "claim_window_ms" => "claim_window",
        "recall_grace_ms" => "recall_grace",
        "lease_ms" => "lease",
        "overcommit_percent" => "overcommit",
        "protect.routes" => "routes",
        "protect.bypass" => "bypass",
        "protect.hosts" => "hosts",
        "protect.page_status" => "page_status",
        "protect.other_status" => "other_status",
        other => other,
    }
}
