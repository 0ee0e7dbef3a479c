//! Calls the operator listener.

use std::time::Duration;

use anyhow::{Context as _, anyhow};
use reqwest::{Method, Url, header};
use ropeline_queue::{RawDefinition, SaleDefinition, SaleId};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cli::Failure;
use crate::config::OperatorToken;
use crate::http_client;
use crate::operator::sales::{AdmitRequest, CommandDocument, SaleDocument, SaleList};

/// A gateway's operator listener.
pub(super) struct Client {
    http: reqwest::Client,
    base: Url,
    bearer: header::HeaderValue,
}

/// What a refusing gateway says (RFC 9457).
#[derive(Deserialize)]
struct Problem {
    code: String,
    title: String,
    #[serde(default)]
    detail: String,
}

impl Client {
    pub(super) fn new(address: &str, token: &OperatorToken) -> Result<Self, Failure> {
        let base = Url::parse(address)
            .map_err(|error| Failure::Found(format!("{address:?} is no address: {error}")))?;
        let bearer = header::HeaderValue::try_from(format!("Bearer {}", token.expose()));
        let mut bearer = bearer.map_err(anyhow::Error::from)?;
        bearer.set_sensitive(true);
        // The token must not pass through a proxy that the environment happens to name.
        let http = http_client::builder(base.as_str()).no_proxy().timeout(Duration::from_secs(40)).build();
        Ok(Self { http: http.map_err(anyhow::Error::from)?, base, bearer })
    }

    async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&(impl Serialize + ?Sized)>,
    ) -> Result<T, Failure> {
        let url = self.base.join(path).map_err(anyhow::Error::from)?;
        let mut request = self.http.request(method, url).header(header::AUTHORIZATION, &self.bearer);
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request.send().await.with_context(|| {
            format!(
                "cannot reach the operator listener at {}; is the gateway running, and the address right?",
                self.base
            )
        })?;
        let status = response.status();
        let bytes = response.bytes().await.context("the gateway broke off")?;
        if status.is_success() {
            let answer = serde_json::from_slice(&bytes).context("the answer is not a Ropeline gateway's")?;
            return Ok(answer);
        }
        match serde_json::from_slice::<Problem>(&bytes) {
            Ok(Problem { code, title, detail }) => {
                Err(Failure::Found(format!("refused ({code}): {title}. {detail}")))
            }
            Err(_) => {
                Err(Failure::Unable(anyhow!("{} answered {status}, not as a Ropeline gateway", self.base)))
            }
        }
    }

    pub(super) async fn list(&self) -> Result<SaleList, Failure> {
        self.call(Method::GET, "/api/v1/operator/sales", None::<&Value>).await
    }

    pub(super) async fn show(&self, sale: &SaleId) -> Result<SaleDocument, Failure> {
        self.call(Method::GET, &path(sale), None::<&Value>).await
    }

    pub(super) async fn create(&self, definition: &SaleDefinition) -> Result<SaleDocument, Failure> {
        self.call(Method::POST, "/api/v1/operator/sales", Some(definition)).await
    }

    /// Creates the sale, or changes it where it differs; says which.
    pub(super) async fn apply(
        &self,
        definition: &SaleDefinition,
    ) -> Result<(&'static str, SaleDocument), Failure> {
        let present = self.list().await?.sales.into_iter().find(|sale| sale.definition.id == definition.id);
        match present {
            None => Ok(("created", self.create(definition).await?)),
            Some(sale) if sale.definition == RawDefinition::from(definition.clone()) => {
                Ok(("unchanged", sale))
            }
            Some(_) => {
                Ok(("changed", self.call(Method::PUT, &path(&definition.id), Some(definition)).await?))
            }
        }
    }

    pub(super) async fn patch(&self, sale: &SaleId, patch: &Value) -> Result<SaleDocument, Failure> {
        self.call(Method::PATCH, &path(sale), Some(patch)).await
    }

    pub(super) async fn command(
        &self,
        sale: &SaleId,
        name: &str,
        body: &Value,
    ) -> Result<CommandDocument, Failure> {
        let body = (!body.is_null()).then_some(body);
        self.call(Method::POST, &format!("{}/{name}", path(sale)), body).await
    }

    pub(super) async fn admit(&self, request: &AdmitRequest) -> Result<CommandDocument, Failure> {
        self.call(Method::POST, "/api/v1/queue/admit", Some(request)).await
    }
}

fn path(sale: &SaleId) -> String {
    format!("/api/v1/operator/sales/{sale}")
}
