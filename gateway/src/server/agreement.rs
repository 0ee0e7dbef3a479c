//! What this gateway signs with and takes, for those that share its store: by names that give nothing away.

use std::collections::BTreeMap;

use ropeline_store::RedisKeys;

use crate::config::Config;
use crate::identity::VisitorCookies;
use crate::keys::KeyRing;

/// By the setting that names them.
pub(super) fn keys(config: &Config) -> BTreeMap<String, RedisKeys> {
    // A `kid` is the operator's choice: two keys may have the same.
    let ring = |ring: &KeyRing| RedisKeys {
        signs: ring.signer().public_key().thumbprint(),
        takes: ring.set().keys().iter().map(|key| key.thumbprint()).collect(),
    };
    let mut keys = BTreeMap::from([
        ("keys.ticket".to_owned(), ring(&config.keys.ticket)),
        ("keys.admission".to_owned(), ring(&config.keys.admission)),
    ]);
    let secrets = VisitorCookies::new(config.visitor.cookie_secrets.clone()).names();
    if let Some(signs) = secrets.first().cloned() {
        let takes = secrets.into_iter().collect();
        keys.insert("visitor.cookie_secrets".to_owned(), RedisKeys { signs, takes });
    }
    keys
}
