//! `ropeline sale`: runs sales through the operator listener of a gateway.

mod print;

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use clap::{Args, Subcommand};
use ropeline_queue::beacon::Beacon;
use ropeline_queue::{Pace, SaleDefinition, SaleId};
use serde_json::{Map, Value, json};

use super::operator::{Client, Gateway};
use super::{Done, Failure};
use crate::config::{Config, Fault, units};
use crate::operator::sales::{AdmitRequest, DrawBySecretRequest, PauseRequest};

#[derive(Debug, Args)]
pub(super) struct Sale {
    #[command(flatten)]
    to: Gateway,
    /// Prints the gateway's JSON answer.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Shows every sale in a line.
    List,
    /// Shows one sale.
    Show { sale: SaleId },
    /// Creates sales that the configuration holds.
    Create {
        /// The sales to create; all of the configuration's when none is named.
        sales: Vec<SaleId>,
    },
    /// Brings sales to what the configuration says, creating those that are missing.
    Apply {
        /// The sales to bring there; all of the configuration's when none is named.
        sales: Vec<SaleId>,
    },
    /// Changes single settings of a sale.
    Change {
        sale: SaleId,
        #[command(flatten)]
        settings: Box<Settings>,
    },
    /// Begins calling now, or as soon as the draw has been made.
    Open { sale: SaleId },
    /// Stops calling; the reason is shown to everybody who waits.
    Pause {
        sale: SaleId,
        /// The reason, in the shop's own language.
        #[arg(long)]
        reason: String,
        /// The reason in another language: --in de="Gleich geht es weiter". May be given many times.
        #[arg(long = "in", value_name = "LANGUAGE=TEXT", value_parser = translation)]
        translations: Vec<(String, String)>,
    },
    /// Ends a pause.
    Resume { sale: SaleId },
    /// Ends the sale for good. Shoppers already admitted keep their time.
    Close { sale: SaleId },
    /// Tells everybody that nothing is left.
    SoldOut { sale: SaleId },
    /// Takes "sold out" back.
    Restock { sale: SaleId },
    /// Calls shoppers now, beside the pace.
    Admit {
        sale: SaleId,
        /// Most shoppers to call.
        #[arg(value_parser = clap::value_parser!(u32).range(1..))]
        batch_size: u32,
        /// How long their admission lives, for example 5m [default: the sale's lease].
        #[arg(long, value_parser = span)]
        lease: Option<Duration>,
    },
    /// Draws by the secret that the manifest commits to, because the beacon's round is overdue. Decided once and for all,
    /// and published with the reason; the draw then rests on the operator's word. To wait for the round, do nothing: it
    /// is asked for until it comes.
    Draw {
        sale: SaleId,
        /// What to draw with.
        #[arg(long, required = true)]
        use_secret: bool,
        /// Why, for everybody who checks the draw.
        #[arg(long)]
        reason: String,
    },
    /// Makes every ticket and admission token issued so far worthless. Places stay.
    Revoke { sale: SaleId },
}

#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
struct Settings {
    #[arg(long)]
    title: Option<String>,
    /// RFC 3339, or `none`.
    #[arg(long, value_parser = time_or_none)]
    joins_open_at: Option<Value>,
    /// RFC 3339, or `none`: when the operator opens.
    #[arg(long, value_parser = time_or_none)]
    opens_at: Option<Value>,
    /// RFC 3339, or `none`: when the operator closes.
    #[arg(long, value_parser = time_or_none)]
    closes_at: Option<Value>,
    /// RFC 3339, or `none`: first come, first served.
    #[arg(long, value_parser = time_or_none)]
    draw_closes_at: Option<Value>,
    /// `drand-quicknet`, or `none`: by the operator's committed secret.
    #[arg(long, value_parser = beacon_or_none)]
    draw_beacon: Option<Value>,
    /// The beacon's round to draw with, or `none`: the first that comes 30 s or more after the draw's closing.
    #[arg(long, value_parser = round_or_none)]
    draw_round: Option<Value>,
    /// Whether the draw may be made by a secret should the beacon's round be overdue. The manifest says so.
    #[arg(long)]
    draw_fallback: Option<bool>,
    /// `500/5s` for batches, `100/1s+100` for a smooth rate with its burst.
    #[arg(long, value_parser = pace)]
    pace: Option<Pace>,
    #[arg(long)]
    max_active: Option<u32>,
    #[arg(long, value_parser = span)]
    claim_window: Option<Duration>,
    #[arg(long, value_parser = span)]
    recall_grace: Option<Duration>,
    #[arg(long, value_parser = span)]
    lease: Option<Duration>,
    /// Visitors let in for every 100 units left.
    #[arg(long, value_name = "PERCENT")]
    overcommit: Option<u32>,
    #[arg(long)]
    compensate_no_shows: Option<bool>,
    /// Whether visitors pass straight through while there is room.
    #[arg(long)]
    on_demand: Option<bool>,
}

