//! The calls that create, change and run sales.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequestParts, Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header, request};
use axum::response::{IntoResponse as _, Response};
use ropeline_queue::{
    ChangeRefusal, Command, DrawState, DrawView, Epoch, FieldError, PauseReason, Phase, Queue, RawDefinition,
    SaleDefinition, SaleId, SaleView, Stock, Totals, Trust, UnixMillis, hex, misplaced,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::Operator;
use super::problem::Problem;
use crate::config::{Guarded, ROUTES_APART, check_protect, routes_of_others};

/// A sale as an operator sees it. Times are Unix milliseconds.
#[derive(Debug, Serialize, Deserialize)]
pub struct SaleDocument {
    /// The definition in force; what `PUT` takes.
    pub definition: RawDefinition,
    /// Where the sale is in its life.
    pub phase: Phase,
    /// Generation of its tokens.
    pub epoch: Epoch,
    /// Arrival numbers given so far.
    pub arrivals: u64,
    /// All places below have been called.
    pub serving: u64,
    /// Visitors not yet called who have not left.
    pub waiting: u64,
    /// Visitors called and not yet admitted.
    pub unclaimed: u64,
    /// Visitors with a running lease.
    pub active: u64,
    /// Of those, visitors with a unit on hold.
    pub holding: u64,
    /// Visitors lapsed, come back, and to be called again.
    pub recalls: u64,
    /// Measured part of the called who claim, in millionths.
    pub claim_ratio: Option<u64>,
    /// What the shop says is left.
    pub stock: Option<Stock>,
    /// Why the sale is paused.
    pub paused_reason: Option<PauseReason>,
    /// How many arrivals are drawn, once that is fixed.
    pub draw_size: Option<u32>,
    /// What places are computed from, once drawn, in hexadecimal.
    pub draw_seed: Option<String>,
    /// Who has to be trusted for the draw, by what is known by now.
    #[serde(default)]
    pub draw_trust: Option<Trust>,
    /// The beacon's round that the draw rests on, where it does.
    #[serde(default)]
    pub draw_round: Option<u64>,
    /// When that round comes.
    #[serde(default)]
    pub draw_round_at: Option<UnixMillis>,
    /// The number of arrivals is fixed, and the draw waits for that round.
    #[serde(default)]
    pub draw_waits: bool,
    /// Counts since the sale was created.
    pub totals: Totals,
    /// When this was true.
    pub as_of: UnixMillis,
}

impl From<&SaleView> for SaleDocument {
    fn from(view: &SaleView) -> Self {
        let round = view.draw.as_ref().and_then(DrawView::round);
        let draw = view.draw.as_ref().map_or(DrawState::NotHeld, |draw| draw.state);
        Self {
            definition: SaleDefinition::clone(&view.definition).into(),
            phase: view.phase,
            epoch: view.epoch,
            arrivals: view.arrivals(),
            serving: view.called(),
            waiting: view.waiting,
            unclaimed: view.unclaimed,
            active: view.active,
            holding: view.holding,
            recalls: view.recalls,
            claim_ratio: view.claim_ratio,
            stock: view.stock,
            paused_reason: view.paused_reason.clone(),
            draw_size: draw.size(),
            draw_seed: draw.seed().map(|seed| hex(&seed)),
            draw_trust: view.draw.as_ref().map(DrawView::trust),
            draw_round: round.map(|round| round.round),
            draw_round_at: round.map(|round| round.due_at),
            draw_waits: view.draw.as_ref().is_some_and(|draw| draw.awaited().is_some()),
            totals: view.totals,
            as_of: view.as_of,
        }
    }
}

/// Every sale.
#[derive(Debug, Serialize, Deserialize)]
pub struct SaleList {
    /// In the order of their ids.
    pub sales: Vec<SaleDocument>,
}

/// A command was carried out.
#[derive(Debug, Serialize, Deserialize)]
pub struct CommandDocument {
    /// Visitors it called.
    pub called: u64,
    /// The sale after it; none where the store could not be asked for it any more.
    pub sale: Option<SaleDocument>,
}

/// `POST /api/v1/queue/admit`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdmitRequest {
    /// The sale.
    pub sale: SaleId,
    /// Most visitors to call.
    pub batch_size: u32,
    /// Their lease in seconds, if not the sale's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_seconds: Option<u64>,
}

