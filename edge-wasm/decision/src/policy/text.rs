//! The policy as a JSON document, exported by the gateway and read by edges.

use alloc::string::String;
use alloc::vec::Vec;

use ropeline_token::Leeway;
use ropeline_token::json::{self, Object, Value, Writer};

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
        let leeway = match policy.optional("leeway_seconds", "a whole number of seconds", Value::as_u64)? {
            None => Leeway::default(),
            Some(seconds) => Leeway::from_seconds(seconds)
                .map_err(|_| PolicyError::Member { member: "leeway_seconds", wanted: "60 at most" })?,
        };
        let mut sales: Vec<SalePolicy> = Vec::new();
        for sale in policy.required("sales", "an array", Value::as_array)? {
            let sale = read_sale(sale)?;
            if sales.iter().any(|other| other.sale == sale.sale) {
                return Err(PolicyError::SaleRepeated(sale.sale.0));
            }
            sales.push(sale);
        }
        Ok(Self {
            issuer: policy.required("issuer", "a string", Value::as_str)?.into(),
            leeway,
            api_prefix: PathPattern::parse(policy.required("api_prefix", "a string", Value::as_str)?)?,
            secure_cookies: policy.required("secure_cookies", "true or false", Value::as_bool)?,
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
    let epoch = sale.required("epoch", "a whole number", Value::as_u64)?;
    let gate = match sale.required("gate", "a string", Value::as_str)? {
        "queue" => Gate::Queue,
        "open" => Gate::Open,
        _ => return Err(PolicyError::Member { member: "gate", wanted: "queue or open" }),
    };
    let routes = sale.required("routes", "an array", Value::as_array)?;
    let bypass = sale.optional("bypass", "an array", Value::as_array)?.unwrap_or_default();
    let bypass = bypass
        .iter()
        .map(|rule| {
            Bypass::parse(
                rule.as_str()
                    .ok_or(PolicyError::Member { member: "bypass", wanted: "an array of strings" })?,
            )
        })
        .collect::<Result<_, _>>()?;
    Ok(SalePolicy {
        sale: SaleName::parse(sale.required("sale", "a string", Value::as_str)?)?,
        epoch: u32::try_from(epoch)
            .map_err(|_| PolicyError::Member { member: "epoch", wanted: "below 2^32" })?,
        gate,
        routes: routes.iter().map(read_route).collect::<Result<_, _>>()?,
        ignore_case: sale.optional("ignore_case", "true or false", Value::as_bool)?.unwrap_or(true),
        bypass,
        page_status: sale.status("page_status", "200, 202, 429 or 503", PageStatus::from_code)?,
        other_status: sale.status("other_status", "401 or 429", OtherStatus::from_code)?,
    })
}

fn read_route(route: &Value<'_>) -> Result<Route, PolicyError> {
    let route = Members::new(route, "routes", &["host", "path"])?;
    Ok(Route {
        host: route.optional("host", "a string", Value::as_str)?.map(HostName::parse).transpose()?,
        path: PathPattern::parse(route.required("path", "a string", Value::as_str)?)?,
    })
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

/// The members of an object, all of them known.
struct Members<'v, 'a>(&'v Object<'a>);

impl<'v, 'a> Members<'v, 'a> {
    fn new(value: &'v Value<'a>, member: &'static str, known: &[&str]) -> Result<Self, PolicyError> {
        let object = value.as_object().ok_or(PolicyError::Member { member, wanted: "an object" })?;
        match object.iter().find(|(name, _)| !known.contains(name)) {
            Some((name, _)) => Err(PolicyError::UnknownMember { member: name.into() }),
            None => Ok(Self(object)),
        }
    }

    fn optional<T>(
        &self,
        member: &'static str,
        wanted: &'static str,
        read: impl FnOnce(&'v Value<'a>) -> Option<T>,
    ) -> Result<Option<T>, PolicyError> {
        match self.0.get(member) {
            None => Ok(None),
            Some(value) => read(value).map(Some).ok_or(PolicyError::Member { member, wanted }),
        }
    }

    fn required<T>(
        &self,
        member: &'static str,
        wanted: &'static str,
        read: impl FnOnce(&'v Value<'a>) -> Option<T>,
    ) -> Result<T, PolicyError> {
        self.optional(member, wanted, read)?.ok_or(PolicyError::Member { member, wanted })
    }

    fn status<T: Default>(
        &self,
        member: &'static str,
        wanted: &'static str,
        from_code: impl FnOnce(u16) -> Option<T>,
    ) -> Result<T, PolicyError> {
        let read =
            |value: &Value<'_>| value.as_u64().and_then(|code| u16::try_from(code).ok()).and_then(from_code);
        Ok(self.optional(member, wanted, read)?.unwrap_or_default())
    }
}