// === what an argument means ===

fn words(fault: &Fault) -> String {
    format!("{}; {}", fault.what, fault.mend)
}

fn span(text: &str) -> Result<Duration, String> {
    units::duration(text).map_err(|fault| words(&fault))
}

fn time_or_none(text: &str) -> Result<Value, String> {
    if text == "none" {
        Ok(Value::Null)
    } else {
        units::time(text).map(Value::from).map_err(|fault| words(&fault))
    }
}

fn beacon_or_none(text: &str) -> Result<Value, String> {
    if text == "none" {
        return Ok(Value::Null);
    }
    text.parse::<Beacon>().map(|beacon| json!({ "name": beacon.as_str() })).map_err(|error| error.to_string())
}

fn round_or_none(text: &str) -> Result<Value, String> {
    if text == "none" {
        return Ok(Value::Null);
    }
    text.parse::<u64>().map(Value::from).map_err(|_| format!("{text:?} is no round; write a number, or none"))
}

fn translation(text: &str) -> Result<(String, String), String> {
    let (language, text) = text.split_once('=').ok_or("write LANGUAGE=TEXT")?;
    Ok((language.to_owned(), text.to_owned()))
}

fn pace(text: &str) -> Result<Pace, String> {
    let wrong = || format!("{text:?} is not a pace; write 500/5s for batches, 100/1s+100 for a smooth rate");
    let (admit, rest) = text.split_once('/').ok_or_else(wrong)?;
    let admit = admit.parse().map_err(|_| wrong())?;
    Ok(match rest.split_once('+') {
        None => Pace::Batch { admit, every_ms: units::millis(span(rest)?) },
        Some((per, burst)) => Pace::Smooth {
            admit,
            per_ms: units::millis(span(per)?),
            burst: burst.parse().map_err(|_| wrong())?,
        },
    })
}

impl Settings {
    /// The members of the definition to change (RFC 7396).
    fn patch(self) -> Result<Value, Failure> {
        let mut patch = Map::new();
        let mut set = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                patch.insert(name.to_owned(), value);
            }
        };
        let millis = |span: Option<Duration>| span.map(|span| Value::from(units::millis(span)));
        set("title", self.title.map(Value::from));
        set("joins_open_at", self.joins_open_at);
        set("opens_at", self.opens_at);
        set("closes_at", self.closes_at);
        set("draw", draw_patch(self.draw_closes_at, self.draw_beacon, self.draw_round, self.draw_fallback));
        set("max_active", self.max_active.map(Value::from));
        set("claim_window_ms", millis(self.claim_window));
        set("recall_grace_ms", millis(self.recall_grace));
        set("lease_ms", millis(self.lease));
        set("overcommit_percent", self.overcommit.map(Value::from));
        set("compensate_no_shows", self.compensate_no_shows.map(Value::from));
        set("on_demand", self.on_demand.map(Value::from));
        if let Some(pace) = self.pace {
            // The other kind of pace must go: a merge would leave both.
            let other = match pace {
                Pace::Batch { .. } => "smooth",
                Pace::Smooth { .. } => "batch",
            };
            let mut value = serde_json::to_value(pace).map_err(anyhow::Error::from)?;
            if let Value::Object(members) = &mut value {
                members.insert(other.to_owned(), Value::Null);
            }
            set("pace", Some(value));
        }
        Ok(Value::Object(patch))
    }
}

