//! The policy as a JSON document, exported by the gateway and read by edges.

use alloc::string::String;
use alloc::vec::Vec;

use ropeline_token::Leeway;
use ropeline_token::json::{self, Members, Value, Writer};

use super::{
    Bypass, Gate, HostName, OtherStatus, PageStatus, PathPattern, Policy, PolicyError, Route, SaleName,
    SalePolicy,
};
use crate::path;

impl Policy {
    /// Reads what [`Self::to_json`] writes. Members with a default may be missing; unknown ones are refused.
    ///
    /// # Errors
    /// The first thing that is not right.
    pub fn from_json(text: &[u8]) -> Result<Self, PolicyError> {
        Self::from_value(&json::parse(text)?)
    }

    /// Reads a policy that is part of another document.
    ///
    /// # Errors
    /// As [`Self::from_json`].
    pub fn from_value(policy: &Value<'_>) -> Result<Self, PolicyError> {
        let policy = Members::new(
            policy,
            "policy",
            &["issuer", "leeway_seconds", "api_prefix", "secure_cookies", "sales"],
        )?;
        let leeway = match policy.integer("leeway_seconds")? {
            None => Leeway::default(),
            Some(seconds) => {
                let Ok(leeway) = Leeway::from_seconds(seconds) else {
                    return Err(PolicyError::Member { member: "leeway_seconds", wanted: "60 at most" });
                };
                leeway
            }
        };
        let mut sales: Vec<SalePolicy> = Vec::new();
        for sale in policy.required_array("sales")? {
            let sale = read_sale(sale)?;
            if sales.iter().any(|other| other.sale == sale.sale) {
                return Err(PolicyError::SaleRepeated(sale.sale.0));
            }
            sales.push(sale);
        }
        let Some(secure_cookies) = policy.boolean("secure_cookies")? else {
            return Err(PolicyError::Member { member: "secure_cookies", wanted: "true or false" });
        };
        Ok(Self {
            issuer: policy.required_text("issuer")?.into(),
            leeway,
            api_prefix: PathPattern::parse(policy.required_text("api_prefix")?)?,
            secure_cookies,
            sales,
        })
    }

    /// The policy as JSON, for edges.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut writer = Writer::new();
        self.write(&mut writer);
        writer.finish()
    }

    /// Writes the policy as part of another document.
    pub fn write(&self, writer: &mut Writer) {
        writer.begin_object();
        writer.name("issuer");
        writer.text(&self.issuer);
        writer.name("leeway_seconds");
        writer.integer(self.leeway.seconds());
        writer.name("api_prefix");
        writer.text(&self.api_prefix.to_text());
        writer.name("secure_cookies");
        writer.boolean(self.secure_cookies);
        writer.name("sales");
        writer.begin_array();
        for sale in &self.sales {
            write_sale(writer, sale);
        }
        writer.end_array();
        writer.end_object();
    }
}

impl PathPattern {
    /// The pattern as [`Self::parse`] reads it.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::from(if self.below { "" } else { "=" });
        text.push_str(&path::escaped(&self.plain));
        if self.plain.is_empty() {
            text.push('/');
        }
        text
    }
}

impl Bypass {
    /// The rule as [`Self::parse`] reads it.
    #[must_use]
    pub fn to_text(&self) -> String {
        match self {
            Self::Path(pattern) => pattern.to_text(),
            Self::Extension(extension) => ["*.", extension.as_str()].concat(),
        }
    }
}

fn read_sale(sale: &Value<'_>) -> Result<SalePolicy, PolicyError> {
    let sale = Members::new(
        sale,
        "sales",
        &["sale", "epoch", "gate", "routes", "ignore_case", "bypass", "page_status", "other_status"],
    )?;
    let Ok(epoch) = u32::try_from(sale.required_integer("epoch")?) else {
        return Err(PolicyError::Member { member: "epoch", wanted: "below 2^32" });
    };
    let gate = match sale.required_text("gate")? {
        "queue" => Gate::Queue,
        "open" => Gate::Open,
        _ => return Err(PolicyError::Member { member: "gate", wanted: "queue or open" }),
    };
    let mut routes = Vec::new();
    for route in sale.required_array("routes")? {
        routes.push(read_route(route)?);
    }
    let mut bypass = Vec::new();
    for rule in sale.array("bypass")?.unwrap_or_default() {
        let Some(rule) = rule.as_str() else {
            return Err(PolicyError::Member { member: "bypass", wanted: "an array of strings" });
        };
        bypass.push(Bypass::parse(rule)?);
    }
    let code = |member, default: u16| {
        let code = sale.integer(member)?;
        // No status is as large as what stands for those that do not fit.
        Ok::<_, PolicyError>(code.map_or(default, |code| u16::try_from(code).unwrap_or(u16::MAX)))
    };
    let Some(page_status) = PageStatus::from_code(code("page_status", PageStatus::default().code())?) else {
        return Err(PolicyError::Member { member: "page_status", wanted: "200, 202, 429 or 503" });
    };
    let Some(other_status) = OtherStatus::from_code(code("other_status", OtherStatus::default().code())?)
    else {
        return Err(PolicyError::Member { member: "other_status", wanted: "401 or 429" });
    };
    Ok(SalePolicy {
        sale: SaleName::parse(sale.required_text("sale")?)?,
        epoch,
        gate,
        routes,
        ignore_case: sale.boolean("ignore_case")?.unwrap_or(true),
        bypass,
        page_status,
        other_status,
    })
}

fn read_route(route: &Value<'_>) -> Result<Route, PolicyError> {
    let route = Members::new(route, "routes", &["host", "path"])?;
    let host = match route.text("host")? {
        None => None,
        Some(host) => Some(HostName::parse(host)?),
    };
    Ok(Route { host, path: PathPattern::parse(route.required_text("path")?)? })
}

fn write_sale(writer: &mut Writer, sale: &SalePolicy) {
    writer.begin_object();
    writer.name("sale");
    writer.text(sale.sale.as_str());
    writer.name("epoch");
    writer.integer(sale.epoch.into());
    writer.name("gate");
    writer.text(match sale.gate {
        Gate::Queue => "queue",
        Gate::Open => "open",
    });
    writer.name("routes");
    writer.begin_array();
    for route in &sale.routes {
        writer.begin_object();
        if let Some(host) = &route.host {
            writer.name("host");
            writer.text(host.as_str());
        }
        writer.name("path");
        writer.text(&route.path.to_text());
        writer.end_object();
    }
    writer.end_array();
    writer.name("ignore_case");
    writer.boolean(sale.ignore_case);
    writer.name("bypass");
    writer.begin_array();
    for rule in &sale.bypass {
        writer.text(&rule.to_text());
    }
    writer.end_array();
    writer.name("page_status");
    writer.integer(sale.page_status.code().into());
    writer.name("other_status");
    writer.integer(sale.other_status.code().into());
    writer.end_object();
}