/// `POST …/pause`: the reason as visitors read it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PauseRequest {
    /// Shown where no translation fits.
    pub reason: String,
    /// By language tag.
    #[serde(default)]
    pub translations: std::collections::BTreeMap<String, String>,
}

/// `POST …/draw-by-secret`: why the beacon's round is given up.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DrawBySecretRequest {
    /// Published, signed, in the draw's document.
    pub reason: String,
}

/// Longest reason for a pause, in characters: it has to fit a small screen.
const MAX_REASON: usize = 500;

/// Longest reason for giving up a beacon's round, in characters: it has to fit a signed statement.
const MAX_DRAW_REASON: usize = 200;

/// The sale named in the path.
pub(super) struct Named(SaleId);

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut request::Parts, state: &S) -> Result<Self, Problem> {
        let Path(names) = Path::<Vec<(String, String)>>::from_request_parts(parts, state)
            .await
            .map_err(|rejection| Problem::malformed(rejection.to_string()))?;
        let name = names.into_iter().find(|(key, _)| key == "sale").map(|(_, value)| value);
        let id = SaleId::try_from(name.unwrap_or_default());
        id.map(Self).map_err(|error| Problem::malformed(format!("{error}.")))
    }
}

type Body = Result<Bytes, BytesRejection>;

fn bytes(body: Body) -> Result<Bytes, Problem> {
    body.map_err(|rejection| match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => Problem::body_too_large(),
        _ => Problem::malformed(rejection.body_text()),
    })
}

fn read<T: DeserializeOwned>(body: Body) -> Result<T, Problem> {
    serde_json::from_slice(&bytes(body)?).map_err(|error| Problem::malformed(format!("The body: {error}.")))
}

/// A definition that passes the queue's checks and the gateway's, or every fault there is. What the sale guards is held
/// against what others guard unless it is what it guards at present.
async fn checked(
    operator: &Operator,
    raw: RawDefinition,
    present: Option<&SaleDefinition>,
) -> Result<SaleDefinition, Problem> {
    let mut faults = check_protect(&raw.protect, &operator.api_prefix);
    if present.is_none_or(|present| present.protect != raw.protect) {
        let others = guarded_by_others(operator, &raw.id).await?;
        let taken = routes_of_others(&raw.id, &raw.protect, operator.one_host, &others);
        let fault = |what| FieldError { field: "protect.routes", message: format!("{what}; {ROUTES_APART}") };
        faults.extend(taken.into_iter().map(fault));
    }
    match raw.check() {
        Ok(definition) if faults.is_empty() => Ok(definition),
        Ok(_) => Err(Problem::definition(faults)),
        Err(errors) => {
            faults.extend(errors.0);
            Err(Problem::definition(faults))
        }
    }
}

/// What the other sales guard. One that is over takes nobody from a sale whose id comes before its own, and one that cannot
/// be read is no hindrance.
async fn guarded_by_others(operator: &Operator, id: &SaleId) -> Result<Vec<Guarded>, Problem> {
    let mut others = Vec::new();
    for sale in operator.store.sales().await?.into_iter().filter(|sale| sale != id) {
        match operator.store.view(&sale).await {
            Ok(view) if view.phase != Phase::Closed || sale < *id => {
                let (protect, place) = (view.definition.protect.clone(), format!("\"{sale}\""));
                others.push(Guarded { sale, protect, place });
            }
            _ => {}
        }
    }
    Ok(others)
}

pub(super) async fn list(State(operator): State<Operator>) -> Result<Json<SaleList>, Problem> {
    let mut sales = Vec::new();
    for id in operator.store.sales().await? {
        sales.push(SaleDocument::from(operator.store.view(&id).await?.as_ref()));
    }
    Ok(Json(SaleList { sales }))
}