/// The members of the draw to change; none: nothing was said of it.
fn draw_patch(
    closes_at: Option<Value>,
    beacon: Option<Value>,
    round: Option<Value>,
    fallback: Option<bool>,
) -> Option<Value> {
    if closes_at == Some(Value::Null) {
        return closes_at;
    }
    let mut details = Map::new();
    details.extend(round.map(|round| ("round".to_owned(), round)));
    details.extend(fallback.map(|fallback| ("fallback".to_owned(), fallback.into())));
    let beacon = match beacon {
        Some(Value::Object(mut beacon)) => {
            beacon.extend(details);
            Some(Value::Object(beacon))
        }
        Some(none) => Some(none),
        None => (!details.is_empty()).then_some(Value::Object(details)),
    };
    let mut draw = Map::new();
    draw.extend(closes_at.map(|at| ("closes_at".to_owned(), at)));
    draw.extend(beacon.map(|beacon| ("beacon".to_owned(), beacon)));
    (!draw.is_empty()).then_some(Value::Object(draw))
}

// === impl Sale ===

impl Sale {
    pub(super) fn run(self, out: &mut dyn Write) -> Done {
        let config = self.to.config()?;
        let client = self.to.client(config.as_ref())?;
        let json = self.json;
        super::block_on(self.command.run(&client, config.as_ref(), json, out))?
    }
}

/// The configuration's sales that are meant.
fn chosen<'c>(config: Option<&'c Config>, named: &[SaleId]) -> Result<Vec<&'c SaleDefinition>, Failure> {
    let config = config
        .ok_or_else(|| Failure::Found("name the configuration that holds the sales: -c FILE".to_owned()))?;
    if named.is_empty() {
        return Ok(config.sales.iter().collect());
    }
    let find = |id: &SaleId| {
        let found = config.sales.iter().find(|sale| sale.id == *id);
        found.ok_or_else(|| Failure::Found(format!("the configuration has no sale \"{id}\"")))
    };
    named.iter().map(find).collect()
}

impl Command {
    async fn run(self, client: &Client, config: Option<&Config>, json: bool, out: &mut dyn Write) -> Done {
        let (sale, name, body) = match self {
            Self::List => return print::list(out, json, &client.list().await?),
            Self::Show { sale } => return print::sale(out, json, &client.show(&sale).await?),
            Self::Create { sales } => {
                for definition in chosen(config, &sales)? {
                    print::line(out, json, "created", &client.create(definition).await?)?;
                }
                return Ok(());
            }
            Self::Apply { sales } => {
                for definition in chosen(config, &sales)? {
                    let (word, sale) = client.apply(definition).await?;
                    print::line(out, json, word, &sale)?;
                }
                return Ok(());
            }
            Self::Change { sale, settings } => {
                let (_, version) = client.read(&sale).await?;
                return print::sale(out, json, &client.patch(&sale, &version, &settings.patch()?).await?);
            }
            Self::Admit { sale, batch_size, lease } => {
                let request =
                    AdmitRequest { sale, batch_size, lease_seconds: lease.map(|lease| lease.as_secs()) };
                return print::command(out, json, &client.admit(&request).await?);
            }
            Self::Pause { sale, reason, translations } => {
                let translations = translations.into_iter().collect::<BTreeMap<_, _>>();
                let request = PauseRequest { reason, translations };
                (sale, "pause", serde_json::to_value(request).map_err(anyhow::Error::from)?)
            }
            Self::Draw { sale, use_secret: _, reason } => {
                let request = serde_json::to_value(DrawBySecretRequest { reason });
                (sale, "draw-by-secret", request.map_err(anyhow::Error::from)?)
            }
            Self::Open { sale } => (sale, "open", Value::Null),
            Self::Resume { sale } => (sale, "resume", Value::Null),
            Self::Close { sale } => (sale, "close", Value::Null),
            Self::SoldOut { sale } => (sale, "sold-out", Value::Null),
            Self::Restock { sale } => (sale, "restock", Value::Null),
            Self::Revoke { sale } => (sale, "revoke", Value::Null),
        };
        print::command(out, json, &client.command(&sale, name, &body).await?)
    }
}
