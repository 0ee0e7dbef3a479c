//! The policy that decides on requests, made from the sales' own definitions: nothing is maintained twice.

use ropeline_decision::{
    Bypass, Gate, HostName, OtherStatus, PageStatus, PathPattern, Policy, Route, SaleName, SalePolicy,
};
use ropeline_queue::{SaleDefinition, SaleView};
use ropeline_token::Leeway;

/// What all sales share in the policy.
#[derive(Clone, Debug)]
pub struct PolicyRules {
    /// The `iss` of tokens that are taken.
    pub issuer: String,
    /// How far clocks may differ.
    pub leeway: Leeway,
    /// Where the gateway's own calls live.
    pub api_prefix: String,
    /// The same, parsed.
    pub api_pattern: PathPattern,
    /// Whether cookies bear the `__Host-` prefix.
    pub secure_cookies: bool,
    /// Whether the shop is always asked under one and the same host. Every host then names the same pages, so a sale
    /// guards its routes on all of them, whatever hosts it lists.
    pub one_host: bool,
}

impl PolicyRules {
    /// The policy that follows from these sales. A definition whose routes cannot be read, which a checked one never
    /// is, keeps its readable routes: a fault must not open the others.
    pub(super) fn policy<'a>(&self, sales: impl IntoIterator<Item = &'a SaleView>) -> Policy {
        let mut sales: Vec<_> = sales.into_iter().filter_map(|view| self.sale_policy(view)).collect();
        sales.sort_by(|a, b| a.sale.cmp(&b.sale));
        Policy {
            issuer: self.issuer.clone(),
            leeway: self.leeway,
            api_prefix: self.api_pattern.clone(),
            secure_cookies: self.secure_cookies,
            sales,
        }
    }

    fn sale_policy(&self, view: &SaleView) -> Option<SalePolicy> {
        let definition: &SaleDefinition = &view.definition;
        let protect = &definition.protect;
        let hosts: Vec<Option<HostName>> = if protect.hosts.is_empty() || self.one_host {
            vec![None]
        } else {
            protect.hosts.iter().filter_map(|host| HostName::parse(host).ok()).map(Some).collect()
        };
        let paths: Vec<_> =
            protect.routes.iter().filter_map(|route| PathPattern::parse(route).ok()).collect();
        let routes = hosts
            .iter()
            .flat_map(|host| paths.iter().map(|path| Route { host: host.clone(), path: path.clone() }))
            .collect();
        Some(SalePolicy {
            sale: SaleName::parse(definition.id.as_str()).ok()?,
            epoch: view.epoch.0,
            gate: Gate::Queue,
            routes,
            ignore_case: true,
            bypass: protect.bypass.iter().filter_map(|rule| Bypass::parse(rule).ok()).collect(),
            page_status: PageStatus::from_code(protect.page_status).unwrap_or_default(),
            other_status: OtherStatus::from_code(protect.other_status).unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use ropeline_decision::{Request, Verdict, decide};
    use ropeline_queue::{Queue, RawDefinition, UnixMillis};
    use ropeline_token::{KeySet, SigningKey};

    use super::*;

    fn verdict_is_wait(one_host: bool, host: &str) -> bool {
        let mut raw = RawDefinition::new("drop".parse().unwrap(), 10);
        raw.protect.routes = vec!["/sale".to_owned()];
        raw.protect.hosts = vec!["shop.example".to_owned()];
        let now = UnixMillis(1_800_000_000_000);
        let view = Queue::create(raw.check().unwrap(), [7; 32], now).view(now);
        let rules = PolicyRules {
            issuer: "https://shop.example".to_owned(),
            leeway: Leeway::default(),
            api_prefix: "/api".to_owned(),
            api_pattern: PathPattern::parse("/api").unwrap(),
            secure_cookies: false,
            one_host,
        };
        let policy = rules.policy([&view]);
        let keys = KeySet::new([SigningKey::from_seed([1; 32]).public_key()]).unwrap();
        let request = Request { method: "GET", host, target: "/sale", headers: &[] };
        matches!(decide(&request, &policy, &keys, now.seconds()), Verdict::Wait(_))
    }

    #[test]
    fn a_sale_guards_its_hosts_alone_where_the_shop_tells_them_apart() {
        assert!(verdict_is_wait(false, "shop.example"));
        assert!(!verdict_is_wait(false, "other.example"));
    }

    #[test]
    fn no_host_walks_past_the_room_of_a_shop_that_sees_only_one() {
        for host in ["shop.example", "other.example", "127.0.0.1:8080"] {
            assert!(verdict_is_wait(true, host), "{host}");
        }
    }
}