pub(super) async fn create(State(operator): State<Operator>, body: Body) -> Result<Response, Problem> {
    let definition = checked(&operator, read(body)?, None).await?;
    let mut draw_secret = [0; 32];
    getrandom::fill(&mut draw_secret).map_err(|error| Problem::internal(&error))?;
    let id = definition.id.clone();
    operator.store.create(definition.clone(), draw_secret).await.map_err(Problem::of_order)?;
    tracing::info!(sale = %id, "operator created the sale");
    operator.gateway.refresh(&id).await;
    let view = operator.store.view(&id).await.unwrap_or_else(|_| {
        // It was made, and is as every sale is made.
        let now = UnixMillis(operator.gateway.now_s().saturating_mul(1_000));
        Arc::new(Queue::create(definition, draw_secret, now).view(now))
    });
    let location = format!("/api/v1/operator/sales/{id}");
    Ok((StatusCode::CREATED, [(header::LOCATION, location)], document(&view)?).into_response())
}

pub(super) async fn show(State(operator): State<Operator>, Named(id): Named) -> Result<Response, Problem> {
    document(&operator.store.view(&id).await?)
}

pub(super) async fn replace(
    State(operator): State<Operator>,
    Named(id): Named,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let raw: RawDefinition = read(body)?;
    change(&operator, &id, &headers, |_| Ok(raw.clone())).await
}

/// A JSON merge patch (RFC 7396) of the definition in force.
pub(super) async fn patch(
    State(operator): State<Operator>,
    Named(id): Named,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let patch: Value = read(body)?;
    if !patch.is_object() {
        return Err(Problem::malformed("The body must be an object with the members to change."));
    }
    change(&operator, &id, &headers, |present| {
        let mut merged = serde_json::to_value(present).map_err(|error| Problem::internal(&error))?;
        merge(&mut merged, patch.clone());
        serde_json::from_value(merged).map_err(|error| Problem::malformed(format!("The body: {error}.")))
    })
    .await
}

/// Puts what `make` says of the definition in force into its place. The caller's precondition (RFC 9110 section 13.1.1)
/// is held against that definition, and the store changes no other: of two that change at once, the second starts anew.
async fn change(
    operator: &Operator,
    id: &SaleId,
    headers: &HeaderMap,
    make: impl Fn(&SaleDefinition) -> Result<RawDefinition, Problem>,
) -> Result<Response, Problem> {
    loop {
        let before = operator.store.view(id).await?;
        let present = Arc::clone(&before.definition);
        if headers.contains_key(header::IF_MATCH) && !matches(headers, &version(&present)?) {
            return Err(Problem::precondition_failed());
        }
        let raw = make(&present)?;
        if raw.id != *id {
            return Err(Problem::from(ChangeRefusal::OtherSale));
        }
        let definition = checked(operator, raw, Some(&present)).await?;
        let changed = operator.store.change(definition.clone(), Some(present)).await;
        match changed.map_err(Problem::of_order)? {
            Err(ChangeRefusal::Overtaken) => continue,
            done => done?,
        }
        tracing::info!(sale = %id, "operator changed the sale");
        operator.gateway.refresh(id).await;
        // It was changed, and all else is as it was then.
        return document(&operator.store.view(id).await.unwrap_or_else(|_| {
            Arc::new(SaleView { definition: Arc::new(definition), ..SaleView::clone(&before) })
        }));
    }
}

/// The entity tag of a sale: it names the version of the definition, which is what can be written. The counts beside it
/// go on changing under the same tag; no cache keeps them.
fn version(definition: &SaleDefinition) -> Result<HeaderValue, Problem> {
    let text = serde_json::to_vec(definition).map_err(|error| Problem::internal(&error))?;
    let digest: [u8; 32] = Sha256::digest(text).into();
    HeaderValue::try_from(format!("\"{}\"", &hex(&digest)[..32])).map_err(|error| Problem::internal(&error))
}

