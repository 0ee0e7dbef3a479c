//! What must be looked up now and then, away from the request path: the shop's address and its account keys.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use async_trait::async_trait;
use pingora::server::ShutdownWatch;
use pingora::services::background::BackgroundService;
use ropeline_token::Leeway;

use crate::config::{Account, AccountAlgorithm, Config, KeySource};
use crate::gateway::Gateway;
use crate::identity::{AccountRules, Accounts, Identifier};
use crate::upstream::Upstream;

/// How often the shop's name is resolved again.
const RESOLVE_EVERY: Duration = Duration::from_secs(30);
/// Longest wait for a key set.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest key set, in bytes.
const MAX_KEY_SET: usize = 1 << 20;

/// Keeps the shop's address and account keys fresh. What cannot be had anew stays as it was.
pub(super) struct Housekeeping {
    upstream: Arc<Upstream>,
    identifier: Arc<Identifier>,
    keys: Option<(KeySource, Duration)>,
}

impl Housekeeping {
    pub(super) fn new(gateway: &Gateway, config: &Config) -> Self {
        let keys =
            config.visitor.account.as_ref().map(|account| (account.jwks.clone(), account.refresh_every));
        Self { upstream: Arc::clone(&gateway.upstream), identifier: Arc::clone(&gateway.identifier), keys }
    }

    async fn refresh_keys(&self, source: &KeySource) {
        let Some(accounts) = self.identifier.accounts() else { return };
        let outcome = match read(source).await {
            Ok(jwks) => accounts.replace_keys(&jwks).map_err(anyhow::Error::from),
            Err(error) => Err(error),
        };
        if let Err(error) = outcome {
            tracing::warn!(error = format!("{error:#}"), "the shop's account keys stay as they were");
        }
    }
}

#[async_trait]
impl BackgroundService for Housekeeping {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        let mut resolve = tokio::time::interval(RESOLVE_EVERY);
        let mut keys = tokio::time::interval(self.keys.as_ref().map_or(RESOLVE_EVERY, |(_, every)| *every));
        loop {
            tokio::select! {
                _ = resolve.tick() => {
                    if let Err(error) = self.upstream.refresh().await {
                        tracing::warn!(%error, "the shop's address stays as it was");
                    }
                }
                _ = keys.tick() => {
                    if let Some((source, _)) = &self.keys {
                        self.refresh_keys(source).await;
                    }
                }
                _ = shutdown.changed() => return,
            }
        }
    }
}

/// The shop's accounts with the keys as they are now.
///
/// # Errors
/// When there is no usable key set: nobody could join.
pub(super) async fn accounts(account: &Account, leeway: Leeway) -> anyhow::Result<Accounts> {
    let rules = AccountRules {
        issuer: account.issuer.clone(),
        audience: account.audience.clone(),
        claim: account.claim.clone(),
        algorithms: account.algorithms.iter().map(|algorithm| jwt_algorithm(*algorithm)).collect(),
        leeway_s: leeway.seconds(),
    };
    let jwks = read(&account.jwks).await.context("visitor.account.jwks")?;
    Accounts::new(rules, &jwks).context("visitor.account.jwks")
}

fn jwt_algorithm(algorithm: AccountAlgorithm) -> jsonwebtoken::Algorithm {
    match algorithm {
        AccountAlgorithm::EdDsa => jsonwebtoken::Algorithm::EdDSA,
        AccountAlgorithm::Es256 => jsonwebtoken::Algorithm::ES256,
        AccountAlgorithm::Rs256 => jsonwebtoken::Algorithm::RS256,
    }
}

async fn read(source: &KeySource) -> anyhow::Result<Vec<u8>> {
    match source {
        KeySource::File(path) => {
            std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
        }
        KeySource::Url(url) => {
            let client = crate::http_client::builder(url).timeout(FETCH_TIMEOUT).build()?;
            let mut response = client.get(url).send().await?.error_for_status()?;
            let mut body = Vec::new();
            while let Some(chunk) = response.chunk().await? {
                anyhow::ensure!(body.len() + chunk.len() <= MAX_KEY_SET, "{url} sends more than a key set");
                body.extend_from_slice(&chunk);
            }
            Ok(body)
        }
    }
}
