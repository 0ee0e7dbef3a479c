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
use crate::edge::export;
use crate::http_client;
use crate::operator::sales::{AdmitRequest, CommandDocument, SaleDocument, SaleList};

/// A gateway's operator listener.
pub(crate) struct Client {
    http: reqwest::Client,
    base: Url,
    bearer: header::HeaderValue,
}

/// The version of a sale's definition: an entity tag (RFC 9110 section 8.8.3).
#[derive(Debug)]
pub(crate) struct Version(header::HeaderValue);

/// What a refusing gateway says (RFC 9457).
#[derive(Deserialize)]
struct Problem {
    code: String,
    title: String,
    #[serde(default)]
    detail: String,
}

impl Client {
    pub(crate) fn new(address: &str, token: &OperatorToken) -> Result<Self, Failure> {
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
        self.exchange(method, path, body, None).await.map(|(answer, _)| answer)
    }

    /// Calls, over one version of what is called if that is given; the answer with its version.
    async fn exchange<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&(impl Serialize + ?Sized)>,
        over: Option<&Version>,
    ) -> Result<(T, Option<Version>), Failure> {
        let (bytes, version) = self.bytes(method, path, body, over).await?;
        let answer = serde_json::from_slice(&bytes).context("the answer is not a Ropeline gateway's")?;
        Ok((answer, version))
    }

    async fn bytes(
        &self,
        method: Method,
        path: &str,
        body: Option<&(impl Serialize + ?Sized)>,
        over: Option<&Version>,
    ) -> Result<(Vec<u8>, Option<Version>), Failure> {
        let url = self.base.join(path).map_err(anyhow::Error::from)?;
        let mut request = self.http.request(method, url).header(header::AUTHORIZATION, &self.bearer);
        if let Some(body) = body {
            request = request.json(body);
        }
        if let Some(Version(tag)) = over {
            request = request.header(header::IF_MATCH, tag);
        }
        let response = request.send().await.with_context(|| {
            format!(
                "cannot reach the operator listener at {}; is the gateway running, and the address right?",
                self.base
            )
        })?;
        let status = response.status();
        let version = response.headers().get(header::ETAG).cloned().map(Version);
        let bytes = response.bytes().await.context("the gateway broke off")?;
        if status.is_success() {
            return Ok((bytes.into(), version));
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

    /// The settings for edges, as the gateway has them now.
    pub(crate) async fn edge_settings(&self, query: &export::Query) -> Result<Vec<u8>, Failure> {
        let path = format!("{}?{}", crate::operator::edge::SETTINGS, query.to_text());
        self.bytes(Method::GET, &path, None::<&Value>, None).await.map(|(document, _)| document)
    }

    pub(crate) async fn list(&self) -> Result<SaleList, Failure> {
        self.call(Method::GET, "/api/v1/operator/sales", None::<&Value>).await
    }

    pub(crate) async fn show(&self, sale: &SaleId) -> Result<SaleDocument, Failure> {
        self.call(Method::GET, &path(sale), None::<&Value>).await
    }

    /// The sale, and the version of its definition.
    pub(crate) async fn read(&self, sale: &SaleId) -> Result<(SaleDocument, Version), Failure> {
        let (document, version) = self.exchange(Method::GET, &path(sale), None::<&Value>, None).await?;
        let version = version.ok_or_else(|| anyhow!("{} answers without an ETag", self.base))?;
        Ok((document, version))
    }

    pub(crate) async fn create(&self, definition: &SaleDefinition) -> Result<SaleDocument, Failure> {
        self.call(Method::POST, "/api/v1/operator/sales", Some(definition)).await
    }

    /// Creates the sale, or changes it where it differs; says which.
    pub(crate) async fn apply(
        &self,
        definition: &SaleDefinition,
    ) -> Result<(&'static str, SaleDocument), Failure> {
        if !self.list().await?.sales.iter().any(|sale| sale.definition.id == definition.id) {
            return Ok(("created", self.create(definition).await?));
        }
        let (sale, version) = self.read(&definition.id).await?;
        if sale.definition == RawDefinition::from(definition.clone()) {
            return Ok(("unchanged", sale));
        }
        let path = path(&definition.id);
        let (sale, _) = self.exchange(Method::PUT, &path, Some(definition), Some(&version)).await?;
        Ok(("changed", sale))
    }

    /// Changes members of the definition, if it is still in the version that was read.
    pub(crate) async fn patch(
        &self,
        sale: &SaleId,
        over: &Version,
        patch: &Value,
    ) -> Result<SaleDocument, Failure> {
        self.exchange(Method::PATCH, &path(sale), Some(patch), Some(over)).await.map(|(sale, _)| sale)
    }

    pub(crate) async fn command(
        &self,
        sale: &SaleId,
        name: &str,
        body: &Value,
    ) -> Result<CommandDocument, Failure> {
        let body = (!body.is_null()).then_some(body);
        self.call(Method::POST, &format!("{}/{name}", path(sale)), body).await
    }

    pub(crate) async fn admit(&self, request: &AdmitRequest) -> Result<CommandDocument, Failure> {
        self.call(Method::POST, "/api/v1/queue/admit", Some(request)).await
    }
}

fn path(sale: &SaleId) -> String {
    format!("/api/v1/operator/sales/{sale}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::operator::tests::{TOKEN, start};

    #[tokio::test]
    async fn a_sale_that_another_operator_changed_after_it_was_read_is_left_alone() {
        let running = start(false).await;
        let token = OperatorToken::parse(TOKEN).unwrap();
        let client = Client::new(&format!("http://{}", running.address), &token).unwrap();
        let sale: SaleId = "drop".parse().unwrap();
        client.create(&RawDefinition::new(sale.clone(), 5).check().unwrap()).await.unwrap();

        let (_, read) = client.read(&sale).await.unwrap();
        client.patch(&sale, &read, &json!({ "max_active": 6 })).await.unwrap();
        let refused = client.patch(&sale, &read, &json!({ "max_active": 7 })).await.unwrap_err();
        assert!(refused.to_string().contains("(precondition_failed)"), "{refused}");
        let (present, read) = client.read(&sale).await.unwrap();
        assert_eq!(present.definition.max_active, 6);
        client.patch(&sale, &read, &json!({ "max_active": 7 })).await.unwrap();
    }
}