/// Whether `If-Match` names this version. A tag marked weak never does (RFC 9110 section 8.8.3.2).
fn matches(headers: &HeaderMap, version: &HeaderValue) -> bool {
    let lines = headers.get_all(header::IF_MATCH).iter();
    let mut tags = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
    tags.any(|tag| tag == b"*" || tag == version.as_bytes())
}

/// RFC 7396 section 2.
fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    let Value::Object(members) = target else { return };
    for (name, value) in patch {
        if value.is_null() {
            members.remove(&name);
        } else {
            merge(members.entry(name).or_insert(Value::Null), value);
        }
    }
}

pub(super) async fn command(
    State(operator): State<Operator>,
    Named(id): Named,
    Path((_, name)): Path<(String, String)>,
    body: Body,
) -> Result<Json<CommandDocument>, Problem> {
    let command = match name.as_str() {
        "open" => Command::Open,
        "pause" => Command::Pause { reason: reason(read(body)?)? },
        "resume" => Command::Resume,
        "close" => Command::Close,
        "sold-out" => Command::SoldOut,
        "restock" => Command::Restock,
        "revoke" => Command::Revoke,
        "draw-by-secret" => {
            let DrawBySecretRequest { reason } = read(body)?;
            readable("reason", &reason, MAX_DRAW_REASON, "everybody reads it")?;
            Command::DrawBySecret { reason }
        }
        _ => return Err(Problem::not_found()),
    };
    run(&operator, &id, command).await
}

pub(super) async fn admit(
    State(operator): State<Operator>,
    body: Body,
) -> Result<Json<CommandDocument>, Problem> {
    let AdmitRequest { sale, batch_size, lease_seconds } = read(body)?;
    let lease_ms = lease_seconds.map(|seconds| seconds.saturating_mul(1_000));
    run(&operator, &sale, Command::Admit { batch_size, lease_ms }).await
}

async fn run(operator: &Operator, id: &SaleId, command: Command) -> Result<Json<CommandDocument>, Problem> {
    let words = format!("{command:?}");
    let done = operator.store.command(id, command).await.map_err(Problem::of_order)??;
    tracing::info!(sale = %id, command = words, called = done.called, "operator ran a command");
    operator.gateway.refresh(id).await;
    // It was carried out, whether that can be looked at or not.
    let view = operator.store.view(id).await.ok();
    Ok(Json(CommandDocument { called: done.called, sale: view.as_deref().map(SaleDocument::from) }))
}

fn reason(request: PauseRequest) -> Result<PauseReason, Problem> {
    let PauseRequest { reason, translations } = request;
    let tag = |tag: &String| {
        let part =
            |part: &str| (1..=8).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_alphanumeric());
        tag.len() <= 35 && tag.split('-').all(part)
    };
    if let Some(wrong) = translations.keys().find(|key| !tag(key)) {
        return Err(Problem::malformed(format!(
            "{wrong:?} is not a language tag such as \"de\" or \"pt-BR\"."
        )));
    }
    let named = translations.iter().map(|(tag, text)| (format!("translations.{tag}"), text));
    for (name, text) in named.chain([("reason".to_owned(), &reason)]) {
        readable(&name, text, MAX_REASON, "visitors read it")?;
    }
    Ok(PauseReason { text: reason, translations })
}

fn readable(name: &str, text: &str, longest: usize, because: &str) -> Result<(), Problem> {
    if text.trim().is_empty() || text.chars().count() > longest {
        let words = format!("{name}: A reason has 1 to {longest} characters: {because}.");
        return Err(Problem::malformed(words));
    }
    match misplaced(text) {
        Some(misplaced) => Err(Problem::malformed(format!("{name}: write it {misplaced}: {because}."))),
        None => Ok(()),
    }
}

fn document(view: &Arc<SaleView>) -> Result<Response, Problem> {
    let tag = [(header::ETAG, version(&view.definition)?)];
    Ok((tag, Json(SaleDocument::from(view.as_ref()))).into_response())
}
