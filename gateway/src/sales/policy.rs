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
}

impl PolicyRules {
    /// The policy that follows from these sales. A definition whose routes cannot be read, which a checked one never
    /// is, keeps its readable routes: a fault must not open the others.
    pub(super) fn policy<'a>(&self, sales: impl IntoIterator<Item = &'a SaleView>) -> Policy {
        let mut sales: Vec<_> = sales.into_iter().filter_map(sale_policy).collect();
        sales.sort_by(|a, b| a.sale.cmp(&b.sale));
        Policy {
            issuer: self.issuer.clone(),
            leeway: self.leeway,
            api_prefix: self.api_pattern.clone(),
            secure_cookies: self.secure_cookies,
            sales,
        }
    }
}

fn sale_policy(view: &SaleView) -> Option<SalePolicy> {
    let definition: &SaleDefinition = &view.definition;
    let protect = &definition.protect;
    let hosts: Vec<Option<HostName>> = if protect.hosts.is_empty() {
        vec![None]
    } else {
        protect.hosts.iter().filter_map(|host| HostName::parse(host).ok()).map(Some).collect()
    };
    let paths: Vec<_> = protect.routes.iter().filter_map(|route| PathPattern::parse(route).ok()).collect();
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
        other_status: OtherStatus::default(),
    })
}
